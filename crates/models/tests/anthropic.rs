//! The Messages wire against a stub that enforces the vendor's rules, the prefix rule included.

use std::sync::Arc;

use agent::port::{ModelError, ReplyPart, StopReason};
use agent::prompt::{Item, ToolChoice};
use models::model_book::{ModelConfig, Reasoning};
use models::wire::anthropic::{Anthropic, AnthropicThinking};
use serde_json::json;
use testkit::stubs::rules::{check_anthropic, extends_anthropic};
use testkit::stubs::{Answer, ReplyPiece, Stub, Vendor};

use crate::support::{Conversation, json_of, model_at, model_with_wire, reply, vendor_model};

const MODEL: &str = "anthropic/claude-fable-5-2";

async fn stub() -> Stub {
    Stub::start(Vendor::Anthropic).await
}

fn called(name: &str, arguments: &str) -> ReplyPart {
    ReplyPart::Call { name: name.into(), arguments: arguments.into() }
}

#[tokio::test]
async fn text_reasoning_calls_and_usage_arrive_complete() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    stub.push(
        Answer::new()
            .reasoning("Let me see.")
            .text("I'll answer.")
            .call("toolu_1", "send_message", r#"{"text": "hé\"llo", "n": 1.0}"#, 3)
            .call("toolu_2", "done", "", 1)
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
    assert_eq!(reply.native.unwrap().call_ids, ["toolu_1", "toolu_2"]);
    let request = &stub.requests()[0];
    assert_eq!(request.path, "/v1/messages");
    assert_eq!(request.header("x-api-key"), "sk-canary-0123456789");
    assert_eq!(request.header("anthropic-version"), "2023-06-01");
    assert_eq!(request.header("content-length"), request.raw.len().to_string());
}

#[tokio::test]
async fn within_a_cycle_each_request_extends_the_one_before_and_keeps_its_reasoning() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    for cycle in 1..=3u128 {
        conversation.begin_cycle(cycle, &format!("[INBOX] {cycle}"), &format!("[WORKSPACE] {cycle}"));
        for step in 0..3 {
            let id = format!("toolu_{cycle}_{step}");
            stub.push(Answer::new().reasoning("thinking").call(&id, "send_message", r#"{"text":"a"}"#, 4));
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
        let verdict = extends_anthropic(&pair[0].body, &pair[1].body);
        let border = (index + 1) % 4 == 0;
        assert_eq!(verdict.is_err(), border, "requests {index} and {}: {verdict:?}", index + 1);
    }
    let thoughts = |index: usize| requests[index].body.to_string().matches("stub-signature").count();
    assert_eq!((0..12).map(thoughts).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
}

#[tokio::test]
async fn a_step_is_one_user_message_with_outcomes_first() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    stub.push(Answer::new().call("toolu_1", "send_message", "{}", 9).call(
        "toolu_2",
        "send_message",
        "{}",
        9,
    ));
    conversation.step(vendor_model.as_ref()).await;
    conversation.user("[MID-CYCLE UPDATE]");
    conversation.layer("[INBOX PREVIEW]");
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let body = &stub.requests()[1].body;
    let kinds = |message: usize| {
        let blocks = body["messages"][message]["content"].as_array().unwrap();
        blocks.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(0), ["text", "text"]);
    assert_eq!(kinds(1), ["tool_use", "tool_use"]);
    assert_eq!(kinds(2), ["tool_result", "tool_result", "text", "text"]);
    assert_eq!(body["messages"][2]["content"][1]["tool_use_id"], "toolu_2");
}

#[tokio::test]
async fn redacted_and_unknown_blocks_are_sent_back_byte_for_byte_and_hidden() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let unknown = json!({"type": "hologram", "beams": [1.5, {"x": null}], "text": "secret"});
    stub.push(
        Answer::new()
            .say(ReplyPiece::Redacted("b64+/==".into()))
            .say(ReplyPiece::Unknown(unknown.clone()))
            .text("hello")
            .call("toolu_1", "done", "{}", 9),
    );
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!(reply.parts, [ReplyPart::Text("hello".into()), called("done", "{}")]);
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let sent = stub.requests()[1].body["messages"][1]["content"].clone();
    assert_eq!(sent[0], json!({"type": "redacted_thinking", "data": "b64+/=="}));
    assert_eq!(sent[1], unknown);
    let raw = String::from_utf8(stub.requests()[1].raw.to_vec()).unwrap();
    assert!(raw.contains(&unknown.to_string()), "unknown blocks keep their bytes");
}

#[tokio::test]
async fn reasoning_of_other_cycles_and_turns_without_content_are_left_out() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] one", "[WORKSPACE] one");
    stub.push(Answer::new().reasoning("only thoughts"));
    conversation.step(vendor_model.as_ref()).await;
    conversation.begin_cycle(2, "[INBOX] two", "[WORKSPACE] two");
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let messages = stub.requests()[1].body["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 1, "the neighbours are one message: {messages}");
    assert_eq!(messages[0]["content"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn reasoning_before_reasoning_from_is_not_sent() {
    let wire = Anthropic::new("claude-fable-5-2", 1_000);
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let native = |text: &str| {
        Some(agent::message::Native {
            origin: wire.origin.clone(),
            body: json!([{"type": "thinking", "thinking": text, "signature": "x"}, {"type": "text", "text": text}])
                .to_string(),
            call_ids: Vec::new(),
        })
    };
    for text in ["first", "second"] {
        let mut said = reply(vec![ReplyPart::Text(text.into())]);
        said.native = native(text);
        conversation.add_reply(&said);
        conversation.user("go on");
    }
    let vendor_model = model_with_wire(wire.clone(), "http://localhost");
    let count = |conversation: &mut Conversation| {
        json_of(&vendor_model, conversation).to_string().matches("signature").count()
    };
    assert_eq!(count(&mut conversation), 2);
    conversation.prompt.reasoning_from = 4;
    assert_eq!(count(&mut conversation), 1);
    conversation.prompt.reasoning_from = 99;
    assert_eq!(count(&mut conversation), 0);
}

#[tokio::test]
async fn after_a_refusal_reasoning_is_dropped_for_the_rest_of_the_conversation() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] one", "[WORKSPACE] one");
    stub.push(Answer::new().reasoning("hm").call("toolu_1", "done", "{}", 9));
    conversation.step(vendor_model.as_ref()).await;
    // The transcript is changed, so the vendor's check fails.
    conversation.prompt.items[1] = Item::Layer(Arc::from("[WORKSPACE] edited"));
    stub.push(Answer::new().text("all right"));
    conversation.step(vendor_model.as_ref()).await;
    stub.push(Answer::new().text("again"));
    conversation.user("more");
    conversation.step(vendor_model.as_ref()).await;
    let requests = stub.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests[1].refused.as_ref().unwrap().contains("bound to a different conversation"));
    for request in &requests[2..] {
        assert_eq!(request.body["thinking"]["block_binding"]["prefix_mismatch_behavior"], "drop_block");
        assert_eq!(request.body["thinking"]["type"], "adaptive");
        assert_eq!(request.header("anthropic-beta"), "thinking-binding-controls-2026-08-01");
    }
    assert_eq!(requests[1].header("anthropic-beta"), "");
    // Another conversation is not affected.
    let mut other = Conversation::new();
    other.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    stub.push(Answer::new().text("hi"));
    other.step(vendor_model.as_ref()).await;
    assert!(stub.requests()[4].body["thinking"].is_null());
}

#[tokio::test]
async fn cache_breakpoints_follow_the_system_layer_the_inbox_and_the_last_item() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    let marked = |body: &serde_json::Value| {
        let mut marked = Vec::new();
        for (m, message) in body["messages"].as_array().unwrap().iter().enumerate() {
            for (b, block) in message["content"].as_array().unwrap().iter().enumerate() {
                if !block["cache_control"].is_null() {
                    marked.push((m, b));
                }
            }
        }
        marked
    };
    for cycle in 1..=2 {
        conversation.begin_cycle(cycle, &format!("[INBOX] {cycle}"), "[WORKSPACE]");
        for step in 0..2 {
            stub.push(Answer::new().call(&format!("toolu_{cycle}_{step}"), "done", "{}", 9));
            conversation.step(vendor_model.as_ref()).await;
        }
    }
    let requests = stub.requests();
    assert!(requests.iter().all(|request| request.body["system"][0]["cache_control"]["type"] == "ephemeral"));
    assert_eq!(marked(&requests[0].body), [(0, 0), (0, 1)], "inbox entry, tail");
    assert_eq!(marked(&requests[1].body), [(0, 0), (0, 1), (2, 0)], "inbox entry, the last tail, tail");
    assert_eq!(
        marked(&requests[2].body),
        [(0, 0), (4, 1), (4, 2)],
        "the inbox entry before, inbox entry, tail"
    );
    assert_eq!(marked(&requests[3].body), [(4, 1), (4, 2), (6, 0)]);
}

#[tokio::test]
async fn a_call_is_forced_only_if_the_vendor_accepts_it() {
    let stub = stub().await;
    for (model, forced) in [(MODEL, false), ("anthropic/claude-haiku-5-5", true)] {
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        conversation.prompt.choice = ToolChoice::Required;
        stub.push(Answer::new().text("ok"));
        conversation.step(model_at(model, &stub.url()).as_ref()).await;
        let sent = stub.requests().last().unwrap().body["tool_choice"].clone();
        assert_eq!(sent == json!({"type": "any"}), forced, "{model}: {sent}");
    }
}

#[tokio::test]
async fn a_manual_thinking_model_keeps_the_reasoning_of_its_last_turn() {
    let stub = stub().await;
    let config = ModelConfig {
        base_url: Some(stub.url()),
        reasoning: Some(Reasoning::Budget(2_000)),
        temperature: Some(0.2),
        ..ModelConfig::named("anthropic/claude-sonnet-4-5")
    };
    let vendor_model = vendor_model(config);
    let mut conversation = Conversation::new();
    for cycle in 1..=3 {
        conversation.begin_cycle(cycle, "[INBOX]", "[WORKSPACE]");
        for step in 0..2 {
            stub.push(Answer::new().reasoning("hm").call(&format!("toolu_{cycle}_{step}"), "done", "{}", 9));
            conversation.step(vendor_model.as_ref()).await;
        }
    }
    // A step of another model has no reasoning, so an inserted assistant message ends its tool loop.
    conversation.begin_cycle(4, "[INBOX]", "[WORKSPACE]");
    conversation.foreign_step("other", &[("done", "{}")]);
    conversation.begin_cycle(5, "[INBOX]", "[WORKSPACE]");
    stub.push(Answer::new().reasoning("hm").call("toolu_5", "done", "{}", 9));
    conversation.step(vendor_model.as_ref()).await;
    for request in stub.requests() {
        assert_eq!(request.refused, None);
        assert_eq!(request.body["thinking"], json!({"type": "enabled", "budget_tokens": 2_000}));
        assert!(request.body["temperature"].is_null());
    }
    assert_eq!(stub.requests()[2].body.to_string().matches("stub-signature").count(), 1);
    // After compaction in the middle of a cycle its reasoning is gone, so this request has none.
    conversation.prompt.reasoning_from = 99;
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    assert!(stub.requests().last().unwrap().body["thinking"].is_null());
}

#[tokio::test]
async fn a_transcript_of_another_model_is_sent_as_canonical_blocks_with_our_ids() {
    let wire = Anthropic::new("claude-fable-5-2", 1_000);
    let vendor_model = model_with_wire(wire, "http://localhost");
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    conversation.foreign_step("  ", &[("send message!", "{\"a\": 1.0}"), ("done", "{\"cut"), ("done", "")]);
    let body = json_of(&vendor_model, &mut conversation);
    check_anthropic(&body).unwrap();
    let blocks = &body["messages"][1]["content"];
    assert_eq!(blocks.as_array().unwrap().len(), 3, "blank text is left out");
    assert_eq!(blocks[0]["name"], "send_message_");
    assert_eq!(blocks[1]["input"], json!({"INVALID_JSON": "{\"cut"}));
    assert_eq!(blocks[2]["input"], json!({}));
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], blocks[0]["id"]);
    let raw = String::from_utf8(
        vendor_model.encode(&conversation.prompt, &mut conversation.memo).body.concat().to_vec(),
    )
    .unwrap();
    assert!(raw.contains(r#""input":{"a": 1.0}"#), "arguments keep their bytes");
}

#[tokio::test]
async fn an_unusual_transcript_is_sent_in_a_form_that_the_vendor_accepts() {
    let vendor_model = model_with_wire(Anthropic::new("claude-fable-5-2", 1_000), "http://localhost");
    let mut conversation = Conversation::new();
    check_anthropic(&json_of(&vendor_model, &mut conversation)).unwrap();
    conversation.foreign_step("begins with the assistant", &[]);
    check_anthropic(&json_of(&vendor_model, &mut conversation)).unwrap();
    let short = json_of(&vendor_model, &mut conversation);
    conversation.foreign_step("and goes on", &[]);
    check_anthropic(&json_of(&vendor_model, &mut conversation)).unwrap();
    extends_anthropic(&short, &json_of(&vendor_model, &mut conversation)).unwrap();
    conversation.user("   ");
    check_anthropic(&json_of(&vendor_model, &mut conversation)).unwrap();
    // Outcomes whose call is no longer in the view.
    let mut cut = Conversation::new();
    cut.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    cut.foreign_step("x", &[("done", "{}")]);
    cut.prompt.items.remove(2);
    let body = json_of(&vendor_model, &mut cut);
    check_anthropic(&body).unwrap();
    assert!(body.to_string().contains("[outcome of"));
}

#[tokio::test]
async fn a_reply_cut_by_the_limit_is_marked_and_can_be_sent_back() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    stub.push(
        Answer::new().text("a").call("toolu_1", "send_message", r#"{"text":"cut he"#, 3).stop("max_tokens"),
    );
    let (_, mut cut) = conversation.ask(vendor_model.as_ref()).await.unwrap();
    assert_eq!(cut.stop, StopReason::Length);
    assert_eq!(cut.parts[1], called("send_message", r#"{"text":"cut he"#));
    // If the runtime leaves the broken call out of the entry, it is left out of the native block too.
    cut.parts.pop();
    conversation.add_reply(&cut);
    conversation.user("go on");
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    assert_eq!(stub.requests()[1].refused, None);
    assert_eq!(stub.requests()[1].body["messages"][1]["content"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn adaptive_thinking_sends_its_effort() {
    let wire = Anthropic {
        thinking: AnthropicThinking::Adaptive { effort: Some("low".into()) },
        ..Anthropic::new("m", 9)
    };
    let vendor_model = model_with_wire(wire, "http://localhost");
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let body = json_of(&vendor_model, &mut conversation);
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(body["output_config"], json!({"effort": "low"}));
}

#[tokio::test]
async fn an_error_inside_the_stream_ends_it_with_the_class_of_the_error() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    stub.push(Answer::new().text("half").then_error("overloaded_error", "Overloaded"));
    let error = conversation.ask(vendor_model.as_ref()).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::Overloaded { message, .. } if message.contains("Overloaded")),
        "{error:?}"
    );
}
