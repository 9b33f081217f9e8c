//! Which cycles there is something to see of. A server in which three agents hear one message tells of
//! the one that answers; of the others only that they woke. Pure; knows no rows.

use std::collections::{HashMap, VecDeque};

use agent::id::{AgentId, CycleId};
use agent::update::AgentState;
use jiff::Timestamp;

/// Cycles that are remembered as seen at work.
const SEEN: usize = 1_024;

/// What is known of cycles.
#[derive(Debug, Default)]
pub(super) struct Cycles {
    /// Who woke without doing anything yet: when, and to what.
    woken: HashMap<AgentId, (Timestamp, AgentState)>,
    seen: VecDeque<CycleId>,
}

impl Cycles {
    /// An agent woke.
    pub(super) fn wakes(&mut self, agent: AgentId, at: Timestamp, state: AgentState) {
        self.woken.insert(agent, (at, state));
    }

    /// A word of the cycle is known, whether it is shown or not.
    pub(super) fn spoke(&mut self, cycle: CycleId) {
        if self.seen.contains(&cycle) {
            return;
        }
        self.seen.push_back(cycle);
        if self.seen.len() > SEEN {
            self.seen.pop_front();
        }
    }

    /// An agent does something that is seen; returns its activation where that is not told yet.
    pub(super) fn acts(&mut self, agent: AgentId, cycle: CycleId) -> Option<(Timestamp, AgentState)> {
        self.spoke(cycle);
        self.woken.remove(&agent)
    }

    /// A cycle came to rest; whether nothing of it was seen.
    pub(super) fn ends(&mut self, agent: AgentId, cycle: CycleId) -> bool {
        self.woken.remove(&agent);
        !self.seen.contains(&cycle)
    }

    /// Forgets the activation of all other agents.
    pub(super) fn keep(&mut self, agents: impl Fn(AgentId) -> bool) {
        self.woken.retain(|agent, _| agents(*agent));
    }
}
