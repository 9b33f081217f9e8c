//! The tools of a server by name, in a stable order: the prebuilt tools first, then the added ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use agent::port::{BoxFuture, DeclaredTool, OfferedTools, StoredTool, Tool, Toolbox};
use serde_json::Value;

use crate::ask_person::{ask_person, fits};
use crate::connector::Connector;
use crate::declare::{Declaration, DeclarationMistake, ToolKind, line_of, read_json, read_toml};
use crate::fetch_page::FetchPage;
use crate::http::HttpTool;
use crate::mcp::{McpHost, McpListing, McpServer, McpServerConfig, McpTool};
use crate::secret::{self, Secrets};
use crate::typed::typed;
use crate::worker::WorkerTool;
use crate::{
    ending, enter_space, get_my_runs, goals, memories, peek_inbox, plans, read_messages, read_outcome,
    recall, send_message,
};

/// Why a tool cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTool {
    /// The name is taken by a prebuilt tool or by one that was added before.
    #[error("wanted a tool under a name of its own, but `{0}` is taken\nhint: give it another name")]
    NameTaken(String),
    /// Model vendors do not accept this name.
    #[error("wanted a tool's name of 1 to 64 characters from a-z, A-Z, 0-9, `_` and `-`, got `{0}`")]
    BadName(String),
}

/// All tools of a server.
#[derive(Clone)]
pub struct ToolKit {
    prebuilt: Vec<Arc<dyn Tool>>,
    /// Only for agents that name them, or with tools outside the prebuilt ones.
    further: [Arc<dyn Tool>; 2],
    added: Vec<Arc<dyn Tool>>,
    /// `None`: this kit takes no declared tools.
    declared: Option<Arc<DeclaredTools>>,
}

/// The declared tools, and what they are run with.
struct DeclaredTools {
    connector: Arc<Connector>,
    secrets: Arc<dyn Secrets>,
    servers: RwLock<Vec<Arc<McpServer>>>,
    /// Where the servers come from, if they can be read again.
    source: Option<(Arc<McpHost>, Arc<McpSettings>)>,
    /// In the order of their names.
    tools: RwLock<Arc<[BuiltTool]>>,
}

/// Reads the MCP servers in the settings; the error is for an operator.
pub type McpSettings = dyn Fn() -> Result<BTreeMap<String, McpServerConfig>, String> + Send + Sync;

/// A declared tool. One whose declaration stays the same is kept, with the calls that it counts.
#[derive(Clone)]
struct BuiltTool {
    declaration: Declaration,
    tool: Arc<dyn Tool>,
    /// The server that it is a tool of.
    server: Option<Arc<McpServer>>,
}

/// A kit of the prebuilt tools.
pub fn prebuilt() -> ToolKit {
    ToolKit {
        added: Vec::new(),
        declared: None,
        further: [typed::<read_outcome::ReadOutcome>(), ask_person()],
        prebuilt: vec![
            typed::<enter_space::EnterSpace>(),
            typed::<send_message::SendMessage>(),
            typed::<read_messages::ReadMessages>(),
            typed::<peek_inbox::PeekInbox>(),
            typed::<ending::Skip>(),
            typed::<ending::Done>(),
            typed::<memories::SetMemories>(),
            typed::<memories::DeleteMemories>(),
            typed::<goals::SetGoals>(),
            typed::<goals::DeleteGoals>(),
            typed::<get_my_runs::GetMyRuns>(),
            typed::<recall::Recall>(),
            typed::<recall::ReadCycle>(),
            typed::<plans::SetPlans>(),
            typed::<plans::DeletePlans>(),
            typed::<plans::SetReminder>(),
        ],
    }
}

impl ToolKit {
    /// Adds a tool after the others. Only agents that list it in their tools have it.
    pub fn with(mut self, tool: Arc<dyn Tool>) -> Result<Self, BadTool> {
        let name = &tool.spec().name;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
            return Err(BadTool::BadName(name.chars().take(80).collect()));
        }
        if self.tool(name).is_some() {
            return Err(BadTool::NameTaken(name.clone()));
        }
        self.added.push(tool);
        Ok(self)
    }

    /// Takes declared tools: their requests go through this connector, and these MCP servers may offer some.
    /// The tool that reads pages uses it, too.
    pub fn declaring(
        mut self,
        connector: Arc<Connector>,
        secrets: Arc<dyn Secrets>,
        servers: Vec<Arc<McpServer>>,
    ) -> Self {
        self.added.push(Arc::new(FetchPage::new(Arc::clone(&connector))));
        let (servers, tools) = (RwLock::new(servers), RwLock::default());
        self.declared = Some(Arc::new(DeclaredTools { connector, secrets, servers, source: None, tools }));
        self
    }

    /// Takes declared tools and the MCP servers in the settings, which can be read again. The error lists every mistake.
    pub fn serving(
        self,
        connector: Arc<Connector>,
        secrets: Arc<dyn Secrets>,
        host: Arc<McpHost>,
        settings: Arc<McpSettings>,
    ) -> Result<Self, String> {
        let mut kit = self.declaring(connector, secrets, Vec::new());
        if let Some(declared) = kit.declared.as_mut().and_then(Arc::get_mut) {
            declared.source = Some((host, settings));
            declared.reload()?;
        }
        Ok(kit)
    }

    fn fixed(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.prebuilt.iter().chain(&self.further).chain(&self.added)
    }

    fn fixed_names(&self) -> Vec<String> {
        self.fixed().map(|tool| tool.spec().name.clone()).collect()
    }

    fn checked(&self, read: Declaration) -> Result<DeclaredTool, Vec<String>> {
        let Some(declared) = &self.declared else {
            return Err(vec!["this server takes no declared tools".to_owned()]);
        };
        declared.build(read.clone())?;
        described_as(&read).map_err(|why| vec![why])
    }

    fn declared(&self) -> Arc<[BuiltTool]> {
        let tools = self.declared.as_ref().map(|declared| &declared.tools);
        tools.map_or_else(Arc::default, |tools| {
            Arc::clone(&tools.read().unwrap_or_else(PoisonError::into_inner))
        })
    }
}

impl DeclaredTools {
    /// The tool of a declaration, or every mistake in it.
    fn build(&self, declaration: Declaration) -> Result<Arc<dyn Tool>, Vec<String>> {
        match declaration.kind {
            ToolKind::Http => {
                let (connector, secrets) = (Arc::clone(&self.connector), Arc::clone(&self.secrets));
                let built = HttpTool::new(declaration, connector, secrets);
                built.map(|tool| Arc::new(tool) as Arc<dyn Tool>).map_err(texts)
            }
            ToolKind::Worker => {
                let built = WorkerTool::new(&declaration);
                built.map(|tool| Arc::new(tool) as Arc<dyn Tool>).map_err(texts)
            }
            ToolKind::Mcp => {
                let mcp = declaration.mcp.ok_or_else(|| vec!["it names no MCP server".to_owned()])?;
                let tool = McpTool::new(self.server(&mcp.server)?, mcp.approved).map_err(|why| vec![why])?;
                Ok(Arc::new(tool))
            }
        }
    }
}

impl DeclaredTools {
    fn servers(&self) -> Vec<Arc<McpServer>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Servers whose settings stay the same are kept, with what runs there.
    fn reload(&self) -> Result<(), String> {
        let (host, settings) =
            self.source.as_ref().ok_or("the settings of this server cannot be read again")?;
        let before = self.servers();
        let server = |(name, config): (String, McpServerConfig)| {
            let same = before.iter().find(|server| server.name() == name && *server.config() == config);
            let (connector, secrets) = (Arc::clone(&self.connector), Arc::clone(&self.secrets));
            match same {
                Some(same) => Ok(Arc::clone(same)),
                None => McpServer::new(&name, config, connector, secrets, Arc::clone(host))
                    .map(Arc::new)
                    .map_err(|wrong| texts(wrong).join("\n")),
            }
        };
        let servers = settings()?.into_iter().map(server).collect::<Result<Vec<_>, String>>()?;
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = servers;
        Ok(())
    }

    fn server(&self, name: &str) -> Result<Arc<McpServer>, Vec<String>> {
        let found = self.servers().into_iter().find(|server| server.name() == name);
        found.ok_or_else(|| vec![format!("there is no MCP server `{name}` in the settings")])
    }

    async fn offered(&self, name: &str, taken: &[String]) -> Result<OfferedTools, String> {
        let server = self.server(name).map_err(|why| why.join("; "))?;
        let walled = server.is_walled().await;
        let listing = server.list().await.map_err(|error| error.operator.unwrap_or(error.model))?;
        let McpListing { tools: described, mut left_out } = listing;
        let mut tools: Vec<DeclaredTool> = Vec::new();
        for description in described {
            let name = description.name.clone();
            let declared = McpTool::new(Arc::clone(&server), description).and_then(|tool| {
                let tool = described_as(&tool.declaration())?;
                let is_taken =
                    taken.contains(&tool.name) || tools.iter().any(|other| other.name == tool.name);
                if is_taken { Err(format!("there is another tool `{}`", tool.name)) } else { Ok(tool) }
            });
            match declared {
                Ok(tool) => tools.push(tool),
                Err(why) => left_out.push((name, why)),
            }
        }
        Ok(OfferedTools { tools, left_out, walled })
    }
}

/// A declaration as operators see it.
fn described_as(declaration: &Declaration) -> Result<DeclaredTool, String> {
    let mcp = declaration.mcp.as_ref();
    Ok(DeclaredTool {
        hash: mcp.map_or_else(|| declaration.version(), |mcp| mcp.approved.hash.clone()),
        secrets: declaration.http.iter().flat_map(|http| http.secrets()).collect(),
        server: mcp.map(|mcp| mcp.server.clone()),
        declaration: serde_json::to_value(declaration).map_err(|error| error.to_string())?,
        name: declaration.name.clone(),
    })
}

fn texts(mistakes: Vec<impl ToString>) -> Vec<String> {
    mistakes.iter().map(ToString::to_string).collect()
}

impl Toolbox for ToolKit {
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let fixed = self.fixed().find(|tool| tool.spec().name == name).cloned();
        let named = |built: &&BuiltTool| built.declaration.name == name;
        fixed.or_else(|| self.declared().iter().find(named).map(|built| Arc::clone(&built.tool)))
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.fixed_names();
        names.extend(self.declared().iter().map(|built| built.declaration.name.clone()));
        names
    }

    fn is_prebuilt(&self, name: &str) -> bool {
        self.prebuilt.iter().any(|tool| tool.spec().name == name)
    }

    fn check(&self, declaration: &Value) -> Result<DeclaredTool, Vec<String>> {
        self.checked(read_json(declaration, &self.fixed_names()).map_err(texts)?)
    }

    fn read_file(&self, text: &str) -> Result<DeclaredTool, Vec<String>> {
        let nameless = |mistake: DeclarationMistake| {
            let line = mistake.key.as_ref().and_then(|key| line_of(text, key));
            let what = DeclarationMistake { file: None, ..mistake };
            line.map_or_else(|| what.to_string(), |line| format!("line {line}: {what}"))
        };
        let read = read_toml("", text, &self.fixed_names());
        self.checked(read.map_err(|wrong| wrong.into_iter().map(nameless).collect::<Vec<_>>())?)
    }

    fn fits(&self, schema: &Value, value: &Value) -> Result<(), String> {
        fits(schema, value)
    }

    fn servers(&self) -> Vec<String> {
        let servers = self.declared.iter().flat_map(|declared| declared.servers());
        servers.map(|server| server.name().to_owned()).collect()
    }

    fn reload_servers(&self) -> Result<(), String> {
        self.declared.as_ref().ok_or("this server has no MCP servers")?.reload()
    }

    fn missing_secrets<'a>(&'a self, declaration: &'a Value) -> BoxFuture<'a, Vec<(String, String)>> {
        Box::pin(async move {
            let (Some(declared), Ok(tool)) = (&self.declared, self.check(declaration)) else {
                return Vec::new();
            };
            let mut missing = Vec::new();
            for name in tool.secrets {
                if let Err(why) = secret::open(BTreeSet::from([name.clone()]), &*declared.secrets).await {
                    missing.push((name, why));
                }
            }
            missing
        })
    }

    fn offered<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<OfferedTools, String>> {
        Box::pin(async move {
            let declared = self.declared.as_ref().ok_or("this server has no MCP servers")?;
            declared.offered(server, &self.fixed_names()).await
        })
    }

    fn declare(&self, declarations: &[StoredTool]) -> Vec<(String, String)> {
        let Some(declared) = &self.declared else { return Vec::new() };
        let (taken, before) = (self.fixed_names(), self.declared());
        let build = |declaration: &Value| -> Result<BuiltTool, Vec<String>> {
            let read = read_json(declaration, &taken).map_err(texts)?;
            let server = read.mcp.as_ref().map(|mcp| declared.server(&mcp.server)).transpose()?;
            let is_same = |built: &&BuiltTool| match (&built.server, &server) {
                (Some(before), Some(now)) => built.declaration == read && Arc::ptr_eq(before, now),
                (before, now) => built.declaration == read && before.is_none() && now.is_none(),
            };
            match before.iter().find(is_same) {
                Some(kept) => Ok(kept.clone()),
                None => Ok(BuiltTool { tool: declared.build(read.clone())?, declaration: read, server }),
            }
        };
        let (mut tools, mut unusable) = (Vec::new(), Vec::new());
        for StoredTool { name, declaration, .. } in declarations {
            match build(declaration) {
                Ok(built) => tools.push(built),
                Err(wrong) => unusable.push((name.clone(), wrong.join("; "))),
            }
        }
        tools.sort_by(|a, b| a.declaration.name.cmp(&b.declaration.name));
        *declared.tools.write().unwrap_or_else(PoisonError::into_inner) = tools.into();
        unusable
    }
}

impl std::fmt::Debug for ToolKit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ToolKit").field(&self.names()).finish()
    }
}
