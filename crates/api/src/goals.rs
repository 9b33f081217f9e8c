//! The goals of agents.

use agent::event::Trust;
use agent::id::GoalId;
use agent::life::{Goal, GoalStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names;

/// A goal: what an agent pursues over many cycles. Goals are a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Goal)]
pub struct GoalJson {
    /// Id of the goal.
    pub id: GoalId,
    /// Id of the goal above it.
    pub parent: Option<GoalId>,
    /// What the agent is to reach.
    pub description: String,
    /// 1 to 10, the most important.
    pub priority: i32,
    /// Whether it is pursued.
    #[schema(value_type = names::GoalStatus)]
    pub status: GoalStatus,
    /// The lowest trust of what had been read when its text was written; `operator` if an operator wrote it.
    #[schema(value_type = names::Trust)]
    pub trust: Trust,
}

impl From<Goal> for GoalJson {
    fn from(goal: Goal) -> Self {
        let Goal { id, parent, description, priority, status, trust } = goal;
        Self { id, parent, description, priority, status, trust }
    }
}

/// The goal to set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewGoal)]
pub struct NewGoalJson {
    /// What the agent is to reach, at most 1 KiB.
    #[schema(example = "Keep the build green.")]
    pub description: String,
    /// 1 to 10, the most important. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Id of the goal above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<GoalId>,
}

/// What to change of a goal; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GoalChange)]
pub struct GoalChangeJson {
    /// What the agent is to reach, at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// 1 to 10, the most important.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// `completed` or `abandoned` ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::GoalStatus>)]
    pub status: Option<GoalStatus>,
}
