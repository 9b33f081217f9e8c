//! Tools offered as a JSON schema of the reply.

use agent::port::ReplyPart;
use agent::prompt::ToolChoice;
use models::model_book::ModelConfig;
use models::wire::openai_chat::ToolMode;
use serde_json::json;
use testkit::stubs::rules::{Demands, extends_openai};
use testkit::stubs::{Answer, ReplyPiece, Stub, Vendor};

use crate::support::{Conversation, vendor_model};

async fn world() -> (Stub, std::sync::Arc<dyn agent::port::Model>) {
    let stub = Stub::start(Vendor::OpenAi).await;
    stub.demand(Some(Demands { alternate: true, ..Demands::default() }));
    let config = ModelConfig {
        base_url: Some(stub.url()),
        tool_mode: Some(ToolMode::JsonSchema),
        ..ModelConfig::named("llamacpp/tiny")
    };
    (stub, vendor_model(config))
}

fn pieces(text: &str) -> Answer {
    let chars: Vec<char> = text.chars().collect();
    Answer::new().say(ReplyPiece::Text(chars.chunks(2).map(|chunk| chunk.iter().collect()).collect()))
}

#[tokio::test]
async fn a_call_is_read_from_the_reply_with_the_bytes_of_its_arguments() {
    let (stub, vendor_model) = world().await;
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    stub.push(
        pieces("{\n \"name\": \"send_message\",\n \"arguments\": {\"text\":  \"hé}\"}\n}").usage(5, 0, 3),
    );
    let reply = conversation.step(vendor_model.as_ref()).await;
    let arguments = "{\"text\":  \"hé}\"}".to_owned();
    assert_eq!(reply.parts, [ReplyPart::Call { name: "send_message".into(), arguments }]);
    assert_eq!(reply.usage.output, Some(3));
    stub.push(pieces("{\"text\": \"I am \\\"done\\\"\"}"));
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!(reply.parts, [ReplyPart::Text("I am \"done\"".into())]);
    stub.push(pieces("plain words"));
    conversation.user("and?");
    let reply = conversation.step(vendor_model.as_ref()).await;
    assert_eq!(reply.parts, [ReplyPart::Text("plain words".into())]);
    let requests = stub.requests();
    for pair in requests.windows(2) {
        extends_openai(&pair[0].body, &pair[1].body).unwrap();
    }
    let sent = &requests[2].body["messages"];
    assert_eq!(
        sent[2]["content"], "{\n \"name\": \"send_message\",\n \"arguments\": {\"text\":  \"hé}\"}\n}",
        "its own words"
    );
    assert_eq!(
        sent[3],
        json!({"role": "user", "content": "[OUTCOME of send_message] {\"ok\":true,\"n\":0}"})
    );
}

#[tokio::test]
async fn tools_are_offered_as_a_schema_and_as_text_but_not_as_native_tools() {
    let (stub, vendor_model) = world().await;
    for (choice, branches) in [(ToolChoice::Auto, 3), (ToolChoice::Required, 2), (ToolChoice::None, 1)] {
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
        conversation.prompt.choice = choice;
        stub.push(pieces("{\"text\":\"x\"}"));
        conversation.step(vendor_model.as_ref()).await;
        let body = stub.requests().last().unwrap().body.clone();
        assert!(body["tools"].is_null() && body["tool_choice"].is_null());
        let schema = &body["response_format"]["json_schema"]["schema"];
        assert_eq!(schema["anyOf"].as_array().unwrap().len(), branches, "{choice:?}");
        if choice != ToolChoice::None {
            assert_eq!(schema["anyOf"][0]["properties"]["name"]["const"], "send_message");
        }
        let system = body["messages"][0]["content"].as_str().unwrap();
        assert!(system.contains("- send_message: Does `send_message`."), "{system}");
    }
}

#[tokio::test]
async fn a_transcript_of_another_model_is_sent_in_the_same_form() {
    let (stub, vendor_model) = world().await;
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    conversation.foreign_step("thinking", &[("send_message", "{\"text\":\"a\"}"), ("done", "{}")]);
    stub.push(pieces("{\"text\":\"x\"}"));
    conversation.step(vendor_model.as_ref()).await;
    let messages = stub.requests()[0].body["messages"].clone();
    assert_eq!(
        messages[2]["content"],
        "{\"text\": \"thinking\"}\n{\"name\": \"send_message\", \"arguments\": {\"text\":\"a\"}}\n{\"name\": \"done\", \"arguments\": {}}"
    );
    assert_eq!(messages[3]["content"].as_str().unwrap().lines().count(), 2);
}

#[tokio::test]
async fn a_call_cut_by_the_limit_keeps_what_arrived() {
    let (stub, vendor_model) = world().await;
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX] hi", "[WORKSPACE]");
    stub.push(pieces("{\"name\": \"send_message\", \"arguments\": {\"text\": \"cut he").stop("length"));
    let (_, reply) = conversation.ask(vendor_model.as_ref()).await.unwrap();
    assert_eq!(reply.stop, agent::port::StopReason::Length);
    let arguments = "{\"text\": \"cut he".to_owned();
    assert_eq!(reply.parts, [ReplyPart::Call { name: "send_message".into(), arguments }]);
}
