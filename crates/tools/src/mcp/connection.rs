//! One live connection to a server: from the start to the lists of its tools and the answers of its calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    Implementation, JsonObject, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, Peer, RunningService, ServiceError, serve_client,
};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::{DynamicTransportError, Transport};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::McpLimits;
use super::config::McpServerConfig;
use super::description::{McpDescription, McpListing, McpResource};
use super::failure::{Failure, Known};
use super::gate::{Gate, Gated};
use super::lines::Lines;
use super::process::{Program, ServerProcess, Wall};
use super::values;
use super::web::{WebClient, WebFailure};
use crate::connector::{AllowList, Connector};
use crate::secret::{Mask, Secrets};

/// What a connection is opened with.
pub(super) struct Opening<'a> {
    pub(super) server: &'a str,
    pub(super) config: &'a McpServerConfig,
    pub(super) connector: &'a Arc<Connector>,
    pub(super) secrets: &'a dyn Secrets,
    pub(super) home: &'a Path,
    pub(super) wall: Option<&'a Wall>,
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
    /// The hashes of its tools, as last read.
    listed: Mutex<Option<BTreeMap<String, String>>>,
}

impl Connection {
    pub(super) async fn open(opening: Opening<'_>) -> Result<Self, Failure> {
        let (server, config) = (opening.server, opening.config);
        let values = if config.url.is_some() { &config.headers } else { &config.env };
        let opened = values::open(values, opening.secrets).await;
        let (values, mask) =
            opened.map_err(|why| Failure::not_sent(format!("the MCP server `{server}`: {why}")))?;
        let (mask, gate) = (Arc::new(mask), Gate::new(server));
        let (service, process) = match (&config.command, &config.url) {
            (Some(command), _) => {
                let (home, wall, mask) = (opening.home, opening.wall, Arc::clone(&mask));
                let program = Program { server, command, env: &values, home, wall, mask: Arc::clone(&mask) };
                let started = ServerProcess::start(&program);
                let (process, output, input) = started.map_err(|why| {
                    Failure::not_sent(format!("the MCP server `{server}` did not start: {why}"))
                })?;
                let lines = Lines::new(output, input, mask, Arc::clone(&gate));
                (
                    serve(Gated { inner: lines, gate: Arc::clone(&gate) }, opening.limits.start).await,
                    Some(process),
                )
            }
            (None, url) => {
                let allow = config.allow.iter().map(|entry| entry.parse()).collect::<Result<_, String>>();
                let client = WebClient {
                    connector: Arc::clone(opening.connector),
                    url: url.clone().unwrap_or_default(),
                    allow: AllowList::new(allow.map_err(Failure::not_sent)?),
                    headers: values.into(),
                    mask: Arc::clone(&mask),
                };
                let inner = client.transport(config.concurrency);
                (serve(Gated { inner, gate: Arc::clone(&gate) }, opening.limits.start).await, None)
            }
        };
        let service = match service {
            Ok(service) => service,
            Err(why) => {
                let why = end_of(&gate, process.as_ref(), why.is_none()).await.or(why).unwrap_or_default();
                let errors = match &process {
                    Some(process) => process.last_words().await,
                    None => String::new(),
                };
                let text = mask.hide(format!("the MCP server `{server}` did not start: {why}"));
                return Err(Failure::not_sent(text).with_errors(errors));
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

    /// Whether the server says that it has resources.
    pub(super) fn has_resources(&self) -> bool {
        self.peer().peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// The tools as the server describes them now.
    pub(super) async fn list(&self) -> Result<McpListing, Failure> {
        let mut listed = self.listed.lock().await;
        self.gate.take_changed();
        let reading = timeout(self.limits.list, self.read_tools()).await;
        let listing = reading.unwrap_or_else(|_| Err(self.late("list of its tools", self.limits.list)));
        if listing.is_err() {
            self.gate.set_changed();
        }
        let listing = listing?;
        *listed = Some(listing.tools.iter().map(|tool| (tool.name.clone(), tool.hash.clone())).collect());
        Ok(listing)
    }

    /// An error unless the server describes the tool as it was approved.
    pub(super) async fn check(&self, approved: &McpDescription) -> Result<(), Failure> {
        if self.gate.is_changed() || self.listed.lock().await.is_none() {
            self.list().await?;
        }
        let (server, tool) = (&self.server, &approved.name);
        let listed = self.listed.lock().await;
        let why = match listed.as_ref().and_then(|listed| listed.get(tool)) {
            Some(hash) if *hash == approved.hash => return Ok(()),
            Some(_) => "describes its tool differently from what was approved",
            None => "no longer offers its tool in a form that can be used",
        };
        let text = format!(
            "the MCP server `{server}` {why}: `{tool}`. It was not called.\n\
             hint: an operator can look at its tools and approve them with `viv mcp approve {server}`"
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
    pub(super) async fn call(&self, tool: &str, arguments: JsonObject) -> Result<CallToolResult, Failure> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let calling = timeout(self.limits.call, self.peer().call_tool_once(params)).await;
        match self.understood(calling.map_err(|_| self.late("answer", self.limits.call))?).await? {
            CallToolResponse::Complete(result) => Ok(result),
            _ => Err(self.wants_more()),
        }
    }

    /// Reads a resource.
    pub(super) async fn read(&self, uri: &str) -> Result<ReadResourceResult, Failure> {
        let params = ReadResourceRequestParams::new(uri);
        let reading = timeout(self.limits.call, self.peer().read_resource_once(params)).await;
        match self.understood(reading.map_err(|_| self.late("answer", self.limits.call))?).await? {
            ReadResourceResponse::Complete(result) => Ok(result),
            _ => Err(self.wants_more()),
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
            ServiceError::McpError(error) => {
                let text = format!("the MCP server `{server}` refused: {}", error.message);
                return Err(Failure::new(Known::Answered, self.mask.hide(text)));
            }
            ServiceError::UnexpectedResponse => {
                let text = format!("the MCP server `{server}` answered, but not in a form that can be read");
                return Err(Failure::new(Known::Answered, text));
            }
            ServiceError::TransportSend(error) => sending(&error),
            _ => (Known::Lost, "the connection ended".to_owned()),
        };
        let why = end_of(&self.gate, self.process.as_ref(), self.is_closed()).await.unwrap_or(why);
        let text = self.mask.hide(format!("the MCP server `{server}` gave no answer: {why}"));
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
        if let Some(process) = &self.process {
            process.end();
        }
    }
}

/// Agrees on the protocol. The error is why that failed, `None` if the connection ended.
async fn serve<T>(
    transport: T,
    time: Duration,
) -> Result<RunningService<RoleClient, ClientConfig>, Option<String>>
where
    T: Transport<RoleClient> + 'static,
{
    let about = Implementation::new("vivarium", env!("CARGO_PKG_VERSION"));
    let config = ClientConfig::new(ClientCapabilities::default(), about)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
    // Boxed, because it is large.
    match timeout(time, Box::pin(serve_client(config, transport))).await {
        Err(_) => Err(Some(format!("it did not agree on the protocol within {} ms", time.as_millis()))),
        Ok(Ok(service)) => Ok(service),
        Ok(Err(ClientInitializeError::ConnectionClosed(_))) => Err(None),
        Ok(Err(ClientInitializeError::TransportError { error, .. })) => Err(Some(sending(&error).1)),
        Ok(Err(ClientInitializeError::JsonRpcError(error))) => {
            Err(Some(format!("it refused: {}", error.message)))
        }
        Ok(Err(_)) => Err(Some("it does not answer as the protocol says".to_owned())),
    }
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
        Some(StreamableHttpError::Client(failure)) => {
            let known = if failure.may_have_arrived { Known::Lost } else { Known::NotSent };
            (known, failure.text.clone())
        }
        Some(StreamableHttpError::TransportChannelClosed) => (Known::Lost, "the connection ended".to_owned()),
        Some(other) => (Known::Lost, other.to_string()),
        None => (Known::Lost, error.error.to_string()),
    }
}

/// The pages of a list.
#[derive(Default)]
struct Pages {
    count: usize,
    items: usize,
    cursor: Option<String>,
    is_over: bool,
}

impl Pages {
    fn next(&mut self, server: &str) -> Result<Option<Option<PaginatedRequestParams>>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        self.count += 1;
        if self.count > limits::MCP_PAGES_MAX {
            return Err(too_long(server, limits::MCP_PAGES_MAX, "pages"));
        }
        let page = self.cursor.clone();
        Ok(Some(page.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)))))
    }

    fn turn(&mut self, server: &str, items: usize, cursor: Option<String>) -> Result<(), Failure> {
        self.items += items;
        if self.items > limits::MCP_LISTED_MAX {
            return Err(too_long(server, limits::MCP_LISTED_MAX, "entries"));
        }
        self.is_over = cursor.is_none();
        self.cursor = cursor;
        Ok(())
    }
}

fn too_long(server: &str, max: usize, what: &str) -> Failure {
    Failure::not_sent(format!("the MCP server `{server}` has a list of more than {max} {what}"))
}
