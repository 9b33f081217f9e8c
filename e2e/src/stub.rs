//! A model on loopback that speaks chat completions: streams what [`crate::mind`] decides, in
//! pieces, sometimes slowly, and sometimes fails once. It outlives every life of the binary, and holds
//! every request against the rules of its wire.

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
use testkit::stubs::rules::check_openai;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::mind::{self, PlannedReply};
use crate::{Result, Trouble, inbox};

/// One in so many inboxes gets a stream that breaks off at its first attempt.
const CUT_ONE_IN: u64 = 32;
/// One in so many gets a slow one.
const SLOW_ONE_IN: u64 = 3;
/// One in so many gets each other failure at its first attempt.
const FAIL_ONE_IN: u64 = 64;
/// One in so many answers gives all its calls one id.
const SAME_ID_ONE_IN: u64 = 8;
/// Characters of arguments in one piece.
const PIECE: usize = 24;

/// What happened at the stub.
#[derive(Clone, Debug, Default)]
pub struct ReceivedRequest {
    /// Requests.
    pub requests: u64,
    /// Streams that were broken off on purpose.
    pub cut: u64,
    /// Requests that were refused on purpose.
    pub failed: u64,
    /// Requests that no agent should ever make, with the reason.
    pub wrong: Vec<String>,
}

/// How all requests of a life fail, until the stub is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// 503, come again later than an activation waits for: only behind a decision, so that there is a cycle to
    /// park.
    Overloaded,
    /// 429, come again in a second.
    RateLimited,
    /// The history is too long for the model: only of a history that can be cut, in the middle of a cycle.
    /// Before anything is processed a cut is not written.
    TooLong,
}

/// Seconds that no activation sits out: it parks.
const TOO_LATE_S: u64 = agent::limits::BACKOFF_MAX_MS / 1_000 + 1;
/// Inboxes in a history that can be cut.
const LONG: usize = 4;

#[derive(Debug, Default)]
struct StubState {
    heard: Mutex<ReceivedRequest>,
    /// How requests fail: all of them, or only the next one.
    mishap: Mutex<Option<(Mishap, bool)>>,
    /// Hashes that were broken off once.
    broken: Mutex<HashSet<u64>>,
}

/// A running stub. Dropping it stops it.
#[derive(Debug)]
pub struct ModelServer {
    url: String,
    shared: Arc<StubState>,
    task: JoinHandle<()>,
}

impl ModelServer {
    /// On a free loopback port.
    pub async fn start() -> Result<Self> {
        let trouble =
            |error: std::io::Error| Trouble::new(format!("no loopback port for the model: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(trouble)?;
        let url = format!("http://{}/v1", listener.local_addr().map_err(trouble)?);
        let shared = Arc::new(StubState::default());
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

    /// Lets requests fail: all of them, or the next one only. `None` ends it.
    pub fn fail(&self, mishap: Option<Mishap>, once: bool) {
        *lock(&self.shared.mishap) = mishap.map(|mishap| (mishap, once));
    }

    /// What happened so far.
    pub fn heard(&self) -> ReceivedRequest {
        lock(&self.shared.heard).clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(State(shared): State<Arc<StubState>>, body: Bytes) -> Response {
    lock(&shared.heard).requests += 1;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let offered = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let counted = offered.iter().any(|tool| tool["function"]["name"] == "count_unsafe");
    let lawful = check_openai(&request).map_err(|why| format!("what its wire refuses: {why}"));
    let thought = match lawful.and_then(|()| mind::decide(messages, counted)) {
        Ok(thought) => thought,
        Err(why) => {
            lock(&shared.heard).wrong.push(why.clone());
            let error = json!({"error": {"type": "invalid_request_error", "message": why}});
            return (StatusCode::BAD_REQUEST, axum::Json(error)).into_response();
        }
    };
    let dice = thought.hash >> 40;
    let texts = messages.iter().filter_map(|message| message["content"].as_str());
    let inboxes = texts.filter(|text| inbox::is_inbox(text)).count();
    let fits = |mishap| match mishap {
        Mishap::Overloaded => thought.step > 0,
        Mishap::TooLong => inboxes >= LONG && thought.step > 0,
        Mishap::RateLimited => true,
    };
    if let Some(mishap) = shared.mishap(dice, thought.hash, fits) {
        lock(&shared.heard).failed += 1;
        return refusal(mishap);
    }
    let mut frames = frames(&thought);
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

impl StubState {
    /// How this request fails, if it does: as the harness wants it, else once by chance.
    fn mishap(&self, dice: u64, hash: u64, fits: impl Fn(Mishap) -> bool) -> Option<Mishap> {
        let mut wanted = lock(&self.mishap);
        if let Some((mishap, once)) = wanted.filter(|(mishap, _)| fits(*mishap)) {
            if once {
                *wanted = None;
            }
            return Some(mishap);
        }
        // What the content is blamed for is left to the harness: each death counts as an attempt at it,
        // and after so many attempts as here an agent would rest for minutes.
        let limited = dice % FAIL_ONE_IN == 1 && lock(&self.broken).insert(hash);
        limited.then_some(Mishap::RateLimited)
    }
}

fn refusal(mishap: Mishap) -> Response {
    let (status, kind, code, after) = match mishap {
        Mishap::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "server_error", None, Some(TOO_LATE_S)),
        Mishap::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", None, Some(1)),
        Mishap::TooLong => {
            (StatusCode::BAD_REQUEST, "invalid_request_error", Some("context_length_exceeded"), None)
        }
    };
    let message = format!("{mishap:?}, on purpose");
    let body = axum::Json(json!({"error": {"type": kind, "code": code, "message": message}}));
    match after {
        Some(after) => (status, [("retry-after", after.to_string())], body).into_response(),
        None => (status, body).into_response(),
    }
}

/// The stream, piece by piece.
fn frames(thought: &PlannedReply) -> Vec<String> {
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
        // Ids of calls are the model's word, and some models give the same twice.
        let same = (thought.hash >> 52).is_multiple_of(SAME_ID_ONE_IN);
        let id = format!("call_{:x}_{}", thought.hash, if same { 0 } else { index });
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
