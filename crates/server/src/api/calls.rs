//! Calls of an agent's tools.

use agent::call::{CallRow, CallState, Effect, OutcomeStatus, head_and_tail};
use agent::id::{AgentId, CallId, CycleId};
use agent::limits;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names;

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Call {
    /// Identity, and the key under which its effect happens once.
    #[schema(value_type = String)]
    pub id: CallId,
    /// Whose.
    #[schema(value_type = Uuid)]
    pub agent: AgentId,
    /// The cycle that decided it.
    #[schema(value_type = Uuid)]
    pub cycle: CycleId,
    /// The step of that cycle.
    pub step: u32,
    /// The tool.
    pub tool: String,
    /// Its arguments as the model wrote them, long ones as head and tail.
    pub arguments: String,
    /// What repeating it would do.
    #[schema(value_type = names::Effect)]
    pub effect: Effect,
    /// Its state.
    #[schema(value_type = names::CallState)]
    pub state: CallState,
    /// How it ended; none while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::OutcomeStatus>)]
    pub status: Option<OutcomeStatus>,
    /// What its agent reads of that, long texts as head and tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

impl Call {
    /// A call of that agent from its row.
    pub(crate) fn of(agent: AgentId, row: CallRow) -> Self {
        let bound = |text: &str| head_and_tail(text, limits::TOOL_SHOWN_MAX_BYTES);
        Self {
            id: row.id,
            agent,
            cycle: row.cycle,
            step: row.step,
            tool: row.tool,
            arguments: bound(&row.arguments),
            effect: row.effect,
            state: row.state,
            status: row.outcome.as_ref().map(|outcome| outcome.status),
            outcome: row.outcome.as_ref().map(|outcome| bound(&outcome.text)),
        }
    }
}
