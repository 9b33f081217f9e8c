//! A model on loopback that speaks chat completions: streams what [`crate::mind`] decides, in
//! pieces, sometimes slowly, and sometimes breaks off once. It outlives every life of the binary.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::mind::{self, Thought};
use crate::{Result, Trouble};

/// One in so many inboxes gets a stream that breaks off at its first attempt.
const CUT_ONE_IN: u64 = 32;
/// One in so many gets a slow one.
const SLOW_ONE_IN: u64 = 3;
/// Characters of arguments in one piece.
const PIECE: usize = 24;

/// What happened at the stub.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Requests.
    pub requests: u64,
    /// Streams that were broken off on purpose.
    pub cut: u64,
    /// Requests that no agent should ever make, with the reason.
    pub wrong: Vec<String>,
}

#[derive(Debug, Default)]
struct Shared {
    heard: Mutex<Heard>,
    /// Hashes that were broken off once.
    broken: Mutex<HashSet<u64>>,
}

/// A running stub. Dropping it stops it.
#[derive(Debug)]
pub struct Stub {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Stub {
    /// On a free loopback port.
    pub async fn start() -> Result<Self> {
        let trouble =
            |error: std::io::Error| Trouble::new(format!("no loopback port for the model: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(trouble)?;
        let url = format!("http://{}/v1", listener.local_addr().map_err(trouble)?);
        let shared = Arc::new(Shared::default());
        let router =
            Router::new().route("/v1/chat/completions", post(answer)).with_state(Arc::clone(&shared));
        // Prompts of a whole window are larger than the framework's usual bound.
        let router = router.layer(axum::extract::DefaultBodyLimit::disable());
        let task = tokio::spawn(async move {
            // Ends with the stub; an error before that shows as refused connections.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, shared, task })
    }

    /// The base URL to give to the binary.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What happened so far.
    pub fn heard(&self) -> Heard {
        lock(&self.shared.heard).clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    lock(&shared.heard).requests += 1;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let thought = match mind::decide(messages) {
        Ok(thought) => thought,
        Err(why) => {
            lock(&shared.heard).wrong.push(why.clone());
            let error = json!({"error": {"type": "invalid_request_error", "message": why}});
            return (StatusCode::BAD_REQUEST, axum::Json(error)).into_response();
        }
    };
    let mut frames = frames(&thought);
    let dice = thought.hash >> 40;
    if dice.is_multiple_of(CUT_ONE_IN) && lock(&shared.broken).insert(thought.hash) {
        lock(&shared.heard).cut += 1;
        frames.truncate(frames.len() / 2);
    }
    let pause =
        Duration::from_millis(if (dice >> 4).is_multiple_of(SLOW_ONE_IN) { 1 + (dice >> 8) % 4 } else { 0 });
    let frames = stream::unfold(frames.into_iter(), move |mut frames| async move {
        let frame = frames.next()?;
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            // A model takes its time; without it hardly a kill would hit a generation.
            tokio::time::sleep(pause).await;
        }
        Some((Ok::<_, Infallible>(Bytes::from(frame)), frames))
    });
    ([("content-type", "text/event-stream")], Body::from_stream(frames)).into_response()
}

/// The stream, piece by piece.
fn frames(thought: &Thought) -> Vec<String> {
    let mut frames = Vec::new();
    let mut push = |choices: Value, usage: Value| {
        let chunk = json!({"id": format!("chatcmpl-{:x}", thought.hash), "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": choices, "usage": usage});
        frames.push(format!("data: {chunk}\n\n"));
    };
    let delta = |delta: Value| json!([{"index": 0, "delta": delta, "finish_reason": null}]);
    push(delta(json!({"role": "assistant", "content": null})), Value::Null);
    for word in thought.text.iter().flat_map(|text| text.split_inclusive(' ')) {
        push(delta(json!({"content": word})), Value::Null);
    }
    for (index, (name, arguments)) in thought.calls.iter().enumerate() {
        let id = format!("call_{:x}_{index}", thought.hash);
        push(
            delta(
                json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}),
            ),
            Value::Null,
        );
        let arguments: Vec<char> = arguments.to_string().chars().collect();
        for piece in arguments.chunks(PIECE) {
            let piece: String = piece.iter().collect();
            push(
                delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})),
                Value::Null,
            );
        }
    }
    let reason = if thought.calls.is_empty() { "stop" } else { "tool_calls" };
    push(json!([{"index": 0, "delta": {}, "finish_reason": reason}]), Value::Null);
    push(json!([]), json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}));
    frames.push("data: [DONE]\n\n".to_owned());
    frames
}
