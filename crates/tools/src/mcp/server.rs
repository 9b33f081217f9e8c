//! A server as its tools see it: started when it is first needed, started again when it ended, and left alone for a while
//! after failures in a row.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use agent::limits;
use agent::port::{CallGate, NoGate, Tool, ToolContext, ToolError};
use jiff::Timestamp;
use rmcp::model::{CallToolResult, JsonObject, ReadResourceResult};
use tempfile::TempDir;
use tokio::sync::{Mutex, OnceCell};

use super::check::check_mcp_server;
use super::config::McpServerConfig;
use super::connection::{Connection, Opening};
use super::description::{McpDescription, McpListing, McpResource, READ_RESOURCE};
use super::failure::{Failure, Known};
use super::gate::lock;
use super::health::Health;
use super::process::Wall;
use super::tool::McpTool;
use crate::connector::Connector;
use crate::declare::DeclarationMistake;
use crate::secret::{Mask, Secrets};
use crate::turn::Turns;

/// How long a server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpLimits {
    /// To start and to agree on the protocol.
    pub start: Duration,
    /// To list its tools or resources, all pages.
    pub list: Duration,
    /// To answer one call. A cycle stops waiting after the tool's own time-out, but a late answer still becomes an event.
    pub call: Duration,
    /// To say that it lives, when a call takes longer than the tool's time-out.
    pub ping: Duration,
}

impl Default for McpLimits {
    fn default() -> Self {
        Self {
            start: Duration::from_millis(limits::MCP_START_MS),
            list: Duration::from_millis(limits::MCP_LIST_MS),
            call: Duration::from_millis(limits::LATE_MS),
            ping: Duration::from_millis(limits::MCP_PING_MS),
        }
    }
}

/// An MCP server. Dropping it ends its process.
pub struct McpServer {
    name: String,
    config: McpServerConfig,
    connector: Arc<Connector>,
    secrets: Arc<dyn Secrets>,
    limits: McpLimits,
    /// What a process must not see.
    hidden: Vec<PathBuf>,
    wall: OnceCell<Option<Wall>>,
    turns: Turns,
    health: StdMutex<Health>,
    connections: AtomicU64,
    current: Mutex<Option<Arc<Connection>>>,
    /// The home directory of its process. The last field: it is removed after the process has ended.
    home: StdMutex<Option<Arc<TempDir>>>,
}

impl McpServer {
    /// A server of this name; nothing is started yet. `hidden` are paths that its process must not see. The list of
    /// mistakes is never empty.
    pub fn new(
        name: &str,
        config: McpServerConfig,
        connector: Arc<Connector>,
        secrets: Arc<dyn Secrets>,
        hidden: Vec<PathBuf>,
    ) -> Result<Self, Vec<DeclarationMistake>> {
        let mistakes = check_mcp_server(name, &config);
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        Ok(Self {
            name: name.to_owned(),
            turns: Turns::new(config.concurrency, None),
            config,
            connector,
            secrets,
            limits: McpLimits::default(),
            hidden,
            wall: OnceCell::new(),
            health: StdMutex::default(),
            connections: AtomicU64::new(0),
            current: Mutex::default(),
            home: StdMutex::default(),
        })
    }

    /// With other limits.
    pub fn with_limits(mut self, limits: McpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Its name in the settings.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its settings.
    pub fn config(&self) -> &McpServerConfig {
        &self.config
    }

    /// Whether bubblewrap keeps its process from the hidden paths and from other processes. A server that is no process
    /// on this machine needs no wall.
    pub async fn is_walled(&self) -> bool {
        self.config.command.is_none() || self.wall().await.is_some()
    }

    async fn wall(&self) -> Option<&Wall> {
        self.wall.get_or_init(|| Wall::find(&self.hidden)).await.as_ref()
    }

    /// The tools as the server describes them now: those that the settings allow, and one that reads its resources if it
    /// has any.
    pub async fn list(&self) -> Result<McpListing, ToolError> {
        let connection = self.connection().await?;
        let listing = connection.list().await;
        self.note(&connection, listing.as_ref().err()).await;
        let mut listing = listing?;
        let has_own = listing.tools.iter().any(|tool| tool.name == READ_RESOURCE);
        if !has_own && connection.has_resources().await {
            listing.tools.push(McpDescription::of_resources(&self.name));
        }
        listing.tools.retain(|tool| self.config.allows(&tool.name));
        listing.left_out.retain(|(tool, _)| self.config.allows(tool));
        Ok(listing)
    }

    /// The resources that the server offers now.
    pub async fn resources(&self) -> Result<Vec<McpResource>, ToolError> {
        let connection = self.connection().await?;
        if !connection.knows_resources() {
            return Ok(Vec::new());
        }
        let resources = connection.resources().await;
        self.note(&connection, resources.as_ref().err()).await;
        Ok(resources?)
    }

    /// The text of a resource.
    pub async fn read_resource(&self, uri: &str) -> Result<String, ToolError> {
        let (result, mask) = self.read(uri, self.limits.list, Timestamp::now(), &NoGate).await?;
        Ok(super::answer::resource(result, &mask))
    }

    /// Its tools, as they were approved: those that can be built, and every mistake. Two tools of one name for models are
    /// a mistake.
    pub fn tools(
        self: &Arc<Self>,
        approved: &[McpDescription],
    ) -> (Vec<Arc<dyn Tool>>, Vec<DeclarationMistake>) {
        let (mut tools, mut mistakes): (Vec<Arc<dyn Tool>>, _) = (Vec::new(), Vec::new());
        for description in approved {
            let key = Some(format!("mcp.{}.tool.{}", self.name, description.name));
            let mut wrong = |why| mistakes.push(DeclarationMistake { file: None, key: key.clone(), why });
            match McpTool::new(Arc::clone(self), description.clone()) {
                Ok(tool) if tools.iter().any(|other| other.spec().name == tool.spec().name) => {
                    let name = &tool.spec().name;
                    wrong(format!("models would know two tools as `{name}`\nhint: leave one out in `tools`"));
                }
                Ok(tool) => tools.push(Arc::new(tool)),
                Err(why) => wrong(why),
            }
        }
        (tools, mistakes)
    }

    /// Ends its process. The next call starts it again.
    pub async fn stop(&self) {
        self.current.lock().await.take();
    }

    /// Calls a tool of the server, if it still describes it as it was approved. Whoever calls waits for `patience`; after
    /// that the server is asked whether it lives.
    pub(super) async fn call(
        &self,
        tool: &McpDescription,
        arguments: &JsonObject,
        patience: Duration,
        context: &ToolContext<'_>,
    ) -> Result<(CallToolResult, Arc<Mask>), Failure> {
        let _place = self.turns.take(&self.name, context.now).await.map_err(Failure::not_sent)?;
        let first = self.call_once(tool, arguments, patience, context.gate).await;
        match first {
            Err(failure) if failure.known == Known::Expired => {
                self.call_once(tool, arguments, patience, context.gate).await
            }
            other => other,
        }
    }

    async fn call_once(
        &self,
        tool: &McpDescription,
        arguments: &JsonObject,
        patience: Duration,
        gate: &dyn CallGate,
    ) -> Result<(CallToolResult, Arc<Mask>), Failure> {
        let connection = self.connection().await?;
        let checked = connection.check(tool).await;
        if let Err(failure) = checked {
            // Only the list was asked for.
            self.note(&connection, Some(&failure)).await;
            return Err(Failure { known: failure.known.before_call(), ..failure });
        }
        may_begin(gate).await?;
        let result = connection.call(&tool.name, arguments.clone(), patience).await;
        self.note(&connection, result.as_ref().err()).await;
        Ok((result?, Arc::clone(&connection.mask)))
    }

    pub(super) async fn read(
        &self,
        uri: &str,
        patience: Duration,
        now: Timestamp,
        gate: &dyn CallGate,
    ) -> Result<(ReadResourceResult, Arc<Mask>), Failure> {
        let _place = self.turns.take(&self.name, now).await.map_err(Failure::not_sent)?;
        let connection = self.connection().await?;
        may_begin(gate).await?;
        let result = connection.read(uri, patience).await;
        self.note(&connection, result.as_ref().err()).await;
        Ok((result?, Arc::clone(&connection.mask)))
    }

    /// The live connection; a new one if there is none.
    async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        let check = || lock(&self.health).check(&self.name).map_err(Failure::not_sent);
        check()?;
        let mut current = self.current.lock().await;
        if let Some(connection) = current.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(Arc::clone(connection));
        }
        current.take();
        // Others may have tried while this one waited.
        check()?;
        match self.open().await {
            Ok(connection) => Ok(Arc::clone(current.insert(Arc::new(connection)))),
            Err(failure) => {
                lock(&self.health).failed(&failure.text, None);
                Err(failure)
            }
        }
    }

    async fn open(&self) -> Result<Connection, Failure> {
        let (home, wall) = match &self.config.command {
            Some(_) => (Some(self.home()?), self.wall().await),
            None => (None, None),
        };
        let opening = Opening {
            server: &self.name,
            config: &self.config,
            connector: &self.connector,
            secrets: self.secrets.as_ref(),
            home: home.as_ref().map_or(std::path::Path::new("/"), |home| home.path()),
            wall,
            limits: self.limits,
            number: self.connections.fetch_add(1, Ordering::Relaxed),
        };
        Box::pin(Connection::open(opening)).await
    }

    fn home(&self) -> Result<Arc<TempDir>, Failure> {
        let mut home = lock(&self.home);
        if let Some(home) = home.as_ref() {
            return Ok(Arc::clone(home));
        }
        let made = tempfile::Builder::new().prefix("viv-mcp-").tempdir().map_err(|error| {
            Failure::not_sent(format!(
                "the MCP server `{}` did not start: it can be given no home directory: {error}",
                self.name
            ))
        })?;
        Ok(Arc::clone(home.insert(Arc::new(made))))
    }

    /// Counts the end of a question to the server.
    async fn note(&self, connection: &Connection, failure: Option<&Failure>) {
        let is_useless = match failure {
            Some(failure) if failure.known == Known::Expired => true,
            Some(failure) if failure.known == Known::Hung => {
                lock(&self.health).failed(&failure.text, Some(connection.number));
                connection.end();
                true
            }
            Some(failure) if failure.known != Known::Answered => {
                let ended = connection.is_closed().then_some(connection.number);
                lock(&self.health).failed(&failure.text, ended)
            }
            _ => {
                lock(&self.health).answered();
                false
            }
        };
        if is_useless {
            // A server that answers nothing any longer may do so after a new start.
            self.current.lock().await.take_if(|current| current.number == connection.number);
        }
    }
}

async fn may_begin(gate: &dyn CallGate) -> Result<(), Failure> {
    gate.may_begin().await.map_err(|kept| Failure::not_sent(kept.model))
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpServer").field(&self.name).finish()
    }
}
