//! Agents that are due while no more may be awake: a queue, first in, first out. An agent is in it at most once.
//! One that has just been active and has more to do goes to the end, so that a flooded agent never overtakes
//! others.
//!
//! Must not know why an agent is due, nor what being awake is.

use std::collections::{HashSet, VecDeque};

use agent::id::AgentId;
use agent::limits;

/// A queue of agents.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    order: VecDeque<AgentId>,
    queued: HashSet<AgentId>,
}

impl ReadyQueue {
    /// Adds an agent at the end, unless it is queued already. If there is no room, the sweep finds it again.
    pub(crate) fn push(&mut self, agent: AgentId) {
        if self.order.len() < limits::SIGNALS_MAX && self.queued.insert(agent) {
            self.order.push_back(agent);
        }
    }

    /// Moves a queued agent to the front.
    pub(crate) fn move_to_front(&mut self, agent: AgentId) {
        if self.queued.contains(&agent) {
            self.order.retain(|queued| *queued != agent);
            self.order.push_front(agent);
        }
    }

    /// Removes an agent.
    pub(crate) fn remove(&mut self, agent: AgentId) {
        if self.queued.remove(&agent) {
            self.order.retain(|queued| *queued != agent);
        }
    }

    /// Whether the agent is queued.
    pub(crate) fn contains(&self, agent: AgentId) -> bool {
        self.queued.contains(&agent)
    }

    /// Removes and returns the first agent.
    pub(crate) fn pop(&mut self) -> Option<AgentId> {
        let agent = self.order.pop_front()?;
        self.queued.remove(&agent);
        Some(agent)
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether so few are left that the store should be asked for more.
    pub(crate) fn is_short(&self) -> bool {
        self.order.len() < limits::DUE_BATCH as usize / 2
    }

    /// Whether there is room for one more page of due agents.
    pub(crate) fn has_room(&self) -> bool {
        self.order.len() + limits::DUE_BATCH as usize <= limits::SIGNALS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn agent(n: usize) -> AgentId {
        AgentId(Uuid::from_u128(n as u128))
    }

    #[test]
    fn an_agent_is_queued_once_and_comes_back_at_the_end() {
        let mut queue = ReadyQueue::default();
        for n in [1, 2, 1, 3, 2] {
            queue.push(agent(n));
        }
        assert_eq!(queue.pop(), Some(agent(1)));
        queue.push(agent(1));
        queue.move_to_front(agent(3));
        queue.move_to_front(agent(4));
        assert!(queue.contains(agent(3)) && !queue.contains(agent(4)));
        queue.push(agent(5));
        queue.remove(agent(5));
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [agent(3), agent(2), agent(1)]);
    }

    #[test]
    fn the_queue_is_bounded_and_reports_when_it_is_full_and_when_it_is_short() {
        let mut queue = ReadyQueue::default();
        assert!(queue.is_short() && queue.has_room());
        (0..limits::SIGNALS_MAX + 10).for_each(|n| queue.push(agent(n)));
        assert!(!queue.is_short() && !queue.has_room());
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), limits::SIGNALS_MAX);
        assert!(queue.is_short() && queue.has_room());
    }
}
