//! Walks through every state that the protocol can be in, nearest first, so that what breaks a promise is
//! found on the shortest way there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::model::{Action, ProtocolState};
use super::promises::{Promise, at_rest, broken};
use super::stored::Flaw;

/// States beyond which a search is given up: it would not end.
const MOST: usize = 600_000;

/// What a search came to.
pub(crate) struct Explored {
    /// Different states.
    pub(crate) states: usize,
    /// Steps between them.
    pub(crate) steps: usize,
    /// Of the states, those in which all is done.
    pub(crate) at_rest: usize,
    /// The first promise that was broken, and the way there.
    pub(crate) broken: Option<(Promise, Vec<Action>)>,
}

/// Every state that was found, in the order in which it was.
struct Found {
    worlds: Vec<ProtocolState>,
    places: HashMap<ProtocolState, u32>,
    /// From where, and by what.
    came: Vec<(u32, Option<Action>)>,
}

impl Found {
    /// The place of a state, and whether it is new.
    fn place(&mut self, world: ProtocolState, flaw: Flaw, from: u32, by: Option<Action>) -> (u32, bool) {
        match self.places.entry(if flaw == Flaw::Sound { world.alike() } else { world }) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(free) => {
                let place = u32::try_from(self.worlds.len()).unwrap();
                free.insert(place);
                self.worlds.push(world);
                self.came.push((from, by));
                (place, true)
            }
        }
    }

    fn way_to(&self, place: u32) -> Vec<Action> {
        let mut way = Vec::new();
        let mut at = place;
        while let (from, Some(by)) = self.came[at as usize] {
            way.push(by);
            at = from;
        }
        way.reverse();
        way
    }
}

/// Explores all that can come of `start`.
pub(crate) fn explore(start: ProtocolState, flaw: Flaw) -> Explored {
    let mut found = Found { worlds: Vec::new(), places: HashMap::new(), came: Vec::new() };
    found.place(start, flaw, 0, None);
    let (mut next, mut steps) = (0, 0);
    // Steps that nothing goes wrong in, from where they lead to where they come from.
    let mut back: Vec<Vec<u32>> = vec![Vec::new()];
    while let Some(world) = found.worlds.get(next).copied() {
        let here = u32::try_from(next).unwrap();
        next += 1;
        for action in world.actions(flaw) {
            let (after, _) = world.after(action, flaw);
            steps += 1;
            let (place, new) = found.place(after, flaw, here, Some(action));
            if new {
                back.push(Vec::new());
            }
            if let Some(promise) = broken(&world, &after) {
                let mut way = found.way_to(here);
                way.push(action);
                return Explored {
                    states: found.worlds.len(),
                    steps,
                    at_rest: 0,
                    broken: Some((promise, way)),
                };
            }
            if !world.is_fault(action) {
                back[place as usize].push(here);
            }
        }
        assert!(found.worlds.len() < MOST, "more than {MOST} states: the search would not end");
    }
    let ends = found.worlds.iter().filter(|world| at_rest(world)).count();
    let lost = restless(&found, &back);
    let broken = lost.map(|place| (Promise::RestReachable, found.way_to(place)));
    Explored { states: found.worlds.len(), steps, at_rest: ends, broken }
}

/// The nearest state from which no rest can be reached.
fn restless(found: &Found, back: &[Vec<u32>]) -> Option<u32> {
    let mut good: Vec<bool> = found.worlds.iter().map(at_rest).collect();
    let rests = good.iter().enumerate().filter(|(_, rests)| **rests);
    let mut left: Vec<u32> = rests.map(|(place, _)| u32::try_from(place).unwrap()).collect();
    while let Some(place) = left.pop() {
        for before in &back[place as usize] {
            if !std::mem::replace(&mut good[*before as usize], true) {
                left.push(*before);
            }
        }
    }
    good.iter().position(|good| !good).map(|place| u32::try_from(place).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the flaw breaks first, in a world in which so much goes wrong.
    fn first_broken(flaw: Flaw, crashes: u8, takeovers: u8) -> Promise {
        let world = ProtocolState::new(crashes, takeovers, 0);
        let (promise, way) = explore(world, flaw).broken.expect("the flaw shows");
        println!("{flaw:?} breaks {promise:?} by {way:?}");
        promise
    }

    fn sound(world: ProtocolState, floor: usize) {
        let Explored { states, steps, at_rest, broken } = explore(world, Flaw::Sound);
        println!("{states} states, {steps} steps, {at_rest} states at rest");
        assert_eq!(broken, None);
        assert!(states > floor && at_rest > floor / 20, "{states} states, {at_rest} at rest: too few");
    }

    #[test]
    fn two_crashes_and_a_takeover_break_no_promise() {
        sound(ProtocolState::new(2, 1, 0), 90_000);
    }

    #[test]
    fn an_answer_that_is_lost_and_a_takeover_break_no_promise() {
        sound(ProtocolState::new(0, 1, 1), 40_000);
    }

    #[test]
    fn an_event_that_is_taken_back_a_crash_and_a_takeover_break_no_promise() {
        sound(ProtocolState::new(1, 1, 0).taking_back(1), 40_000);
    }

    #[test]
    fn events_that_leave_the_inbox_before_they_are_lived_are_noticed() {
        assert_eq!(first_broken(Flaw::DrainFirst, 1, 0), Promise::LivedOnce);
    }

    #[test]
    fn a_store_that_does_not_look_at_the_epoch_is_noticed() {
        assert_eq!(first_broken(Flaw::NoEpoch, 0, 1), Promise::PrefixValid);
    }

    #[test]
    fn an_unsafe_call_that_is_not_marked_as_begun_is_noticed() {
        assert_eq!(first_broken(Flaw::UnmarkedStart, 1, 0), Promise::EffectsTold);
    }

    #[test]
    fn a_ledger_that_does_not_know_an_event_again_is_noticed() {
        assert_eq!(first_broken(Flaw::NoDedup, 0, 0), Promise::OneRow);
    }

    #[test]
    fn a_call_that_is_made_again_though_it_had_begun_is_noticed() {
        assert_eq!(first_broken(Flaw::RepeatsUnknown, 1, 0), Promise::UnsafeOnce);
    }

    #[test]
    fn two_takeovers_that_are_taken_for_one_are_noticed() {
        assert_eq!(first_broken(Flaw::OpeningsAlike, 1, 1), Promise::OneLife);
    }

    #[test]
    fn a_cycle_that_ends_without_answers_to_its_calls_is_noticed() {
        assert_eq!(first_broken(Flaw::LeavesCallsOpen, 2, 0), Promise::PrefixValid);
    }

    #[test]
    fn attempts_that_are_not_counted_are_noticed() {
        assert_eq!(first_broken(Flaw::CountsAnew, 1, 0), Promise::BudgetsFall);
    }

    #[test]
    fn a_cycle_that_nobody_finds_again_is_noticed() {
        assert_eq!(first_broken(Flaw::ForgetsOpen, 1, 0), Promise::RestReachable);
    }
}
