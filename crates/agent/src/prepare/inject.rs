//! Injection: urgent events, and those that the agent asked to see, are shown in full during a cycle.

use std::collections::HashSet;

use super::{Prepared, Situation, Unread};
use crate::config::Awareness;
use crate::event::Waiting;
use crate::inbox;
use crate::limits;

/// Shows urgent events, each with the earlier events of its sender, if the config injects, and the oldest events
/// if the agent peeked. If there is no room for all, a sender's newest events wait and the earlier ones are
/// shown, so that each sender's events are read in order. An urgent event behind a long backlog of its sender may
/// therefore not be reached. If a call was held back for it, at least the oldest waiting event is shown, until the
/// cycle ends or reaches the urgent one.
pub(super) fn urgent(situation: &Situation<'_>, prepared: &mut Prepared) {
    let Unread { oldest, urgent, .. } = situation.waits;
    let is_new = |waiting: &&Waiting| !situation.is_in_progress(waiting.seq);
    let mut chosen: Vec<&Waiting> = Vec::new();
    if shows_urgent(situation) {
        let events = urgent.iter().filter(is_new).map(|event| (event.seq, &event.event.envelope.principal));
        for (sender, _) in inbox::urgent_senders(events, situation.requesters) {
            chosen.extend(
                urgent.iter().filter(is_new).filter(|event| event.event.envelope.principal == *sender),
            );
        }
        if chosen.is_empty() && situation.held_back {
            chosen.extend(oldest.iter().filter(is_new));
        }
    }
    if situation.decided && !situation.suspect {
        let peeked = situation.peek.min(limits::PEEK_MAX) as usize;
        chosen.extend(oldest.iter().filter(is_new).take(peeked));
    }
    let mut seen = HashSet::new();
    let chosen: Vec<Waiting> =
        chosen.into_iter().filter(|waiting| seen.insert(waiting.seq)).cloned().collect();
    // An agent with too many events takes the rest in its next cycle. Only events that a call was held back for are
    // shown in any case.
    if situation.held_back || (situation.room > 0 && situation.max_bytes > 0) {
        prepared.inject = inbox::fitting(&chosen, situation.room.max(1), situation.max_bytes).to_vec();
        prepared.inject.sort_by_key(|waiting| waiting.seq);
    }
}

/// Whether urgent events are shown. Before the first decision only an interruption adds events to the batch.
fn shows_urgent(situation: &Situation<'_>) -> bool {
    let awareness = situation.config.awareness;
    if situation.suspect {
        return situation.held_back;
    }
    if !situation.decided {
        return situation.interrupted && awareness == Awareness::Interrupt;
    }
    awareness.injects() || situation.held_back
}

/// Whether an urgent event waits that is not in progress.
pub fn is_news(waits: &Unread, in_progress: &[u64]) -> bool {
    waits.urgent.iter().any(|waiting| waiting.event.urgent && !in_progress.contains(&waiting.seq))
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
    fn before_the_first_decision_only_an_interruption_shows_more_events() {
        assert_eq!(injected(&json!({"awareness": "inject"}), false, false, false), [0u64; 0]);
        assert_eq!(injected(&json!({"awareness": "interrupt"}), false, false, false), [0u64; 0]);
        assert_eq!(injected(&json!({"awareness": "interrupt"}), false, false, true), [5]);
    }

    #[test]
    fn a_suspect_cycle_shows_no_new_events_except_those_a_call_waits_for() {
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
    fn a_cycle_injects_no_more_events_than_it_has_room_for() {
        let waits = waits((1..=20).map(|n| service(n, "a", true)).collect());
        let count = |room, max_bytes, held_back| {
            let change = |s: &mut super::Situation<'_>| {
                (s.room, s.max_bytes, s.held_back) = (room, max_bytes, held_back);
            };
            check(&json!({}), change, &waits).inject.len()
        };
        assert_eq!([count(7, 10_000, false), count(0, 10_000, false), count(7, 0, false)], [7, 0, 0]);
        assert_eq!(count(0, 0, true), 1, "the event that a call waits for is shown");
    }

    #[test]
    fn if_room_is_short_the_newest_events_of_a_sender_wait_and_never_the_oldest() {
        let mut events: Vec<_> = (1..=50).map(|n| service(n, "a", false)).collect();
        events.extend([service(51, "a", true), service(52, "b", true), service(53, "c", true)]);
        let mut waits = waits(events.clone());
        waits.urgent = events;
        let shown = |room, requester_name: &'static str, change: fn(&mut super::Situation<'_>)| -> Vec<u64> {
            let requester_name = crate::delivery::requester(&service(1, requester_name, false).event);
            let requesters: &'static [_] = Box::leak(Box::new([requester_name]));
            let change = |s: &mut super::Situation<'_>| {
                (s.room, s.requesters) = (room, requesters);
                change(s);
            };
            check(&json!({}), change, &waits).inject.iter().map(|waiting| waiting.seq).collect()
        };
        let first = |n: u64| (1..=n).collect::<Vec<_>>();
        assert_eq!(shown(5, "nobody", |_| {}), [1, 2, 3, 52, 53], "the last sender first");
        assert_eq!(shown(1, "nobody", |_| {}), [53]);
        assert_eq!(shown(5, "a", |_| {}), first(5), "the requester first of all");
        assert_eq!(shown(60, "a", |_| {}), first(53));
        assert_eq!(shown(0, "a", |s| s.held_back = true), [1], "at least the oldest");
        let taken = |s: &mut super::Situation<'_>| (s.held_back, s.in_progress) = (true, &[1, 2]);
        assert_eq!(shown(0, "a", taken), [3]);
    }

    #[test]
    fn if_the_event_that_a_call_waits_for_is_out_of_reach_the_oldest_events_are_shown() {
        let mut waits = waits((1..=20).map(|n| service(n, "a", false)).collect());
        waits.count = 5_000;
        let shown = |held_back, room| -> Vec<u64> {
            let change = |s: &mut super::Situation<'_>| (s.held_back, s.room) = (held_back, room);
            check(&json!({}), change, &waits).inject.iter().map(|waiting| waiting.seq).collect()
        };
        assert_eq!((shown(true, 3), shown(true, 0), shown(false, 3)), (vec![1, 2, 3], vec![1], vec![]));
    }

    #[test]
    fn a_peek_shows_the_oldest_events_and_none_twice() {
        let waits = waits((1..=20).map(|n| service(n, "a", n == 2)).collect());
        let seqs = |peek, in_progress: &'static [u64]| -> Vec<u64> {
            let prepared = check(&json!({}), |s| (s.peek, s.in_progress) = (peek, in_progress), &waits);
            prepared.inject.iter().map(|waiting| waiting.seq).collect()
        };
        assert_eq!(seqs(3, &[]), [1, 2, 3]);
        assert_eq!(seqs(3, &[1]), [2, 3, 4]);
        assert_eq!(seqs(99, &[]).len(), 10);
    }
}
