//! The JSON types of the API's requests, responses and stream events. The server writes them and clients read
//! them. Must not know how requests are handled or sent.

use agent::alert::AlertKind;
use agent::entity::EntityKind;
use agent::event::EventKind;
use agent::life::Standing;
use agent::run::Ending;
use agent::space::MessageKind;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Converts a type of `agent` into the type of its JSON: fields that are computed, then fields that have the same names.
macro_rules! copied {
    ($from:ident: $source:ty => $json:ident {
        $($computed:ident: $value:expr,)* $(..$part:expr => { $($field:ident),+ $(,)? })+
    }) => {
        impl From<$source> for $json {
            fn from($from: $source) -> Self {
                Self { $($computed: $value.into(),)* $($($field: $part.$field.into(),)+)+ }
            }
        }
    };
}

mod agents;
mod alerts;
mod approvals;
mod calls;
mod context;
mod goals;
mod hooks;
pub mod names;
mod people;
mod plans;
mod recall;
mod spaces;
mod targets;
mod tools;
mod watch;
mod workers;

pub use agents::{
    Agent, AgentChange, CancelRequest, Canceled, DeadEventsJson, EventAccepted, FactsJson, LastRunJson,
    LogEntry, LoggedEvent, MemoryJson, MemoryValue, NewAgentJson, NewEvent, OpenCycleJson, RunDetail,
    RunJson, SpaceOfAgent,
};
pub use alerts::AlertJson;
pub use approvals::{ApprovalJson, ApprovalLinkQuery, ApprovalRuleJson, CallAnswerJson, LinkAnswerForm};
pub use calls::Call;
pub use context::{ContextJson, ContextLayer, SentContextJson, SentItem, TrendJson};
pub use goals::{GoalChangeJson, GoalJson, NewGoalJson};
pub use hooks::{HookAnswer, HookDeliveryJson, HookJson, NewHookJson};
pub use names::EVENT_STATES;
pub use people::{EntityJson, KeyJson, KeyRotation, NewEntity, NewKey, Whoami};
pub use plans::{NewPlanJson, PlanJson};
pub use recall::{ExcerptJson, RecallParams, RecalledJson};
pub use spaces::{
    MemberJson, MessageJson, NewMember, NewMessageJson, NewSpaceJson, SpaceChangeJson, SpaceJson,
};
pub use targets::{DeadDelivery, DeliveriesRetried, DeliveryRetry, NewTargetJson, TargetJson};
pub use tools::{
    GuardClearedJson, McpApproval, McpLeftOut, McpOfferJson, McpServerJson, McpToolJson, ToolJson, ToolTrial,
    ToolTried,
};
pub use watch::{
    AgentNow, AgentSnapshot, Closed, DraftNow, Gap, IdleNow, Recent, RecentItemJson, ServerSnapshot,
    SpaceSnapshot,
};
pub use workers::{
    ClaimAnswer, ClaimAnswered, ClaimLease, ClaimRenewal, ClaimedCallJson, ToolWorkersJson, WorkerClaim,
    WorkerToolJson,
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
    /// Number of files of agents and tools that are not in use because of mistakes in them: what they declare goes on as
    /// before.
    #[serde(default)]
    pub broken_files: usize,
    /// These mistakes, with file and line; left out without an admin key, and if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<String>,
    /// The settings file that the server reads, whether it exists or not; left out without an admin key, and where there is
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
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

/// The query of a list that has pages.
pub trait Paged: Serialize + serde::de::DeserializeOwned {
    /// The wanted number of items.
    fn limit(&self) -> Option<u32>;
    /// `next` of the previous page.
    fn cursor(&self) -> Option<&str>;
}

/// Defines the query of a list: its own parameters, then the number of items. A `paged` list has a cursor.
macro_rules! query {
    ($(#[$doc:meta])* paged $name:ident { $($(#[$about:meta])* $field:ident: $type:ident,)* }) => {
        query! {
            $(#[$doc])*
            $name {
                $($(#[$about])* $field: $type,)*
                /// `next` of the previous page. Default: the first page.
                cursor: String,
            }
        }

        impl Paged for $name {
            fn limit(&self) -> Option<u32> {
                self.limit
            }

            fn cursor(&self) -> Option<&str> {
                self.cursor.as_deref()
            }
        }
    };
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub struct $name {
            $(
                $(#[$about])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
            /// Number of items, 1 to 200. Default: 50.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub limit: Option<u32>,
        }
    };
}

query! {
    /// The page of a list.
    paged PageQuery {}
}

query! {
    /// The page of a list of agents.
    paged AgentQuery {
        /// Return only agents with this standing: `active`, `suspended` or `retired`.
        #[param(inline, value_type = Option<names::Standing>)]
        standing: Standing,
        /// Whether to leave out `config`. Default: `false`.
        brief: bool,
    }
}

query! {
    /// The part of the recent history to read.
    RecentQuery {
        /// Agents by id or handle, separated by commas, at most 32: return only their runs and the messages in their
        /// spaces. Default: all agents.
        agents: String,
        /// Return only items after this time.
        since: Timestamp,
    }
}

query! {
    /// The page of a list of alerts.
    paged AlertQuery {
        /// Return only alerts of this agent, by id or handle.
        agent: String,
        /// Return only alerts about this.
        #[param(inline, value_type = Option<names::AlertKind>)]
        alert: AlertKind,
        /// Return only alerts of this time or later.
        since: Timestamp,
    }
}

query! {
    /// The page of a list of calls that wait for people.
    paged ApprovalQuery {
        /// Return only calls of this agent, by id or handle.
        agent: String,
        /// Return only calls that are asked in this space, by id or handle.
        space: String,
        /// Whether to return also those that are over. Default: `false`.
        all: bool,
    }
}

query! {
    /// The page of a list of rules.
    paged RuleQuery {
        /// Return only rules of this agent, by id or handle.
        agent: String,
    }
}

query! {
    /// The page of a list of entities.
    paged EntityQuery {
        /// Return only entities of this kind: `human` or `agent`.
        #[param(inline, value_type = Option<names::EntityKind>)]
        kind: EntityKind,
    }
}

query! {
    /// The page of a list of spaces.
    paged SpaceQuery {
        /// Return only closed spaces (`true`) or only open ones (`false`).
        closed: bool,
    }
}

query! {
    /// The page of a list of runs.
    paged RunQuery {
        /// Return only runs that ended like this.
        #[param(inline, value_type = Option<names::Ending>)]
        ending: Ending,
        /// Return only runs that ended at this time or later.
        since: Timestamp,
    }
}

query! {
    /// The page of an inbox.
    paged InboxQuery {
        /// Return only events in this state.
        #[param(inline, value_type = Option<names::EventState>)]
        state: String,
        /// Return only events of this kind.
        #[param(inline, value_type = Option<names::EventKind>)]
        kind: EventKind,
        /// Return only events that happened at this time or later.
        since: Timestamp,
    }
}

query! {
    /// The part of a log to read.
    paged LogQuery {
        /// Return entries with a `seq` greater than this. Default: 0.
        after: u64,
    }
}

query! {
    /// The part of a timeline to read. With `after` the list begins with the oldest messages after it, otherwise with
    /// the newest; each page is ordered from old to new.
    paged TimelineQuery {
        /// Return messages with a `seq` greater than this.
        after: u64,
        /// Return messages with a `seq` less than this.
        before: u64,
        /// Return only messages of this sender, by id or handle.
        sender: String,
        /// Return only messages of this kind: `text` or `tool`.
        #[param(inline, value_type = Option<names::MessageKind>)]
        kind: MessageKind,
        /// Return only messages posted at this time or later.
        since: Timestamp,
    }
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

copied!(usage: agent::run::Usage => UsageJson { ..usage => { input, cached, output, reasoning } });
