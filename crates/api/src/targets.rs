//! The JSON of targets.

use std::collections::BTreeMap;

use agent::id::{AgentId, SpaceId};
use agent::port::TargetDelivery;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::names;

/// A target: a server outside that is told what happens in a space, or to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Target)]
pub struct TargetJson {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// Names of the secrets, each of which signs what it is told.
    pub secrets: Vec<String>,
    /// What it is told.
    #[schema(value_type = Vec<names::NewsKind>)]
    pub on: Vec<String>,
    /// Id of the space that it is told of; left out if it is told of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<SpaceId>,
    /// Handle of that space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_handle: Option<String>,
    /// Id of the agent that it is told of; left out if it is told of a space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Handle of that agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_handle: Option<String>,
    /// An expression: news with which it is not true are not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_if: Option<String>,
    /// What is sent in place of the news: JSON whose texts are templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Addresses inside that it may have.
    pub allow: Vec<String>,
    /// Why nothing can be sent to its address, which `allow` does not have; left out if nothing of the address says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Why nothing is sent to it any more; left out while it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<String>,
    /// Those of them that cannot sign, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing_secrets: BTreeMap<String, String>,
    /// Number of deliveries that wait.
    pub waiting: u64,
    /// Number of deliveries that were given up.
    pub dead: u64,
    /// Why the last attempt of the first one that waits failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When the first one that waits is tried next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// Failed attempts of the first one that waits.
    #[serde(default)]
    pub attempts: u32,
    /// When attempts began to fail; left out if the last one has succeeded, and before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Timestamp>,
    /// When the last delivery arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_at: Option<Timestamp>,
    /// When it was added or changed.
    pub at: Timestamp,
}

/// A target to add, or what an existing one becomes. Of `space` and `agent` there must be exactly one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewTarget)]
pub struct NewTargetJson {
    /// Its address, `http` or `https`.
    #[schema(example = "https://example.com/viv")]
    pub url: String,
    /// Names of the secrets, each of which signs: `whsec_` and Base64, as in Standard Webhooks.
    #[schema(example = json!(["news"]))]
    pub secrets: Vec<String>,
    /// What it is told: of a space `message`, of an agent any.
    #[schema(value_type = Vec<names::NewsKind>, example = json!(["message"]))]
    pub on: Vec<String>,
    /// The space, by handle or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "home")]
    pub space: Option<String>,
    /// The agent, by handle or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// An expression over `type`, `timestamp` and `data`: news with which it is not true are not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_if: Option<String>,
    /// What is sent in place of the news: JSON whose texts are templates over `type`, `timestamp` and `data`. A text is sent as
    /// plain text, anything else as JSON, and nothing if it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Addresses inside that it may have: host names, `host:port`, nets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
}

/// A delivery that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadDelivery {
    /// Its id, `webhook-id`.
    pub id: String,
    /// What it says, as JSON in a text.
    pub body: String,
    /// When it happened, or was last sent again.
    pub at: Timestamp,
    /// Attempts that failed.
    pub attempts: u32,
    /// Why the last one failed.
    pub why: Option<String>,
}

copied!(dead: TargetDelivery => DeadDelivery { ..dead => { id, body, at, attempts, why } });

/// Which dead deliveries to send again; all if `id` is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveryRetry {
    /// The delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// What is sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveriesRetried {
    /// Number of deliveries.
    pub retried: u64,
}
