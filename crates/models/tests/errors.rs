//! What goes wrong on the way: statuses, waits, silence, and what operators are told.

use std::sync::Arc;
use std::time::Duration;

use agent::config::ModelTimeouts;
use agent::port::{Memo, ModelError, ModelRequest, Piece};
use futures_util::StreamExt as _;
use serde_json::Value;
use testkit::stubs::{Answer, Stub, Vendor, bytes_of};
use tokio::sync::Semaphore;

use crate::support::{Life, collect, model_at};

const ALL: [(Vendor, &str); 4] = [
    (Vendor::OpenAi, "openai/gpt-5"),
    (Vendor::Anthropic, "anthropic/claude-fable-5-2"),
    (Vendor::Gemini, "google/gemini-3-pro-preview"),
    (Vendor::Responses, "openai-responses/gpt-5"),
];

async fn fails(vendor: Vendor, name: &str, answer: Answer) -> ModelError {
    let stub = Stub::start(vendor).await;
    stub.push(answer);
    let mut life = Life::new();
    life.wake(1, "[INBOX]", "[WORKSPACE]");
    life.ask(model_at(name, &stub.url()).as_ref()).await.unwrap_err()
}

#[tokio::test]
async fn a_status_is_told_by_what_to_do_next() {
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
async fn a_key_that_a_vendor_echoes_is_told_to_nobody() {
    for (vendor, name) in ALL {
        let echo = r#"{"error":{"message":"wrong key sk-canary-0123456789","type":"x"}}"#;
        for answer in [Answer::status(401, echo), Answer::payloads(echo)] {
            let error = fails(vendor, name, answer).await;
            assert!(!format!("{error:?} {error}").contains("canary"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_garbage_or_the_error_it_holds() {
    for (vendor, name) in ALL {
        let page = Answer::status(200, "<html>gateway").header("content-type", "text/html");
        let error = fails(vendor, name, page).await;
        assert!(matches!(&error, ModelError::NoModel(why) if why.contains("no model server")), "{error}");
        let error = Answer::status(200, r#"{"error":{"code":429,"message":"x"}}"#)
            .header("content-type", "application/json");
        assert!(matches!(fails(vendor, name, error).await, ModelError::RateLimited { .. }));
        let noise = Answer::raw("data: not json\n\n");
        assert!(matches!(fails(vendor, name, noise).await, ModelError::Garbage(_)));
        assert!(matches!(fails(vendor, name, Answer::raw("")).await, ModelError::Cut(_)));
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_the_surroundings_however_it_labels_its_answer() {
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
async fn chunks_of_an_older_shape_are_the_surroundings_and_not_half_understood() {
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
async fn chunks_that_say_the_same_in_both_shapes_are_understood() {
    let stub = Stub::start(Vendor::OpenAi).await;
    let both = r#"{"delta":{"role":"assistant","content":"hi","function_call":null,"tool_calls":[]},"message":{"content":"hi"},"text":null}"#;
    let last = r#"{"message":{"content":"hi"},"finish_reason":"stop"}"#;
    let lines = [both, last].map(|choice| format!(r#"{{"id":"c","choices":[{choice}]}}"#)).join("\n");
    stub.push(Answer::payloads(&lines));
    let mut life = Life::new();
    life.wake(1, "[INBOX]", "[WORKSPACE]");
    let (_, reply) = life.ask(model_at("openai/gpt-5", &stub.url()).as_ref()).await.unwrap();
    assert_eq!(reply.parts, [agent::port::ReplyPart::Text("hi".into())]);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_network_failure_with_its_address() {
    let stub = Stub::start(Vendor::OpenAi).await;
    let url = stub.url().replace("http://", "http://user:secret@");
    drop(stub);
    let mut life = Life::new();
    life.wake(1, "[INBOX]", "[WORKSPACE]");
    // The port is free again as soon as the task is gone; until then a connection is reset.
    let error = life.ask(model_at("openai/gpt-5", &url).as_ref()).await.unwrap_err();
    let ModelError::Network(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("127.0.0.1") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn bytes_that_show_nothing_are_signs_of_life() {
    let stub = Stub::start(Vendor::Anthropic).await;
    let permits = Arc::new(Semaphore::new(0));
    stub.push(Answer::new().text("hi").chunked(16).paced(Arc::clone(&permits)));
    let mut life = Life::new();
    life.wake(1, "[INBOX]", "[WORKSPACE]");
    let vendor_model = model_at("anthropic/claude-fable-5-2", &stub.url());
    let (mut memo, timeouts) = (Memo::default(), ModelTimeouts::default());
    let mut stream =
        vendor_model.stream(ModelRequest { prompt: &life.prompt, memo: &mut memo, timeouts: &timeouts });
    permits.add_permits(1);
    assert_eq!(stream.next().await.unwrap().unwrap(), Piece::Alive);
    permits.add_permits(1);
    assert_eq!(stream.next().await.unwrap().unwrap(), Piece::Alive);
    permits.close();
    let rest: Vec<_> = stream.collect().await;
    assert!(matches!(rest.last(), Some(Ok(Piece::Done(_)))));
}

/// What the vendor would send, without its closing mark.
fn unclosed(vendor: Vendor) -> Vec<u8> {
    let answer = Answer::new().text("whole").call("c1", "done", "{}", 1).usage(9, 0, 4);
    let text = String::from_utf8(bytes_of(vendor, &answer, &Value::Null)).unwrap();
    let end = ["data: [DONE]", "event: message_stop"].iter().find_map(|mark| text.find(mark));
    text[..end.unwrap_or(text.len())].into()
}

#[tokio::test]
async fn a_finished_reply_counts_though_the_connection_stays_open() {
    for (vendor, name) in ALL {
        let stub = Stub::start(vendor).await;
        stub.push(Answer::raw(unclosed(vendor)).hangs());
        let mut life = Life::new();
        life.wake(1, "[INBOX]", "[WORKSPACE]");
        let timeouts = ModelTimeouts { idle: 100, ..ModelTimeouts::default() };
        let request = ModelRequest { prompt: &life.prompt, memo: &mut life.memo, timeouts: &timeouts };
        let heard = tokio::time::timeout(
            Duration::from_secs(20),
            collect(model_at(name, &stub.url()).stream(request)),
        );
        let (_, reply) = heard.await.unwrap_or_else(|_| panic!("{name} is waited for for ever")).unwrap();
        assert_eq!((reply.parts.len(), reply.usage.output), (2, Some(4)), "{name}");
        stub.hung_up().await;
    }
}

#[tokio::test]
async fn dropping_the_stream_drops_the_connection() {
    for (vendor, name) in ALL {
        let stub = Stub::start(vendor).await;
        stub.push(Answer::new().text("half").hangs());
        let mut life = Life::new();
        life.wake(1, "[INBOX]", "[WORKSPACE]");
        let vendor_model = model_at(name, &stub.url());
        let timeouts = ModelTimeouts::default();
        let mut stream = vendor_model.stream(ModelRequest {
            prompt: &life.prompt,
            memo: &mut life.memo,
            timeouts: &timeouts,
        });
        while !matches!(stream.next().await.unwrap().unwrap(), Piece::Delta { .. }) {}
        drop(stream);
        stub.hung_up().await;
    }
}
