//! Gemini's wire against a stub that enforces the vendor's rules, signatures included.

use agent::port::{ModelError, ReplyPart, StopReason};
use agent::prompt::ToolChoice;
use models::model_book::{ModelConfig, Reasoning};
use models::wire::gemini::Gemini;
use serde_json::{Value, json};
use testkit::stubs::rules::{check_gemini, extends_gemini};
use testkit::stubs::{Answer, ReplyPiece, Stub, Vendor};

use crate::support::{Conversation, json_of, model_at, model_with_wire, reply, vendor_model};

const MODEL: &str = "google/gemini-3-pro-preview";

async fn stub() -> Stub {
    Stub::start(Vendor::Gemini).await
}

fn called(name: &str, arguments: &str) -> ReplyPart {
    ReplyPart::Call { name: name.into(), arguments: arguments.into() }
}

fn kinds(content: &Value) -> Vec<String> {
    let parts = content["parts"].as_array().unwrap();
    let kind = |part: &Value| part.as_object().unwrap().keys().next().unwrap().clone();
    parts.iter().map(kind).collect()
}

#[tokio::test]
async fn text_reasoning_calls_and_usage_arrive_complete() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    stub.push(
        Answer::new()
            .reasoning("Let me see.")
            .text("I'll answer.")
            .call("", "send_message", r#"{"text":"hé\"llo","n":1.5}"#, 99)
            .call("id-2", "send_message", r#"{"text":"in pieces","n":2}"#, 3)
            .call("", "done", "", 1)
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
            called("send_message", r#"{"text":"hé\"llo","n":1.5}"#),
            called("send_message", r#"{"text":"in pieces","n":2}"#),
            called("done", "{}"),
        ]
    );
    assert_eq!((reply.usage.input, reply.usage.cached, reply.usage.output), (Some(120), Some(100), Some(17)));
    let request = &stub.requests()[0];
    assert_eq!(request.path, "/v1/models/gemini-3-pro-preview:streamGenerateContent");
    assert_eq!(request.header("x-goog-api-key"), "sk-canary-0123456789");
    assert_eq!(request.header("authorization"), "");
    assert_eq!(request.body["systemInstruction"]["parts"][0]["text"], "You are a living agent.");
    assert_eq!(request.body["tools"][0]["functionDeclarations"][1]["name"], "done");
    assert_eq!(request.body["generationConfig"], json!({"maxOutputTokens": 32_768}));
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let contents = &stub.requests()[1].body["contents"];
    let responses = contents[2]["parts"].as_array().unwrap();
    assert_eq!(responses.len(), 3);
    assert_eq!(responses[1]["functionResponse"]["id"], "id-2");
    assert!(
        responses[0]["functionResponse"]["id"].is_null(),
        "a call without an id has an outcome without an id"
    );
}

#[tokio::test]
async fn within_a_cycle_each_request_extends_the_one_before_and_keeps_its_signatures() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    for cycle in 1..=3u128 {
        conversation.begin_cycle(cycle, &format!("[INBOX] {cycle}"), &format!("[WORKSPACE] {cycle}"));
        for step in 0..3 {
            let calls = Answer::new().reasoning("thinking").call("a", "send_message", r#"{"text":"a"}"#, 4);
            stub.push(calls.call("b", "done", "{}", 9));
            conversation.step(vendor_model.as_ref()).await;
            if step == 1 {
                conversation.layer("[INBOX PREVIEW]");
            }
        }
        stub.push(Answer::new().reasoning("so").text("done"));
        conversation.step(vendor_model.as_ref()).await;
    }
    let requests = stub.requests();
    assert_eq!(requests.len(), 12);
    for (index, pair) in requests.windows(2).enumerate() {
        assert_eq!(pair[1].refused, None);
        let verdict = extends_gemini(&pair[0].body, &pair[1].body);
        let border = (index + 1) % 4 == 0;
        assert_eq!(verdict.is_err(), border, "requests {index} and {}: {verdict:?}", index + 1);
    }
    let count = |index: usize, what: &str| requests[index].body.to_string().matches(what).count();
    let thoughts: Vec<usize> = (0..12).map(|index| count(index, "\"thought\":true")).collect();
    assert_eq!(thoughts, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
    // Signatures are kept on the parts of earlier cycles too.
    let signed: Vec<usize> = (0..12).map(|index| count(index, "stub-signature")).collect();
    assert_eq!(signed, [0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9]);
    assert_eq!(count(4, "c3R1Yg=="), 1, "a signature in an empty part is kept");
}

#[tokio::test]
async fn outcomes_directly_follow_their_calls_and_text_is_a_separate_content() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    stub.push(Answer::new().call("", "send_message", "{}", 9).call("", "done", "{}", 9));
    conversation.step(vendor_model.as_ref()).await;
    conversation.user("[MID-CYCLE UPDATE]");
    conversation.layer("[INBOX PREVIEW]");
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let contents = stub.requests()[1].body["contents"].clone();
    assert_eq!(kinds(&contents[0]), ["text", "text"]);
    assert_eq!(kinds(&contents[1]), ["functionCall", "functionCall"]);
    assert_eq!(kinds(&contents[2]), ["functionResponse", "functionResponse"]);
    assert_eq!(kinds(&contents[3]), ["text", "text"]);
    assert_eq!(contents[2]["parts"][1]["functionResponse"]["name"], "done");
}

#[tokio::test]
async fn unknown_parts_are_sent_back_byte_for_byte_and_hidden() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let unknown =
        json!({"executableCode": {"language": "PYTHON", "code": "1.50"}, "thoughtSignature": "AAA+/=="});
    stub.push(
        Answer::new()
            .say(ReplyPiece::Redacted("b64+/==".into()))
            .say(ReplyPiece::Unknown(unknown.clone()))
            .text("hello")
            .call("", "done", "{}", 9),
    );
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!(reply.parts, [ReplyPart::Text("hello".into()), called("done", "{}")]);
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let parts = stub.requests()[1].body["contents"][1]["parts"].clone();
    assert_eq!(parts[0], json!({"text": "", "thoughtSignature": "b64+/=="}));
    assert_eq!(parts[1], unknown);
}

#[tokio::test]
async fn an_empty_turn_of_another_cycle_is_left_out() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] one", "[WORKSPACE] one");
    stub.push(Answer::new().reasoning("only thoughts"));
    conversation.step(vendor_model.as_ref()).await;
    conversation.begin_cycle(2, "[INBOX] two", "[WORKSPACE] two");
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    let contents = stub.requests()[1].body["contents"].clone();
    assert_eq!(contents.as_array().unwrap().len(), 1, "the neighbours are one content: {contents}");
}

#[tokio::test]
async fn calls_of_another_model_get_the_placeholder_signature() {
    for (model, signed) in [("gemini-3-pro-preview", true), ("gemini-2.5-flash", false)] {
        let wire = Gemini { sealed_reasoning: signed, ..Gemini::new(model, 1_000) };
        let vendor_model = model_with_wire(wire, "http://localhost");
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        conversation
            .foreign_step("  ", &[("send message!", "{\"a\": 1.0}"), ("done", "{\"cut"), ("done", "")]);
        let body = json_of(&vendor_model, &mut conversation);
        check_gemini(model, &body).unwrap();
        let parts = &body["contents"][1]["parts"];
        assert_eq!(parts.as_array().unwrap().len(), 3, "blank text is left out");
        assert_eq!(parts[0]["functionCall"]["name"], "send_message_");
        assert_eq!(parts[0]["thoughtSignature"] == "skip_thought_signature_validator", signed);
        assert!(parts[1]["thoughtSignature"].is_null());
        assert_eq!(parts[1]["functionCall"]["args"], json!({"INVALID_JSON": "{\"cut"}));
        assert_eq!(parts[2]["functionCall"]["args"], json!({}));
        let raw = String::from_utf8(
            vendor_model.encode(&conversation.prompt, &mut conversation.memo).body.concat().to_vec(),
        )
        .unwrap();
        assert!(raw.contains(r#""args":{"a": 1.0}"#), "arguments keep their bytes");
    }
}

#[tokio::test]
async fn an_unusual_transcript_is_sent_in_a_form_that_the_vendor_accepts() {
    let vendor_model = model_with_wire(Gemini::new("gemini-3-pro", 1_000), "http://localhost");
    let check = |conversation: &mut Conversation| {
        check_gemini("gemini-3-pro", &json_of(&vendor_model, conversation)).unwrap()
    };
    let mut conversation = Conversation::new();
    check(&mut conversation);
    conversation.foreign_step("begins with the assistant", &[]);
    check(&mut conversation);
    let short = json_of(&vendor_model, &mut conversation);
    conversation.foreign_step("and goes on", &[]);
    check(&mut conversation);
    extends_gemini(&short, &json_of(&vendor_model, &mut conversation)).unwrap();
    conversation.user("   ");
    check(&mut conversation);
    // Outcomes whose call is no longer in the view.
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
    stub.push(Answer::new().text("a").call("", "send_message", r#"{"text":"x"}"#, 99).stop("MAX_TOKENS"));
    let (_, mut cut) = conversation.ask(vendor_model.as_ref()).await.unwrap();
    assert_eq!(cut.stop, StopReason::Length);
    // If the runtime leaves the broken call out of the entry, it is left out of the native block too.
    cut.parts.pop();
    conversation.add_reply(&cut);
    conversation.user("go on");
    stub.push(Answer::new().text("ok"));
    conversation.step(vendor_model.as_ref()).await;
    assert_eq!(stub.requests()[1].refused, None);
    assert_eq!(kinds(&stub.requests()[1].body["contents"][1]), ["text"]);
}

#[tokio::test]
async fn each_finish_reason_has_its_stop_reason() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    for (reason, refused) in [("STOP", false), ("SAFETY", true), ("PROHIBITED_CONTENT", true)] {
        stub.push(Answer::new().text("x").stop(reason));
        let (_, reply) = conversation.ask(vendor_model.as_ref()).await.unwrap();
        assert_eq!(matches!(reply.stop, StopReason::Refused(_)), refused, "{reason}: {:?}", reply.stop);
    }
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"] {
        stub.push(Answer::new().text("x").stop(reason));
        let error = conversation.ask(vendor_model.as_ref()).await.unwrap_err();
        assert!(matches!(&error, ModelError::Garbage(text) if text.contains(reason)), "{error:?}");
    }
    stub.push(Answer::payloads(
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":7}}"#,
    ));
    let (_, reply) = conversation.ask(vendor_model.as_ref()).await.unwrap();
    assert!(matches!(&reply.stop, StopReason::Refused(text) if text.contains("blocked the prompt: SAFETY")));
    assert_eq!((reply.parts.len(), reply.usage.input, reply.native), (0, Some(7), None));
}

#[tokio::test]
async fn an_error_inside_the_stream_ends_it_with_the_class_of_the_error() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    stub.push(Answer::new().text("half").then_error("UNAVAILABLE", "The model is overloaded."));
    let error = conversation.ask(vendor_model.as_ref()).await.unwrap_err();
    assert!(matches!(&error, ModelError::Overloaded { .. }), "{error:?}");
    stub.push(Answer::payloads(r#"{"candidates":[{"content":{"parts":[{"functionCall":{}}]}}]}"#));
    assert!(matches!(conversation.ask(vendor_model.as_ref()).await.unwrap_err(), ModelError::Garbage(_)));
}

#[tokio::test]
async fn tool_choice_thinking_and_temperature_have_the_vendors_form() {
    let stub = stub().await;
    let ask = async |reasoning: Option<Reasoning>, choice: ToolChoice| {
        let config = ModelConfig {
            base_url: Some(stub.url()),
            temperature: Some(0.5),
            max_output: Some(900),
            reasoning,
            ..ModelConfig::named(MODEL)
        };
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        conversation.prompt.choice = choice;
        stub.push(Answer::new().text("ok"));
        conversation.step(vendor_model(config).as_ref()).await;
        stub.requests().pop().unwrap().body
    };
    let body = ask(Some(Reasoning::Effort("low".into())), ToolChoice::Required).await;
    let expected = json!({"maxOutputTokens": 900, "temperature": 0.5,
        "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "low"}});
    assert_eq!(body["generationConfig"], expected);
    assert_eq!(body["toolConfig"]["functionCallingConfig"], json!({"mode": "ANY"}));
    let body = ask(Some(Reasoning::Budget(512)), ToolChoice::None).await;
    assert_eq!(body["generationConfig"]["thinkingConfig"]["thinkingBudget"], 512);
    assert_eq!(body["toolConfig"]["functionCallingConfig"], json!({"mode": "NONE"}));
    assert!(ask(None, ToolChoice::Auto).await["toolConfig"].is_null());
}

#[test]
fn a_native_block_of_another_model_is_not_sent() {
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let mut said = reply(vec![ReplyPart::Text("mine".into())]);
    said.native = Some(agent::message::Native {
        origin: Gemini::new("gemini-4-argon", 9).origin,
        body: json!([{"text": "theirs", "thoughtSignature": "x"}]).to_string(),
        call_ids: Vec::new(),
    });
    conversation.add_reply(&said);
    let text = |model: &str| {
        json_of(
            &model_with_wire(Gemini::new(model, 9), "http://localhost"),
            &mut Conversation { prompt: conversation.prompt.clone(), ..Conversation::new() },
        )
    };
    assert!(text("gemini-4-argon").to_string().contains("theirs"));
    assert!(!text("gemini-4-carbon").to_string().contains("theirs"));
}
