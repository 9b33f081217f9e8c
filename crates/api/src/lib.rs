//! The JSON types of the API's requests, responses and stream events. The server writes them and clients read
//! them. Must not know how requests are handled or sent.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

mod agents;
mod calls;
mod context;
mod names;
mod people;
mod spaces;
mod watch;

pub use agents::{
    Agent, AgentChange, CancelRequest, Canceled, EventAccepted, FactsJson, LastRunJson, LogEntry,
    LoggedEvent, NewAgentJson, NewEvent, RunDetail, RunJson, SpaceOfAgent,
};
pub use calls::Call;
pub use context::{ContextJson, ContextLayer};
pub use names::EVENT_STATES;
pub use people::{EntityJson, KeyJson, KeyRecord, NewEntity, NewKey, Whoami};
pub use spaces::{
    MemberJson, MessageJson, NewMember, NewMessageJson, NewSpaceJson, SpaceChangeJson, SpaceJson,
};
pub use watch::{
    AgentNow, AgentSnapshot, Closed, DraftNow, Gap, IdleNow, Recent, RecentItemJson, ServerSnapshot,
    SpaceSnapshot,
};

/// The health of the server process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    /// Version of the server.
    pub version: String,
}

/// The readiness of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Ready)]
pub struct ReadyJson {
    /// Always `true`; a server that is not ready answers with an error.
    pub ready: bool,
    /// Version of the server.
    pub version: String,
    /// Default model, used by agents whose config names none; `null` if there is none.
    pub model: Option<ModelSummary>,
    /// Counts over the whole store; left out without an admin key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub totals: Option<agent::port::Totals>,
}

/// Summary of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelSummary {
    /// Name of the model, as `provider/model`.
    pub name: String,
    /// `true` for the demo model, which gives scripted replies and is not an LLM.
    pub demo: bool,
    /// Largest number of tokens that the model takes, sent and generated together.
    pub context_window: u32,
}

/// A page of a list. Its items have at most 1 MiB together, unless one item alone has more, and a page of a list with
/// filters looks at 10,000 rows at most: so a page can have fewer items than `limit`, even none, although `next` is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Page)]
pub struct PageJson<T> {
    /// The items of the page.
    pub items: Vec<T>,
    /// Pass as `cursor` to get the next page; `null` on the last page.
    pub next: Option<String>,
}

/// The page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// `next` of the previous page. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of items, 1 to 200. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The page of a list of agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AgentQuery {
    /// Return only agents with this standing: `active`, `suspended` or `retired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline, value_type = Option<names::Standing>)]
    pub standing: Option<agent::life::Standing>,
    /// Whether to leave out `config`. Default: `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<bool>,
    /// `next` of the previous page. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of items, 1 to 200. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The part of the recent history to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RecentQuery {
    /// Agents by id or handle, separated by commas, at most 32: return only their runs and the messages in their
    /// spaces. Default: all agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<String>,
    /// Return only items after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<jiff::Timestamp>,
    /// Number of items, 1 to 200. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The page of a list of entities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EntityQuery {
    /// Return only entities of this kind: `human` or `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline, value_type = Option<names::EntityKind>)]
    pub kind: Option<agent::entity::EntityKind>,
    /// `next` of the previous page. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of items, 1 to 200. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The page of a list of spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SpaceQuery {
    /// Return only closed spaces (`true`) or only open ones (`false`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<bool>,
    /// `next` of the previous page. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of items, 1 to 200. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The page of a list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    /// Return only runs that ended like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline, value_type = Option<names::Ending>)]
    pub ending: Option<agent::run::Ending>,
    /// Return only runs that ended at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<jiff::Timestamp>,
    /// `next` of the previous page. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of items, 1 to 200. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The page of an inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InboxQuery {
    /// Return only events in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline, value_type = Option<names::EventState>)]
    pub state: Option<String>,
    /// Return only events of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline, value_type = Option<names::EventKind>)]
    pub kind: Option<agent::event::EventKind>,
    /// Return only events that happened at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<jiff::Timestamp>,
    /// `next` of the previous page. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of items, 1 to 200. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The part of a log to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// Return entries with a `seq` greater than this. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// `next` of the previous page. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of items, 1 to 200. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The part of a timeline to read. With `after` the list begins with the oldest messages after it, otherwise with the
/// newest; each page is ordered from old to new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TimelineQuery {
    /// Return messages with a `seq` greater than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Return messages with a `seq` less than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Return only messages of this sender, by id or handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// Return only messages of this kind: `text` or `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline, value_type = Option<names::MessageKind>)]
    pub kind: Option<agent::space::MessageKind>,
    /// Return only messages posted at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<jiff::Timestamp>,
    /// `next` of the previous page. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of items, 1 to 200. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Token counts as reported by the model provider; `null` if it reported none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Usage)]
pub struct UsageJson {
    /// Tokens sent, including cached ones.
    pub input: Option<u64>,
    /// Tokens of `input` that were read from the provider's cache.
    pub cached: Option<u64>,
    /// Tokens generated, including reasoning.
    pub output: Option<u64>,
    /// Tokens of `output` that are reasoning.
    pub reasoning: Option<u64>,
}

impl From<agent::run::Usage> for UsageJson {
    fn from(usage: agent::run::Usage) -> Self {
        let agent::run::Usage { input, cached, output, reasoning } = usage;
        Self { input, cached, output, reasoning }
    }
}
