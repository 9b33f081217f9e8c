//! A hand: a named capability with a schema and an effect class.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{BoxFuture, Lookup};
use crate::call::Outcome;
use crate::changes::Inward;
use crate::id::{AgentId, CallId, CycleId, RootId, SpaceId};
use crate::life::Facts;
pub use crate::tool::ToolSpec;

/// Where a call happens, and what an inward tool may look at.
pub struct ToolContext<'a> {
    /// Who calls.
    pub agent: AgentId,
    /// In which cycle.
    pub cycle: CycleId,
    /// The call: our id, and the idempotency key of its effect.
    pub call: &'a CallId,
    /// The time of the decision.
    pub now: Timestamp,
    /// Where the agent stands, pending changes included.
    pub active_space: Option<SpaceId>,
    /// What a message of this cycle descends from.
    pub root: &'a RootId,
    /// The hop that it carries.
    pub hop: u32,
    /// Spaces, members, memories as of the activation.
    pub facts: &'a Facts,
    /// Changes of the calls before it in this step.
    pub pending: &'a Inward,
    /// Reading on the agent's behalf.
    pub lookup: &'a dyn Lookup,
}

/// What a tool gives back.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// What the model reads.
    pub outcome: Outcome,
    /// What is to change; only inward tools may ask for anything.
    pub inward: Inward,
}

/// Why a call failed, with two faces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{model}")]
pub struct ToolError {
    /// What the model may read: what was wanted, what stood in the way, what to do.
    pub model: String,
    /// What the operator sees in addition.
    pub operator: Option<String>,
}

impl ToolError {
    /// A failure that both may read.
    pub fn new(text: impl Into<String>) -> Self {
        Self { model: text.into(), operator: None }
    }
}

/// A hand.
pub trait Tool: Send + Sync {
    /// What it is.
    fn spec(&self) -> &ToolSpec;
    /// Whether the raw argument string satisfies the schema; the error is for the model. An empty
    /// string counts as `{}`.
    fn check(&self, arguments: &str) -> Result<Value, String>;
    /// Does it. `arguments` have passed `check`.
    fn call<'a>(
        &'a self,
        arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>>;
}

/// What the tools are that an agent with this list of names has, in a stable order. Without a list it has those
/// that are prebuilt: what reaches outside is given to an agent by name, or not at all.
pub fn specs(toolbox: &dyn Toolbox, wanted: Option<&[String]>) -> Arc<[ToolSpec]> {
    let has = |name: &String| match wanted {
        Some(wanted) => wanted.contains(name),
        None => toolbox.is_prebuilt(name),
    };
    let chosen = toolbox.names().into_iter().filter(has);
    chosen.filter_map(|name| Some(toolbox.tool(&name)?.spec().clone())).collect()
}

/// All tools of a server, by name.
pub trait Toolbox: Send + Sync {
    /// The tool of that name.
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>>;
    /// The names of all tools, in a stable order.
    fn names(&self) -> Vec<String>;
    /// Whether an agent that names no tools has it.
    fn is_prebuilt(&self, name: &str) -> bool;
}
