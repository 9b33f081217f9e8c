//! Whose turn it is to be woken. Who is due stands in line, first come, first served. Whose last activation
//! broke, or was refused by the store after it had opened, rests before it is tried again, twice as long
//! each time. While the store refuses, nobody's turn comes but that of one at a time, now and then: its
//! first commit that is taken lets all others go on. Who may have been the death of the process before
//! waits apart (`suspects`), beside the places of all others.
//!
//! In memory only, by the clock that never jumps. It must not know what being awake is, nor why an agent
//! is due.

use std::collections::HashMap;

use agent::id::AgentId;
use agent::limits;
use agent::port::Ids;

use super::suspects::Suspects;
use crate::ready_queue::ReadyQueue;
use crate::turn::Turn;

/// The turns of one node.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    line: ReadyQueue,
    /// Due before, and called for what they waited for.
    called: ReadyQueue,
    /// Agents that may have been the death of the process.
    suspects: Suspects,
    /// Agents whose last activation failed.
    faults: HashMap<AgentId, Fault>,
    /// The store refuses commits.
    refusal: Option<Refusal>,
    /// When it was asked last whose turn it is.
    asked: u64,
}

/// That an agent's last activation failed.
#[derive(Clone, Copy, Debug, Default)]
struct Fault {
    /// Failures in a row that were the agent's own.
    in_row: u32,
    /// It rests until then.
    until: u64,
    /// Whether the last one was a panic.
    panicked: bool,
}

#[derive(Debug)]
struct Refusal {
    /// Who finds out just now whether the store works again.
    probe: Option<AgentId>,
    /// Nobody does before then.
    next: u64,
}

impl Turns {
    /// The agent is due; its turn comes, unless it rests.
    pub(crate) fn join(&mut self, agent: AgentId, now: u64) {
        let waits = self.suspects.contains(agent) || self.called.contains(agent);
        if !waits && !self.rests(agent, now) {
            self.line.join(agent);
        }
    }

    /// What the agent waited for is its own now: it goes before those in line.
    pub(crate) fn call(&mut self, agent: AgentId) {
        self.line.leave(agent);
        self.called.join(agent);
    }

    /// The agent was woken, and may have been the death of the process, which had died over it so often before: it
    /// waits for a turn among its like.
    pub(crate) fn suspect(&mut self, agent: AgentId, deaths: u32, now: u64) {
        self.left(agent, now);
        self.suspects.join(agent, deaths);
    }

    /// Something about the agent has changed: whether it is to wait as a suspect is seen anew.
    pub(crate) fn reconsider(&mut self, agent: AgentId) {
        self.suspects.leave(agent);
    }

    /// The agent has shown that it was not the cause.
    pub(crate) fn cleared(&mut self, agent: AgentId) {
        self.suspects.cleared(agent);
    }

    /// How many that are awake take nobody's place: suspects that are watched.
    pub(crate) fn beside(&self) -> usize {
        self.suspects.watched()
    }

    /// Whether the agent rests since its last activation failed. Somebody has to look again when that is
    /// over.
    pub(crate) fn rests(&self, agent: AgentId, now: u64) -> bool {
        self.faults.get(&agent).is_some_and(|fault| fault.until > now)
    }

    /// Whether the agent stands in line.
    pub(crate) fn in_line(&self, agent: AgentId) -> bool {
        self.line.contains(agent)
    }

    /// An operator's word: the agent does not rest any longer, nor wait behind other suspects. Whether it stands
    /// among those.
    pub(crate) fn hurry(&mut self, agent: AgentId) -> bool {
        self.suspects.hurry(agent);
        if let Some(fault) = self.faults.get_mut(&agent) {
            fault.until = 0;
        }
        self.suspects.contains(agent)
    }

    /// Whose turn it is; where no place is `free` only that of a suspect, or of somebody who was called.
    pub(crate) fn next(&mut self, now: u64, free: bool) -> Option<Turn> {
        self.asked = now;
        if self.refusal.as_ref().is_some_and(|refusal| refusal.probe.is_some() || refusal.next > now) {
            return None;
        }
        let suspect = self.suspects.next(now);
        // Whoever is called holds what others may be waiting for in the places that are taken: it needs none.
        let next = suspect.or_else(|| self.called.next());
        let agent = next.or_else(|| if free { self.line.next() } else { None })?;
        if let Some(refusal) = &mut self.refusal {
            refusal.probe = Some(agent);
        }
        let fault = self.faults.get(&agent);
        let careful = self.refusal.is_some() || fault.is_some();
        let panicked = fault.is_some_and(|fault| fault.panicked);
        Some(Turn { agent, careful, watched: suspect.is_some(), panicked })
    }

    /// When the next turn comes, where those in line wait for a time. A time that was over when it was asked
    /// whose turn it is lets nobody go on: whoever is in line then waits for something else.
    pub(crate) fn next_at(&self) -> Option<u64> {
        if self.refusal.as_ref().is_some_and(|refusal| refusal.probe.is_some()) {
            return None;
        }
        let watched = self.suspects.next_at();
        let in_line = !(self.line.is_empty() && self.called.is_empty() && self.suspects.is_empty());
        let refusal = self.refusal.as_ref().filter(|_| in_line).map(|refusal| refusal.next);
        [refusal, watched].into_iter().flatten().filter(|at| *at > self.asked).min()
    }

    /// The agent's activation is over, and nothing failed.
    pub(crate) fn ended(&mut self, agent: AgentId, now: u64) {
        self.faults.remove(&agent);
        self.left(agent, now);
    }

    /// The agent's activation broke. Until when it rests.
    pub(crate) fn broke(&mut self, agent: AgentId, now: u64, ids: &dyn Ids) -> u64 {
        self.left(agent, now);
        self.blame(agent, now, ids, true)
    }

    /// The agent's activation ended by the store, perhaps after its opening was taken. Until when it rests;
    /// `None` where the store refuses all alike, and the agent stands in line again.
    pub(crate) fn refused(&mut self, agent: AgentId, opened: bool, now: u64, ids: &dyn Ids) -> Option<u64> {
        let next = now + limits::STORE_PROBE_MS;
        let known = self.refusal.is_some();
        self.left(agent, next);
        self.refusal.get_or_insert(Refusal { probe: None, next });
        if known && !opened {
            self.fault(agent);
            self.line.join(agent);
            return None;
        }
        Some(self.blame(agent, now, ids, false))
    }

    /// The store takes commits again.
    pub(crate) fn store_works(&mut self) {
        self.refusal = None;
    }

    /// Whether so few are in line that more should be looked for.
    pub(crate) fn is_short(&self) -> bool {
        self.line.is_short()
    }

    /// Whether one more look for due work finds room.
    pub(crate) fn has_room(&self) -> bool {
        self.line.has_room()
    }

    /// The agent is not awake any more. If it tried for all whether the store works, somebody else may from
    /// `next` on.
    pub(crate) fn left(&mut self, agent: AgentId, next: u64) {
        self.suspects.cleared(agent);
        if let Some(refusal) = self.refusal.as_mut().filter(|refusal| refusal.probe == Some(agent)) {
            (refusal.probe, refusal.next) = (None, next);
        }
    }

    fn blame(&mut self, agent: AgentId, now: u64, ids: &dyn Ids, panicked: bool) -> u64 {
        let fault = self.fault(agent);
        fault.panicked = panicked;
        let doubled = limits::FAULT_PAUSE_MS << fault.in_row.min(16);
        let pause = doubled.min(limits::FAULT_PAUSE_MAX_MS);
        fault.in_row = fault.in_row.saturating_add(1);
        fault.until = now + pause + ids.jitter(pause / 4);
        fault.until
    }

    /// What is known of the agent's failures, in place of what is known of somebody else's where there are
    /// too many.
    fn fault(&mut self, agent: AgentId) -> &mut Fault {
        if self.faults.len() >= limits::SIGNALS_MAX
            && !self.faults.contains_key(&agent)
            && let Some(other) = self.faults.keys().next().copied()
        {
            self.faults.remove(&other);
        }
        self.faults.entry(agent).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::tests::NoJitter;
    use uuid::Uuid;

    fn agent(n: u128) -> AgentId {
        AgentId(Uuid::from_u128(n))
    }

    fn of(count: u128) -> Turns {
        let mut turns = Turns::default();
        (1..=count).for_each(|n| turns.join(agent(n), 0));
        turns
    }

    fn turn(n: u128, careful: bool) -> Option<Turn> {
        Some(Turn { agent: agent(n), careful, watched: false, panicked: false })
    }

    #[test]
    fn whose_activation_breaks_rests_twice_as_long_each_time_until_it_succeeds() {
        let mut turns = of(1);
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..8 {
            assert!(turns.next(now, true).is_some());
            let until = turns.broke(agent(1), now, &NoJitter);
            turns.join(agent(1), until - 1);
            assert_eq!(turns.next(until - 1, true), None, "whatever is new for it");
            turns.join(agent(1), until);
            pauses.push(until - now);
            now = until;
        }
        assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        let again = turns.next(now, true).unwrap();
        assert!(again.careful && again.panicked);
        turns.ended(agent(1), now);
        assert_eq!(turns.broke(agent(1), now, &NoJitter) - now, 1_000);
        turns.hurry(agent(1));
        assert!(!turns.rests(agent(1), now), "an operator's word");
    }

    #[test]
    fn while_the_store_refuses_one_tries_each_second_and_its_success_lets_all_go_on() {
        let mut turns = of(5);
        assert_eq!(turns.next(0, true), turn(1, false));
        assert_eq!(turns.next(0, true), turn(2, false));
        assert_eq!(turns.refused(agent(1), false, 0, &NoJitter), Some(1_000), "whoever finds out rests");
        assert_eq!(turns.refused(agent(2), false, 0, &NoJitter), None, "the others stand in line");
        assert_eq!((turns.next(999, true), turns.next_at()), (None, Some(1_000)));
        assert_eq!(turns.next(1_000, true), turn(3, true));
        assert_eq!((turns.next(5_000, true), turns.next_at()), (None, None), "one, not two");
        assert_eq!(turns.refused(agent(3), false, 5_000, &NoJitter), None);
        assert_eq!((turns.next(5_999, true), turns.next(6_000, true)), (None, turn(4, true)));
        turns.store_works();
        let rest: Vec<_> = std::iter::from_fn(|| turns.next(6_000, true)).collect();
        assert_eq!(rest, [turn(5, false), turn(2, true), turn(3, true)].map(Option::unwrap));
    }

    #[test]
    fn a_turn_that_cannot_come_now_is_not_looked_for_again_and_again() {
        let mut turns = of(1);
        assert_eq!(turns.next(0, true), turn(1, false));
        turns.suspect(agent(1), 1, 0);
        turns.join(agent(2), 0);
        turns.suspect(agent(3), 1, 0);
        assert!(turns.next(0, true).is_some_and(|turn| turn.watched), "agent 1, watched");
        assert_eq!(turns.next(0, true), turn(2, false));
        let _ = turns.refused(agent(2), false, 0, &NoJitter);
        turns.join(agent(4), 0);
        assert_eq!((turns.next(0, true), turns.next_at()), (None, Some(limits::STORE_PROBE_MS)));
        assert_eq!(turns.next(1_000, false), None, "no place is free");
        let watched = Some(limits::SUSPECT_MS);
        assert_eq!(turns.next_at(), watched, "the second that it was to wait is over");
        assert_eq!(turns.next(2_000, true), turn(4, true));
        assert_eq!(
            (turns.next(limits::SUSPECT_MS + 1, true), turns.next_at()),
            (None, None),
            "one tries for all"
        );
    }

    #[test]
    fn a_try_that_shows_nothing_of_the_store_makes_room_for_the_next_at_once() {
        let mut turns = of(3);
        let _ = turns.next(0, true);
        let _ = turns.refused(agent(1), false, 0, &NoJitter);
        assert_eq!(turns.next(1_000, true), turn(2, true));
        turns.ended(agent(2), 1_001);
        assert_eq!(turns.next(1_001, true), turn(3, true));
        let _ = turns.broke(agent(3), 1_002, &NoJitter);
        turns.join(agent(4), 1_002);
        assert_eq!(turns.next(1_002, true), turn(4, true));
    }

    #[test]
    fn whoever_was_refused_what_it_had_thought_rests_ever_longer_although_the_store_works_for_others() {
        let mut turns = of(1);
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..3 {
            assert!(turns.next(now, true).is_some());
            turns.store_works();
            let until = turns.refused(agent(1), true, now, &NoJitter).unwrap();
            turns.join(agent(1), until);
            pauses.push(until - now);
            now = until;
        }
        assert_eq!(pauses, [1_000, 2_000, 4_000]);
    }

    #[test]
    fn whoever_is_called_needs_no_free_place() {
        let mut turns = of(2);
        assert_eq!(turns.next(0, false), None);
        turns.call(agent(2));
        assert_eq!(turns.next(0, false), turn(2, false));
        assert_eq!((turns.next(0, false), turns.next(0, true)), (None, turn(1, false)));
    }

    #[test]
    fn suspects_are_awake_beside_all_others() {
        let mut turns = of(4);
        (1..=3).for_each(|n| assert_eq!(turns.next(0, true), turn(n, false)));
        for n in 1..=3 {
            turns.suspect(agent(n), 1, 0);
            turns.join(agent(n), 0);
        }
        let watched = |n| Some(Turn { agent: agent(n), careful: false, watched: true, panicked: false });
        assert_eq!((turns.next(0, false), turns.beside()), (watched(1), 1));
        assert_eq!((turns.next(0, true), turns.next(0, true)), (turn(4, false), None), "nobody else waits");
        assert_eq!(turns.next_at(), Some(limits::SUSPECT_MS));
        turns.hurry(agent(3));
        turns.cleared(agent(1));
        assert_eq!(turns.next(1, false), watched(3), "an operator's word goes before");
        turns.ended(agent(3), 2);
        assert_eq!((turns.next(2, false), turns.next_at()), (watched(2), None));
        turns.join(agent(5), 3);
        turns.suspect(agent(5), 1, 3);
        assert_eq!(turns.next(3 + limits::SUSPECT_MS, false), watched(5), "slowness is not what is feared");
    }
}
