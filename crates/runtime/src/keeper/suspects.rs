//! Suspects: agents that were awake when the process died. One of them may be the cause and must not take all others
//! down again. They are activated under watch, in addition to the agents that may be awake: a few at a time after one
//! death, since most of them are innocent; one at a time after more deaths. Those with the fewest deaths go first, so
//! that an innocent agent does not wait until the guilty event is given up.
//!
//! Must not know what shows that an agent is not the cause.

use std::collections::BTreeMap;

use agent::id::AgentId;
use agent::limits;

use crate::ready_queue::ReadyQueue;

/// The suspects of one node.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// The process died once while they were awake.
    once: ReadyQueue,
    /// The process died repeatedly while they were awake; by the number of deaths before the last one.
    repeatedly: BTreeMap<u32, ReadyQueue>,
    watched: Vec<Watched>,
}

/// A suspect that is awake.
#[derive(Debug)]
struct Watched {
    agent: AgentId,
    /// Blocks others until then at most: a slow suspect is not a cause of crashes.
    until: u64,
    alone: bool,
}

impl Suspects {
    /// Queues the agent; the process had died `deaths` times while it was awake before it died last.
    pub(super) fn push(&mut self, agent: AgentId, deaths: u32) {
        let queue = if deaths == 0 { &mut self.once } else { self.repeatedly.entry(deaths).or_default() };
        queue.push(agent);
    }

    pub(super) fn remove(&mut self, agent: AgentId) {
        self.once.remove(agent);
        self.repeatedly.values_mut().for_each(|queue| queue.remove(agent));
        self.repeatedly.retain(|_, queue| !queue.is_empty());
    }

    pub(super) fn move_to_front(&mut self, agent: AgentId) {
        self.once.move_to_front(agent);
        if self.repeatedly.values().any(|queue| queue.contains(agent)) {
            self.remove(agent);
            let first = self.repeatedly.entry(0).or_default();
            first.push(agent);
            first.move_to_front(agent);
        }
    }

    pub(super) fn contains(&self, agent: AgentId) -> bool {
        self.once.contains(agent) || self.repeatedly.values().any(|queue| queue.contains(agent))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.once.is_empty() && self.repeatedly.is_empty()
    }

    /// How many suspects are awake.
    pub(super) fn watched(&self) -> usize {
        self.watched.len()
    }

    /// The next suspect to activate; it is watched from now on.
    pub(super) fn next(&mut self, now: u64) -> Option<AgentId> {
        self.watched.retain(|watched| watched.until > now);
        let room = self.watched.len() < limits::SUSPECTS_AT_ONCE && !self.watched.iter().any(|one| one.alone);
        let (agent, alone) = match (room, self.once.is_empty(), self.watched.is_empty()) {
            (true, false, _) => (self.once.pop()?, false),
            (_, true, true) => (self.next_alone()?, true),
            _ => return None,
        };
        self.watched.push(Watched { agent, until: now + limits::SUSPECT_MS, alone });
        Some(agent)
    }

    fn next_alone(&mut self) -> Option<AgentId> {
        let mut fewest = self.repeatedly.first_entry()?;
        let agent = fewest.get_mut().pop();
        if fewest.get().is_empty() {
            fewest.remove();
        }
        agent
    }

    /// The agent is no longer watched.
    pub(super) fn cleared(&mut self, agent: AgentId) {
        self.watched.retain(|watched| watched.agent != agent);
    }

    /// When the next suspect need no longer wait for the watched ones; `None` if none waits.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.watched.iter().map(|watched| watched.until).min().filter(|_| !self.is_empty())
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
    fn after_one_death_a_few_suspects_run_at_once_and_after_more_deaths_each_runs_alone() {
        let (mut suspects, most) = (Suspects::default(), limits::SUSPECTS_AT_ONCE as u128);
        suspects.push(agent(90), 1);
        suspects.push(agent(91), 1);
        (1..=most + 2).for_each(|n| suspects.push(agent(n), 0));
        for n in 1..=most {
            assert_eq!(suspects.next(0), Some(agent(n)));
        }
        assert_eq!((suspects.next(0), suspects.next_at()), (None, Some(limits::SUSPECT_MS)));
        suspects.cleared(agent(1));
        assert_eq!((suspects.next(1), suspects.next(1)), (Some(agent(most + 1)), None));
        assert_eq!(
            suspects.next(limits::SUSPECT_MS),
            Some(agent(most + 2)),
            "a slow suspect does not block others"
        );
        assert_eq!(suspects.next(limits::SUSPECT_MS + 1), None, "two suspects with one death are awake");
        suspects.cleared(agent(most + 1));
        suspects.cleared(agent(most + 2));
        suspects.move_to_front(agent(91));
        assert_eq!(suspects.next(limits::SUSPECT_MS + 2), Some(agent(91)), "the resumed agent goes first");
        suspects.push(agent(1), 0);
        assert_eq!((suspects.next(limits::SUSPECT_MS + 3), suspects.watched()), (None, 1), "it runs alone");
        suspects.remove(agent(1));
        suspects.cleared(agent(91));
        assert_eq!(suspects.next(limits::SUSPECT_MS + 4), Some(agent(90)));
        assert_eq!((suspects.next_at(), suspects.is_empty()), (None, true));
    }

    #[test]
    fn suspects_with_the_fewest_deaths_go_first() {
        let mut suspects = Suspects::default();
        for (n, deaths) in [(1, 9), (2, 1), (3, 1), (4, 2), (5, 18)] {
            suspects.push(agent(n), deaths);
        }
        suspects.move_to_front(agent(5));
        suspects.remove(agent(3));
        for n in [5, 2, 4, 1] {
            assert_eq!(suspects.next(0), Some(agent(n)));
            assert!(!suspects.contains(agent(n)));
            suspects.cleared(agent(n));
        }
        assert!(suspects.is_empty());
    }
}
