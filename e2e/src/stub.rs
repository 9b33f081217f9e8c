//! A stub of a model on loopback with the chat-completions API. It streams the replies of [`crate::replies`] in pieces,
//! sometimes slowly, and sometimes fails once. It survives every kill of the binary, and checks every request against
//! the rules of the API.

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

use crate::counted::counted;
use crate::replies::{self, PlannedReply};
use crate::{HarnessError, Result, inbox};

/// One in so many replies is cut off at the first attempt.
const CUT_ONE_IN: u64 = 32;
/// One in so many replies is streamed slowly.
const SLOW_ONE_IN: u64 = 3;
/// One in so many requests is rate-limited at the first attempt.
const FAIL_ONE_IN: u64 = 64;
/// One in so many replies has the same id for all its calls.
const SAME_ID_ONE_IN: u64 = 8;
/// Characters of arguments in one piece.
const PIECE_CHARS: usize = 24;

/// The counts of the stub.
#[derive(Clone, Debug, Default)]
pub struct StubCounts {
    /// Requests.
    pub requests: u64,
    /// Streams that were cut off on purpose.
    pub cut: u64,
    /// Requests that were rejected on purpose.
    pub failed: u64,
    /// Errors of requests that should never be made.
    pub errors: Vec<String>,
}

/// How requests fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFailure {
    /// 503 with a longer `retry-after` than an activation waits for. Only after the first step, so that there is
    /// a cycle to park.
    Overloaded,
    /// 429 with a `retry-after` of one second.
    RateLimited,
    /// The history is too long for the model. Only for a history that can be cut, after the first step: before
    /// that, a cut is not written.
    TooLong,
}

/// A `retry-after` in seconds that is longer than an activation waits for.
const LONG_RETRY_S: u64 = agent::limits::BACKOFF_MAX_MS / 1_000 + 1;
/// The smallest number of inboxes in a history that can be cut.
const CUTTABLE_INBOXES: usize = 4;

#[derive(Debug, Default)]
struct StubState {
    counts: Mutex<StubCounts>,
    /// How requests fail, and whether only the next one does.
    failure: Mutex<Option<(ModelFailure, bool)>>,
    /// Hashes of replies that have failed once.
    failed_once: Mutex<HashSet<u64>>,
}

/// A running stub. Dropping it stops it.
#[derive(Debug)]
pub struct ModelServer {
    url: String,
    shared: Arc<StubState>,
    task: JoinHandle<()>,
}

impl ModelServer {
    /// Starts a stub on a free loopback port.
    pub async fn start() -> Result<Self> {
        let error_of =
            |error: std::io::Error| HarnessError::new(format!("no loopback port for the model: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(error_of)?;
        let url = format!("http://{}/v1", listener.local_addr().map_err(error_of)?);
        let shared = Arc::new(StubState::default());
        let router =
            Router::new().route("/v1/chat/completions", post(respond)).with_state(Arc::clone(&shared));
        // A prompt that fills the window is larger than axum's default limit.
        let router = router.layer(axum::extract::DefaultBodyLimit::disable());
        let task = tokio::spawn(async move {
            // Runs as long as the stub; an earlier error appears as refused connections.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, shared, task })
    }

    /// The base URL for the binary.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes requests fail, only the next one if `once`. `None` ends it.
    pub fn fail(&self, failure: Option<ModelFailure>, once: bool) {
        *lock(&self.shared.failure) = failure.map(|failure| (failure, once));
    }

    /// The counts so far.
    pub fn counts(&self) -> StubCounts {
        lock(&self.shared.counts).clone()
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

async fn respond(State(shared): State<Arc<StubState>>, body: Bytes) -> Response {
    lock(&shared.counts).requests += 1;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let offered = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = offered.iter().filter_map(|tool| tool["function"]["name"].as_str());
    let counted: Vec<&str> = names.filter(|name| counted(name).is_some()).collect();
    let valid = check_openai(&request).map_err(|why| format!("which violates the API: {why}"));
    let planned = |()| match offered {
        [] => Ok(replies::summary(messages)),
        _ => replies::decide(messages, &counted),
    };
    let reply = match valid.and_then(planned) {
        Ok(reply) => reply,
        Err(why) => {
            lock(&shared.counts).errors.push(why.clone());
            let error = json!({"error": {"type": "invalid_request_error", "message": why}});
            return (StatusCode::BAD_REQUEST, axum::Json(error)).into_response();
        }
    };
    let rng = reply.hash >> 40;
    let texts = messages.iter().filter_map(|message| message["content"].as_str());
    let inboxes = texts.filter(|text| inbox::is_inbox(text)).count();
    let fits = |failure| match failure {
        ModelFailure::Overloaded => reply.step > 0,
        ModelFailure::TooLong => inboxes >= CUTTABLE_INBOXES && reply.step > 0,
        ModelFailure::RateLimited => true,
    };
    if let Some(failure) = shared.failure(rng, reply.hash, fits) {
        lock(&shared.counts).failed += 1;
        return failure_response(failure);
    }
    let mut frames = frames(&reply);
    if rng.is_multiple_of(CUT_ONE_IN) && lock(&shared.failed_once).insert(reply.hash) {
        lock(&shared.counts).cut += 1;
        frames.truncate(frames.len() / 2);
    }
    let pause =
        Duration::from_millis(if (rng >> 4).is_multiple_of(SLOW_ONE_IN) { 1 + (rng >> 8) % 4 } else { 0 });
    let frames = stream::unfold(frames.into_iter(), move |mut frames| async move {
        let frame = frames.next()?;
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            // Without pauses hardly any kill would hit a generation.
            tokio::time::sleep(pause).await;
        }
        Some((Ok::<_, Infallible>(Bytes::from(frame)), frames))
    });
    ([("content-type", "text/event-stream")], Body::from_stream(frames)).into_response()
}

impl StubState {
    /// How this request fails, if it does: as set by the harness, else at random and only once.
    fn failure(&self, rng: u64, hash: u64, fits: impl Fn(ModelFailure) -> bool) -> Option<ModelFailure> {
        let mut wanted = lock(&self.failure);
        if let Some((failure, once)) = wanted.filter(|(failure, _)| fits(*failure)) {
            if once {
                *wanted = None;
            }
            return Some(failure);
        }
        // At random only failures that do not count as attempts: each death counts as one already, and after so many
        // attempts an agent would back off for minutes.
        let limited = rng % FAIL_ONE_IN == 1 && lock(&self.failed_once).insert(hash);
        limited.then_some(ModelFailure::RateLimited)
    }
}

fn failure_response(failure: ModelFailure) -> Response {
    let (status, kind, code, after) = match failure {
        ModelFailure::Overloaded => {
            (StatusCode::SERVICE_UNAVAILABLE, "server_error", None, Some(LONG_RETRY_S))
        }
        ModelFailure::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", None, Some(1)),
        ModelFailure::TooLong => {
            (StatusCode::BAD_REQUEST, "invalid_request_error", Some("context_length_exceeded"), None)
        }
    };
    let message = format!("{failure:?}, on purpose");
    let body = axum::Json(json!({"error": {"type": kind, "code": code, "message": message}}));
    match after {
        Some(after) => (status, [("retry-after", after.to_string())], body).into_response(),
        None => (status, body).into_response(),
    }
}

/// The frames of the streamed reply.
fn frames(reply: &PlannedReply) -> Vec<String> {
    let mut frames = Vec::new();
    let mut push = |choices: Value, usage: Value| {
        let chunk = json!({"id": format!("chatcmpl-{:x}", reply.hash), "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": choices, "usage": usage});
        frames.push(format!("data: {chunk}\n\n"));
    };
    let delta = |delta: Value| json!([{"index": 0, "delta": delta, "finish_reason": null}]);
    push(delta(json!({"role": "assistant", "content": null})), Value::Null);
    for word in reply.text.iter().flat_map(|text| text.split_inclusive(' ')) {
        push(delta(json!({"content": word})), Value::Null);
    }
    for (index, (name, arguments)) in reply.calls.iter().enumerate() {
        // The model chooses the ids of calls, and some models use the same id twice.
        let same = (reply.hash >> 52).is_multiple_of(SAME_ID_ONE_IN);
        let id = format!("call_{:x}_{}", reply.hash, if same { 0 } else { index });
        push(
            delta(
                json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}),
            ),
            Value::Null,
        );
        let arguments: Vec<char> = arguments.to_string().chars().collect();
        for piece in arguments.chunks(PIECE_CHARS) {
            let piece: String = piece.iter().collect();
            push(
                delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})),
                Value::Null,
            );
        }
    }
    let reason = if reply.calls.is_empty() { "stop" } else { "tool_calls" };
    push(json!([{"index": 0, "delta": {}, "finish_reason": reason}]), Value::Null);
    push(json!([]), json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}));
    frames.push("data: [DONE]\n\n".to_owned());
    frames
}
