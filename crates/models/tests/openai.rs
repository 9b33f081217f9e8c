//! The chat completions wire and its dialects against a stub that enforces their rules.

use agent::message::{Native, Origin};
use agent::port::{ModelError, ReplyPart, StopReason};
use models::wire::openai_chat::{Dialect, OpenAiChat, ToolMode, WIRE};
use serde_json::{Value, json};
use testkit::stubs::rules::{Demands, check_openai, check_openai_demands, extends_openai};
use testkit::stubs::{Answer, ReplyPiece, Stub, Vendor};

use crate::support::{Conversation, json_of, model_at, model_with_wire, reply};

async fn stub() -> Stub {
    Stub::start(Vendor::OpenAi).await
}

fn called(name: &str, arguments: &str) -> ReplyPart {
    ReplyPart::Call { name: name.into(), arguments: arguments.into() }
}

fn chat(dialect: Dialect) -> OpenAiChat {
    OpenAiChat::new("m", 1_000, ToolMode::Native, dialect)
}

#[tokio::test]
async fn text_calls_and_usage_arrive_complete_and_calls_are_sent_back_with_the_vendors_ids() {
    let stub = stub().await;
    let vendor_model = model_at("openai/gpt-5", &stub.url());
    stub.push(
        Answer::new()
            .text("I'll answer.")
            .call("call_a", "send_message", r#"{"text": "hé\"llo", "n": 1.0}"#, 3)
            .call("call_b", "done", "{}", 1)
            .usage(120, 100, 17),
    );
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!(
        reply.parts,
        [
            ReplyPart::Text("I'll answer.".into()),
            called("send_message", r#"{"text": "hé\"llo", "n": 1.0}"#),
            called("done", "{}"),
        ]
    );
    assert_eq!((reply.usage.input, reply.usage.cached, reply.usage.output), (Some(120), Some(100), Some(17)));
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let requests = stub.requests();
    let messages = &requests[1].body["messages"];
    assert_eq!(messages[0]["role"], "system");
    assert_eq!(messages[3]["tool_calls"][0]["function"]["arguments"], r#"{"text": "hé\"llo", "n": 1.0}"#);
    assert_eq!(messages[4]["tool_call_id"], "call_a");
    assert_eq!(messages[5]["tool_call_id"], "call_b");
    extends_openai(&requests[0].body, &requests[1].body).unwrap();
    assert_eq!(requests[0].path, "/v1/chat/completions");
    assert_eq!(requests[0].header("authorization"), "Bearer sk-canary-0123456789");
    assert_eq!(requests[0].body["stream_options"]["include_usage"], true);
    assert!(requests[0].body["max_completion_tokens"].is_u64() && requests[0].body["max_tokens"].is_null());
}

#[tokio::test]
async fn within_a_cycle_each_request_extends_the_one_before_in_every_dialect() {
    let stub = stub().await;
    let everything = Dialect { assistant_after_tool: true, short_ids: true, ..Dialect::DEEPSEEK };
    for (dialect, demands) in [
        (Dialect::OPENAI, Demands::default()),
        (Dialect::COMPATIBLE, Demands { alternate: true, ..Demands::default() }),
        (Dialect::DEEPSEEK, Demands { reasoning_everywhere: true, ..Demands::default() }),
        (Dialect::MISTRAL, Demands { assistant_after_tool: true, alternate: true, ..Demands::default() }),
        (everything, Demands { reasoning_everywhere: true, parses_arguments: true, ..Demands::default() }),
    ] {
        stub.demand(Some(demands));
        let vendor_model = model_with_wire(chat(dialect), &stub.url());
        let mut conversation = Conversation::new();
        let begin = stub.requests().len();
        for cycle in 1..=2 {
            conversation.begin_cycle(cycle, "[INBOX] hi", "[WORKSPACE]");
            for step in 0..3 {
                let id = format!("c{cycle}step{step:03}");
                stub.push(Answer::new().reasoning("hm").call(&id, "send_message", r#"{"text":"a"}"#, 4));
                conversation.step(&vendor_model).await;
                conversation.layer("[INBOX PREVIEW]");
            }
        }
        let requests = stub.requests().split_off(begin);
        for (index, pair) in requests.windows(2).enumerate().filter(|(index, _)| *index != 2) {
            extends_openai(&pair[0].body, &pair[1].body)
                .unwrap_or_else(|e| panic!("{dialect:?} {index}: {e}"));
        }
        assert!(requests.iter().all(|request| request.refused.is_none()), "{dialect:?}");
    }
}

#[tokio::test]
async fn reasoning_is_sent_back_as_the_dialect_requires() {
    let stub = stub().await;
    stub.demand(None);
    for (dialect, expected) in
        [(Dialect::OPENAI, [0, 0, 0]), (Dialect::LOCAL, [0, 1, 0]), (Dialect::DEEPSEEK, [0, 1, 2])]
    {
        let vendor_model = model_with_wire(chat(dialect), &stub.url());
        let mut conversation = Conversation::new();
        let begin = stub.requests().len();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        for id in ["a", "b"] {
            stub.push(Answer::new().reasoning("hm").call(id, "done", "{}", 9));
            conversation.step(&vendor_model).await;
        }
        conversation.begin_cycle(2, "[INBOX]", "[WORKSPACE]");
        stub.push(Answer::new().text("ok"));
        conversation.step(&vendor_model).await;
        let count = |index: usize| {
            stub.requests()[begin + index].body.to_string().matches(r#""reasoning_content":"hm""#).count()
        };
        assert_eq!([count(0), count(1), count(2)], expected, "{dialect:?}");
    }
}

#[tokio::test]
async fn deepseek_gets_a_reasoning_field_for_every_turn_with_calls() {
    let vendor_model = model_with_wire(chat(Dialect::DEEPSEEK), "http://localhost");
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    conversation.foreign_step("x", &[("done", "{}")]);
    let body = json_of(&vendor_model, &mut conversation);
    check_openai_demands(&body, &Demands { reasoning_everywhere: true, ..Demands::default() }).unwrap();
}

#[tokio::test]
async fn missing_or_repeated_ids_become_unique() {
    let stub = stub().await;
    let vendor_model = model_with_wire(chat(Dialect::COMPATIBLE), &stub.url());
    stub.push(
        Answer::new().call("", "done", r#"{"a":1}"#, 3).call("x", "done", "{}", 9).call("x", "done", "{}", 9),
    );
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let reply = conversation.step(&vendor_model).await;
    let ids = reply.native.unwrap().call_ids;
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| !id.is_empty()) && ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
    stub.push(Answer::new().text("ok"));
    conversation.step(&vendor_model).await;
    assert_eq!(stub.requests()[1].refused, None);
}

#[tokio::test]
async fn deltas_are_assigned_to_their_calls_however_servers_number_them() {
    let call = |json: Value| json!({ "tool_calls": json });
    let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let whole = |deltas: Vec<Value>| {
        let mut answer = Answer::new();
        for delta in deltas {
            answer = answer.say(ReplyPiece::Unknown(delta));
        }
        answer
    };
    let two = [called("f", r#"{"a":1}"#), called("g", r#"{"b":2}"#)];
    let cases = [
        (
            "several deltas in one chunk",
            vec![call(json!([
                {"index": 0, "id": "1", "function": function("f", "{\"a\":")},
                {"index": 1, "id": "2", "function": function("g", "{\"b\":")},
                {"index": 1, "function": {"arguments": "2}"}},
                {"index": 0, "function": {"arguments": "1}"}},
            ]))],
        ),
        (
            "id and name in every delta",
            vec![
                call(json!([{"index": 0, "id": "1", "function": function("f", "{\"a\"")}])),
                call(json!([{"index": 0, "id": "1", "function": function("f", ":1}")}])),
                call(json!([{"index": 1, "id": "2", "function": function("g", "{\"b\":")}])),
                call(json!([{"index": 1, "id": "2", "function": function("g", "2}")}])),
            ],
        ),
        (
            "no index",
            vec![call(
                json!([{"id": "1", "function": function("f", r#"{"a":1}"#)}, {"id": "2", "function": function("g", r#"{"b":2}"#)}]),
            )],
        ),
        (
            "always index 0",
            vec![
                call(json!([{"index": 0, "id": "1", "function": function("f", r#"{"a":1}"#)}])),
                call(json!([{"index": 0, "id": "2", "function": function("g", r#"{"b":2}"#)}])),
            ],
        ),
        (
            "neither index nor id",
            vec![
                call(json!([{"function": function("f", "{\"a\":")}])),
                call(json!([{"function": {"arguments": "1}"}}])),
                call(json!([{"function": function("g", r#"{"b":2}"#)}])),
            ],
        ),
        (
            "an object for arguments",
            vec![
                call(json!([{"index": 0, "id": "1", "function": {"name": "f", "arguments": {"a": 1}}}])),
                call(json!([{"index": 1, "id": "2", "function": {"name": "g", "arguments": {"b": 2}}}])),
            ],
        ),
    ];
    let stub = stub().await;
    let vendor_model = model_with_wire(chat(Dialect::COMPATIBLE), &stub.url());
    for (what, deltas) in cases {
        stub.push(whole(deltas));
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        assert_eq!(conversation.step(&vendor_model).await.parts, two, "{what}");
    }
}

#[tokio::test]
async fn a_name_in_pieces_is_one_call_and_a_name_that_is_repeated_is_not_doubled() {
    let stub = stub().await;
    let vendor_model = model_with_wire(chat(Dialect::COMPATIBLE), &stub.url());
    for (what, deltas) in [
        (
            "pieces",
            json!([[0, "1", "send_", ""], [0, "", "mess", ""], [0, "", "age", ""], [0, "", "", "{}"]]),
        ),
        ("pieces beside arguments", json!([[0, "1", "send_", null], [0, null, "message", "{}"]])),
        ("the id in each", json!([[0, "1", "send_", ""], [0, "1", "message", "{}"]])),
        ("the id without an index", json!([[null, "1", "send_", ""], [null, "1", "message", "{}"]])),
        ("an id that comes late", json!([[0, null, "send_", ""], [0, "1", "message", "{}"]])),
        (
            "repeated",
            json!([
                [0, "1", "send_message", ""],
                [0, null, "send_message", "{"],
                [0, "", "send_message", "}"]
            ]),
        ),
        ("repeated without an id", json!([[0, null, "send_message", ""], [0, null, "send_message", "{}"]])),
    ] {
        let mut answer = Answer::new();
        for delta in deltas.as_array().unwrap() {
            let function = json!({"name": delta[2], "arguments": delta[3]});
            let call = json!({"index": delta[0], "id": delta[1], "function": function});
            answer = answer.say(ReplyPiece::Unknown(json!({ "tool_calls": [call] })));
        }
        stub.push(answer.text("so"));
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        let parts = conversation.step(&vendor_model).await.parts;
        assert_eq!(parts, [called("send_message", "{}"), ReplyPart::Text("so".into())], "{what}");
    }
}

#[tokio::test]
async fn unknown_fields_are_kept_and_those_of_calls_are_sent_back() {
    let stub = stub().await;
    let vendor_model = model_with_wire(chat(Dialect::COMPATIBLE), &stub.url());
    let extra = json!({"google": {"thought_signature": "b64=="}});
    let call = json!({"index": 0, "id": "1", "type": "function", "extra_content": extra,
                      "function": {"name": "done", "arguments": "{}"}});
    stub.push(
        Answer::new()
            .say(ReplyPiece::Unknown(json!({"hologram": [1], "tool_calls": [call]})))
            .say(ReplyPiece::Unknown(json!({"hologram": [2]}))),
    );
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let reply = conversation.step(&vendor_model).await;
    let native: Value = serde_json::from_str(&reply.native.unwrap().body).unwrap();
    assert_eq!(native["hologram"], json!([1, 2]));
    stub.push(Answer::new().text("ok"));
    conversation.step(&vendor_model).await;
    let sent = &stub.requests()[1].body["messages"][2];
    assert_eq!(sent["tool_calls"][0]["extra_content"], extra);
    assert!(sent["hologram"].is_null(), "a field that the vendor did not ask for could be refused");
}

#[tokio::test]
async fn content_lists_of_mistral_and_refusals_are_read() {
    let stub = stub().await;
    let vendor_model = model_with_wire(chat(Dialect::COMPATIBLE), &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let thinking = json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]});
    stub.push(
        Answer::new()
            .say(ReplyPiece::Unknown(thinking))
            .say(ReplyPiece::Unknown(json!({"content": [{"type": "text", "text": "hi"}]}))),
    );
    let (_, said) = conversation.ask(&vendor_model).await.unwrap();
    assert_eq!(said.parts, [ReplyPart::Reasoning("hm".into()), ReplyPart::Text("hi".into())]);
    stub.push(
        Answer::new()
            .say(ReplyPiece::Unknown(json!({"refusal": "I can"})))
            .say(ReplyPiece::Unknown(json!({"refusal": "not."}))),
    );
    let (_, refused) = conversation.ask(&vendor_model).await.unwrap();
    assert_eq!((refused.parts.len(), refused.stop), (0, StopReason::Refused("I cannot.".into())));
}

#[tokio::test]
async fn a_native_block_of_another_model_or_wire_is_not_replayed() {
    let vendor_model = model_with_wire(chat(Dialect::COMPATIBLE), "http://localhost");
    for (wire, model, replayed) in [(WIRE, "m", true), (WIRE, "other", false), ("anthropic", "m", false)] {
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        let mut said = reply(vec![called("done", "{}")]);
        let call =
            json!({"id": "vendors", "type": "function", "function": {"name": "done", "arguments": "{}"}});
        said.native = Some(Native {
            origin: Origin { wire: wire.into(), model: model.into() },
            body: json!({"role": "assistant", "content": null, "tool_calls": [call]}).to_string(),
            call_ids: vec!["vendors".into()],
        });
        conversation.add_reply(&said);
        let body = json_of(&vendor_model, &mut conversation);
        check_openai(&body).unwrap();
        assert_eq!(body["messages"][3]["tool_call_id"] == "vendors", replayed, "{wire} {model}");
    }
}

#[tokio::test]
async fn an_unusual_transcript_is_sent_in_a_form_that_servers_accept() {
    let demands = Demands {
        alternate: true,
        assistant_after_tool: true,
        short_ids: true,
        parses_arguments: true,
        ..Demands::default()
    };
    let vendor_model = model_with_wire(chat(Dialect::MISTRAL), "http://localhost");
    let check = |conversation: &mut Conversation| {
        check_openai_demands(&json_of(&vendor_model, conversation), &demands).unwrap()
    };
    let mut conversation = Conversation::new();
    check(&mut conversation);
    conversation.foreign_step("begins", &[("a b", "{\"cut"), ("c", "")]);
    check(&mut conversation);
    conversation.user("and");
    conversation.layer("so");
    check(&mut conversation);
    conversation.foreign_step("on", &[]);
    check(&mut conversation);
    conversation.foreign_step("and on", &[]);
    check(&mut conversation);
}

#[tokio::test]
async fn an_error_inside_the_stream_ends_it_with_the_class_of_the_error() {
    let stub = stub().await;
    let vendor_model = model_at("openai/gpt-5", &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    stub.push(Answer::new().text("half").then_error("rate_limit_error", "slow down"));
    let error = conversation.ask(vendor_model.as_ref()).await.unwrap_err();
    assert!(matches!(error, ModelError::RateLimited { .. }), "{error:?}");
}
