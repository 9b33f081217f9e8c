//! Who is due while as many are awake as may be: a line, first come, first served. An agent stands in it
//! once, however often it is called; one that has just rested and has more to do goes to its end, so that
//! whoever is flooded never goes before those who are not.
//!
//! It must not know why an agent is due, nor what being awake is.

use std::collections::{HashSet, VecDeque};

use agent::id::AgentId;
use agent::limits;

/// The line of one node.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    order: VecDeque<AgentId>,
    standing: HashSet<AgentId>,
}

impl ReadyQueue {
    /// Puts an agent at the end, where it does not stand in the line already. One that finds no room is
    /// found again by the sweep.
    pub(crate) fn join(&mut self, agent: AgentId) {
        if self.order.len() < limits::SIGNALS_MAX && self.standing.insert(agent) {
            self.order.push_back(agent);
        }
    }

    /// Puts an agent that stands in it at its beginning.
    pub(crate) fn hurry(&mut self, agent: AgentId) {
        if self.standing.contains(&agent) {
            self.order.retain(|standing| *standing != agent);
            self.order.push_front(agent);
        }
    }

    /// Takes an agent out.
    pub(crate) fn leave(&mut self, agent: AgentId) {
        if self.standing.remove(&agent) {
            self.order.retain(|standing| *standing != agent);
        }
    }

    /// Whether the agent stands in it.
    pub(crate) fn contains(&self, agent: AgentId) -> bool {
        self.standing.contains(&agent)
    }

    /// Whose turn it is.
    pub(crate) fn next(&mut self) -> Option<AgentId> {
        let agent = self.order.pop_front()?;
        self.standing.remove(&agent);
        Some(agent)
    }

    /// Whether nobody stands in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether so few are left that more should be looked for.
    pub(crate) fn is_short(&self) -> bool {
        self.order.len() < limits::DUE_BATCH as usize / 2
    }

    /// Whether one more look for due work finds room.
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
    fn an_agent_stands_in_the_line_once_and_comes_back_at_its_end() {
        let mut line = ReadyQueue::default();
        for n in [1, 2, 1, 3, 2] {
            line.join(agent(n));
        }
        assert_eq!(line.next(), Some(agent(1)));
        line.join(agent(1));
        line.hurry(agent(3));
        line.hurry(agent(4));
        assert!(line.contains(agent(3)) && !line.contains(agent(4)));
        line.join(agent(5));
        line.leave(agent(5));
        let rest: Vec<_> = std::iter::from_fn(|| line.next()).collect();
        assert_eq!(rest, [agent(3), agent(2), agent(1)]);
    }

    #[test]
    fn a_line_has_an_end_and_says_when_it_has_no_room_and_when_it_is_short() {
        let mut line = ReadyQueue::default();
        assert!(line.is_short() && line.has_room());
        (0..limits::SIGNALS_MAX + 10).for_each(|n| line.join(agent(n)));
        assert!(!line.is_short() && !line.has_room());
        assert_eq!(std::iter::from_fn(|| line.next()).count(), limits::SIGNALS_MAX);
        assert!(line.is_short() && line.has_room());
    }
}
