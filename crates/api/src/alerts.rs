//! The JSON of alerts.

use agent::alert::Alert;
use agent::id::{AgentId, CycleId, EventId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names;

/// Something that operators should know of although nothing stands still.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Alert)]
pub struct AlertJson {
    /// Its number: later ones have greater numbers.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What it is about.
    #[schema(value_type = names::AlertKind)]
    pub alert: String,
    /// What happened and what it costs.
    pub text: String,
    /// Id of the agent; left out if it is the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Handle of that agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_handle: Option<String>,
    /// Id of the cycle in which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<CycleId>,
    /// Id of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventId>,
    /// Name of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl AlertJson {
    /// The alert with that number, of the agent with that handle.
    pub fn of(seq: u64, alert: Alert, agent_handle: Option<String>) -> Self {
        let Alert { at, alert, text, agent, cycle, event, target } = alert;
        let alert = alert.as_str().to_owned();
        Self { seq, at, alert, text, agent, agent_handle, cycle, event, target }
    }
}
