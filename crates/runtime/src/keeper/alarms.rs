//! When agents are to be checked: at most one monotonic time for each. Must not know why.

use std::collections::{BTreeSet, HashMap};

use agent::id::AgentId;
use agent::limits;

/// The alarms of one node.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    order: BTreeSet<(u64, AgentId)>,
    by_agent: HashMap<AgentId, u64>,
}

impl Alarms {
    /// Sets the agent's alarm, unless an earlier one is set. If there is no room, the sweep finds the agent.
    pub(crate) fn set(&mut self, agent: AgentId, at: u64) {
        let known = self.by_agent.get(&agent).copied();
        if known.is_some_and(|known| known <= at)
            || (known.is_none() && self.by_agent.len() >= limits::SIGNALS_MAX)
        {
            return;
        }
        self.clear(agent);
        self.order.insert((at, agent));
        self.by_agent.insert(agent, at);
    }

    /// Removes the agent's alarm.
    pub(crate) fn clear(&mut self, agent: AgentId) {
        if let Some(at) = self.by_agent.remove(&agent) {
            self.order.remove(&(at, agent));
        }
    }

    /// The time of the next alarm.
    pub(crate) fn next(&self) -> Option<u64> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Removes an alarm that is due, the earliest first, and returns its agent.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<AgentId> {
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
    fn an_agent_has_one_alarm_and_the_earliest_time_wins() {
        let mut alarms = Alarms::default();
        for (n, at) in [(1, 30), (2, 20), (1, 10), (1, 40)] {
            alarms.set(agent(n), at);
        }
        assert_eq!((alarms.next(), alarms.pop_due(9)), (Some(10), None));
        assert_eq!(std::iter::from_fn(|| alarms.pop_due(50)).collect::<Vec<_>>(), [agent(1), agent(2)]);
        assert_eq!(alarms.next(), None);
    }

    #[test]
    fn an_alarm_that_is_cleared_does_not_ring() {
        let mut alarms = Alarms::default();
        alarms.set(agent(1), 10);
        alarms.clear(agent(1));
        assert_eq!(alarms.pop_due(50), None);
    }
}
