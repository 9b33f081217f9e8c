//! The Responses wire against a stub that enforces the vendor's rules for requests without stored state.

use agent::port::{ModelError, ReplyPart, StopReason};
use agent::prompt::ToolChoice;
use models::model_book::{ModelConfig, Reasoning};
use models::wire::openai_responses::OpenAiResponses;
use serde_json::{Value, json};
use testkit::stubs::rules::{check_responses, extends_responses};
use testkit::stubs::{Answer, ReplyPiece, Stub, Vendor};

use crate::corpus::{decode, responses, sse};
use crate::support::{Conversation, assert_streamed, json_of, model_at, model_with_wire, vendor_model};

const MODEL: &str = "openai-responses/gpt-5";

async fn stub() -> Stub {
    Stub::start(Vendor::Responses).await
}

fn called(name: &str, arguments: &str) -> ReplyPart {
    ReplyPart::Call { name: name.into(), arguments: arguments.into() }
}

fn kinds(body: &Value) -> Vec<&str> {
    body["input"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn text_reasoning_calls_and_usage_arrive_complete() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    stub.push(
        Answer::new()
            .reasoning("Let me see.")
            .text("I'll answer.")
            .call("call_a", "send_message", r#"{"text": "hé\"llo", "n": 1.0}"#, 3)
            .call("call_b", "done", "", 1)
            .usage(120, 100, 17),
    );
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!(
        reply.parts,
        [
            ReplyPart::Reasoning("Let me see.".into()),
            ReplyPart::Text("I'll answer.".into()),
            called("send_message", r#"{"text": "hé\"llo", "n": 1.0}"#),
            called("done", ""),
        ]
    );
    assert_eq!((reply.usage.input, reply.usage.cached, reply.usage.output), (Some(120), Some(100), Some(17)));
    assert_eq!(reply.native.unwrap().call_ids, ["call_a", "call_b"]);
    let request = &stub.requests()[0];
    assert_eq!(request.path, "/v1/responses");
    assert_eq!(request.header("authorization"), "Bearer sk-canary-0123456789");
    assert_eq!(request.body["store"], false);
    assert_eq!(request.body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(request.body["instructions"], "You are a living agent.");
    assert_eq!(request.body["tools"][0]["strict"], false);
    assert_eq!(request.body["max_output_tokens"], 32_768);
    let key = request.body["prompt_cache_key"].as_str().unwrap().to_owned();
    assert!(key.starts_with("viv-") && key.len() <= 64 && !key.contains("living"), "{key}");
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let again = &stub.requests()[1].body;
    assert_eq!(again["prompt_cache_key"], key.as_str());
    assert_eq!(
        kinds(again),
        [
            "message",
            "message",
            "reasoning",
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output"
        ]
    );
    assert_eq!(again["input"][3]["phase"], "commentary", "a phase is sent back");
    assert_eq!(again["input"][4]["arguments"], r#"{"text": "hé\"llo", "n": 1.0}"#);
    assert_eq!(again["input"][7]["call_id"], "call_b");
}

#[tokio::test]
async fn within_a_cycle_each_request_extends_the_one_before_and_keeps_its_reasoning() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    for cycle in 1..=3u128 {
        conversation.begin_cycle(cycle, &format!("[INBOX] {cycle}"), &format!("[WORKSPACE] {cycle}"));
        for step in 0..3 {
            let id = format!("call_{cycle}_{step}");
            let answer = Answer::new().reasoning("a").say(ReplyPiece::Redacted(String::new()));
            stub.push(answer.text("now").call(&id, "send_message", r#"{"text":"a"}"#, 4));
            conversation.step(vendor_model.as_ref()).await;
            conversation.layer(&format!("[INBOX PREVIEW — {step}]"));
        }
        stub.push(Answer::new().reasoning("so").text("done"));
        conversation.step(vendor_model.as_ref()).await;
    }
    let requests = stub.requests();
    assert_eq!(requests.len(), 12);
    for (index, pair) in requests.windows(2).enumerate() {
        assert_eq!(pair[1].refused, None);
        let verdict = extends_responses(&pair[0].body, &pair[1].body);
        let border = (index + 1) % 4 == 0;
        assert_eq!(verdict.is_err(), border, "requests {index} and {}: {verdict:?}", index + 1);
    }
    let sealed = |index: usize| requests[index].body.to_string().matches("stub-sealed").count();
    assert_eq!((0..12).map(sealed).collect::<Vec<_>>(), [0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6]);
    // Without the reasoning, the ids are left out too.
    assert!(!requests[4].body.to_string().contains("_stub."));
}

#[tokio::test]
async fn reasoning_without_a_following_item_or_without_encryption_is_left_out() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let bare = json!({"id": "rs_1", "type": "reasoning", "encrypted_content": null, "summary": []});
    stub.push(Answer::new().say(ReplyPiece::Unknown(bare)).text("one"));
    conversation.step(vendor_model.as_ref()).await;
    conversation.user("more");
    stub.push(Answer::new().text("two").reasoning("cut").stop("max_output_tokens"));
    conversation.step(vendor_model.as_ref()).await;
    conversation.user("more");
    stub.push(Answer::new().reasoning("only"));
    conversation.step(vendor_model.as_ref()).await;
    conversation.user("more");
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let body = &stub.requests()[3].body;
    assert_eq!(stub.requests()[3].refused, None);
    assert!(!kinds(body).contains(&"reasoning"), "{body}");
    assert!(!body.to_string().contains("\"id\""));
}

#[tokio::test]
async fn unknown_items_are_hidden_and_sent_back_unless_they_need_an_answer() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let search = json!({"type": "web_search_call", "status": "completed", "action": {"n": 1.50}});
    let custom = json!({"type": "custom_tool_call", "call_id": "x", "name": "y", "input": "z"});
    stub.push(
        Answer::new()
            .say(ReplyPiece::Unknown(search.clone()))
            .say(ReplyPiece::Unknown(custom))
            .text("hello")
            .call("call_1", "done", "{}", 9),
    );
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!(reply.parts, [ReplyPart::Text("hello".into()), called("done", "{}")]);
    assert!(reply.native.unwrap().body.contains("custom_tool_call"), "the native block keeps it");
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let body = &stub.requests()[1].body;
    assert_eq!(body["input"][2], search);
    assert!(!body.to_string().contains("custom_tool_call"));
}

#[tokio::test]
async fn a_call_that_the_vendor_answered_is_sent_back_only_with_its_output() {
    let stub = stub().await;
    stub.demand(None);
    let vendor_model = model_at(MODEL, &stub.url());
    let call = |kind: &str, id: &str| json!({"type": kind, "call_id": id, "action": {"commands": ["ls"]}});
    let output = |kind: &str, id: &str| json!({"type": kind, "call_id": id, "output": "x"});
    let both = [call("shell_call", "a"), output("shell_call_output", "a")];
    let others =
        [call("shell_call", "b"), output("local_shell_call_output", "c"), call("mcp_approval_request", "d")];
    let said = both.iter().chain(&others).cloned().map(ReplyPiece::Unknown);
    stub.push(said.fold(Answer::new(), Answer::say).text("done"));
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    conversation.step(vendor_model.as_ref()).await;
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let body = &stub.requests()[1].body;
    assert_eq!(body["input"].as_array().unwrap()[2..4], both);
    assert_eq!(kinds(body)[4..], ["message", "message"], "{body}");
}

#[test]
fn items_without_an_index_are_kept_apart() {
    let done = |id: &str, name: &str| {
        json!({"type": "response.output_item.done", "item":
            {"type": "function_call", "id": id, "call_id": format!("c{id}"), "name": name, "arguments": "{}"}})
    };
    let text = |text: &str| json!({"type": "response.output_text.delta", "delta": text});
    let said = |text: &str| {
        json!({"type": "response.output_item.done", "item":
            {"type": "message", "content": [{"type": "output_text", "text": text}]}})
    };
    let added = |id: &str, name: &str| {
        json!({"type": "response.output_item.added", "item":
            {"type": "function_call", "id": id, "call_id": format!("c{id}"), "name": name, "arguments": ""}})
    };
    let completed = json!({"type": "response.completed", "response": {}});
    for (what, events) in [
        ("only `done` events", vec![done("1", "a"), done("2", "b"), done("2", "b")]),
        ("all `added` events first", vec![added("1", "a"), added("2", "b"), done("1", "a"), done("2", "b")]),
        ("one `added` event", vec![added("1", "a"), done("1", "a"), done("2", "b")]),
    ] {
        let lines: Vec<String> = events.iter().chain([&completed]).map(Value::to_string).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (pieces, reply) = decode(responses(), sse(&lines).as_bytes(), 99).unwrap();
        assert_streamed(&pieces, &reply);
        assert_eq!(reply.parts, [called("a", "{}"), called("b", "{}")], "{what}");
    }
    let events = [text("on"), text("e"), said("one"), text("two"), said("two"), completed];
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (_, reply) = decode(responses(), sse(&lines).as_bytes(), 99).unwrap();
    assert_eq!(reply.parts, [ReplyPart::Text("one".into()), ReplyPart::Text("two".into())]);
}

#[tokio::test]
async fn calls_in_a_wrapper_are_taken_out() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let wrapped = r#"{"tool_uses":[{"recipient_name":"functions.send_message","parameters":{"text": "a"}},{"recipient_name":"functions.done","parameters":{}}]}"#;
    stub.push(Answer::new().reasoning("hm").call("call_w", "parallel", wrapped, 7));
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!(reply.parts[1..], [called("send_message", r#"{"text": "a"}"#), called("done", "{}")]);
    assert_eq!(reply.native.unwrap().call_ids, ["call_w_0", "call_w_1"]);
    // A call with a wrapper's name but another shape is an ordinary call.
    stub.push(Answer::new().call("call_p", "parallel", r#"{"n":1}"#, 2));
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!(reply.parts, [called("parallel", r#"{"n":1}"#)]);
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    assert!(stub.requests().iter().all(|request| request.refused.is_none()));
}

#[tokio::test]
async fn a_transcript_of_another_model_is_sent_as_canonical_items_with_our_ids() {
    let vendor_model = model_with_wire(OpenAiResponses::new("gpt-5", 1), "http://localhost");
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    conversation.foreign_step("  ", &[("send message!", "{\"a\": 1.0}"), ("done", "{\"cut"), ("done", "")]);
    let body = json_of(&vendor_model, &mut conversation);
    check_responses(&body).unwrap();
    assert_eq!(body["max_output_tokens"], 16);
    assert_eq!(kinds(&body)[2..5], ["function_call"; 3], "blank text is left out");
    assert_eq!(body["input"][2]["name"], "send_message_");
    assert_eq!(body["input"][2]["arguments"], "{\"a\": 1.0}");
    assert_eq!(body["input"][3]["arguments"], r#"{"INVALID_JSON":"{\"cut"}"#);
    assert_eq!(body["input"][5]["call_id"], body["input"][2]["call_id"]);
}

#[tokio::test]
async fn an_unusual_transcript_is_sent_in_a_form_that_the_vendor_accepts() {
    let vendor_model = model_with_wire(OpenAiResponses::new("gpt-5", 1_000), "http://localhost");
    let check =
        |conversation: &mut Conversation| check_responses(&json_of(&vendor_model, conversation)).unwrap();
    let mut conversation = Conversation::new();
    check(&mut conversation);
    conversation.foreign_step("begins with the assistant", &[]);
    check(&mut conversation);
    conversation.foreign_step("and goes on", &[]);
    check(&mut conversation);
    conversation.user("   ");
    check(&mut conversation);
    let mut cut = Conversation::new();
    cut.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    cut.foreign_step("x", &[("done", "{}")]);
    cut.prompt.items.remove(2);
    check(&mut cut);
    assert!(json_of(&vendor_model, &mut cut).to_string().contains("[outcome of"));
}

#[tokio::test]
async fn a_reply_cut_by_the_limit_is_marked_and_can_be_sent_back() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let answer = Answer::new().reasoning("hm").text("a");
    stub.push(answer.call("call_1", "send_message", r#"{"text":"cut he"#, 3).stop("max_output_tokens"));
    let (_, mut cut) = conversation.ask(vendor_model.as_ref()).await.unwrap();
    assert_eq!(cut.stop, StopReason::Length);
    assert_eq!(cut.parts[2], called("send_message", r#"{"text":"cut he"#));
    cut.parts.pop();
    conversation.add_reply(&cut);
    conversation.user("go on");
    stub.push(Answer::new().text("ok").stop("content_filter"));
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert!(matches!(reply.stop, StopReason::Refused(_)));
    assert_eq!(stub.requests()[1].refused, None);
    assert_eq!(kinds(&stub.requests()[1].body)[2..], ["reasoning", "message", "message"]);
}

#[tokio::test]
async fn reasoning_that_the_vendor_cannot_decrypt_is_no_longer_sent() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    stub.push(Answer::new().reasoning("hm").call("call_1", "done", "{}", 9));
    conversation.step(vendor_model.as_ref()).await;
    let refused = r#"{"error":{"message":"The encrypted content gAAA… could not be verified.","type":"invalid_request_error","code":"invalid_encrypted_content"}}"#;
    stub.push(Answer::status(400, refused));
    let error = conversation.ask(vendor_model.as_ref()).await.unwrap_err();
    assert!(matches!(&error, ModelError::Failed { .. }) && error.retryable(), "{error:?}");
    // The repeated request has no reasoning, and neither has the next one.
    stub.push(Answer::new().reasoning("so").call("call_2", "done", "{}", 9));
    conversation.step(vendor_model.as_ref()).await;
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let requests = stub.requests();
    assert!(kinds(&requests[1].body).contains(&"reasoning"));
    for request in &requests[2..] {
        assert!(!kinds(&request.body).contains(&"reasoning") && request.refused.is_none());
    }
    // If no reasoning is left to remove, the refusal is an ordinary error.
    stub.push(Answer::status(400, refused));
    assert!(matches!(conversation.ask(vendor_model.as_ref()).await.unwrap_err(), ModelError::Invalid(_)));
}

#[tokio::test]
async fn a_refusal_is_a_stop_reason_and_not_text() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let item = json!({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]});
    stub.push(Answer::new().say(ReplyPiece::Unknown(item)));
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!((reply.stop, reply.parts.len()), (StopReason::Refused("I will not.".into()), 0));
    conversation.user("go on");
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    assert_eq!(stub.requests()[1].refused, None);
}

#[tokio::test]
async fn a_model_without_reasoning_is_not_asked_for_it() {
    let stub = stub().await;
    let ask = async |model: &str, reasoning: Option<Reasoning>, choice: ToolChoice| {
        let config = ModelConfig { base_url: Some(stub.url()), reasoning, ..ModelConfig::named(model) };
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        conversation.prompt.choice = choice;
        stub.push(Answer::new().text("ok"));
        conversation.step(vendor_model(config).as_ref()).await;
        stub.requests().pop().unwrap().body
    };
    let plain = ask("openai-responses/gpt-4.1", None, ToolChoice::None).await;
    assert!(plain["include"].is_null() && plain["reasoning"].is_null());
    assert_eq!(plain["tool_choice"], "none");
    let effort = Some(Reasoning::Effort("low".into()));
    let body = ask("openai-responses/gpt-5-mini", effort, ToolChoice::Required).await;
    assert_eq!(body["reasoning"], json!({"effort": "low"}));
    assert_eq!(body["tool_choice"], "required");
}

#[tokio::test]
async fn an_error_inside_the_stream_ends_it_with_the_class_of_the_error() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    stub.push(Answer::new().text("half").then_error("rate_limit_exceeded", "slow down"));
    let error = conversation.ask(vendor_model.as_ref()).await.unwrap_err();
    assert!(matches!(&error, ModelError::RateLimited { .. }), "{error:?}");
    for (data, class) in [
        (
            r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}"#,
            "the server failed",
        ),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"x"}}}"#,
            "invalid",
        ),
        (
            r#"{"type":"error","code":"context_length_exceeded","message":"x","param":null}"#,
            "context too long",
        ),
        (r#"{"error":{"message":"no such thing","code":404}}"#, "no such model"),
    ] {
        stub.push(Answer::payloads(data));
        let error = conversation.ask(vendor_model.as_ref()).await.unwrap_err();
        assert!(error.to_string().starts_with(class), "{data}: {error}");
    }
    let contradicts = concat!(
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"f","call_id":"c"}}"#,
        "\n",
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\":1}"}"#,
        "\n",
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","name":"f","call_id":"c","arguments":"{}"}}"#,
    );
    stub.push(Answer::payloads(contradicts));
    assert!(matches!(conversation.ask(vendor_model.as_ref()).await.unwrap_err(), ModelError::Garbage(_)));
}

#[tokio::test]
async fn items_that_were_not_streamed_are_taken_from_the_final_event() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    stub.push(Answer::payloads(
        r#"{"type":"response.completed","response":{"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]},{"type":"function_call","call_id":"c","name":"done","arguments":"{}"}],"usage":null}}"#,
    ));
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!(reply.parts, [ReplyPart::Text("hi".into()), called("done", "{}")]);
    assert_eq!(reply.usage, agent::run::Usage::default());
}
