//! The JSON of hooks.

use std::collections::BTreeMap;

use agent::id::{AgentId, EventId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names;

/// A hook: through it a service outside sends events to agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Hook)]
pub struct HookJson {
    /// Its name, and the last part of its path `/v1/hooks/NAME`.
    pub name: String,
    /// What verifies its deliveries.
    #[schema(value_type = names::HookKind)]
    pub kind: String,
    /// Names of the secrets, any of which verifies a delivery.
    pub secrets: Vec<String>,
    /// The header with the secret, of a hook of the kind `shared_secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Ids of the agents that get its events.
    pub agents: Vec<AgentId>,
    /// Their handles, in the same order.
    pub agent_handles: Vec<String>,
    /// Ids of those of them that are retired and get none. If all are, the hook accepts nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired_agents: Vec<AgentId>,
    /// The template of what agents read.
    pub template: String,
    /// An expression: a delivery with which it is not true wakes nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_if: Option<String>,
    /// An expression that says whether a delivery is urgent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgent: Option<String>,
    /// Whether what its template takes of a delivery is no text of strangers, as long as that are plain fields: numbers, truth
    /// values, and lines of at most 200 characters.
    pub trusted: bool,
    /// Secrets that are not set or cannot be used, with the reason. Without any usable one the hook accepts nothing.
    pub missing_secrets: BTreeMap<String, String>,
    /// When it was declared or changed.
    pub at: Timestamp,
}

/// A hook to declare, or what an existing one becomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewHook)]
pub struct NewHookJson {
    /// What verifies its deliveries.
    #[schema(value_type = names::HookKind, example = "github")]
    pub kind: String,
    /// Names of the secrets, any of which verifies a delivery; of a hook of the kind `key` none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["github_hook"]))]
    pub secrets: Vec<String>,
    /// The header with the secret, of a hook of the kind `shared_secret`; `x-webhook-secret` if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The agents that get its events, by handle or id.
    #[schema(example = json!(["ada"]))]
    pub agents: Vec<String>,
    /// The template of what agents read, over `body` and `headers`; the whole body if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// An expression over `body` and `headers`: a delivery with which it is not true wakes nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_if: Option<String>,
    /// An expression over `body` and `headers` that says whether a delivery is urgent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgent: Option<String>,
    /// Whether what its template takes of a delivery is no text of strangers. It must take single fields of `body`. A hook that
    /// is declared again without it is not trusted any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
}

/// The answer to a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HookAnswer {
    /// What became of it.
    #[schema(value_type = names::HookOutcome)]
    pub outcome: String,
    /// The text that the service wanted back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<String>,
}

/// A delivery in the log of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HookDelivery)]
pub struct HookDeliveryJson {
    /// When it arrived.
    pub at: Timestamp,
    /// The sender's id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// What became of it.
    #[schema(value_type = names::HookOutcome)]
    pub outcome: String,
    /// Why, if it was refused; of one that was accepted, why it is not trusted although its hook is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Id of the event that it became, the same for all agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventId>,
    /// Ids of the agents that got it.
    pub agents: Vec<AgentId>,
    /// Their handles, in the same order.
    pub agent_handles: Vec<String>,
}
