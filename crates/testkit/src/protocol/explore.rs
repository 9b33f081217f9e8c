//! Visits every state that the protocol can reach, breadth first, so that a broken promise is reported with
//! a shortest path.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::model::{Action, ProtocolState};
use super::promises::{Promise, broken, is_idle};
use super::stored::Flaw;

/// The search fails above this number of states, because it would not end.
const MAX_STATES: usize = 600_000;

/// The result of a search.
pub(crate) struct Explored {
    /// Number of different states.
    pub(crate) states: usize,
    /// Number of steps between them.
    pub(crate) steps: usize,
    /// Number of states in which everything is done.
    pub(crate) idle: usize,
    /// The first broken promise, and the path to it.
    pub(crate) broken: Option<(Promise, Vec<Action>)>,
}

/// All states, in the order in which they were found.
struct Found {
    states: Vec<ProtocolState>,
    numbers: HashMap<ProtocolState, u32>,
    /// For each state the one it was first reached from, and the action.
    parents: Vec<(u32, Option<Action>)>,
}

impl Found {
    /// Adds a state if it is new. Returns its number and whether it is new.
    fn insert(&mut self, state: ProtocolState, flaw: Flaw, from: u32, by: Option<Action>) -> (u32, bool) {
        match self.numbers.entry(if flaw == Flaw::None { state.normalized() } else { state }) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(free) => {
                let number = u32::try_from(self.states.len()).unwrap();
                free.insert(number);
                self.states.push(state);
                self.parents.push((from, by));
                (number, true)
            }
        }
    }

    fn path_to(&self, number: u32) -> Vec<Action> {
        let mut path = Vec::new();
        let mut at = number;
        while let (from, Some(by)) = self.parents[at as usize] {
            path.push(by);
            at = from;
        }
        path.reverse();
        path
    }
}

/// Explores every state that is reachable from `start`.
pub(crate) fn explore(start: ProtocolState, flaw: Flaw) -> Explored {
    let mut found = Found { states: Vec::new(), numbers: HashMap::new(), parents: Vec::new() };
    found.insert(start, flaw, 0, None);
    let (mut next, mut steps) = (0, 0);
    // Steps without a fault, reversed: for each state the states that lead to it.
    let mut back: Vec<Vec<u32>> = vec![Vec::new()];
    while let Some(state) = found.states.get(next).copied() {
        let here = u32::try_from(next).unwrap();
        next += 1;
        for action in state.actions(flaw) {
            let (after, _) = state.after(action, flaw);
            steps += 1;
            let (number, new) = found.insert(after, flaw, here, Some(action));
            if new {
                back.push(Vec::new());
            }
            if let Some(promise) = broken(&state, &after) {
                let mut path = found.path_to(here);
                path.push(action);
                return Explored {
                    states: found.states.len(),
                    steps,
                    idle: 0,
                    broken: Some((promise, path)),
                };
            }
            if !state.is_fault(action) {
                back[number as usize].push(here);
            }
        }
        assert!(found.states.len() < MAX_STATES, "more than {MAX_STATES} states: the search would not end");
    }
    let ends = found.states.iter().filter(|state| is_idle(state)).count();
    let lost = cannot_become_idle(&found, &back);
    let broken = lost.map(|number| (Promise::IdleReachable, found.path_to(number)));
    Explored { states: found.states.len(), steps, idle: ends, broken }
}

/// The nearest state from which no idle state can be reached.
fn cannot_become_idle(found: &Found, back: &[Vec<u32>]) -> Option<u32> {
    let mut good: Vec<bool> = found.states.iter().map(is_idle).collect();
    let idle = good.iter().enumerate().filter(|(_, idle)| **idle);
    let mut left: Vec<u32> = idle.map(|(number, _)| u32::try_from(number).unwrap()).collect();
    while let Some(number) = left.pop() {
        for before in &back[number as usize] {
            if !std::mem::replace(&mut good[*before as usize], true) {
                left.push(*before);
            }
        }
    }
    good.iter().position(|good| !good).map(|number| u32::try_from(number).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The promise that the flaw breaks first, with this many crashes and takeovers.
    fn first_broken(flaw: Flaw, crashes: u8, takeovers: u8) -> Promise {
        let state = ProtocolState::new(crashes, takeovers, 0);
        let (promise, path) = explore(state, flaw).broken.expect("the flaw shows");
        println!("{flaw:?} breaks {promise:?} by {path:?}");
        promise
    }

    fn keeps_all_promises(state: ProtocolState, floor: usize) {
        let Explored { states, steps, idle, broken } = explore(state, Flaw::None);
        println!("{states} states, {steps} steps, {idle} idle states");
        assert_eq!(broken, None);
        assert!(states > floor && idle > floor / 20, "{states} states, {idle} idle: too few");
    }

    #[test]
    fn two_crashes_and_a_takeover_break_no_promise() {
        keeps_all_promises(ProtocolState::new(2, 1, 0), 90_000);
    }

    #[test]
    fn a_lost_answer_and_a_takeover_break_no_promise() {
        keeps_all_promises(ProtocolState::new(0, 1, 1), 40_000);
    }

    #[test]
    fn a_canceled_event_a_crash_and_a_takeover_break_no_promise() {
        keeps_all_promises(ProtocolState::new(1, 1, 0).with_cancels(1), 40_000);
    }

    #[test]
    fn removing_events_before_they_are_processed_is_noticed() {
        assert_eq!(first_broken(Flaw::DrainFirst, 1, 0), Promise::ProcessedOnce);
    }

    #[test]
    fn a_store_that_ignores_the_epoch_is_noticed() {
        assert_eq!(first_broken(Flaw::NoEpoch, 0, 1), Promise::LogValid);
    }

    #[test]
    fn an_unsafe_call_that_is_not_marked_as_started_is_noticed() {
        assert_eq!(first_broken(Flaw::UnmarkedStart, 1, 0), Promise::EffectsRecorded);
    }

    #[test]
    fn a_store_that_accepts_an_event_twice_is_noticed() {
        assert_eq!(first_broken(Flaw::NoDedup, 0, 0), Promise::OneRow);
    }

    #[test]
    fn repeating_an_unsafe_call_that_had_started_is_noticed() {
        assert_eq!(first_broken(Flaw::RepeatsUnknown, 1, 0), Promise::UnsafeOnce);
    }

    #[test]
    fn a_store_that_confuses_two_takeovers_is_noticed() {
        assert_eq!(first_broken(Flaw::ConfusesOpenings, 1, 1), Promise::OneOwner);
    }

    #[test]
    fn ending_a_cycle_without_outcomes_of_its_calls_is_noticed() {
        assert_eq!(first_broken(Flaw::LeavesCallsOpen, 2, 0), Promise::LogValid);
    }

    #[test]
    fn a_takeover_that_does_not_count_the_attempt_is_noticed() {
        assert_eq!(first_broken(Flaw::ResetsCounts, 1, 0), Promise::FailuresCounted);
    }

    #[test]
    fn an_open_cycle_that_is_never_due_again_is_noticed() {
        assert_eq!(first_broken(Flaw::ForgetsOpen, 1, 0), Promise::IdleReachable);
    }
}
