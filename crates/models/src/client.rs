//! WireFormat to a vendor over HTTP: builds the request from the memo's segments, streams the answer
//! through the wire's decoder. Dropping the stream drops the connection.
//!
//! No proxy from the environment, no redirects; the key is opened here and nowhere else.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use agent::port::{BoxStream, Memo, Model, ModelError, ModelInfo, ModelRequest, Piece, TimeoutKind};
use agent::prompt::Prompt;
use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};
use tokio::time::{Instant, timeout_at};

use crate::bounds::{CLIENTS_MAX, ERROR_BODY_MAX_BYTES, FINISH_GRACE_MS};
use crate::secret::Secret;
use crate::wire::failure::{self, Hints};
use crate::wire::{Body, Encoded, Feed, Kept, KeyHeader, Opening, Wire};

/// Makes `ring` the process's TLS provider, once. Every binary that opens a client calls it first;
/// a second call does nothing.
pub fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Somebody who installed one before us has made the choice.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// HTTP clients, one for each connect time-out in use. Connections are shared by all models.
#[derive(Debug, Default)]
pub struct Clients(Mutex<HashMap<u64, Client>>);

impl Clients {
    /// The client with this connect time-out, made at first use.
    pub fn get(&self, connect_ms: u64) -> Result<Client, ModelError> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&connect_ms) {
            return Ok(client.clone());
        }
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        install_crypto();
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_millis(connect_ms))
            .user_agent(concat!("vivarium/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| ModelError::Network(format!("no HTTP client could be made: {error}")))?;
        clients.insert(connect_ms, client.clone());
        Ok(client)
    }
}

/// Where a vendor is, and what opens its door.
#[derive(Clone, Debug)]
pub struct Address {
    /// Base URL, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key, where one is wanted.
    pub key: Option<Secret>,
    /// Further headers of every request.
    pub headers: Vec<(String, String)>,
}

/// A model behind HTTP.
pub struct VendorModel {
    info: ModelInfo,
    wire: Arc<dyn Wire>,
    address: Arc<Address>,
    clients: Arc<Clients>,
}

impl VendorModel {
    /// A model; nothing is connected yet.
    pub fn new(info: ModelInfo, wire: Arc<dyn Wire>, address: Address, clients: Arc<Clients>) -> Self {
        Self { info, wire, address: Arc::new(address), clients }
    }

    /// The request for a prompt, as it would be sent: what the prefix tests look at.
    pub fn encode(&self, prompt: &Prompt, memo: &mut Memo) -> Encoded {
        Kept::open(memo, self.wire.as_ref(), prompt).encode(self.wire.as_ref(), prompt)
    }

    /// What comes behind a refusal of a request that was opened so: the request that is sent instead, or
    /// what the stream fails with. For tests without a network; a stream does it by itself.
    pub fn refused(
        &self,
        prompt: &Prompt,
        memo: &mut Memo,
        opening: Opening,
        status: u16,
        said: &str,
    ) -> Result<Encoded, ModelError> {
        let wire = self.wire.as_ref();
        let kept = Kept::open(memo, wire, prompt);
        let may_drop = wire.binds_reasoning() && !opening.drop_block;
        match meet(wire, &kept.drop_block(), may_drop, status, said) {
            Met::Dropping => Ok(kept.encode(wire, prompt)),
            Met::Failed(error) => Err(error),
            Met::Otherwise => Err(failure::classify(status, &Hints::default(), said)),
        }
    }
}

impl Model for VendorModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let wire = self.wire.as_ref();
        let kept = Kept::open(request.memo, wire, request.prompt);
        let encoded = kept.encode(wire, request.prompt);
        // The body for a second attempt is made of the same segments: nothing is encoded twice.
        let dropping = Opening { drop_block: true, ..encoded.opening };
        let may_drop = wire.binds_reasoning() && !encoded.opening.drop_block;
        let again =
            may_drop.then(|| Again { body: kept.body(wire, request.prompt, dropping), opening: dropping });
        let call = Call {
            wire: Arc::clone(&self.wire),
            address: Arc::clone(&self.address),
            client: self.clients.get(request.timeouts.connect),
            // Before whoever waits takes it for silence.
            grace: Duration::from_millis(FINISH_GRACE_MS.min(request.timeouts.idle / 2)),
            again,
            refused: kept.drop_block(),
        };
        let start = Phase::Send(Box::new(call), encoded.body, encoded.opening);
        Box::pin(stream::unfold(start, |phase| advance(phase).boxed()))
    }
}

/// The attempt that asks the vendor to drop what it thinks belongs to another conversation.
struct Again {
    body: Body,
    opening: Opening,
}

struct Call {
    wire: Arc<dyn Wire>,
    address: Arc<Address>,
    client: Result<Client, ModelError>,
    grace: Duration,
    again: Option<Again>,
    /// Whether the vendor has refused the conversation's reasoning.
    refused: Arc<AtomicBool>,
}

/// How a refusal is met.
enum Met {
    /// The same request once more; the vendor is asked to drop the reasoning that it refuses.
    Dropping,
    /// Asked again, the request goes without the reasoning that the vendor refuses.
    Failed(ModelError),
    /// It is not about reasoning.
    Otherwise,
}

/// Meets a refusal of reasoning, and notes in `refused` that the conversation's is not taken.
fn meet(wire: &dyn Wire, refused: &AtomicBool, may_drop: bool, status: u16, said: &str) -> Met {
    if may_drop && status == 400 && said.contains("bound to a different conversation") {
        tracing::warn!("the vendor refused reasoning as bound to a different conversation: dropping it");
        refused.store(true, Ordering::Relaxed);
        return Met::Dropping;
    }
    if wire.refuses_reasoning(status, said) && !refused.swap(true, Ordering::Relaxed) {
        let message = "the vendor cannot open the reasoning that it gave: it is left out from here on";
        // One conversation's own doing: nobody else is kept from asking.
        return Met::Failed(ModelError::Failed { message: message.into(), retry_after: None });
    }
    Met::Otherwise
}

struct Receiving {
    response: Response,
    feed: Feed,
    ready: VecDeque<Piece>,
    address: Arc<Address>,
    grace: Duration,
    /// When a finished reply is taken, whatever else may come.
    taken_at: Option<Instant>,
}

enum Phase {
    Send(Box<Call>, Body, Opening),
    Receive(Box<Receiving>),
    Over,
}

type Step = Option<(Result<Piece, ModelError>, Phase)>;

async fn advance(mut phase: Phase) -> Step {
    loop {
        phase = match phase {
            Phase::Over => return None,
            Phase::Send(call, body, opening) => match call.send(body, opening).await {
                Ok(next) => next,
                Err(error) => return Some((Err(error), Phase::Over)),
            },
            Phase::Receive(mut receiving) => match receiving.next().await {
                Ok(Some(piece)) => return Some((Ok(piece), Phase::Receive(receiving))),
                Ok(None) => Phase::Over,
                Err(error) => return Some((Err(error), Phase::Over)),
            },
        }
    }
}

impl Call {
    async fn send(mut self: Box<Self>, body: Body, opening: Opening) -> Result<Phase, ModelError> {
        let client = self.client.clone()?;
        let url = format!("{}{}", self.address.base_url.trim_end_matches('/'), self.wire.path());
        let headers = self.headers(opening, body.len())?;
        let sending = client.post(&url).headers(headers).body(reqwest::Body::wrap(body)).send();
        let response = sending.await.map_err(|error| unreachable(&url, &error))?;
        let status = response.status().as_u16();
        if response.status().is_success() && !is_document(&response) {
            let feed = Feed::new(self.wire.decoder());
            let address = Arc::clone(&self.address);
            let (ready, grace, taken_at) = (VecDeque::new(), self.grace, None);
            let receiving = Receiving { response, feed, ready, address, grace, taken_at };
            return Ok(Phase::Receive(Box::new(receiving)));
        }
        let hints = hints(response.headers());
        let is_page = kind_of(&response).starts_with("text/html");
        let text = self.address.redact(read_bounded(response).await);
        match (meet(&*self.wire, &self.refused, self.again.is_some(), status, &text), self.again.take()) {
            (Met::Dropping, Some(again)) => return Ok(Phase::Send(self, again.body, again.opening)),
            (Met::Failed(error), _) => return Err(error),
            _ => {}
        }
        Err(match status {
            // A gateway's or a portal's: whatever was sent, no model saw it.
            200..=299 if is_page || failure::looks_like_page(&text) => {
                ModelError::NoModel(failure::stranger(status))
            }
            200..=299 => failure::no_stream(&text),
            _ => failure::classify(status, &hints, &text),
        })
    }

    fn headers(&self, opening: Opening, length: u64) -> Result<HeaderMap, ModelError> {
        let mut headers = HeaderMap::new();
        let mut set = |name: &str, value: &str, secret: bool| {
            let name = HeaderName::try_from(name);
            let value = HeaderValue::try_from(value);
            let (Ok(name), Ok(mut value)) = (name, value) else { return Err(()) };
            value.set_sensitive(secret);
            headers.insert(name, value);
            Ok(())
        };
        let bad = |what: &str| ModelError::Invalid(format!("{what} cannot be written into a header"));
        let fixed = [("content-type", "application/json"), ("accept", "text/event-stream")];
        for (name, value) in fixed.into_iter().chain(self.wire.headers(opening)) {
            set(name, value, false).map_err(|()| bad(name))?;
        }
        // A known length instead of chunks: some servers and gateways want it.
        set("content-length", &length.to_string(), false).map_err(|()| bad("the length"))?;
        if let Some(key) = &self.address.key {
            let written = match self.wire.key_header() {
                KeyHeader::Bearer => set("authorization", &format!("Bearer {}", key.open()), true),
                KeyHeader::Named(name) => set(name, key.open(), true),
            };
            written.map_err(|()| ModelError::Auth("the key holds characters that no key has".into()))?;
        }
        for (name, value) in &self.address.headers {
            set(name, value, true).map_err(|()| bad(&format!("`{name}`")))?;
        }
        Ok(headers)
    }
}

impl Address {
    fn redact(&self, text: String) -> String {
        match &self.key {
            Some(key) => key.redact(text),
            None => text,
        }
    }

    /// No key in what operators read.
    fn redacted(&self, error: ModelError) -> ModelError {
        match error {
            ModelError::RateLimited { message, retry_after } => {
                ModelError::RateLimited { message: self.redact(message), retry_after }
            }
            ModelError::Overloaded { message, retry_after } => {
                ModelError::Overloaded { message: self.redact(message), retry_after }
            }
            ModelError::Failed { message, retry_after } => {
                ModelError::Failed { message: self.redact(message), retry_after }
            }
            ModelError::Auth(text) => ModelError::Auth(self.redact(text)),
            ModelError::NoModel(text) => ModelError::NoModel(self.redact(text)),
            ModelError::TooLong(text) => ModelError::TooLong(self.redact(text)),
            ModelError::Invalid(text) => ModelError::Invalid(self.redact(text)),
            ModelError::Unsupported(text) => ModelError::Unsupported(self.redact(text)),
            ModelError::Garbage(text) => ModelError::Garbage(self.redact(text)),
            error @ (ModelError::Network(_)
            | ModelError::TimedOut(_)
            | ModelError::Cut(_)
            | ModelError::Unasked { .. }) => error,
        }
    }
}

impl Receiving {
    async fn next(&mut self) -> Result<Option<Piece>, ModelError> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            if self.feed.is_over() {
                return Ok(None);
            }
            let pieces = match self.chunk().await {
                Ok(Some(bytes)) => self.feed.bytes(&bytes),
                Ok(None) => self.feed.end(None),
                Err(error) => self.feed.end(Some(format!("the connection broke: {}", causes(&error)))),
            };
            self.ready.extend(pieces.map_err(|error| self.address.redacted(error))?);
            if self.taken_at.is_none() && self.feed.is_finished() {
                self.taken_at = Some(Instant::now() + self.grace);
            }
            if self.feed.is_over() {
                // What is left is the end of the body; having read it, the connection is kept.
                let _ = self.response.chunk().now_or_never();
            }
        }
    }

    /// The next bytes; none at the end, and where a finished reply has been waited with for long enough.
    async fn chunk(&mut self) -> reqwest::Result<Option<Bytes>> {
        let chunk = self.response.chunk();
        match self.taken_at {
            Some(at) => timeout_at(at, chunk).await.unwrap_or(Ok(None)),
            None => chunk.await,
        }
    }
}

/// Whether the answer is one document: a server that ignored `stream`, or a gateway's page.
fn is_document(response: &Response) -> bool {
    let kind = kind_of(response);
    kind.starts_with("application/json") || kind.starts_with("text/html")
}

fn kind_of(response: &Response) -> &str {
    response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("")
}

fn unreachable(url: &str, error: &reqwest::Error) -> ModelError {
    if error.is_connect() && error.is_timeout() {
        return ModelError::TimedOut(TimeoutKind::Connect);
    }
    if error.is_builder() {
        return ModelError::NoModel(format!("`{}` is no address: {}", shown(url), causes(error)));
    }
    ModelError::Network(format!("`{}` cannot be reached: {}", shown(url), causes(error)))
}

/// An address without what people put into addresses that opens doors.
fn shown(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or(url);
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            format!("{scheme}://{}/{path}", host.rsplit('@').next().unwrap_or(host))
        }
        None => bare.to_owned(),
    }
}

/// An error with its causes, innermost last. URLs are left out: they may hold credentials.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut words = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push(error.to_string());
        cause = error.source();
    }
    if words.is_empty() {
        return "it broke off".to_owned();
    }
    words.dedup();
    words.join(": ")
}

fn hints(headers: &HeaderMap) -> Hints {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Hints {
        retry_after: text("retry-after"),
        retry_after_ms: text("retry-after-ms"),
        date: text("date"),
        should_retry: text("x-should-retry"),
    }
}

async fn read_bounded(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() >= ERROR_BODY_MAX_BYTES {
            body.truncate(ERROR_BODY_MAX_BYTES);
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installing_the_provider_twice_is_harmless_and_clients_are_shared() {
        install_crypto();
        let clients = Clients::default();
        for connect in 0..(CLIENTS_MAX as u64 + 2) {
            clients.get(connect + 1).unwrap();
        }
        assert!(clients.0.lock().unwrap().len() <= CLIENTS_MAX);
    }
}
