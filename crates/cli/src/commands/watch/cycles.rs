//! Decides which cycles are worth showing. If three agents receive a message and one replies, the log shows
//! that one in full and of the others only their ending. Pure; must not know rows.

use std::collections::{HashMap, VecDeque};

use agent::id::{AgentId, CycleId};
use agent::update::AgentState;
use jiff::Timestamp;

/// Maximum number of cycles that are remembered as visible.
const VISIBLE_MAX: usize = 1_024;

/// What is known about cycles.
#[derive(Debug, Default)]
pub(super) struct Cycles {
    /// Agents that woke but did nothing visible yet: when, and their state.
    activations: HashMap<AgentId, (Timestamp, AgentState)>,
    visible: VecDeque<CycleId>,
}

impl Cycles {
    /// An agent woke.
    pub(super) fn woke(&mut self, agent: AgentId, at: Timestamp, state: AgentState) {
        self.activations.insert(agent, (at, state));
    }

    /// The cycle did something visible, whether it is shown or not.
    pub(super) fn mark_visible(&mut self, cycle: CycleId) {
        if self.visible.contains(&cycle) {
            return;
        }
        self.visible.push_back(cycle);
        if self.visible.len() > VISIBLE_MAX {
            self.visible.pop_front();
        }
    }

    /// An agent does something visible; returns its activation if it was not shown yet.
    pub(super) fn act(&mut self, agent: AgentId, cycle: CycleId) -> Option<(Timestamp, AgentState)> {
        self.mark_visible(cycle);
        self.activations.remove(&agent)
    }

    /// A cycle ended; returns whether nothing of it was visible.
    pub(super) fn end(&mut self, agent: AgentId, cycle: CycleId) -> bool {
        self.activations.remove(&agent);
        !self.visible.contains(&cycle)
    }

    /// Forgets the activations of all other agents.
    pub(super) fn keep(&mut self, agents: impl Fn(AgentId) -> bool) {
        self.activations.retain(|agent, _| agents(*agent));
    }
}
