//! The JSON of tool calls.

use agent::call::{CallRow, CallState, Effect, OutcomeStatus, Runner, head_and_tail};
use agent::id::{AgentId, CallId, CycleId};
use agent::limits;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names;

/// A call of a tool by an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Call {
    /// Id of the call. It is also the idempotency key of the call's effect.
    pub id: CallId,
    /// Id of the agent.
    pub agent: AgentId,
    /// Id of the cycle that made the call.
    pub cycle: CycleId,
    /// Step of that cycle.
    pub step: u32,
    /// Name of the tool.
    pub tool: String,
    /// Arguments as the model wrote them. Long ones are cut to their beginning and end.
    pub arguments: String,
    /// Whether the call may be repeated after a crash.
    #[schema(value_type = names::Effect)]
    pub effect: Effect,
    /// Who runs it.
    #[schema(value_type = names::Runner)]
    pub runner: Runner,
    /// State of the call.
    #[schema(value_type = names::CallState)]
    pub state: CallState,
    /// Whether it waits for a person to answer it; left out if it does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
    /// How the call ended; left out if there is no outcome yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::OutcomeStatus>)]
    pub status: Option<OutcomeStatus>,
    /// Outcome as the agent reads it. A long text is cut to its beginning and end. Left out if there is none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

impl Call {
    /// The JSON of a row of that agent.
    pub fn of(agent: AgentId, row: CallRow) -> Self {
        let bound = |text: &str| head_and_tail(text, limits::TOOL_SHOWN_MAX_BYTES);
        Self {
            id: row.id,
            agent,
            cycle: row.cycle,
            step: row.step,
            tool: row.tool,
            arguments: bound(&row.arguments),
            effect: row.effect,
            runner: row.runner,
            state: row.state,
            asked: row.approval.as_ref().is_some_and(|asked| asked.is_wanted()),
            status: row.outcome.as_ref().map(|outcome| outcome.status),
            outcome: row.outcome.as_ref().map(|outcome| bound(&outcome.text)),
        }
    }
}
