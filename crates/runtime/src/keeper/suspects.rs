//! Agents that were awake when the process died, or before: whichever of them was the cause must not be able to take
//! all others with it again. They are watched, beside the places of all others: a few at a time after one death,
//! since most did nothing; one at a time once the process has died over them more than once. Over whom it died least
//! often goes first: who is innocent does not wait until the other is given up.
//!
//! It must not know what shows that an agent is not the cause.

use std::collections::BTreeMap;

use agent::id::AgentId;
use agent::limits;

use crate::ready_queue::ReadyQueue;

/// The suspects of one node.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// The process died once while they were awake.
    once: ReadyQueue,
    /// It died again: by how often it had before.
    again: BTreeMap<u32, ReadyQueue>,
    watched: Vec<Watched>,
}

/// A suspect that is awake.
#[derive(Debug)]
struct Watched {
    agent: AgentId,
    /// Keeps others waiting no longer than that: what is feared is the death of the process, not slowness.
    until: u64,
    again: bool,
}

impl Suspects {
    /// The agent waits for its turn; the process had died over it so often before it did last.
    pub(super) fn join(&mut self, agent: AgentId, deaths: u32) {
        let line = if deaths == 0 { &mut self.once } else { self.again.entry(deaths).or_default() };
        line.join(agent);
    }

    pub(super) fn leave(&mut self, agent: AgentId) {
        self.once.leave(agent);
        self.again.values_mut().for_each(|line| line.leave(agent));
        self.again.retain(|_, line| !line.is_empty());
    }

    pub(super) fn hurry(&mut self, agent: AgentId) {
        self.once.hurry(agent);
        if self.again.values().any(|line| line.contains(agent)) {
            self.leave(agent);
            let first = self.again.entry(0).or_default();
            first.join(agent);
            first.hurry(agent);
        }
    }

    pub(super) fn contains(&self, agent: AgentId) -> bool {
        self.once.contains(agent) || self.again.values().any(|line| line.contains(agent))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.once.is_empty() && self.again.is_empty()
    }

    /// How many are watched.
    pub(super) fn watched(&self) -> usize {
        self.watched.len()
    }

    /// Whose turn it is; it is watched from now on.
    pub(super) fn next(&mut self, now: u64) -> Option<AgentId> {
        self.watched.retain(|watched| watched.until > now);
        let room = self.watched.len() < limits::SUSPECTS_AT_ONCE && !self.watched.iter().any(|one| one.again);
        let (agent, again) = match (room, self.once.is_empty(), self.watched.is_empty()) {
            (true, false, _) => (self.once.next()?, false),
            (_, true, true) => (self.next_alone()?, true),
            _ => return None,
        };
        self.watched.push(Watched { agent, until: now + limits::SUSPECT_MS, again });
        Some(agent)
    }

    fn next_alone(&mut self) -> Option<AgentId> {
        let mut fewest = self.again.first_entry()?;
        let agent = fewest.get_mut().next();
        if fewest.get().is_empty() {
            fewest.remove();
        }
        agent
    }

    /// The agent is not watched any more.
    pub(super) fn cleared(&mut self, agent: AgentId) {
        self.watched.retain(|watched| watched.agent != agent);
    }

    /// When the next one need not wait any more for those that are watched.
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
    fn after_one_death_a_few_are_awake_at_once_and_after_more_one_alone() {
        let (mut suspects, most) = (Suspects::default(), limits::SUSPECTS_AT_ONCE as u128);
        suspects.join(agent(90), 1);
        suspects.join(agent(91), 1);
        (1..=most + 2).for_each(|n| suspects.join(agent(n), 0));
        for n in 1..=most {
            assert_eq!(suspects.next(0), Some(agent(n)));
        }
        assert_eq!((suspects.next(0), suspects.next_at()), (None, Some(limits::SUSPECT_MS)));
        suspects.cleared(agent(1));
        assert_eq!((suspects.next(1), suspects.next(1)), (Some(agent(most + 1)), None));
        assert_eq!(
            suspects.next(limits::SUSPECT_MS),
            Some(agent(most + 2)),
            "slowness is not what is feared"
        );
        assert_eq!(suspects.next(limits::SUSPECT_MS + 1), None, "two of the first kind are awake");
        suspects.cleared(agent(most + 1));
        suspects.cleared(agent(most + 2));
        suspects.hurry(agent(91));
        assert_eq!(suspects.next(limits::SUSPECT_MS + 2), Some(agent(91)), "an operator's word goes before");
        suspects.join(agent(1), 0);
        assert_eq!((suspects.next(limits::SUSPECT_MS + 3), suspects.watched()), (None, 1), "alone");
        suspects.leave(agent(1));
        suspects.cleared(agent(91));
        assert_eq!(suspects.next(limits::SUSPECT_MS + 4), Some(agent(90)));
        assert_eq!((suspects.next_at(), suspects.is_empty()), (None, true));
    }

    #[test]
    fn over_whom_the_process_died_least_often_goes_first() {
        let mut suspects = Suspects::default();
        for (n, deaths) in [(1, 9), (2, 1), (3, 1), (4, 2), (5, 18)] {
            suspects.join(agent(n), deaths);
        }
        suspects.hurry(agent(5));
        suspects.leave(agent(3));
        for n in [5, 2, 4, 1] {
            assert_eq!(suspects.next(0), Some(agent(n)));
            assert!(!suspects.contains(agent(n)));
            suspects.cleared(agent(n));
        }
        assert!(suspects.is_empty());
    }
}
