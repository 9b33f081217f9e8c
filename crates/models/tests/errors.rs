//! Failures of requests: statuses, time-outs, broken streams, and their messages.

use std::sync::Arc;
use std::time::Duration;

use agent::config::ModelTimeouts;
use agent::port::{Memo, ModelError, ModelRequest, Piece};
use futures_util::StreamExt as _;
use serde_json::Value;
use testkit::stubs::{Answer, Stub, Vendor, bytes_of};
use tokio::sync::Semaphore;

use crate::support::{Conversation, collect, model_at};

const ALL: [(Vendor, &str); 4] = [
    (Vendor::OpenAi, "openai/gpt-5"),
    (Vendor::Anthropic, "anthropic/claude-fable-5-2"),
    (Vendor::Gemini, "google/gemini-3-pro-preview"),
    (Vendor::Responses, "openai-responses/gpt-5"),
];

async fn fails(vendor: Vendor, name: &str, answer: Answer) -> ModelError {
    let stub = Stub::start(vendor).await;
    stub.push(answer);
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    conversation.ask(model_at(name, &stub.url()).as_ref()).await.unwrap_err()
}

#[tokio::test]
async fn a_status_is_mapped_to_its_error_class() {
    for (vendor, name) in ALL {
        let error = fails(vendor, name, Answer::status(429, "{}").header("retry-after", "7")).await;
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)), "{error:?}");
        assert!(matches!(error, ModelError::RateLimited { .. }));
        let info = r#"{"error":{"code":429,"message":"x","details":[{"retryDelay":"9s"}]}}"#;
        let error = fails(vendor, name, Answer::status(429, info)).await;
        assert_eq!(error.retry_after(), Some(Duration::from_secs(9)), "{error:?}");
        let error = fails(vendor, name, Answer::status(401, r#"{"error":{"message":"no key"}}"#)).await;
        assert_eq!(error, ModelError::Auth("HTTP 401: no key".into()));
        let error = fails(vendor, name, Answer::status(400, r#"{"error":{"message":"bad"}}"#)).await;
        assert_eq!(error, ModelError::Invalid("HTTP 400: bad".into()));
        let error = fails(vendor, name, Answer::status(529, "busy")).await;
        assert!(matches!(error, ModelError::Overloaded { .. }), "{error:?}");
        let error = fails(vendor, name, Answer::status(404, "{}")).await;
        assert!(matches!(error, ModelError::NoModel(_)), "{error:?}");
        let moved = Answer::status(302, "").header("location", "http://127.0.0.1:1/");
        assert!(
            matches!(fails(vendor, name, moved).await, ModelError::NoModel(_)),
            "redirects are not followed"
        );
    }
}

#[tokio::test]
async fn a_key_that_a_vendor_echoes_is_redacted() {
    for (vendor, name) in ALL {
        let echo = r#"{"error":{"message":"wrong key sk-canary-0123456789","type":"x"}}"#;
        for answer in [Answer::status(401, echo), Answer::payloads(echo)] {
            let error = fails(vendor, name, answer).await;
            assert!(!format!("{error:?} {error}").contains("canary"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_a_stream_is_garbage_or_the_error_in_it() {
    for (vendor, name) in ALL {
        let page = Answer::status(200, "<html>gateway").header("content-type", "text/html");
        let error = fails(vendor, name, page).await;
        assert!(matches!(&error, ModelError::NoModel(why) if why.contains("not a model server")), "{error}");
        let error = Answer::status(200, r#"{"error":{"code":429,"message":"x"}}"#)
            .header("content-type", "application/json");
        assert!(matches!(fails(vendor, name, error).await, ModelError::RateLimited { .. }));
        let noise = Answer::raw("data: not json\n\n");
        assert!(matches!(fails(vendor, name, noise).await, ModelError::Garbage(_)));
        assert!(matches!(fails(vendor, name, Answer::raw("")).await, ModelError::Cut(_)));
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_unsupported_with_any_content_type() {
    let replies = [
        r#"{"object":"chat.completion","choices":[{"message":{"content":"hi"}}],"error":null}"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}]}"#,
        r#"[{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}]"#,
        r#"{"object":"response","status":"completed","output":[],"error":null}"#,
    ];
    for ((vendor, name), reply) in ALL.into_iter().zip(replies) {
        for label in ["application/json", "text/plain", "text/event-stream"] {
            let error = fails(vendor, name, Answer::status(200, reply).header("content-type", label)).await;
            assert!(
                matches!(&error, ModelError::Unsupported(why) if why.contains("does not stream")),
                "{name} {label}: {error:?}"
            );
            let cut = Answer::status(200, reply).header("content-type", label).cut_at(20);
            let error = fails(vendor, name, cut).await;
            assert!(!matches!(error, ModelError::Unsupported(_)), "{name} {label}: {error:?}");
        }
        let lines = "{\"model\":\"m\",\"done\":false}\n{\"model\":\"m\",\"done\":true}\n";
        let error = fails(vendor, name, Answer::raw(lines)).await;
        assert!(matches!(error, ModelError::Unsupported(_)), "{name}: {error:?}");
    }
}

#[tokio::test]
async fn chunks_of_an_older_format_are_unsupported() {
    for choice in [
        r#"{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}"#,
        r#"{"text":"hi","finish_reason":"stop"}"#,
        r#"{"delta":{"function_call":{"name":"done","arguments":"{}"}}}"#,
    ] {
        let chunk = format!(r#"{{"id":"c","choices":[{choice}]}}"#);
        let error = fails(Vendor::OpenAi, "openai/gpt-5", Answer::payloads(&chunk)).await;
        assert!(matches!(error, ModelError::Unsupported(_)), "{choice}: {error:?}");
    }
}

#[tokio::test]
async fn chunks_in_both_the_old_and_the_new_format_are_accepted() {
    let stub = Stub::start(Vendor::OpenAi).await;
    let both = r#"{"delta":{"role":"assistant","content":"hi","function_call":null,"tool_calls":[]},"message":{"content":"hi"},"text":null}"#;
    let last = r#"{"message":{"content":"hi"},"finish_reason":"stop"}"#;
    let lines = [both, last].map(|choice| format!(r#"{{"id":"c","choices":[{choice}]}}"#)).join("\n");
    stub.push(Answer::payloads(&lines));
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let (_, reply) = conversation.ask(model_at("openai/gpt-5", &stub.url()).as_ref()).await.unwrap();
    assert_eq!(reply.parts, [agent::port::ReplyPart::Text("hi".into())]);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_a_network_failure_with_its_address() {
    let stub = Stub::start(Vendor::OpenAi).await;
    let url = stub.url().replace("http://", "http://user:secret@");
    drop(stub);
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    // The port is closed once the stub's task has ended; until then a connection is reset.
    let error = conversation.ask(model_at("openai/gpt-5", &url).as_ref()).await.unwrap_err();
    let ModelError::Network(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("127.0.0.1") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn bytes_without_a_visible_piece_count_as_alive() {
    let stub = Stub::start(Vendor::Anthropic).await;
    let permits = Arc::new(Semaphore::new(0));
    stub.push(Answer::new().text("hi").chunked(16).paced(Arc::clone(&permits)));
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    let vendor_model = model_at("anthropic/claude-fable-5-2", &stub.url());
    let (mut memo, timeouts) = (Memo::default(), ModelTimeouts::default());
    let mut stream = vendor_model.stream(ModelRequest {
        prompt: &conversation.prompt,
        memo: &mut memo,
        timeouts: &timeouts,
    });
    permits.add_permits(1);
    assert_eq!(stream.next().await.unwrap().unwrap(), Piece::Alive);
    permits.add_permits(1);
    assert_eq!(stream.next().await.unwrap().unwrap(), Piece::Alive);
    permits.close();
    let rest: Vec<_> = stream.collect().await;
    assert!(matches!(rest.last(), Some(Ok(Piece::Done(_)))));
}

/// A vendor's stream without its closing mark.
fn unclosed(vendor: Vendor) -> Vec<u8> {
    let answer = Answer::new().text("whole").call("c1", "done", "{}", 1).usage(9, 0, 4);
    let text = String::from_utf8(bytes_of(vendor, &answer, &Value::Null)).unwrap();
    let end = ["data: [DONE]", "event: message_stop"].iter().find_map(|mark| text.find(mark));
    text[..end.unwrap_or(text.len())].into()
}

#[tokio::test]
async fn a_finished_reply_is_returned_although_the_connection_stays_open() {
    for (vendor, name) in ALL {
        let stub = Stub::start(vendor).await;
        stub.push(Answer::raw(unclosed(vendor)).hangs());
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        let timeouts = ModelTimeouts { idle: 100, ..ModelTimeouts::default() };
        let request =
            ModelRequest { prompt: &conversation.prompt, memo: &mut conversation.memo, timeouts: &timeouts };
        let received = tokio::time::timeout(
            Duration::from_secs(20),
            collect(model_at(name, &stub.url()).stream(request)),
        );
        let (_, reply) = received.await.unwrap_or_else(|_| panic!("{name}: no reply arrived")).unwrap();
        assert_eq!((reply.parts.len(), reply.usage.output), (2, Some(4)), "{name}");
        stub.hung_up().await;
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    for (vendor, name) in ALL {
        let stub = Stub::start(vendor).await;
        stub.push(Answer::new().text("half").hangs());
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        let vendor_model = model_at(name, &stub.url());
        let timeouts = ModelTimeouts::default();
        let mut stream = vendor_model.stream(ModelRequest {
            prompt: &conversation.prompt,
            memo: &mut conversation.memo,
            timeouts: &timeouts,
        });
        while !matches!(stream.next().await.unwrap().unwrap(), Piece::Delta { .. }) {}
        drop(stream);
        stub.hung_up().await;
    }
}
