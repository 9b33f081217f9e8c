//! The JSON of the doors: what requests and answers are made of. Used by the server to speak and by
//! the command line to listen. Must not know how anything is done.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

mod agents;
mod calls;
mod mind;
mod names;
mod people;
mod spaces;
mod watch;

pub use agents::{
    Agent, AgentChange, CancelRequest, Canceled, Consciousness, EventAccepted, FactsJson, LastRunJson,
    LogEntry, LoggedEvent, NewAgentJson, NewEvent, RunDetail, RunJson, SpaceOfAgent,
};
pub use calls::Call;
pub use mind::{MindJson, MindLayer};
pub(crate) use names::EVENT_STATES;
pub use people::{EntityJson, KeyJson, NewEntity, NewKey, Whoami};
pub use spaces::{
    MemberJson, MessageJson, NewMember, NewMessageJson, NewSpaceJson, SpaceChangeJson, SpaceJson,
};
pub use watch::{
    AgentNow, AgentSnapshot, Closed, DraftNow, Gap, IdleNow, Recent, RecentItemJson, ServerSnapshot,
    SpaceSnapshot,
};

/// That the process answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    /// Of the server.
    pub version: String,
}

/// That the server can do its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Ready)]
pub struct ReadyJson {
    /// Whether it can.
    pub ready: bool,
    /// Of the server.
    pub version: String,
    /// The model that agents use which name none; `null` where there is none.
    pub model: Option<ModelSummary>,
    /// Figures of the whole store.
    #[schema(value_type = Object)]
    pub totals: agent::port::Totals,
}

/// A model in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelSummary {
    /// As `provider/model`.
    pub name: String,
    /// Whether it is scripted and no model at all.
    pub demo: bool,
    /// Its bound on tokens.
    pub context_window: u32,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Page)]
pub struct PageJson<T> {
    /// The rows.
    pub items: Vec<T>,
    /// The cursor of the next page; `null` where this is the last.
    pub next: Option<String>,
}

impl<T> PageJson<T> {
    /// A page of rows turned into their JSON form.
    pub fn of<U>(page: agent::port::Page<U>, turn: impl FnMut(U) -> T) -> Self {
        Self { items: page.items.into_iter().map(turn).collect(), next: page.next }
    }
}

/// Which page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Rows, 1 to 200; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Which page of a list of agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AgentQuery {
    /// Leave the configs out; false by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<bool>,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Rows, 1 to 200; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Which part of the recent past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RecentQuery {
    /// Only of these agents, by id or handle, with commas between them, at most 32: their runs, and
    /// what is said in their spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<String>,
    /// Only what happened after that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<jiff::Timestamp>,
    /// Rows, 1 to 200; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Which page of a list of entities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EntityQuery {
    /// Only these: `human` or `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline, value_type = Option<names::EntityKind>)]
    pub kind: Option<agent::entity::EntityKind>,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Rows, 1 to 200; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Which page of an inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InboxQuery {
    /// Only events in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline, value_type = Option<names::FateState>)]
    pub state: Option<String>,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Rows, 1 to 200; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Which part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// Entries behind this seq; 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Rows, 1 to 200; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Which part of a timeline. With `after` the oldest messages behind it, else the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TimelineQuery {
    /// Messages behind this seq.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Messages before this seq.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Rows, 1 to 200; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Tokens as the provider reports them; `null` where it reported nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Usage)]
pub struct UsageJson {
    /// Sent, cached ones included.
    pub input: Option<u64>,
    /// Of these, read from the provider's cache.
    pub cached: Option<u64>,
    /// Generated, reasoning included.
    pub output: Option<u64>,
    /// Of these, reasoning.
    pub reasoning: Option<u64>,
}

impl From<agent::run::Usage> for UsageJson {
    fn from(usage: agent::run::Usage) -> Self {
        let agent::run::Usage { input, cached, output, reasoning } = usage;
        Self { input, cached, output, reasoning }
    }
}
