//! The server of all stubs: a loopback port, a queue of answers, and a record of the requests.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{Answer, anthropic, gemini, openai, responses, rules};

/// The vendor whose wire format a stub speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Chat completions.
    OpenAi,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini's `streamGenerateContent`.
    Gemini,
    /// OpenAI's Responses.
    Responses,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Path, such as `/v1/messages`.
    pub path: String,
    /// Headers.
    pub headers: HeaderMap,
    /// The bytes of the body.
    pub raw: Bytes,
    /// The body as JSON; null if it is not JSON.
    pub body: Value,
    /// Why the stub refused it, if it did.
    pub refused: Option<String>,
}

impl Recorded {
    /// A header as text; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

#[derive(Debug)]
struct Shared {
    vendor: Vendor,
    demands: Mutex<Option<rules::Demands>>,
    answers: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<Recorded>>,
    /// Number of answers whose body was dropped before its end, because the client hung up.
    hung_up: Mutex<usize>,
    changed: Notify,
}

/// A running stub. Dropping it stops it.
#[derive(Debug)]
pub struct Stub {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stub {
    /// A stub of this vendor on a free loopback port, strict by default.
    ///
    /// # Panics
    /// If no loopback port is free.
    pub async fn start(vendor: Vendor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            vendor,
            demands: Mutex::new(Some(rules::Demands::default())),
            answers: Mutex::default(),
            requests: Mutex::default(),
            hung_up: Mutex::default(),
            changed: Notify::new(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move {
            // The stub aborts the task. Before that, an error shows as refused connections.
            let _ = axum::serve(listener, router).await;
        });
        Self { address, shared, task }
    }

    /// The base URL to give to a client.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Checks requests against these demands instead; `None` accepts everything.
    pub fn demand(&self, demands: Option<rules::Demands>) {
        *lock(&self.shared.demands) = demands;
    }

    /// Queues an answer for the next request.
    pub fn push(&self, answer: Answer) {
        lock(&self.shared.answers).push_back(answer);
    }

    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.shared.requests).clone()
    }

    /// Waits until a client has hung up during an answer.
    pub async fn hung_up(&self) {
        loop {
            let changed = self.shared.changed.notified();
            if *lock(&self.shared.hung_up) > 0 {
                return;
            }
            changed.await;
        }
    }

    /// Waits until this many requests have arrived.
    pub async fn asked(&self, count: usize) {
        loop {
            let changed = self.shared.changed.notified();
            if lock(&self.shared.requests).len() >= count {
                return;
            }
            changed.await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let raw = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&raw).unwrap_or(Value::Null);
    let demands = lock(&shared.demands).clone();
    let path = parts.uri.path().to_owned();
    let refuse = |demands| refusal(shared.vendor, &path, &body, &parts.headers, &demands);
    let refused = demands.and_then(refuse);
    let recorded =
        Recorded { path, headers: parts.headers, raw, body: body.clone(), refused: refused.clone() };
    lock(&shared.requests).push(recorded);
    shared.changed.notify_waiters();
    if let Some(reason) = refused {
        return respond(&shared, error(shared.vendor, "invalid_request_error", &reason), &body);
    }
    let queued = lock(&shared.answers).pop_front();
    let answer = queued.unwrap_or_else(|| error(shared.vendor, "api_error", "the stub has no answer left"));
    respond(&shared, answer, &body)
}

fn refusal(
    vendor: Vendor,
    path: &str,
    body: &Value,
    headers: &HeaderMap,
    demands: &rules::Demands,
) -> Option<String> {
    match vendor {
        Vendor::Responses => rules::check_responses(body).err(),
        Vendor::Gemini => {
            let Some(model) = path.split("/models/").nth(1).and_then(|rest| rest.split(':').next()) else {
                return Some(format!("`{path}` names no model"));
            };
            rules::check_gemini(model, body).err()
        }
        Vendor::OpenAi => rules::check_openai_demands(body, demands).err(),
        Vendor::Anthropic => {
            let beta = headers.get("anthropic-beta").and_then(|value| value.to_str().ok()).unwrap_or("");
            let drops = !body["thinking"]["block_binding"].is_null();
            if drops && !beta.contains("thinking-binding-controls-2026-08-01") {
                return Some("thinking.block_binding: Extra inputs are not permitted".to_owned());
            }
            rules::check_anthropic(body).err()
        }
    }
}

fn error(vendor: Vendor, kind: &str, message: &str) -> Answer {
    let status = if kind == "invalid_request_error" { 400 } else { 500 };
    Answer::status(status, error_body(vendor, kind, message)).header("content-type", "application/json")
}

fn error_body(vendor: Vendor, kind: &str, message: &str) -> String {
    let error = json!({"type": kind, "message": message});
    let body = match vendor {
        Vendor::OpenAi | Vendor::Responses => json!({ "error": error }),
        Vendor::Gemini => rules::gemini_error(&error),
        Vendor::Anthropic => json!({"type": "error", "error": error}),
    };
    body.to_string()
}

/// The status and body with which a stub of this vendor refuses a request, for tests without a network.
pub fn refusal_of(vendor: Vendor, why: &str) -> (u16, String) {
    (400, error_body(vendor, "invalid_request_error", why))
}

/// The body that a stub of this vendor sends for a request, for tests without a network.
pub fn bytes_of(vendor: Vendor, answer: &Answer, request: &Value) -> Vec<u8> {
    match (&answer.body, vendor) {
        (Some(body), _) => body.clone(),
        (None, Vendor::OpenAi) => openai::stream(answer, request).into_bytes(),
        (None, Vendor::Gemini) => gemini::stream(answer).into_bytes(),
        (None, Vendor::Responses) => responses::stream(answer, request).into_bytes(),
        (None, Vendor::Anthropic) => anthropic::stream(answer, request).into_bytes(),
    }
}

fn respond(shared: &Arc<Shared>, answer: Answer, request: &Value) -> Response {
    let mut bytes = bytes_of(shared.vendor, &answer, request);
    let cut = answer.cut.is_some_and(|at| at < bytes.len());
    bytes.truncate(answer.cut.unwrap_or(bytes.len()));
    let mut response = Response::builder().status(StatusCode::from_u16(answer.status).unwrap_or_default());
    if !answer.headers.iter().any(|(name, _)| name == "content-type") && answer.status == 200 {
        response = response.header("content-type", "text/event-stream");
    }
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let body = body(shared, &answer, bytes, cut);
    response.body(body).unwrap_or_default()
}

fn body(shared: &Arc<Shared>, answer: &Answer, bytes: Vec<u8>, cut: bool) -> Body {
    let mut chunks: VecDeque<Result<Bytes, io::Error>> =
        bytes.chunks(answer.chunk.min(bytes.len().max(1))).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
    if cut {
        chunks.push_back(Err(io::Error::other("cut")));
    }
    let (pace, hangs) = (answer.pace.clone(), answer.hangs);
    let guard = HangUp { shared: Arc::clone(shared), complete: false };
    let chunks = stream::unfold((chunks, guard), move |(mut chunks, mut guard)| {
        let pace = pace.clone();
        async move {
            if let (Some(pace), false) = (&pace, chunks.is_empty()) {
                // A closed semaphore no longer delays anything.
                if let Ok(permit) = pace.acquire().await {
                    permit.forget();
                }
            }
            if chunks.is_empty() && hangs {
                std::future::pending::<()>().await;
            }
            let next = chunks.pop_front();
            if matches!(next, Some(Err(_))) {
                // Let the sent bytes be flushed before the connection breaks.
                tokio::task::yield_now().await;
            }
            guard.complete = chunks.is_empty() && !hangs;
            next.map(|chunk| (chunk, (chunks, guard)))
        }
    });
    Body::from_stream(
        chunks
            .map(|chunk| chunk.map_err(|error| -> Box<dyn std::error::Error + Send + Sync> { error.into() })),
    )
}

/// Notices that a body was dropped before its end.
struct HangUp {
    shared: Arc<Shared>,
    complete: bool,
}

impl Drop for HangUp {
    fn drop(&mut self) {
        if !self.complete {
            *lock(&self.shared.hung_up) += 1;
            self.shared.changed.notify_waiters();
        }
    }
}
