//! When agents are to be looked at: one time for each, by the clock that never jumps.
//!
//! It must not know why.

use std::collections::{BTreeSet, HashMap};

use agent::id::AgentId;
use agent::limits;

/// The alarms of one node.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    order: BTreeSet<(u64, AgentId)>,
    of: HashMap<AgentId, u64>,
}

impl Alarms {
    /// Sets the agent's alarm, unless it rings before that time anyway. One that finds no room is found
    /// again by the sweep.
    pub(crate) fn set(&mut self, agent: AgentId, at: u64) {
        let known = self.of.get(&agent).copied();
        if known.is_some_and(|known| known <= at) || (known.is_none() && self.of.len() >= limits::SIGNALS_MAX)
        {
            return;
        }
        self.clear(agent);
        self.order.insert((at, agent));
        self.of.insert(agent, at);
    }

    /// The agent is not to be looked at.
    pub(crate) fn clear(&mut self, agent: AgentId) {
        if let Some(at) = self.of.remove(&agent) {
            self.order.remove(&(at, agent));
        }
    }

    /// When the next one rings.
    pub(crate) fn next(&self) -> Option<u64> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Whose alarm has rung, earliest first.
    pub(crate) fn rung(&mut self, now: u64) -> Option<AgentId> {
        let (at, agent) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.clear(agent);
        Some(agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn agent(n: u128) -> AgentId {
        AgentId(Uuid::from_u128(n))
    }

    #[test]
    fn an_agent_has_one_alarm_and_the_earliest_holds() {
        let mut alarms = Alarms::default();
        for (n, at) in [(1, 30), (2, 20), (1, 10), (1, 40)] {
            alarms.set(agent(n), at);
        }
        assert_eq!((alarms.next(), alarms.rung(9)), (Some(10), None));
        assert_eq!(std::iter::from_fn(|| alarms.rung(50)).collect::<Vec<_>>(), [agent(1), agent(2)]);
        assert_eq!(alarms.next(), None);
    }

    #[test]
    fn one_that_is_cleared_does_not_ring() {
        let mut alarms = Alarms::default();
        alarms.set(agent(1), 10);
        alarms.clear(agent(1));
        assert_eq!(alarms.rung(50), None);
    }
}
