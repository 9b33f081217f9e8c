//! One live connection to a server: from the start to the lists of its tools and the answers of its calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::id::CallId;
use agent::limits;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, JsonObject, PingRequest, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, RequestMetaObject,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, Peer, RunningService, ServiceError,
    serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::{DynamicTransportError, Transport};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::McpLimits;
use super::config::McpServerConfig;
use super::description::{McpDescription, McpListing, McpResource};
use super::failure::{Failure, Known};
use super::gate::{Gate, Gated};
use super::host::McpHost;
use super::lines::Lines;
use super::pages::Pages;
use super::process::{Program, ServerProcess};
use super::reading::UNREADABLE;
use super::values;
use super::web::{WebClient, WebFailure};
use crate::connector::{AllowList, Connector};
use crate::secret::{Mask, Secrets};

/// Where the id of a call stands in `_meta`: the same if the call is repeated.
const CALL_KEY: &str = "vivarium/idempotency-key";

/// What a connection is opened with.
pub(super) struct Opening<'a> {
    pub(super) server: &'a str,
    pub(super) config: &'a McpServerConfig,
    pub(super) connector: &'a Arc<Connector>,
    pub(super) secrets: &'a dyn Secrets,
    pub(super) home: &'a Path,
    pub(super) host: &'a McpHost,
    pub(super) limits: McpLimits,
    pub(super) number: u64,
}

/// A connection that has agreed on the protocol. Dropping it ends the process.
pub(super) struct Connection {
    /// Counts the connections of the server.
    pub(super) number: u64,
    pub(super) mask: Arc<Mask>,
    server: String,
    service: RunningService<RoleClient, ClientConfig>,
    gate: Arc<Gate>,
    process: Option<ServerProcess>,
    limits: McpLimits,
    /// The hashes of its tools, and when they were read.
    listed: Mutex<Option<(Instant, BTreeMap<String, String>)>>,
}

impl Connection {
    pub(super) async fn open(opening: Opening<'_>) -> Result<Self, Failure> {
        match Self::open_by(&opening, ClientLifecycleMode::Initialize).await {
            Ok(connection) => Ok(connection),
            // A server that speaks only the newest version knows no handshake.
            Err((failure, NotServed::Refused(_))) => {
                let newest =
                    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] };
                Self::open_by(&opening, newest).await.map_err(|_| failure)
            }
            Err((failure, _)) => Err(failure),
        }
    }

    async fn open_by(
        opening: &Opening<'_>,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, (Failure, NotServed)> {
        let failed = |why: String| {
            let text = format!("the MCP server `{}` did not start: {why}", opening.server);
            (Failure::not_sent(text), NotServed::Failed(why))
        };
        let (server, config) = (opening.server, opening.config);
        let values = if config.url.is_some() { &config.headers } else { &config.env };
        let (values, mask) =
            values::open(values, config.url.as_deref(), opening.secrets).await.map_err(failed)?;
        let (mask, gate) = (Arc::new(mask), Gate::new(server));
        let (service, process) = match (&config.command, &config.url) {
            (Some(_), _) => {
                let program = Program {
                    server,
                    config,
                    env: &values,
                    home: opening.home,
                    host: opening.host,
                    mask: Arc::clone(&mask),
                    gate: Arc::clone(&gate),
                };
                let (process, output, input) = ServerProcess::start(&program).await.map_err(failed)?;
                let lines = Lines::new(output, input, Arc::clone(&mask), Arc::clone(&gate));
                (
                    serve(Gated { inner: lines, gate: Arc::clone(&gate) }, lifecycle, opening.limits.start)
                        .await,
                    Some(process),
                )
            }
            (None, url) => {
                let allow = config.allow.iter().map(|entry| entry.parse()).collect::<Result<_, String>>();
                let client = WebClient {
                    connector: Arc::clone(opening.connector),
                    url: url.clone().unwrap_or_default(),
                    allow: AllowList::new(allow.map_err(failed)?),
                    headers: values.into(),
                    mask: Arc::clone(&mask),
                    gate: Arc::clone(&gate),
                };
                let inner = client.transport(config.concurrency);
                (serve(Gated { inner, gate: Arc::clone(&gate) }, lifecycle, opening.limits.start).await, None)
            }
        };
        let service = match service {
            Ok(service) => service,
            Err(not_served) => {
                let is_ended = matches!(not_served, NotServed::Ended);
                let why = end_of(&gate, process.as_ref(), is_ended).await;
                let why = why.unwrap_or_else(|| not_served.to_string());
                let errors = match &process {
                    Some(process) => process.last_words().await,
                    None => String::new(),
                };
                return Err((failed(mask.hide(why)).0.with_errors(errors), not_served));
            }
        };
        // What a server allows to be kept must not hide a change.
        service.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let (number, limits) = (opening.number, opening.limits);
        let (server, listed) = (server.to_owned(), Mutex::default());
        Ok(Self { number, mask, server, service, gate, process, limits, listed })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.gate.end_reason().is_some() || self.service.is_transport_closed()
    }

    fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Whether the server may be asked for resources.
    pub(super) fn knows_resources(&self) -> bool {
        self.peer().peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// Whether the server has resources, or ways to name some. Several promise them and have none.
    pub(super) async fn has_resources(&self) -> bool {
        let asking = async {
            let listed = self.peer().list_resources(None).await;
            listed.is_ok_and(|page| !page.resources.is_empty())
                || (self.peer().list_resource_templates(None).await)
                    .is_ok_and(|page| !page.resource_templates.is_empty())
        };
        self.knows_resources() && timeout(self.limits.list, asking).await.unwrap_or_default()
    }

    /// The tools as the server describes them now.
    pub(super) async fn list(&self) -> Result<McpListing, Failure> {
        let mut listed = self.listed.lock().await;
        self.gate.take_changed();
        self.gate.take_left_out();
        let reading = timeout(self.limits.list, self.read_tools()).await;
        let listing = reading.unwrap_or_else(|_| Err(self.late("list of its tools", self.limits.list)));
        if listing.is_err() {
            self.gate.set_changed();
        }
        let mut listing = listing?;
        listing.left_out.extend(self.gate.take_left_out());
        let hashes = listing.tools.iter().map(|tool| (tool.name.clone(), tool.hash.clone())).collect();
        *listed = Some((Instant::now(), hashes));
        Ok(listing)
    }

    /// An error unless the server describes the tool as it was approved.
    pub(super) async fn check(&self, approved: &McpDescription) -> Result<(), Failure> {
        // Not every server can say that its tools changed.
        let age = Duration::from_millis(limits::MCP_LIST_AGE_MS);
        let is_fresh = (self.listed.lock().await.as_ref()).is_some_and(|(read, _)| read.elapsed() < age);
        if self.gate.is_changed() || !is_fresh {
            self.list().await?;
        }
        let (server, tool) = (&self.server, &approved.name);
        let listed = self.listed.lock().await;
        let why = match listed.as_ref().and_then(|(_, hashes)| hashes.get(tool)) {
            Some(hash) if *hash == approved.hash => return Ok(()),
            Some(_) => "describes its tool differently from what was approved",
            None => "no longer offers its tool in a form that can be used",
        };
        let text = format!(
            "the MCP server `{server}` {why}: `{tool}`. It was not called.\n\
             hint: an operator can look at its tools and approve them"
        );
        Err(Failure::new(Known::Answered, text))
    }

    async fn read_tools(&self) -> Result<McpListing, Failure> {
        let mut listing = McpListing::default();
        let mut pages = Pages::default();
        while let Some(page) = pages.next(&self.server)? {
            let page = self.peer().list_tools(page).await;
            let page = self.understood(page).await?;
            pages.turn(&self.server, page.tools.len(), page.next_cursor)?;
            page.tools.into_iter().for_each(|tool| listing.add(tool));
        }
        Ok(listing)
    }

    /// The resources that the server offers.
    pub(super) async fn resources(&self) -> Result<Vec<McpResource>, Failure> {
        let reading = async {
            let mut found = Vec::new();
            let mut pages = Pages::default();
            while let Some(page) = pages.next(&self.server)? {
                let page = self.peer().list_resources(page).await;
                let page = self.understood(page).await?;
                pages.turn(&self.server, page.resources.len(), page.next_cursor)?;
                found.extend(page.resources.into_iter().map(|resource| McpResource {
                    uri: resource.uri,
                    name: resource.name,
                    kind: resource.mime_type,
                }));
            }
            Ok(found)
        };
        let reading = timeout(self.limits.list, reading).await;
        reading.unwrap_or_else(|_| Err(self.late("list of its resources", self.limits.list)))
    }

    /// Calls a tool. Dropping the future tells the server that nobody waits any longer.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        call: &CallId,
        patience: Duration,
    ) -> Result<CallToolResult, Failure> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let mut meta = RequestMetaObject::new();
        meta.0.insert(CALL_KEY.to_owned(), call.0.clone().into());
        params.meta = Some(meta);
        match self.answered(self.peer().call_tool_once(params), patience).await? {
            CallToolResponse::Complete(result) => Ok(result),
            _ => Err(self.wants_more()),
        }
    }

    /// Reads a resource.
    pub(super) async fn read(&self, uri: &str, patience: Duration) -> Result<ReadResourceResult, Failure> {
        let params = ReadResourceRequestParams::new(uri);
        match self.answered(self.peer().read_resource_once(params), patience).await? {
            ReadResourceResponse::Complete(result) => Ok(result),
            _ => Err(self.wants_more()),
        }
    }

    /// Waits for an answer, which may take long. After `patience` the server is asked again and again whether it lives: one
    /// that does not even answer that is given up.
    async fn answered<T>(
        &self,
        asking: impl Future<Output = Result<T, ServiceError>>,
        patience: Duration,
    ) -> Result<T, Failure> {
        let hung = async {
            loop {
                sleep(patience).await;
                let ping = self.peer().send_request(ClientRequest::PingRequest(PingRequest::default()));
                // An error is an answer, too.
                if timeout(self.limits.ping, ping).await.is_err() {
                    return;
                }
            }
        };
        let answer = tokio::select! {
            answer = timeout(self.limits.call, asking) => answer,
            () = hung => {
                let text = format!(
                    "the MCP server `{}` hangs: it gave no answer within {} ms, and does not say that it lives; it is \
                     started again for the next call",
                    self.server,
                    patience.as_millis()
                );
                return Err(Failure::new(Known::Hung, text));
            }
        };
        self.understood(answer.map_err(|_| self.late("answer", self.limits.call))?).await
    }

    /// Ends its process.
    pub(super) fn end(&self) {
        if let Some(process) = &self.process {
            process.end();
        }
    }

    fn wants_more(&self) -> Failure {
        let text = format!(
            "the MCP server `{}` asks back before it answers, which is not offered to it",
            self.server
        );
        Failure::new(Known::Answered, text)
    }

    fn late(&self, what: &str, after: Duration) -> Failure {
        let text = format!("the MCP server `{}` gave no {what} within {} ms", self.server, after.as_millis());
        Failure::new(Known::Lost, text)
    }

    async fn understood<T>(&self, answer: Result<T, ServiceError>) -> Result<T, Failure> {
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let server = &self.server;
        let (known, why) = match error {
            ServiceError::McpError(error) if error.code == UNREADABLE => {
                let text = format!("the MCP server `{server}` answered, but {}", error.message);
                return Err(Failure::new(Known::Answered, text));
            }
            ServiceError::McpError(error) => {
                let text = format!("the MCP server `{server}` refused: {}", error.message);
                return Err(Failure::new(Known::Answered, self.mask.hide_apart(text).await));
            }
            ServiceError::UnexpectedResponse => {
                let text = format!("the MCP server `{server}` answered, but not in a form that can be read");
                return Err(Failure::new(Known::Answered, text));
            }
            ServiceError::TransportSend(error) => sending(&error),
            _ => (Known::Lost, "the connection ended".to_owned()),
        };
        let why = end_of(&self.gate, self.process.as_ref(), self.is_closed()).await.unwrap_or(why);
        let text = self.mask.hide_apart(format!("the MCP server `{server}` failed: {why}")).await;
        let errors = match &self.process {
            Some(process) if self.is_closed() => process.last_words().await,
            _ => String::new(),
        };
        Err(Failure::new(known, text).with_errors(errors))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The task that reads from the process ends later.
        self.end();
    }
}

/// Why a server did not agree on the protocol.
#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("it refused: {0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
    #[error("the connection ended")]
    Ended,
}

/// Agrees on the protocol.
async fn serve<T>(
    transport: T,
    lifecycle: ClientLifecycleMode,
    time: Duration,
) -> Result<RunningService<RoleClient, ClientConfig>, NotServed>
where
    T: Transport<RoleClient> + 'static,
{
    let about = Implementation::new("vivarium", env!("CARGO_PKG_VERSION"));
    let config = ClientConfig::new(ClientCapabilities::default(), about)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
    // Boxed, because it is large.
    let serving = timeout(time, Box::pin(serve_client_with_lifecycle(config, transport, lifecycle))).await;
    let late =
        |_| NotServed::Failed(format!("it did not agree on the protocol within {} ms", time.as_millis()));
    serving.map_err(late)?.map_err(|error| match error {
        ClientInitializeError::ConnectionClosed(_) => NotServed::Ended,
        ClientInitializeError::TransportError { error, .. } => NotServed::Failed(sending(&error).1),
        ClientInitializeError::JsonRpcError(error) => NotServed::Refused(error.message.into_owned()),
        _ => NotServed::Failed("it does not answer as the protocol says".to_owned()),
    })
}

/// Why a connection ended, if it did.
async fn end_of(gate: &Gate, process: Option<&ServerProcess>, is_closed: bool) -> Option<String> {
    match (gate.end_reason(), process) {
        (Some(why), _) => Some(why),
        (None, Some(process)) if is_closed => Some(process.how_it_ended().await),
        (None, None) if is_closed => Some("the connection ended".to_owned()),
        _ => None,
    }
}

/// Why a message was not sent, and what is known of it.
fn sending(error: &DynamicTransportError) -> (Known, String) {
    match error.error.downcast_ref::<StreamableHttpError<WebFailure>>() {
        Some(StreamableHttpError::SessionExpired) => {
            (Known::Expired, "it does not know this connection any longer".to_owned())
        }
        Some(StreamableHttpError::Client(failure)) => (failure.known, failure.text.clone()),
        Some(StreamableHttpError::TransportChannelClosed) => (Known::Lost, "the connection ended".to_owned()),
        Some(other) => (Known::Lost, other.to_string()),
        None => (Known::Lost, error.error.to_string()),
    }
}
