//! A tool: a named capability with a schema and an effect class.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{BoxFuture, Lookup, Models, StoredTool};
use crate::call::{Effect, Outcome};
use crate::changes::Inward;
use crate::config::AgentConfig;
use crate::event::Trust;
use crate::id::{AgentId, CallId, CycleId, RootId, SpaceId};
use crate::life::Facts;
pub use crate::tool::ToolSpec;
use crate::tool::{self, names};

/// The context of a call, and what an inward tool may read.
pub struct ToolContext<'a> {
    /// The agent that calls.
    pub agent: AgentId,
    /// Its cycle.
    pub cycle: CycleId,
    /// The call's id, which is also the idempotency key of its effect.
    pub call: &'a CallId,
    /// The time of the decision.
    pub now: Timestamp,
    /// The agent's active space, pending changes included.
    pub active_space: Option<SpaceId>,
    /// The causal root of the cycle's messages.
    pub root: &'a RootId,
    /// The hop of its messages.
    pub hop: u32,
    /// The trust of what the agent says now.
    pub trust: Trust,
    /// Spaces, members and memories, as of the activation.
    pub facts: &'a Facts,
    /// Changes by the earlier calls of this step.
    pub pending: &'a Inward,
    /// Reads on the agent's behalf.
    pub lookup: &'a dyn Lookup,
    /// What a tool that reaches outside asks right before it sends.
    pub gate: &'a dyn CallGate,
}

/// The last look at a call before it reaches outside.
pub trait CallGate: Send + Sync {
    /// Whether the call may still begin. A tool that reaches outside asks after all that it waits for: its place, its rate,
    /// its secrets, the start of its server. After an error, which is its result, it sends nothing.
    fn may_begin(&self) -> BoxFuture<'_, Result<(), ToolError>>;
}

/// The gate of calls that no agent makes: it keeps none.
pub struct NoGate;

impl CallGate for NoGate {
    fn may_begin(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// What the model reads.
    pub outcome: Outcome,
    /// The requested changes; only inward tools may request any.
    pub inward: Inward,
}

/// Why a call failed, for the model and for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{model}")]
pub struct ToolError {
    /// What the model may read: what was wanted, what stood in the way, what to do.
    pub model: String,
    /// What the operator reads in addition.
    pub operator: Option<String>,
}

impl ToolError {
    /// An error that model and operator may read.
    pub fn new(text: impl Into<String>) -> Self {
        Self { model: text.into(), operator: None }
    }
}

/// A tool.
pub trait Tool: Send + Sync {
    /// Its name, schema and effect.
    fn spec(&self) -> &ToolSpec;
    /// Parses the raw argument string and checks it against the schema; the error is for the model. An empty string
    /// counts as `{}`.
    fn check(&self, arguments: &str) -> Result<Value, String>;
    /// Runs the tool. `arguments` have passed `check`.
    fn call<'a>(
        &'a self,
        arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>>;
}

/// The tools of an agent, as they are when an activation begins. A change is used from the next activation on, so that a
/// model never calls a tool by a description other than the one that it was sent.
#[derive(Clone)]
pub struct Toolset {
    specs: Arc<[ToolSpec]>,
    tools: Arc<[Arc<dyn Tool>]>,
}

impl Toolset {
    /// The tools with these names, in a stable order. Without a list they are the prebuilt ones: a tool that reaches outside
    /// must be named. An agent with one that does can also read what was left out of a large outcome.
    pub fn of(toolbox: &dyn Toolbox, wanted: Option<&[String]>) -> Self {
        Self::new(named(toolbox, wanted))
    }

    fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        let spec = |tool: &Arc<dyn Tool>| {
            // Counted in the original, so that the copies of all activations have it.
            tool.spec().tokens();
            tool.spec().clone()
        };
        Self { specs: tools.iter().map(spec).collect(), tools: tools.into() }
    }

    /// Their specifications.
    pub fn specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }

    /// The tool with that name.
    pub fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }
}

/// The tools that an agent's config names, within what its models accept.
pub struct AgentTools {
    tools: Vec<Arc<dyn Tool>>,
    /// Names of those that are above the bound, in order.
    pub left_out: Vec<String>,
    bound: Option<(u32, String)>,
}

impl AgentTools {
    /// The tools of an agent with this config. More than each of its models accepts happen only if tools were declared or
    /// approved, or the models changed, after the config was checked: then those go first that a pattern names, the last
    /// ones first.
    pub fn of(toolbox: &dyn Toolbox, models: &dyn Models, config: &AgentConfig) -> Self {
        let wanted = config.tools.as_deref();
        let mut tools = named(toolbox, wanted);
        let bound = bound(models, config);
        let max = bound.as_ref().map_or(usize::MAX, |(max, _)| *max as usize);
        let is_exact = |tool: &Arc<dyn Tool>| {
            let name = &tool.spec().name;
            name == names::READ_OUTCOME || wanted.is_some_and(|wanted| wanted.contains(name))
        };
        let mut left_out = Vec::new();
        while tools.len() > max {
            let last = tools.iter().rposition(|tool| !is_exact(tool)).unwrap_or(tools.len() - 1);
            left_out.push(tools.remove(last).spec().name.clone());
        }
        left_out.reverse();
        Self { tools, left_out, bound }
    }

    /// Why a config with these tools is refused, and what to do.
    pub fn too_many(&self) -> Option<(String, &'static str)> {
        let (max, model) = self.bound.as_ref().filter(|_| !self.left_out.is_empty())?;
        let all = self.tools.len() + self.left_out.len();
        Some((
            format!("`tools`: wanted at most {max} tools for the model `{model}`, the agent names {all}"),
            "name fewer, or narrower patterns; if its vendor accepts more, set `max_tools` in the model's settings",
        ))
    }
}

impl From<AgentTools> for Toolset {
    fn from(tools: AgentTools) -> Self {
        Self::new(tools.tools)
    }
}

/// Whether an agent with this config has the tool of that name.
pub fn has_tool(toolbox: &dyn Toolbox, config: &AgentConfig, name: &str) -> bool {
    is_wanted(toolbox, config.tools.as_deref(), name)
}

fn is_wanted(toolbox: &dyn Toolbox, wanted: Option<&[String]>, name: &str) -> bool {
    match wanted {
        Some(wanted) => wanted.iter().any(|pattern| tool::is_named(pattern, name)),
        None => toolbox.is_prebuilt(name),
    }
}

fn named(toolbox: &dyn Toolbox, wanted: Option<&[String]>) -> Vec<Arc<dyn Tool>> {
    let names = toolbox.names().into_iter().filter(|name| is_wanted(toolbox, wanted, name));
    let mut tools: Vec<Arc<dyn Tool>> = names.filter_map(|name| toolbox.tool(&name)).collect();
    let listed = |name: &str| tools.iter().any(|tool| tool.spec().name == name);
    // Outcomes of inward tools and of people are bounded.
    let reaches_out = |tool: &Arc<dyn Tool>| {
        let spec = tool.spec();
        spec.effect != Effect::Inward && spec.name != names::ASK_PERSON
    };
    if tools.iter().any(reaches_out) && !listed(names::READ_OUTCOME) {
        tools.extend(toolbox.tool(names::READ_OUTCOME));
    }
    tools
}

/// The smallest bound among the models that may be offered the agent's tools, and that model. A model that cannot be had
/// has none.
fn bound(models: &dyn Models, config: &AgentConfig) -> Option<(u32, String)> {
    let others = config.routing.iter().map(|route| &route.model).chain(&config.fallback);
    let all = std::iter::once(config.model.as_deref()).chain(others.map(|model| Some(model.as_str())));
    let bounds = all.filter_map(|name| {
        let model = models.model(name).ok()?;
        Some((model.info().max_tools?, model.info().name.clone()))
    });
    bounds.min()
}

/// All tools of a server, by name.
pub trait Toolbox: Send + Sync {
    /// The tool with that name.
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>>;
    /// The names of all tools, in a stable order.
    fn names(&self) -> Vec<String>;
    /// Whether an agent without a list of tools has this tool.
    fn is_prebuilt(&self, name: &str) -> bool;
    /// Checks a declaration; the error lists every mistake. A server without declared tools accepts none.
    fn check(&self, _declaration: &Value) -> Result<DeclaredTool, Vec<String>> {
        Err(vec!["this server takes no declared tools".to_owned()])
    }
    /// Reads and checks the declaration in the text of a file.
    fn read_file(&self, _text: &str) -> Result<DeclaredTool, Vec<String>> {
        Err(vec!["this server takes no declared tools".to_owned()])
    }
    /// Whether a value fits a JSON Schema; the error is for whoever wrote the value.
    fn fits(&self, _schema: &Value, _value: &Value) -> Result<(), String> {
        Err("this server checks no forms".to_owned())
    }
    /// Names of the MCP servers in the settings.
    fn servers(&self) -> Vec<String> {
        Vec::new()
    }
    /// Reads the MCP servers in the settings again, and uses them from now on; the error is for an operator, and then nothing
    /// has changed. Declared tools are to be used anew after it.
    fn reload_servers(&self) -> Result<(), String> {
        Err("this server has no MCP servers".to_owned())
    }
    /// Secrets of a declared tool that cannot be used, each with the reason.
    fn missing_secrets<'a>(&'a self, _declaration: &'a Value) -> BoxFuture<'a, Vec<(String, String)>> {
        Box::pin(async { Vec::new() })
    }
    /// Asks an MCP server what it offers now; the error is for an operator.
    fn offered<'a>(&'a self, _server: &'a str) -> BoxFuture<'a, Result<OfferedTools, String>> {
        Box::pin(async { Err("this server has no MCP servers".to_owned()) })
    }
    /// Uses exactly these declared tools from the next activation on. Returns those that cannot be used, and why.
    fn declare(&self, _declarations: &[StoredTool]) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// What a server of tools offers now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfferedTools {
    /// The tools that can be used.
    pub tools: Vec<DeclaredTool>,
    /// Names of those that cannot, each with the reason.
    pub left_out: Vec<(String, String)>,
    /// Whether the server is kept from files and processes of this machine that do not concern it.
    pub walled: bool,
}

/// A declaration that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredTool {
    /// The tool's name.
    pub name: String,
    /// The declaration with all its keys.
    pub declaration: Value,
    /// What a model reads of the tool, hashed.
    pub hash: String,
    /// Names of the secrets that it uses.
    pub secrets: Vec<String>,
    /// The MCP server that offers it, by its name in the settings.
    pub server: Option<String>,
}
