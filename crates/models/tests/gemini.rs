//! Gemini's wire against a stub that enforces the vendor's rules, signatures included.

use agent::port::{ModelError, ReplyPart, StopReason};
use agent::prompt::ToolChoice;
use models::model_book::{ModelConfig, Reasoning};
use models::wire::gemini::Gemini;
use serde_json::{Value, json};
use testkit::stubs::rules::{check_gemini, extends_gemini};
use testkit::stubs::{Answer, ReplyPiece, Stub, Vendor};

use crate::support::{Life, json_of, model_at, reply, vendor_model, wired};

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
async fn text_reasoning_parallel_calls_and_usage_arrive_whole() {
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
    let mut life = Life::new();
    life.wake(1, "[INBOX] hi", "[WORKSPACE]");
    let reply = life.step(vendor_model.as_ref()).await;
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
    life.step(vendor_model.as_ref()).await;
    let contents = &stub.requests()[1].body["contents"];
    let responses = contents[2]["parts"].as_array().unwrap();
    assert_eq!(responses.len(), 3);
    assert_eq!(responses[1]["functionResponse"]["id"], "id-2");
    assert!(responses[0]["functionResponse"]["id"].is_null(), "where no id came none goes back");
}

#[tokio::test]
async fn within_a_cycle_each_request_extends_the_one_before_and_keeps_its_signatures() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut life = Life::new();
    for cycle in 1..=3u128 {
        life.wake(cycle, &format!("[INBOX] {cycle}"), &format!("[WORKSPACE] {cycle}"));
        for step in 0..3 {
            let calls = Answer::new().reasoning("thinking").call("a", "send_message", r#"{"text":"a"}"#, 4);
            stub.push(calls.call("b", "done", "{}", 9));
            life.step(vendor_model.as_ref()).await;
            if step == 1 {
                life.layer("[INBOX PREVIEW]");
            }
        }
        stub.push(Answer::new().reasoning("so").text("done"));
        life.step(vendor_model.as_ref()).await;
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
    // Signatures stay on the parts of old cycles too.
    let signed: Vec<usize> = (0..12).map(|index| count(index, "stub-signature")).collect();
    assert_eq!(signed, [0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9]);
    assert_eq!(count(4, "c3R1Yg=="), 1, "a signature in an empty part is kept");
}

#[tokio::test]
async fn outcomes_stand_right_behind_their_calls_and_text_apart_from_them() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut life = Life::new();
    life.wake(1, "[INBOX] hi", "[WORKSPACE]");
    stub.push(Answer::new().call("", "send_message", "{}", 9).call("", "done", "{}", 9));
    life.step(vendor_model.as_ref()).await;
    life.user("[MID-CYCLE UPDATE]");
    life.layer("[INBOX PREVIEW]");
    stub.push(Answer::new().text("ok"));
    life.step(vendor_model.as_ref()).await;
    let contents = stub.requests()[1].body["contents"].clone();
    assert_eq!(kinds(&contents[0]), ["text", "text"]);
    assert_eq!(kinds(&contents[1]), ["functionCall", "functionCall"]);
    assert_eq!(kinds(&contents[2]), ["functionResponse", "functionResponse"]);
    assert_eq!(kinds(&contents[3]), ["text", "text"]);
    assert_eq!(contents[2]["parts"][1]["functionResponse"]["name"], "done");
}

#[tokio::test]
async fn unknown_parts_go_back_byte_for_byte_and_are_shown_nowhere() {
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
    let mut life = Life::new();
    life.wake(1, "[INBOX] hi", "[WORKSPACE]");
    let reply = life.step(vendor_model.as_ref()).await;
    assert_eq!(reply.parts, [ReplyPart::Text("hello".into()), called("done", "{}")]);
    stub.push(Answer::new().text("ok"));
    life.step(vendor_model.as_ref()).await;
    let parts = stub.requests()[1].body["contents"][1]["parts"].clone();
    assert_eq!(parts[0], json!({"text": "", "thoughtSignature": "b64+/=="}));
    assert_eq!(parts[1], unknown);
}

#[tokio::test]
async fn an_empty_turn_of_another_cycle_is_left_out() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut life = Life::new();
    life.wake(1, "[INBOX] one", "[WORKSPACE] one");
    stub.push(Answer::new().reasoning("only thoughts"));
    life.step(vendor_model.as_ref()).await;
    life.wake(2, "[INBOX] two", "[WORKSPACE] two");
    stub.push(Answer::new().text("ok"));
    life.step(vendor_model.as_ref()).await;
    let contents = stub.requests()[1].body["contents"].clone();
    assert_eq!(contents.as_array().unwrap().len(), 1, "the neighbours are one content: {contents}");
}

#[tokio::test]
async fn calls_of_another_model_say_that_they_are_not_signed() {
    for (model, signed) in [("gemini-3-pro-preview", true), ("gemini-2.5-flash", false)] {
        let wire = Gemini { sealed_reasoning: signed, ..Gemini::new(model, 1_000) };
        let vendor_model = wired(wire, "http://localhost");
        let mut life = Life::new();
        life.wake(1, "[INBOX]", "[WORKSPACE]");
        life.foreign_step("  ", &[("send message!", "{\"a\": 1.0}"), ("done", "{\"cut"), ("done", "")]);
        let body = json_of(&vendor_model, &mut life);
        check_gemini(model, &body).unwrap();
        let parts = &body["contents"][1]["parts"];
        assert_eq!(parts.as_array().unwrap().len(), 3, "blank text is left out");
        assert_eq!(parts[0]["functionCall"]["name"], "send_message_");
        assert_eq!(parts[0]["thoughtSignature"] == "skip_thought_signature_validator", signed);
        assert!(parts[1]["thoughtSignature"].is_null());
        assert_eq!(parts[1]["functionCall"]["args"], json!({"INVALID_JSON": "{\"cut"}));
        assert_eq!(parts[2]["functionCall"]["args"], json!({}));
        let raw = String::from_utf8(vendor_model.encode(&life.prompt, &mut life.memo).body.concat().to_vec())
            .unwrap();
        assert!(raw.contains(r#""args":{"a": 1.0}"#), "arguments keep their bytes");
    }
}

#[tokio::test]
async fn an_odd_transcript_is_still_one_that_the_vendor_takes() {
    let vendor_model = wired(Gemini::new("gemini-3-pro", 1_000), "http://localhost");
    let check = |life: &mut Life| check_gemini("gemini-3-pro", &json_of(&vendor_model, life)).unwrap();
    let mut life = Life::new();
    check(&mut life);
    life.foreign_step("begins with the assistant", &[]);
    check(&mut life);
    let short = json_of(&vendor_model, &mut life);
    life.foreign_step("and goes on", &[]);
    check(&mut life);
    extends_gemini(&short, &json_of(&vendor_model, &mut life)).unwrap();
    life.user("   ");
    check(&mut life);
    // Outcomes whose call was cut off the view.
    let mut cut = Life::new();
    cut.wake(1, "[INBOX]", "[WORKSPACE]");
    cut.foreign_step("x", &[("done", "{}")]);
    cut.prompt.items.remove(2);
    check(&mut cut);
    assert!(json_of(&vendor_model, &mut cut).to_string().contains("[outcome of"));
}

#[tokio::test]
async fn a_reply_cut_by_its_limit_says_so_and_can_be_sent_back() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut life = Life::new();
    life.wake(1, "[INBOX]", "[WORKSPACE]");
    stub.push(Answer::new().text("a").call("", "send_message", r#"{"text":"x"}"#, 99).stop("MAX_TOKENS"));
    let (_, mut cut) = life.ask(vendor_model.as_ref()).await.unwrap();
    assert_eq!(cut.stop, StopReason::Length);
    // The runtime may leave the broken call out of the entry; the native block follows.
    cut.parts.pop();
    life.live(&cut);
    life.user("go on");
    stub.push(Answer::new().text("ok"));
    life.step(vendor_model.as_ref()).await;
    assert_eq!(stub.requests()[1].refused, None);
    assert_eq!(kinds(&stub.requests()[1].body["contents"][1]), ["text"]);
}

#[tokio::test]
async fn each_ending_has_its_meaning() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut life = Life::new();
    life.wake(1, "[INBOX]", "[WORKSPACE]");
    for (reason, refused) in [("STOP", false), ("SAFETY", true), ("PROHIBITED_CONTENT", true)] {
        stub.push(Answer::new().text("x").stop(reason));
        let (_, reply) = life.ask(vendor_model.as_ref()).await.unwrap();
        assert_eq!(matches!(reply.stop, StopReason::Refused(_)), refused, "{reason}: {:?}", reply.stop);
    }
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"] {
        stub.push(Answer::new().text("x").stop(reason));
        let error = life.ask(vendor_model.as_ref()).await.unwrap_err();
        assert!(matches!(&error, ModelError::Garbage(text) if text.contains(reason)), "{error:?}");
    }
    stub.push(Answer::payloads(
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":7}}"#,
    ));
    let (_, reply) = life.ask(vendor_model.as_ref()).await.unwrap();
    assert!(matches!(&reply.stop, StopReason::Refused(text) if text.contains("blocked the prompt: SAFETY")));
    assert_eq!((reply.parts.len(), reply.usage.input, reply.native), (0, Some(7), None));
}

#[tokio::test]
async fn an_error_inside_the_stream_ends_it_by_its_class() {
    let stub = stub().await;
    let vendor_model = model_at(MODEL, &stub.url());
    let mut life = Life::new();
    life.wake(1, "[INBOX]", "[WORKSPACE]");
    stub.push(Answer::new().text("half").then_error("UNAVAILABLE", "The model is overloaded."));
    let error = life.ask(vendor_model.as_ref()).await.unwrap_err();
    assert!(matches!(&error, ModelError::Overloaded { .. }), "{error:?}");
    stub.push(Answer::payloads(r#"{"candidates":[{"content":{"parts":[{"functionCall":{}}]}}]}"#));
    assert!(matches!(life.ask(vendor_model.as_ref()).await.unwrap_err(), ModelError::Garbage(_)));
}

#[tokio::test]
async fn choice_thinking_and_temperature_are_said_in_the_vendors_words() {
    let stub = stub().await;
    let ask = async |reasoning: Option<Reasoning>, choice: ToolChoice| {
        let config = ModelConfig {
            base_url: Some(stub.url()),
            temperature: Some(0.5),
            max_output: Some(900),
            reasoning,
            ..ModelConfig::named(MODEL)
        };
        let mut life = Life::new();
        life.wake(1, "[INBOX]", "[WORKSPACE]");
        life.prompt.choice = choice;
        stub.push(Answer::new().text("ok"));
        life.step(vendor_model(config).as_ref()).await;
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
    let mut life = Life::new();
    life.wake(1, "[INBOX]", "[WORKSPACE]");
    let mut said = reply(vec![ReplyPart::Text("mine".into())]);
    said.native = Some(agent::message::Native {
        origin: Gemini::new("gemini-4-argon", 9).origin,
        body: json!([{"text": "theirs", "thoughtSignature": "x"}]).to_string(),
        call_ids: Vec::new(),
    });
    life.live(&said);
    let text = |model: &str| {
        json_of(
            &wired(Gemini::new(model, 9), "http://localhost"),
            &mut Life { prompt: life.prompt.clone(), ..Life::new() },
        )
    };
    assert!(text("gemini-4-argon").to_string().contains("theirs"));
    assert!(!text("gemini-4-carbon").to_string().contains("theirs"));
}
