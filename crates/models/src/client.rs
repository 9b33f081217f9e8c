//! The HTTP client of a vendor: builds the request from the memo's segments and streams the answer
//! through the wire's decoder. Dropping the stream closes the connection.
//!
//! Redirects are not followed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::port::{BoxStream, Memo, Model, ModelError, ModelInfo, ModelRequest, Piece, TimeoutKind};
use agent::prompt::Prompt;
use bytes::Bytes;
use futures_util::{FutureExt as _, future, stream};
use net::proxy::{self, ChosenProxy};
use net::{causes, display_url};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use tokio::time::{Instant, timeout_at};

use crate::bounds::{CLIENTS_MAX, ERROR_BODY_MAX_BYTES, FINISH_GRACE_MS};
use crate::secret::Secret;
use crate::wire::failure::{self, Hints};
use crate::wire::{Body, CachedTranscript, Encoded, EventFeed, KeyHeader, Opening, Wire};

/// HTTP clients, one for each connect time-out in use. All models share their connections.
#[derive(Debug, Default)]
pub struct Clients(Mutex<HashMap<u64, Client>>);

impl Clients {
    /// The client with this connect time-out, created at first use.
    pub fn get(&self, connect_ms: u64) -> Result<Client, ModelError> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&connect_ms) {
            return Ok(client.clone());
        }
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        let no_client =
            |why: String| ModelError::Network(format!("the HTTP client could not be created: {why}"));
        // What is wrong with a proxy is said before a request is sent.
        let through = |url: &Url| proxy::of(url).ok().flatten().map(|proxy| proxy.url().clone());
        let client = net::client()
            .map_err(no_client)?
            .proxy(reqwest::Proxy::custom(through))
            .connect_timeout(Duration::from_millis(connect_ms))
            .user_agent(concat!("vivarium/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| no_client(error.to_string()))?;
        clients.insert(connect_ms, client.clone());
        Ok(client)
    }
}

/// A vendor's address and credentials.
#[derive(Clone, Debug)]
pub struct Address {
    /// Base URL, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key, if the vendor needs one.
    pub key: Option<Secret>,
    /// Additional headers of every request.
    pub headers: BTreeMap<String, String>,
}

/// A model that is reached over HTTP.
pub struct VendorModel {
    info: ModelInfo,
    wire: Arc<dyn Wire>,
    address: Arc<Address>,
    clients: Arc<Clients>,
}

impl VendorModel {
    /// Creates a model without connecting.
    pub fn new(info: ModelInfo, wire: Arc<dyn Wire>, address: Address, clients: Arc<Clients>) -> Self {
        Self { info, wire, address: Arc::new(address), clients }
    }

    /// The request for a prompt, as it would be sent. For tests.
    pub fn encode(&self, prompt: &Prompt, memo: &mut Memo) -> Encoded {
        CachedTranscript::open(memo, self.wire.as_ref(), prompt).encode(self.wire.as_ref(), prompt)
    }

    /// What follows when the vendor refuses a request with this opening: the request that is sent instead,
    /// or the error of the stream. For tests without a network; [`Model::stream`] does the same itself.
    pub fn refused(
        &self,
        prompt: &Prompt,
        memo: &mut Memo,
        opening: Opening,
        status: u16,
        text: &str,
    ) -> Result<Encoded, ModelError> {
        let wire = self.wire.as_ref();
        let kept = CachedTranscript::open(memo, wire, prompt);
        let may_drop = wire.binds_reasoning() && !opening.drop_block;
        match refusal_action(wire, &kept.drop_block(), may_drop, status, text) {
            RefusalAction::DropReasoning => Ok(kept.encode(wire, prompt)),
            RefusalAction::Fail(error) => Err(error),
            RefusalAction::Unrelated => Err(failure::classify(status, &Hints::default(), text)),
        }
    }
}

impl Model for VendorModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let wire = self.wire.as_ref();
        let kept = CachedTranscript::open(request.memo, wire, request.prompt);
        let encoded = kept.encode(wire, request.prompt);
        // The body of a second attempt shares the segments, so nothing is encoded twice.
        let dropping = Opening { drop_block: true, ..encoded.opening };
        let may_drop = wire.binds_reasoning() && !encoded.opening.drop_block;
        let second_attempt = may_drop
            .then(|| SecondAttempt { body: kept.body(wire, request.prompt, dropping), opening: dropping });
        let call = Call {
            wire: Arc::clone(&self.wire),
            address: Arc::clone(&self.address),
            client: self.clients.get(request.timeouts.connect),
            // Shorter than the idle time-out, so that the caller does not give up first.
            grace: Duration::from_millis(FINISH_GRACE_MS.min(request.timeouts.idle / 2)),
            second_attempt,
            refused: kept.drop_block(),
        };
        let start = Phase::Send(Box::new(call), encoded.body, encoded.opening);
        // What has arrived already is handed on without a future of its own: a chunk has many pieces.
        Box::pin(stream::unfold(start, |mut phase| match phase.arrived() {
            Some(piece) => future::ready(Some((Ok(piece), phase))).left_future(),
            None => advance(phase).boxed().right_future(),
        }))
    }
}

/// The second attempt, which asks the vendor to drop reasoning that it refuses.
struct SecondAttempt {
    body: Body,
    opening: Opening,
}

struct Call {
    wire: Arc<dyn Wire>,
    address: Arc<Address>,
    client: Result<Client, ModelError>,
    grace: Duration,
    second_attempt: Option<SecondAttempt>,
    /// Whether the vendor has refused the conversation's reasoning.
    refused: Arc<AtomicBool>,
}

/// What to do about a refusal.
enum RefusalAction {
    /// Send the request again and ask the vendor to drop the reasoning that it refuses.
    DropReasoning,
    /// Fail; the caller's next request leaves the refused reasoning out.
    Fail(ModelError),
    /// The refusal is not about reasoning.
    Unrelated,
}

/// Decides what to do about a refusal. If it is about reasoning, sets `refused` for the conversation.
fn refusal_action(
    wire: &dyn Wire,
    refused: &AtomicBool,
    may_drop: bool,
    status: u16,
    text: &str,
) -> RefusalAction {
    if may_drop && status == 400 && text.contains("bound to a different conversation") {
        tracing::warn!("the vendor refused reasoning as bound to a different conversation: dropping it");
        refused.store(true, Ordering::Relaxed);
        return RefusalAction::DropReasoning;
    }
    if wire.refuses_reasoning(status, text) && !refused.swap(true, Ordering::Relaxed) {
        let message = "the vendor cannot decrypt its own reasoning: it is no longer sent";
        // `Failed`, because only this conversation is affected: other agents may go on using the model.
        return RefusalAction::Fail(ModelError::Failed { message: message.into(), retry_after: None });
    }
    RefusalAction::Unrelated
}

struct Receiving {
    response: Response,
    feed: EventFeed,
    ready: VecDeque<Piece>,
    address: Arc<Address>,
    grace: Duration,
    /// When to stop waiting for more after the reply is finished.
    deadline: Option<Instant>,
}

enum Phase {
    Send(Box<Call>, Body, Opening),
    Receive(Box<Receiving>),
    Done,
}

impl Phase {
    fn arrived(&mut self) -> Option<Piece> {
        match self {
            Self::Receive(receiving) => receiving.ready.pop_front(),
            Self::Send(..) | Self::Done => None,
        }
    }
}

type Step = Option<(Result<Piece, ModelError>, Phase)>;

async fn advance(mut phase: Phase) -> Step {
    loop {
        phase = match phase {
            Phase::Done => return None,
            // Boxed: it is much larger than what receives the rest of the answer.
            Phase::Send(call, body, opening) => match Box::pin(call.send(body, opening)).await {
                Ok(next) => next,
                Err(error) => return Some((Err(error), Phase::Done)),
            },
            Phase::Receive(mut receiving) => match receiving.next().await {
                Ok(Some(piece)) => return Some((Ok(piece), Phase::Receive(receiving))),
                Ok(None) => Phase::Done,
                Err(error) => return Some((Err(error), Phase::Done)),
            },
        }
    }
}

impl Call {
    async fn send(mut self: Box<Self>, body: Body, opening: Opening) -> Result<Phase, ModelError> {
        let client = self.client.clone()?;
        let url = format!("{}{}", self.address.base_url.trim_end_matches('/'), self.wire.path());
        let headers = self.headers(opening, body.len())?;
        let through = proxy_of(&url)?;
        let sending = client.post(&url).headers(headers).body(reqwest::Body::wrap(body)).send();
        let response = sending.await.map_err(|error| unreachable(&url, through.as_ref(), &error))?;
        let status = response.status().as_u16();
        if response.status().is_success() && !is_document(&response) {
            let feed = EventFeed::new(self.wire.decoder());
            let address = Arc::clone(&self.address);
            let (ready, grace, deadline) = (VecDeque::new(), self.grace, None);
            let receiving = Receiving { response, feed, ready, address, grace, deadline };
            return Ok(Phase::Receive(Box::new(receiving)));
        }
        let hints = hints(response.headers());
        let is_page = content_type(&response).starts_with("text/html");
        let text = self.address.redact(read_bounded(response).await);
        match (
            refusal_action(&*self.wire, &self.refused, self.second_attempt.is_some(), status, &text),
            self.second_attempt.take(),
        ) {
            (RefusalAction::DropReasoning, Some(second_attempt)) => {
                return Ok(Phase::Send(self, second_attempt.body, second_attempt.opening));
            }
            (RefusalAction::Fail(error), _) => return Err(error),
            _ => {}
        }
        Err(match status {
            // A page of a gateway or a captive portal: no model received the request.
            200..=299 if is_page || failure::looks_like_page(&text) => {
                ModelError::NoModel(failure::not_a_model_server(status))
            }
            200..=299 => failure::not_a_stream(&text),
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
        // Some servers and gateways reject a chunked body.
        set("content-length", &length.to_string(), false).map_err(|()| bad("the length"))?;
        if let Some(key) = &self.address.key {
            let written = match self.wire.key_header() {
                KeyHeader::Bearer => set("authorization", &format!("Bearer {}", key.reveal()), true),
                KeyHeader::Named(name) => set(name, key.reveal(), true),
            };
            written
                .map_err(|()| ModelError::Auth("the key contains characters that no key may have".into()))?;
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

    /// Removes the key from an error, because operators and logs show it.
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
            | ModelError::NotCalled { .. }) => error,
        }
    }
}

impl Receiving {
    async fn next(&mut self) -> Result<Option<Piece>, ModelError> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            if self.feed.is_done() {
                return Ok(None);
            }
            let pieces = match self.chunk().await {
                Ok(Some(bytes)) => self.feed.bytes(&bytes),
                Ok(None) => self.feed.end(None),
                Err(error) => self.feed.end(Some(format!("the connection broke: {}", causes(&error)))),
            };
            self.ready.extend(pieces.map_err(|error| self.address.redacted(error))?);
            if self.deadline.is_none() && self.feed.is_finished() {
                self.deadline = Some(Instant::now() + self.grace);
            }
            if self.feed.is_done() {
                // Reading the end of the body lets the connection be reused.
                let _ = self.response.chunk().now_or_never();
            }
        }
    }

    /// The next bytes. `None` at the end of the body, and when the grace after a finished reply is used up.
    async fn chunk(&mut self) -> reqwest::Result<Option<Bytes>> {
        let chunk = self.response.chunk();
        match self.deadline {
            Some(at) => timeout_at(at, chunk).await.unwrap_or(Ok(None)),
            None => chunk.await,
        }
    }
}

/// Whether the answer is a single document: the server ignored `stream`, or a gateway sent a page.
fn is_document(response: &Response) -> bool {
    let kind = content_type(response);
    kind.starts_with("application/json") || kind.starts_with("text/html")
}

fn content_type(response: &Response) -> &str {
    response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// The proxy through which this address is reached.
pub(crate) fn proxy_of(url: &str) -> Result<Option<ChosenProxy>, ModelError> {
    // What is no address is refused where the request is built.
    let Ok(url) = Url::parse(url) else { return Ok(None) };
    proxy::of(&url).map_err(ModelError::Network)
}

fn unreachable(url: &str, through: Option<&ChosenProxy>, error: &reqwest::Error) -> ModelError {
    if error.is_connect() && error.is_timeout() && through.is_none() {
        return ModelError::TimedOut(TimeoutKind::Connect);
    }
    let (url, why) = (display_url(url), causes(error));
    if error.is_builder() {
        return ModelError::NoModel(format!("`{url}` is not a valid address: {why}"));
    }
    let way = through.map(|proxy| format!(" through {proxy}")).unwrap_or_default();
    ModelError::Network(format!("`{url}` cannot be reached{way}: {why}"))
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
    fn the_number_of_clients_is_limited() {
        let clients = Clients::default();
        for connect in 0..(CLIENTS_MAX as u64 + 2) {
            clients.get(connect + 1).unwrap();
        }
        assert!(clients.0.lock().unwrap().len() <= CLIENTS_MAX);
    }
}
