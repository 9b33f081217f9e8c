//! Which agent is activated next. Due agents are queued, first in, first out. An agent whose last activation
//! panicked, or met a store failure after its opening, backs off before it is tried again, twice as long each time.
//! While the store refuses commits, one agent at a time is activated as a probe, at intervals; its first accepted
//! commit lets all others continue. Agents that may have crashed the process wait separately (`suspects`).
//!
//! In memory only, by the monotonic clock. Must not know what being awake is, nor why an agent is due.

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
    queue: ReadyQueue,
    /// Due agents that got the permit they waited for.
    permitted: ReadyQueue,
    /// Agents that may have crashed the process.
    suspects: Suspects,
    /// Agents whose last activation failed.
    faults: HashMap<AgentId, ActivationFault>,
    /// Set while the store refuses commits.
    refusal: Option<StoreRefusal>,
    /// When [`Turns::next`] was called last.
    last_next: u64,
}

/// An agent's last activation failed.
#[derive(Clone, Copy, Debug, Default)]
struct ActivationFault {
    /// Failures in a row that were the agent's own.
    in_row: u32,
    /// It backs off until then.
    until: u64,
}

#[derive(Debug)]
struct StoreRefusal {
    /// The agent that is trying whether the store works again.
    probe: Option<AgentId>,
    /// No probe before then.
    next: u64,
}

impl Turns {
    /// The agent is due: it is queued, unless it is backing off.
    pub(crate) fn enqueue(&mut self, agent: AgentId, now: u64) {
        let waits = self.suspects.contains(agent) || self.permitted.contains(agent);
        if !waits && !self.is_backing_off(agent, now) {
            self.queue.push(agent);
        }
    }

    /// The agent got the permit it waited for: it goes before queued ones.
    pub(crate) fn permit_granted(&mut self, agent: AgentId) {
        self.queue.remove(agent);
        self.permitted.push(agent);
    }

    /// The agent may have crashed the process, which had died `deaths` times before while it was awake: it waits
    /// among the suspects.
    pub(crate) fn suspect(&mut self, agent: AgentId, deaths: u32, now: u64) {
        self.ended(agent, now);
        self.suspects.push(agent, deaths);
    }

    /// Something about the agent has changed: its next activation decides anew whether it is a suspect.
    pub(crate) fn forget_suspect(&mut self, agent: AgentId) {
        self.suspects.remove(agent);
    }

    /// The agent has shown that it is not the cause.
    pub(crate) fn cleared(&mut self, agent: AgentId) {
        self.suspects.cleared(agent);
    }

    /// How many suspects are awake; they do not count against the limit.
    pub(crate) fn watched(&self) -> usize {
        self.suspects.watched()
    }

    /// Whether the agent is backing off after a failed activation. The caller checks it again afterwards.
    pub(crate) fn is_backing_off(&self, agent: AgentId, now: u64) -> bool {
        self.faults.get(&agent).is_some_and(|fault| fault.until > now)
    }

    /// Whether the agent is queued.
    pub(crate) fn is_queued(&self, agent: AgentId) -> bool {
        self.queue.contains(agent)
    }

    /// An operator resumed the agent: it no longer backs off, nor waits behind other suspects. Returns whether it is
    /// a waiting suspect.
    pub(crate) fn resume(&mut self, agent: AgentId) -> bool {
        self.suspects.move_to_front(agent);
        if let Some(fault) = self.faults.get_mut(&agent) {
            fault.until = 0;
        }
        self.suspects.contains(agent)
    }

    /// The next turn; unless a slot is `free`, only that of a suspect or of an agent with a permit.
    pub(crate) fn next(&mut self, now: u64, free: bool) -> Option<Turn> {
        self.last_next = now;
        if self.refusal.as_ref().is_some_and(|refusal| refusal.probe.is_some() || refusal.next > now) {
            return None;
        }
        let suspect = self.suspects.next(now);
        // Awake agents may be waiting for the permit that it holds: it needs no free slot.
        let next = suspect.or_else(|| self.permitted.pop());
        let agent = next.or_else(|| if free { self.queue.pop() } else { None })?;
        if let Some(refusal) = &mut self.refusal {
            refusal.probe = Some(agent);
        }
        let careful = self.refusal.is_some() || self.faults.contains_key(&agent);
        Some(Turn { agent, careful, watched: suspect.is_some() })
    }

    /// When the next turn comes, if queued agents wait for a time. A time that had passed when [`Turns::next`] was
    /// called is not it: those agents wait for something else.
    pub(crate) fn next_at(&self) -> Option<u64> {
        if self.refusal.as_ref().is_some_and(|refusal| refusal.probe.is_some()) {
            return None;
        }
        let watched = self.suspects.next_at();
        let waiting = !(self.queue.is_empty() && self.permitted.is_empty() && self.suspects.is_empty());
        let refusal = self.refusal.as_ref().filter(|_| waiting).map(|refusal| refusal.next);
        [refusal, watched].into_iter().flatten().filter(|at| *at > self.last_next).min()
    }

    /// The agent's activation ended, and nothing failed.
    pub(crate) fn succeeded(&mut self, agent: AgentId, now: u64) {
        self.faults.remove(&agent);
        self.ended(agent, now);
    }

    /// The agent's activation panicked. Returns until when it backs off.
    pub(crate) fn panicked(&mut self, agent: AgentId, now: u64, ids: &dyn Ids) -> u64 {
        self.ended(agent, now);
        self.back_off(agent, now, ids)
    }

    /// The store failed and ended the agent's activation, perhaps after its opening was committed. Returns until
    /// when the agent backs off; `None` if the store refuses all commits: then the agent is queued again.
    pub(crate) fn refused(&mut self, agent: AgentId, opened: bool, now: u64, ids: &dyn Ids) -> Option<u64> {
        let next = now + limits::STORE_PROBE_MS;
        let known = self.refusal.is_some();
        self.ended(agent, next);
        self.refusal.get_or_insert(StoreRefusal { probe: None, next });
        if known && !opened {
            self.fault(agent);
            self.queue.push(agent);
            return None;
        }
        Some(self.back_off(agent, now, ids))
    }

    /// The store accepts commits again.
    pub(crate) fn store_recovered(&mut self) {
        self.refusal = None;
    }

    /// Whether so few are queued that the store should be asked for more.
    pub(crate) fn is_short(&self) -> bool {
        self.queue.is_short()
    }

    /// Whether there is room for one more page of due agents.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.has_room()
    }

    /// The agent is no longer awake. If it was the probe of the store, another one may follow from `next` on.
    pub(crate) fn ended(&mut self, agent: AgentId, next: u64) {
        self.suspects.cleared(agent);
        if let Some(refusal) = self.refusal.as_mut().filter(|refusal| refusal.probe == Some(agent)) {
            (refusal.probe, refusal.next) = (None, next);
        }
    }

    fn back_off(&mut self, agent: AgentId, now: u64, ids: &dyn Ids) -> u64 {
        let fault = self.fault(agent);
        let doubled = limits::FAULT_PAUSE_MS << fault.in_row.min(16);
        let pause = doubled.min(limits::FAULT_PAUSE_MAX_MS);
        fault.in_row = fault.in_row.saturating_add(1);
        fault.until = now + pause + ids.jitter(pause / 4);
        fault.until
    }

    /// The agent's failures; if too many agents have some, in place of another agent's.
    fn fault(&mut self, agent: AgentId) -> &mut ActivationFault {
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

    fn with_due(count: u128) -> Turns {
        let mut turns = Turns::default();
        (1..=count).for_each(|n| turns.enqueue(agent(n), 0));
        turns
    }

    fn turn(n: u128, careful: bool) -> Option<Turn> {
        Some(Turn { agent: agent(n), careful, watched: false })
    }

    #[test]
    fn an_agent_that_panics_backs_off_twice_as_long_each_time_until_it_succeeds() {
        let mut turns = with_due(1);
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..8 {
            assert!(turns.next(now, true).is_some());
            let until = turns.panicked(agent(1), now, &NoJitter);
            turns.enqueue(agent(1), until - 1);
            assert_eq!(turns.next(until - 1, true), None, "new events do not end the pause");
            turns.enqueue(agent(1), until);
            pauses.push(until - now);
            now = until;
        }
        assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert!(turns.next(now, true).unwrap().careful);
        turns.succeeded(agent(1), now);
        assert_eq!(turns.panicked(agent(1), now, &NoJitter) - now, 1_000);
        turns.resume(agent(1));
        assert!(!turns.is_backing_off(agent(1), now), "an operator resumed it");
    }

    #[test]
    fn while_the_store_refuses_one_agent_probes_each_second_and_its_success_lets_all_continue() {
        let mut turns = with_due(5);
        assert_eq!(turns.next(0, true), turn(1, false));
        assert_eq!(turns.next(0, true), turn(2, false));
        assert_eq!(
            turns.refused(agent(1), false, 0, &NoJitter),
            Some(1_000),
            "the first one refused backs off"
        );
        assert_eq!(turns.refused(agent(2), false, 0, &NoJitter), None, "the others are queued");
        assert_eq!((turns.next(999, true), turns.next_at()), (None, Some(1_000)));
        assert_eq!(turns.next(1_000, true), turn(3, true));
        assert_eq!((turns.next(5_000, true), turns.next_at()), (None, None), "one, not two");
        assert_eq!(turns.refused(agent(3), false, 5_000, &NoJitter), None);
        assert_eq!((turns.next(5_999, true), turns.next(6_000, true)), (None, turn(4, true)));
        turns.store_recovered();
        let rest: Vec<_> = std::iter::from_fn(|| turns.next(6_000, true)).collect();
        assert_eq!(rest, [turn(5, false), turn(2, true), turn(3, true)].map(Option::unwrap));
    }

    #[test]
    fn a_time_that_has_passed_without_a_turn_is_not_returned_again() {
        let mut turns = with_due(1);
        assert_eq!(turns.next(0, true), turn(1, false));
        turns.suspect(agent(1), 1, 0);
        turns.enqueue(agent(2), 0);
        turns.suspect(agent(3), 1, 0);
        assert!(turns.next(0, true).is_some_and(|turn| turn.watched), "agent 1, watched");
        assert_eq!(turns.next(0, true), turn(2, false));
        let _ = turns.refused(agent(2), false, 0, &NoJitter);
        turns.enqueue(agent(4), 0);
        assert_eq!((turns.next(0, true), turns.next_at()), (None, Some(limits::STORE_PROBE_MS)));
        assert_eq!(turns.next(1_000, false), None, "no slot is free");
        let watched = Some(limits::SUSPECT_MS);
        assert_eq!(turns.next_at(), watched, "the time of the next probe has passed");
        assert_eq!(turns.next(2_000, true), turn(4, true));
        assert_eq!(
            (turns.next(limits::SUSPECT_MS + 1, true), turns.next_at()),
            (None, None),
            "one probes for all"
        );
    }

    #[test]
    fn a_probe_that_shows_nothing_of_the_store_is_followed_by_the_next_at_once() {
        let mut turns = with_due(3);
        let _ = turns.next(0, true);
        let _ = turns.refused(agent(1), false, 0, &NoJitter);
        assert_eq!(turns.next(1_000, true), turn(2, true));
        turns.succeeded(agent(2), 1_001);
        assert_eq!(turns.next(1_001, true), turn(3, true));
        let _ = turns.panicked(agent(3), 1_002, &NoJitter);
        turns.enqueue(agent(4), 1_002);
        assert_eq!(turns.next(1_002, true), turn(4, true));
    }

    #[test]
    fn an_agent_refused_after_its_opening_backs_off_ever_longer_although_the_store_works_for_others() {
        let mut turns = with_due(1);
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..3 {
            assert!(turns.next(now, true).is_some());
            turns.store_recovered();
            let until = turns.refused(agent(1), true, now, &NoJitter).unwrap();
            turns.enqueue(agent(1), until);
            pauses.push(until - now);
            now = until;
        }
        assert_eq!(pauses, [1_000, 2_000, 4_000]);
    }

    #[test]
    fn an_agent_with_a_permit_needs_no_free_slot() {
        let mut turns = with_due(2);
        assert_eq!(turns.next(0, false), None);
        turns.permit_granted(agent(2));
        assert_eq!(turns.next(0, false), turn(2, false));
        assert_eq!((turns.next(0, false), turns.next(0, true)), (None, turn(1, false)));
    }

    #[test]
    fn suspects_run_in_addition_to_all_others() {
        let mut turns = with_due(4);
        (1..=3).for_each(|n| assert_eq!(turns.next(0, true), turn(n, false)));
        for n in 1..=3 {
            turns.suspect(agent(n), 1, 0);
            turns.enqueue(agent(n), 0);
        }
        let watched = |n| Some(Turn { agent: agent(n), careful: false, watched: true });
        assert_eq!((turns.next(0, false), turns.watched()), (watched(1), 1));
        assert_eq!(
            (turns.next(0, true), turns.next(0, true)),
            (turn(4, false), None),
            "no other agent waits"
        );
        assert_eq!(turns.next_at(), Some(limits::SUSPECT_MS));
        turns.resume(agent(3));
        turns.cleared(agent(1));
        assert_eq!(turns.next(1, false), watched(3), "the resumed agent goes first");
        turns.succeeded(agent(3), 2);
        assert_eq!((turns.next(2, false), turns.next_at()), (watched(2), None));
        turns.enqueue(agent(5), 3);
        turns.suspect(agent(5), 1, 3);
        assert_eq!(
            turns.next(3 + limits::SUSPECT_MS, false),
            watched(5),
            "a slow suspect does not block others"
        );
    }
}
