//! Urgent events in full, in the middle of a cycle; and what the agent asked to see.

use std::collections::HashSet;

use super::{Prepared, Situation, Unread};
use crate::config::Awareness;
use crate::event::Waiting;
use crate::inbox;
use crate::limits;

/// Shows urgent events (each with all that its sender said before) where the config injects, and the
/// oldest ones where the agent peeked. Where there is not room for all, the last words of somebody wait, and
/// never those before them: what one person says is read in the order in which it was said. What waits
/// behind a backlog of its sender may not be reached so; where a call was held back for it, at least the
/// oldest of all that waits is shown, until the cycle ends or has come to it.
pub(super) fn urgent(situation: &Situation<'_>, prepared: &mut Prepared) {
    let Unread { oldest, urgent, .. } = situation.waits;
    let fresh = |waiting: &&Waiting| !situation.is_in_hand(waiting.seq);
    let mut chosen: Vec<&Waiting> = Vec::new();
    if wanted(situation) {
        let words = urgent.iter().filter(fresh).map(|word| (word.seq, &word.event.envelope.principal));
        for (speaker, _) in inbox::speakers(words, situation.requesters) {
            chosen
                .extend(urgent.iter().filter(fresh).filter(|word| word.event.envelope.principal == *speaker));
        }
        if chosen.is_empty() && situation.held_back {
            chosen.extend(oldest.iter().filter(fresh));
        }
    }
    if situation.decided && !situation.suspect {
        let peeked = situation.peek.min(limits::PEEK_MAX) as usize;
        chosen.extend(oldest.iter().filter(fresh).take(peeked));
    }
    let mut known = HashSet::new();
    let chosen: Vec<Waiting> =
        chosen.into_iter().filter(|waiting| known.insert(waiting.seq)).cloned().collect();
    // A flooded agent ends its cycle and takes the rest in the next one; only what a call was held
    // back for is shown in any case.
    if situation.held_back || (situation.room > 0 && situation.max_bytes > 0) {
        prepared.inject = inbox::fitting(&chosen, situation.room.max(1), situation.max_bytes).to_vec();
        prepared.inject.sort_by_key(|waiting| waiting.seq);
    }
}

/// Before anything is processed the batch is what the step is about; only an interruption adds to it.
fn wanted(situation: &Situation<'_>) -> bool {
    let awareness = situation.config.awareness;
    if situation.suspect {
        return situation.held_back;
    }
    if !situation.decided {
        return situation.interrupted && awareness == Awareness::Interrupt;
    }
    awareness.injects() || situation.held_back
}

/// Whether something urgent waits that is not in progress.
pub fn is_news(waits: &Unread, in_hand: &[u64]) -> bool {
    waits.urgent.iter().any(|waiting| waiting.event.urgent && !in_hand.contains(&waiting.seq))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, service, waits};
    use serde_json::json;

    fn injected(config: &serde_json::Value, decided: bool, held_back: bool, interrupted: bool) -> Vec<u64> {
        let waits = waits(vec![service(4, "a", false), service(5, "b", true)]);
        let change = |s: &mut super::Situation<'_>| {
            (s.decided, s.held_back, s.interrupted) = (decided, held_back, interrupted);
        };
        check(config, change, &waits).inject.iter().map(|waiting| waiting.seq).collect()
    }

    #[test]
    fn urgent_events_are_shown_where_the_config_injects() {
        for (mode, expected) in [
            ("none", vec![]),
            ("preview", vec![]),
            ("inject", vec![5]),
            ("preview+inject", vec![5]),
            ("interrupt", vec![5]),
        ] {
            assert_eq!(injected(&json!({"awareness": mode}), true, false, false), expected, "{mode}");
        }
        assert_eq!(injected(&json!({"awareness": "none"}), true, true, false), [5], "a call was held back");
    }

    #[test]
    fn before_anything_is_lived_only_an_interruption_shows_more() {
        assert_eq!(injected(&json!({"awareness": "inject"}), false, false, false), [0u64; 0]);
        assert_eq!(injected(&json!({"awareness": "interrupt"}), false, false, false), [0u64; 0]);
        assert_eq!(injected(&json!({"awareness": "interrupt"}), false, false, true), [5]);
    }

    #[test]
    fn whoever_is_wary_lets_nothing_in_but_what_a_call_waits_for() {
        let waits = waits(vec![service(4, "a", false), service(5, "b", true)]);
        for (decided, held_back, expected) in [(false, false, 0), (true, false, 0), (true, true, 1)] {
            let prepared = check(
                &json!({"awareness": "interrupt"}),
                |s| {
                    (s.decided, s.held_back, s.interrupted, s.suspect, s.peek) =
                        (decided, held_back, true, true, 1)
                },
                &waits,
            );
            assert_eq!((prepared.inject.len(), prepared.layers.len()), (expected, 0), "decided: {decided}");
        }
    }

    #[test]
    fn a_cycle_takes_in_no_more_than_there_is_room_for() {
        let waits = waits((1..=20).map(|n| service(n, "a", true)).collect());
        let count = |room, max_bytes, held_back| {
            let change = |s: &mut super::Situation<'_>| {
                (s.room, s.max_bytes, s.held_back) = (room, max_bytes, held_back);
            };
            check(&json!({}), change, &waits).inject.len()
        };
        assert_eq!([count(7, 10_000, false), count(0, 10_000, false), count(7, 0, false)], [7, 0, 0]);
        assert_eq!(count(0, 0, true), 1, "what a call waits for is shown");
    }

    #[test]
    fn where_room_is_short_the_last_words_of_somebody_wait_and_never_the_first() {
        let mut events: Vec<_> = (1..=50).map(|n| service(n, "a", false)).collect();
        events.extend([service(51, "a", true), service(52, "b", true), service(53, "c", true)]);
        let mut waits = waits(events.clone());
        waits.urgent = events;
        let shown = |room, asker: &'static str, change: fn(&mut super::Situation<'_>)| -> Vec<u64> {
            let asker = crate::delivery::requester(&service(1, asker, false).event);
            let requesters: &'static [_] = Box::leak(Box::new([asker]));
            let change = |s: &mut super::Situation<'_>| {
                (s.room, s.requesters) = (room, requesters);
                change(s);
            };
            check(&json!({}), change, &waits).inject.iter().map(|waiting| waiting.seq).collect()
        };
        let first = |n: u64| (1..=n).collect::<Vec<_>>();
        assert_eq!(shown(5, "nobody", |_| {}), [1, 2, 3, 52, 53], "whoever spoke last first");
        assert_eq!(shown(1, "nobody", |_| {}), [53]);
        assert_eq!(shown(5, "a", |_| {}), first(5), "whoever asked first of all");
        assert_eq!(shown(60, "a", |_| {}), first(53));
        assert_eq!(shown(0, "a", |s| s.held_back = true), [1], "at least one, and that the oldest");
        let taken = |s: &mut super::Situation<'_>| (s.held_back, s.in_hand) = (true, &[1, 2]);
        assert_eq!(shown(0, "a", taken), [3]);
    }

    #[test]
    fn where_the_word_that_a_call_waits_for_is_out_of_reach_the_oldest_of_all_are_shown() {
        let mut waits = waits((1..=20).map(|n| service(n, "a", false)).collect());
        waits.count = 5_000;
        let shown = |held_back, room| -> Vec<u64> {
            let change = |s: &mut super::Situation<'_>| (s.held_back, s.room) = (held_back, room);
            check(&json!({}), change, &waits).inject.iter().map(|waiting| waiting.seq).collect()
        };
        assert_eq!((shown(true, 3), shown(true, 0), shown(false, 3)), (vec![1, 2, 3], vec![1], vec![]));
    }

    #[test]
    fn a_peek_shows_the_oldest_and_nothing_twice() {
        let waits = waits((1..=20).map(|n| service(n, "a", n == 2)).collect());
        let seqs = |peek, in_hand: &'static [u64]| -> Vec<u64> {
            let prepared = check(&json!({}), |s| (s.peek, s.in_hand) = (peek, in_hand), &waits);
            prepared.inject.iter().map(|waiting| waiting.seq).collect()
        };
        assert_eq!(seqs(3, &[]), [1, 2, 3]);
        assert_eq!(seqs(3, &[1]), [2, 3, 4]);
        assert_eq!(seqs(99, &[]).len(), 10);
    }
}
