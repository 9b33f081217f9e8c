//! A server as its tools see it: started when it is first needed, started again when it ended, and left alone for a while
//! after failures in a row.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard};
use std::time::Duration;

use agent::limits;
use agent::port::{CallGate, NoGate, Tool, ToolContext, ToolError};
use jiff::Timestamp;
use rmcp::model::{CallToolResult, JsonObject, ReadResourceResult};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::check::check_mcp_server;
use super::config::McpServerConfig;
use super::connection::{Connection, Opening};
use super::description::{McpDescription, McpListing, McpResource, READ_RESOURCE};
use super::failure::{Failure, Known};
use super::gate::lock;
use super::health::Health;
use super::host::McpHost;
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
    parts: Arc<Parts>,
    turns: Turns,
    /// The connection, or the start from which it comes.
    current: StdMutex<Option<Start>>,
}

/// What a start needs.
struct Parts {
    name: String,
    config: McpServerConfig,
    connector: Arc<Connector>,
    secrets: Arc<dyn Secrets>,
    limits: McpLimits,
    host: Arc<McpHost>,
    health: StdMutex<Health>,
    connections: AtomicU64,
}

type Started = Result<Arc<Connection>, Failure>;

/// One start, for all who ask meanwhile; it goes on if they no longer wait. Dropping it gives it up.
struct Start {
    started: watch::Receiver<Option<Started>>,
    task: JoinHandle<()>,
}

impl Start {
    fn begin(parts: Arc<Parts>) -> Self {
        let (told, started) = watch::channel(None);
        let task = tokio::spawn(async move {
            let opened = parts.open().await.map(Arc::new);
            if let Err(failure) = &opened {
                lock(&parts.health).failed(&failure.text, None);
            }
            told.send_replace(Some(opened));
        });
        Self { started, task }
    }

    /// Whether it is under way, or has led to a connection that lives.
    fn is_useful(&self) -> bool {
        match &*self.started.borrow() {
            None => !self.task.is_finished(),
            Some(Ok(connection)) => !connection.is_closed(),
            Some(Err(_)) => false,
        }
    }

    fn is_of(&self, connection: &Connection) -> bool {
        matches!(&*self.started.borrow(), Some(Ok(current)) if current.number == connection.number)
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl McpServer {
    /// A server of this name; nothing is started yet. The list of mistakes is never empty.
    pub fn new(
        name: &str,
        config: McpServerConfig,
        connector: Arc<Connector>,
        secrets: Arc<dyn Secrets>,
        host: Arc<McpHost>,
    ) -> Result<Self, Vec<DeclarationMistake>> {
        let mistakes = check_mcp_server(name, &config);
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let turns = Turns::new(config.concurrency, None);
        let parts = Parts {
            name: name.to_owned(),
            config,
            connector,
            secrets,
            limits: McpLimits::default(),
            host,
            health: StdMutex::default(),
            connections: AtomicU64::new(0),
        };
        Ok(Self { parts: Arc::new(parts), turns, current: StdMutex::default() })
    }

    /// With other limits, before its first start.
    pub fn with_limits(mut self, limits: McpLimits) -> Self {
        if let Some(parts) = Arc::get_mut(&mut self.parts) {
            parts.limits = limits;
        }
        self
    }

    /// Its name in the settings.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// Its settings.
    pub fn config(&self) -> &McpServerConfig {
        &self.parts.config
    }

    /// Whether bubblewrap keeps its process from the hidden paths and from other processes. A server that is no process
    /// on this machine needs no wall.
    pub async fn is_walled(&self) -> bool {
        self.config().command.is_none() || self.parts.host.wall().await.is_some()
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
            listing.tools.push(McpDescription::of_resources(self.name()));
        }
        listing.tools.retain(|tool| self.config().allows(&tool.name));
        listing.left_out.retain(|(tool, _)| self.config().allows(tool));
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
        let (result, mask) = self.read(uri, self.parts.limits.list, Timestamp::now(), &NoGate).await?;
        Ok(super::answer::resource(result, &mask).await)
    }

    /// Its tools, as they were approved: those that can be built, and every mistake. Two tools of one name for models are
    /// a mistake.
    pub fn tools(
        self: &Arc<Self>,
        approved: &[McpDescription],
    ) -> (Vec<Arc<dyn Tool>>, Vec<DeclarationMistake>) {
        let (mut tools, mut mistakes): (Vec<Arc<dyn Tool>>, _) = (Vec::new(), Vec::new());
        for description in approved {
            let key = Some(format!("mcp.{}.tool.{}", self.name(), description.name));
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
    pub fn stop(&self) {
        lock(&self.current).take();
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
        let _place = self.turns.take(self.name(), context.now).await.map_err(Failure::not_sent)?;
        let first = self.call_once(tool, arguments, patience, context).await;
        match first {
            Err(failure) if failure.known == Known::Expired => {
                self.call_once(tool, arguments, patience, context).await
            }
            other => other,
        }
    }

    async fn call_once(
        &self,
        tool: &McpDescription,
        arguments: &JsonObject,
        patience: Duration,
        context: &ToolContext<'_>,
    ) -> Result<(CallToolResult, Arc<Mask>), Failure> {
        let connection = self.connection().await?;
        let checked = connection.check(tool).await;
        if let Err(failure) = checked {
            // Only the list was asked for.
            self.note(&connection, Some(&failure)).await;
            return Err(Failure { known: failure.known.before_call(), ..failure });
        }
        may_begin(context.gate).await?;
        let result = connection.call(&tool.name, arguments.clone(), context.call, patience).await;
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
        let _place = self.turns.take(self.name(), now).await.map_err(Failure::not_sent)?;
        let connection = self.connection().await?;
        may_begin(gate).await?;
        let result = connection.read(uri, patience).await;
        self.note(&connection, result.as_ref().err()).await;
        Ok((result?, Arc::clone(&connection.mask)))
    }

    /// The live connection; a new one if there is none. All who ask while it is started wait for the same start.
    async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        let mut started = {
            let mut current = lock(&self.current);
            if !current.as_ref().is_some_and(Start::is_useful) {
                lock(&self.parts.health).check(self.name()).map_err(Failure::not_sent)?;
                *current = Some(Start::begin(Arc::clone(&self.parts)));
            }
            current.as_ref().map(|start| start.started.clone())
        };
        let started = match &mut started {
            Some(started) => started.wait_for(Option::is_some).await.ok().and_then(|started| started.clone()),
            None => None,
        };
        started.unwrap_or_else(|| {
            Err(Failure::not_sent(format!("the start of the MCP server `{}` was given up", self.name())))
        })
    }

    /// Counts the end of a question to the server.
    async fn note(&self, connection: &Connection, failure: Option<&Failure>) {
        let is_useless = match failure {
            Some(failure) if failure.known == Known::Expired => true,
            Some(failure) if failure.known == Known::Hung => {
                self.health().failed(&failure.text, Some(connection.number));
                connection.end();
                true
            }
            Some(failure) if failure.known != Known::Answered => {
                let ended = connection.is_closed().then_some(connection.number);
                self.health().failed(&failure.text, ended)
            }
            _ => {
                self.health().answered();
                false
            }
        };
        if is_useless {
            // A server that answers nothing any longer may do so after a new start.
            lock(&self.current).take_if(|current| current.is_of(connection));
        }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        lock(&self.parts.health)
    }
}

impl Parts {
    async fn open(&self) -> Result<Connection, Failure> {
        if let Some(missing) = self.config.write.iter().find(|path| !path.exists()) {
            let (name, path) = (&self.name, missing.display());
            let why = format!(
                "the MCP server `{name}` did not start: its `write` names `{path}`, which does not exist"
            );
            return Err(Failure::not_sent(why));
        }
        if let Some(path) = self.host.makeable(&self.config.write).await {
            let (name, path) = (&self.name, path.display());
            let why = format!(
                "the MCP server `{name}` did not start: what it may write contains `{path}`, which viv reads, and which is not \
                 there yet or is a link\nhint: make it first, or let `write` name a folder beside it"
            );
            return Err(Failure::not_sent(why));
        }
        let home = self.config.command.as_ref().map(|_| self.home()).transpose()?;
        let opening = Opening {
            server: &self.name,
            config: &self.config,
            connector: &self.connector,
            secrets: self.secrets.as_ref(),
            home: home.as_deref().unwrap_or(Path::new("/")),
            host: &self.host,
            limits: self.limits,
            number: self.connections.fetch_add(1, Ordering::Relaxed),
        };
        Box::pin(Connection::open(opening)).await
    }

    fn home(&self) -> Result<PathBuf, Failure> {
        self.host.home(&self.name).map_err(|error| {
            Failure::not_sent(format!(
                "the MCP server `{}` did not start: it can be given no home directory: {error}",
                self.name
            ))
        })
    }
}

async fn may_begin(gate: &dyn CallGate) -> Result<(), Failure> {
    gate.may_begin().await.map_err(|kept| Failure::not_sent(kept.model))
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpServer").field(&self.name()).finish()
    }
}
