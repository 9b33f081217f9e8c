//! Streamable HTTP through the one way out: the client library asks, the connector sends. Secrets are added here, after the
//! library, and hidden in whatever comes back.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent::call::head_and_tail;
use agent::limits;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Error as SseError, Sse, SseStream};

use super::failure::Known;
use super::gate::Gate;
use super::reading::{messages, nonsense};
use super::values::OpenedValue;
use crate::connector::{AllowList, ConnectError, Connector, Incoming, IncomingBody, Outgoing, TrafficLimits};
use crate::json::{self, Scan};
use crate::secret::Mask;

const SESSION: &str = "mcp-session-id";
const OLD_TRANSPORT: &str = "\nhint: this is an address of the old transport (HTTP with SSE), which is not spoken here; ask its \
                             operator for the one of streamable HTTP, which often ends in `/mcp`";
/// An id of an event is sent back as a header.
const EVENT_ID_MAX_BYTES: usize = 1024;

/// Why an exchange gave no message. Its text holds no secrets.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct WebFailure {
    pub(super) text: String,
    pub(super) known: Known,
}

type WebError = StreamableHttpError<WebFailure>;

/// What was asked by one `POST`.
struct Asked {
    /// `None` for what has no answer.
    id: Option<RequestId>,
    is_in_session: bool,
    /// Whether it is the first request of a connection.
    is_first: bool,
}

impl Asked {
    fn is_answered_by(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            ServerJsonRpcMessage::Response(answer) => Some(&answer.id),
            ServerJsonRpcMessage::Error(answer) => answer.id.as_ref(),
            _ => None,
        };
        id.map(ToString::to_string) == self.id.as_ref().map(ToString::to_string)
    }
}

/// What every request has in common.
#[derive(Clone)]
pub(super) struct WebClient {
    pub(super) connector: Arc<Connector>,
    pub(super) url: String,
    pub(super) allow: AllowList,
    pub(super) headers: Arc<[OpenedValue]>,
    pub(super) mask: Arc<Mask>,
    pub(super) gate: Arc<Gate>,
}

impl WebClient {
    /// The transport of a connection with so many calls at once.
    pub(super) fn transport(self, concurrency: u32) -> StreamableHttpClientTransport<Self> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.clone())
            .max_concurrent_requests(concurrency as usize)
            // The server here starts a new connection itself.
            .reinit_on_expired_session(false);
        let mut retry = ExponentialBackoff::default();
        retry.max_delay = Some(Duration::from_millis(limits::MCP_PAUSE_MAX_MS));
        config.retry_config = Arc::new(retry);
        StreamableHttpClientTransport::with_client(self, config)
    }

    fn failed(&self, error: &ConnectError) -> WebError {
        let known = if error.may_have_arrived() { Known::Lost } else { Known::NotSent };
        WebError::Client(WebFailure { text: self.mask.hide(error.to_string()), known })
    }

    fn unusable(&self, why: impl Into<String>) -> WebError {
        let text = head_and_tail(&self.mask.hide(why.into()), limits::FAILURE_SHOWN_BYTES);
        WebError::Client(WebFailure { text, known: Known::Lost })
    }

    async fn send(
        &self,
        method: Method,
        body: Option<Bytes>,
        session: Option<&str>,
        of_protocol: &HashMap<HeaderName, HeaderValue>,
        limits: TrafficLimits,
    ) -> Result<Incoming, WebError> {
        let refused = |error| self.failed(&error);
        let mut request = Outgoing::new(method, &self.url).map_err(refused)?;
        for header in self.headers.iter() {
            request = request.header(&header.name, &header.value, header.is_secret).map_err(refused)?;
        }
        for (name, value) in of_protocol {
            let value =
                value.to_str().map_err(|_| self.unusable("the protocol wants a header that is no text"))?;
            request = request.header(name.as_str(), value, false).map_err(refused)?;
        }
        if let Some(session) = session {
            request = request.header(SESSION, session, false).map_err(refused)?;
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json", false).map_err(refused)?.body(body);
        }
        let request = request.allow(self.allow.clone()).limits(limits);
        self.connector.send(request).await.map_err(|error| self.failed(&error))
    }

    /// An answer with a status that is no success.
    async fn refusal(&self, answer: Incoming, asked: Asked) -> Result<ServerJsonRpcMessage, WebError> {
        let status = answer.status;
        let is_json = kind(&answer) == "application/json";
        let most = 8 * limits::FAILURE_SHOWN_BYTES;
        let body = answer.body.at_most(most).collect().await.map_err(|error| self.failed(&error))?;
        let said = self.mask.hide_cut(String::from_utf8_lossy(&body.bytes).into_owned());
        // Some servers say so what the protocol says with 404.
        if status == 400 && asked.is_in_session && said.to_ascii_lowercase().contains("session") {
            return Err(WebError::SessionExpired);
        }
        if is_json && let Ok(ServerJsonRpcMessage::Error(refusal)) = serde_json::from_str(&said) {
            // Not every server knows by then which request it refuses.
            return Ok(ServerJsonRpcMessage::error(refusal.error, asked.id));
        }
        let said = head_and_tail(said.trim(), limits::FAILURE_SHOWN_BYTES / 2);
        let text = if said.is_empty() { String::new() } else { format!(": {said}") };
        // A gateway lost the server's answer; the server may have done what was asked.
        let known = if matches!(status, 502 | 504) { Known::Lost } else { Known::Answered };
        let mut text = format!("the server refused with status {status}{text}");
        if asked.is_first && matches!(status, 400 | 404 | 405) && self.is_of_old_transport().await {
            text.push_str(OLD_TRANSPORT);
        }
        Err(WebError::Client(WebFailure { text, known }))
    }

    /// Whether the address is one of the transport before streamable HTTP: there a stream of events comes first.
    async fn is_of_old_transport(&self) -> bool {
        let accept = (HeaderName::from_static("accept"), HeaderValue::from_static("text/event-stream"));
        let headers = HashMap::from([accept]);
        let answer = self.send(Method::GET, None, None, &headers, TrafficLimits::default()).await;
        answer.is_ok_and(|answer| answer.status == 200 && kind(&answer) == "text/event-stream")
    }

    fn events(&self, body: IncomingBody) -> BoxStream<'static, Result<Sse, SseError>> {
        let pieces = stream::unfold(Some(body), |body| async {
            let mut body = body?;
            match body.chunk().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(body))),
                Ok(None) if body.is_cut() => {
                    let text = format!("the answer is longer than {} bytes", limits::MCP_STREAM_MAX_BYTES);
                    Some((Err(WebFailure { text, known: Known::Lost }), None))
                }
                Ok(None) => None,
                Err(error) => Some((Err(WebFailure { text: error.to_string(), known: Known::Lost }), None)),
            }
        });
        let (mask, gate) = (Arc::clone(&self.mask), Arc::clone(&self.gate));
        let events = SseStream::from_bytes_stream(pieces.boxed());
        let checked = move |event| {
            let (mask, gate) = (Arc::clone(&mask), Arc::clone(&gate));
            async move { stream::iter(checked(event, &mask, &gate).await) }
        };
        events.then(checked).flatten().boxed()
    }
}

/// What an event says, without secrets. Of several messages each becomes an event.
async fn checked(event: Result<Sse, SseError>, mask: &Mask, gate: &Gate) -> Vec<Result<Sse, SseError>> {
    let mut event = match event {
        Ok(event) => event,
        Err(error) => return vec![Err(error)],
    };
    // A server must not choose that it is asked again without a pause.
    event.retry = event.retry.map(|ms| ms.clamp(limits::MCP_RETRY_MIN_MS, limits::MCP_PAUSE_MAX_MS));
    event.id = event.id.filter(|id| id.len() <= EVENT_ID_MAX_BYTES);
    let Some(data) = event.data.take() else { return vec![Ok(event)] };
    if Scan::of(data.as_bytes()).has_too_many_values() {
        let text = format!("a message has more than {} values", limits::JSON_VALUES_MAX);
        return vec![Err(SseError::Body(Box::new(WebFailure { text, known: Known::Lost })))];
    }
    let data = mask.hide_apart(data).await;
    let found = match json::read(&data) {
        Ok(value) => messages(value, gate),
        Err(_) => nonsense(&data, gate).into_iter().collect(),
    };
    if found.is_empty() {
        return vec![Ok(Sse { data: Some(data), ..event })];
    }
    let written = found.iter().filter_map(|message| serde_json::to_string(message).ok());
    written.map(|data| Ok(Sse { data: Some(data), ..event.clone() })).collect()
}

impl StreamableHttpClient for WebClient {
    type Error = WebFailure;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, WebError> {
        let kinds = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(HeaderName::from_static("accept"), kinds);
        let (id, is_first) = match &message {
            ClientJsonRpcMessage::Request(request) => {
                (Some(request.id.clone()), matches!(request.request, ClientRequest::InitializeRequest(_)))
            }
            _ => (None, false),
        };
        let asked = Asked { id, is_in_session: session.is_some(), is_first };
        let body = serde_json::to_vec(&message)?;
        let call = Duration::from_millis(limits::LATE_MS);
        let answer =
            self.send(Method::POST, Some(body.into()), session.as_deref(), &headers, traffic(call)).await?;
        let (kind, given) = (kind(&answer), answer.header(SESSION).map(str::to_owned));
        match answer.status {
            404 if asked.is_in_session => Err(WebError::SessionExpired),
            // Nothing but a request has an answer.
            200..300 if asked.id.is_none() => Ok(StreamableHttpPostResponse::Accepted),
            200..300 if kind == "text/event-stream" => {
                Ok(StreamableHttpPostResponse::Sse(self.events(answer.body), given))
            }
            200..300 if kind == "application/json" => {
                let body = answer.body.at_most(limits::MCP_MESSAGE_MAX_BYTES).collect().await;
                let body = body.map_err(|error| self.failed(&error))?;
                if body.is_cut || Scan::of(&body.bytes).has_too_many_values() {
                    return Err(self.unusable("the answer is too large"));
                }
                let text = self.mask.hide_apart(String::from_utf8_lossy(&body.bytes).into_owned()).await;
                let value = json::read(&text);
                let value = value.map_err(|_| self.unusable(format!("the answer is no message: {text}")))?;
                let mut messages = messages(value, &self.gate).into_iter();
                let answer = messages.find(|message| asked.is_answered_by(message));
                let answer =
                    answer.ok_or_else(|| self.unusable("it answered something else than it was asked"));
                Ok(StreamableHttpPostResponse::Json(answer?, given))
            }
            200..300 => {
                // Its type is not shown: it may repeat a secret in other letters.
                Err(self
                    .unusable("wanted an answer of the protocol, got something else: is this an MCP server?"))
            }
            _ => Ok(StreamableHttpPostResponse::Json(self.refusal(answer, asked).await?, given)),
        }
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), WebError> {
        let limits = TrafficLimits::default();
        let answer = self.send(Method::DELETE, None, Some(&session), &headers, limits).await?;
        match answer.status {
            200..300 => Ok(()),
            _ => Err(WebError::ServerDoesNotSupportDeleteSession),
        }
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _auth: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, WebError> {
        headers.insert(HeaderName::from_static("accept"), HeaderValue::from_static("text/event-stream"));
        if let Some(value) = last_event.and_then(|id| HeaderValue::from_str(&id).ok()) {
            headers.insert(HeaderName::from_static("last-event-id"), value);
        }
        // On this stream a server says, rarely, that its tools changed.
        let day = Duration::from_millis(limits::TOOL_TIMEOUT_MAX_MS);
        let limits = TrafficLimits { head: TrafficLimits::default().head, ..traffic(day) };
        let answer = self.send(Method::GET, None, session.as_deref(), &headers, limits).await?;
        match answer.status {
            200..300 if kind(&answer) == "text/event-stream" => Ok(self.events(answer.body)),
            _ => Err(WebError::ServerDoesNotSupportSse),
        }
    }
}

impl fmt::Debug for WebClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebClient(..)")
    }
}

fn traffic(time: Duration) -> TrafficLimits {
    let body_bytes = limits::MCP_STREAM_MAX_BYTES;
    TrafficLimits { head: time, idle: time, total: time, body_bytes, ..TrafficLimits::default() }
}

fn kind(answer: &Incoming) -> String {
    let kind = answer.header("content-type").and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}
