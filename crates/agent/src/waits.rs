//! Why and how long an agent with work waits. No wait lasts longer than intended, even if the wall clock is changed in
//! between, and every wait has a reason.

use jiff::{SignedDuration, Timestamp};

use crate::life::{IdleReason, IdleUntil, Standing};
use crate::limits;

/// The wait state in the head row of an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// When the agent is due; `None` if it has no work or may not run.
    pub due_at: Option<Timestamp>,
    /// The agent may not run before this time, even if events wait.
    pub hold_until: Option<Timestamp>,
    /// Why it may not run before that time.
    pub reason: Option<IdleReason>,
}

/// How far the wall clock was set back, in milliseconds; `None` if it was not. `before` and `lead` are the earlier and
/// the current difference between the wall clock and the monotonic clock.
pub fn set_back(before: i64, lead: i64) -> Option<i64> {
    let back = before.saturating_sub(lead);
    (back > limits::CLOCK_NOISE_MS).then_some(back)
}

/// The end of a wait that was requested at `at` and is written at `now`. If the clock was set back in between, `at`
/// is later than `now`: the wait keeps its length, counted from `now`.
pub fn rebased(until: Timestamp, at: Timestamp, now: Timestamp) -> Timestamp {
    let ahead = at.duration_since(now).max(SignedDuration::ZERO);
    until.checked_sub(ahead).unwrap_or(until)
}

/// When the first waiting event may be processed. An event accepted before this start of the store may be processed now
/// at the latest, because the clock may have changed in between.
pub fn first_due(not_before: Timestamp, accepted_before: bool, now: Timestamp) -> Timestamp {
    if accepted_before { not_before.min(now) } else { not_before }
}

/// Before when an agent does not run, even if events wait. A pause for a person is not kept by force: it ends as soon as the agent
/// is due, be it because of an event of somebody else.
pub fn kept_until(waits: Waits) -> Option<Timestamp> {
    if waits.reason == Some(IdleReason::Person) { waits.due_at } else { waits.hold_until }
}

/// The hold that delays waiting events. An agent that waits for a person serves others meanwhile.
pub fn delays_events<T>(hold_until: Option<T>, reason: Option<IdleReason>) -> Option<T> {
    hold_until.filter(|_| reason != Some(IdleReason::Person))
}

/// When the agent is due, if its first waiting event is due at `first` (or its open cycle was opened at `first`).
pub fn due<T: Ord + Copy>(standing: Standing, first: Option<T>, hold_until: Option<T>) -> Option<T> {
    let first = first.filter(|_| standing == Standing::Active)?;
    Some(hold_until.map_or(first, |hold| hold.max(first)))
}

/// The waits of one agent after a start of the server. Waits for a provider end, because its problem may be solved, and
/// so do waits for more events. An agent that backs off because of its content continues to, for at most the longest
/// back-off, and one that waits for a person, for at most the longest pause. `first` is when the first waiting event may be processed.
pub fn at_start(waits: Waits, first: Option<Timestamp>, now: Timestamp) -> Waits {
    let longest = match waits.reason {
        Some(IdleReason::Backoff) => Some(limits::PARK_MAX_MS),
        Some(IdleReason::Person) => Some(limits::PAUSE_MAX_MS),
        Some(IdleReason::Provider | IdleReason::Debounce) | None => None,
    };
    let hold_until = waits.hold_until.zip(longest).map(|(until, longest)| until.min(later(now, longest)));
    let since = |due: Timestamp| first.unwrap_or(due).min(due).min(now);
    let hold = if first.is_some() { delays_events(hold_until, waits.reason) } else { hold_until };
    let due_at = waits.due_at.map(|due| hold.map_or(since(due), |hold| hold.max(since(due))));
    Waits { due_at, hold_until, reason: hold_until.and(waits.reason) }
}

/// The waits of one agent after an operator resumed it: it is due at once if it has work.
pub fn resumed(waits: Waits, has_work: bool, now: Timestamp) -> Waits {
    let due_at = has_work.then(|| waits.due_at.map_or(now, |due| due.min(now)));
    Waits { due_at, hold_until: None, reason: None }
}

/// The waits of an agent after an outcome from outside for which its open cycle waits. The outcome ends a pause, but
/// not a wait because of the provider or a failure. `None` if nothing changes.
pub fn answered(waits: Waits, standing: Standing, at: Timestamp) -> Option<Waits> {
    let pauses = matches!(waits.reason, None | Some(IdleReason::Person));
    let ends = pauses && standing == Standing::Active;
    ends.then(|| Waits {
        due_at: Some(waits.due_at.map_or(at, |due| due.min(at))),
        hold_until: None,
        reason: None,
    })
}

/// The latest time at which an event that is held at `now` is released automatically.
pub fn latest_release(now: Timestamp) -> Timestamp {
    later(now, limits::HELD_MS)
}

/// Why an agent with work is idle, and until when. That time may be in the past. `open` says whether a cycle is open.
pub fn idle_until(waits: Waits, standing: Standing, open: bool) -> Option<IdleUntil> {
    let due_at = waits.due_at.filter(|_| standing == Standing::Active && !open);
    match (waits.reason, waits.hold_until) {
        (Some(reason), Some(until)) => Some(IdleUntil { reason, until }),
        // Without a hold, only `debounce` delays an event.
        _ => due_at.map(|until| IdleUntil { reason: IdleReason::Debounce, until }),
    }
}

fn later(now: Timestamp, ms: u64) -> Timestamp {
    now.checked_add(SignedDuration::from_millis(ms.cast_signed())).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use IdleReason::{Backoff, Debounce, Person, Provider};
    use Standing::{Active, Retired, Suspended};

    const NOW: i64 = 10_000_000;
    const PARK: i64 = limits::PARK_MAX_MS.cast_signed();
    const PAUSE: i64 = limits::PAUSE_MAX_MS.cast_signed();

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    fn waits((due, hold, reason): (Option<i64>, Option<i64>, Option<IdleReason>)) -> Waits {
        Waits { due_at: due.map(at), hold_until: hold.map(at), reason }
    }

    #[test]
    fn a_wait_requested_before_the_clock_was_set_back_keeps_its_length() {
        for (until, at_, expected) in [
            (NOW + 5, NOW, NOW + 5),
            (NOW + 5, NOW - 3, NOW + 5),
            (NOW + 5, NOW + 2, NOW + 3),
            (NOW, NOW + 2, NOW - 2),
        ] {
            assert_eq!(
                rebased(at(until), at(at_), at(NOW)),
                at(expected),
                "until {until}, requested at {at_}"
            );
        }
        assert_eq!(rebased(Timestamp::MIN, Timestamp::MAX, at(NOW)), Timestamp::MIN);
    }

    #[test]
    fn a_clock_set_back_is_detected_but_not_noise_or_a_clock_set_forward() {
        let noise = limits::CLOCK_NOISE_MS;
        for (before, lead, back) in [
            (0, 0, None),
            (0, 86_400_000, None),
            (0, -noise, None),
            (0, -noise - 1, Some(noise + 1)),
            (86_400_000, 0, Some(86_400_000)),
        ] {
            assert_eq!(set_back(before, lead), back, "{before} then {lead}");
        }
    }

    #[test]
    fn an_active_agent_is_due_with_its_first_event_but_not_before_its_hold_ends() {
        for (standing, first, hold, expected) in [
            (Active, None, Some(50), None),
            (Active, Some(30), None, Some(30)),
            (Active, Some(30), Some(50), Some(50)),
            (Active, Some(70), Some(50), Some(70)),
            (Suspended, Some(30), None, None),
            (Retired, Some(30), None, None),
        ] {
            let due = due(standing, first.map(at), hold.map(at));
            assert_eq!(due, expected.map(at), "{standing:?} {first:?} {hold:?}");
        }
        for (not_before, before, expected) in
            [(5, false, 5), (5, true, 5), (NOW + 5, false, NOW + 5), (NOW + 5, true, NOW)]
        {
            assert_eq!(first_due(at(not_before), before, at(NOW)), at(expected));
        }
    }

    #[test]
    fn a_start_ends_every_wait_except_a_back_off_for_content_which_it_limits() {
        let day = NOW + 86_400_000;
        for (before, first, after) in [
            // Debounced, or accepted while the clock was ahead.
            ((Some(day), None, None), Some(day), (Some(NOW), None, None)),
            ((Some(70), None, None), Some(70), (Some(70), None, None)),
            ((Some(day), Some(day), Some(Provider)), Some(70), (Some(70), None, None)),
            // It has only an open cycle.
            ((Some(day), Some(day), Some(Provider)), None, (Some(NOW), None, None)),
            ((Some(day), Some(day), None), Some(70), (Some(70), None, None)),
            (
                (Some(day), Some(day), Some(Backoff)),
                Some(70),
                (Some(NOW + PARK), Some(NOW + PARK), Some(Backoff)),
            ),
            (
                (Some(NOW + 5), Some(NOW + 5), Some(Backoff)),
                Some(70),
                (Some(NOW + 5), Some(NOW + 5), Some(Backoff)),
            ),
            // It waits for a person.
            ((Some(day), Some(day), Some(Person)), None, (Some(day), Some(day), Some(Person))),
            (
                (Some(day + PAUSE), Some(day + PAUSE), Some(Person)),
                None,
                (Some(NOW + PAUSE), Some(NOW + PAUSE), Some(Person)),
            ),
            // It waits for a person, and an event for it.
            ((Some(day), Some(day), Some(Person)), Some(70), (Some(70), Some(day), Some(Person))),
            // It may not run.
            ((None, Some(day), Some(Provider)), Some(70), (None, None, None)),
            ((None, None, None), None, (None, None, None)),
        ] {
            assert_eq!(at_start(waits(before), first.map(at), at(NOW)), waits(after), "{before:?} {first:?}");
        }
        assert_eq!(latest_release(at(NOW)), at(NOW + limits::HELD_MS.cast_signed()));
    }

    #[test]
    fn resuming_by_an_operator_ends_every_wait() {
        let (past, future) = (Some(NOW - 5), Some(NOW + 5));
        for (before, has_work, due) in [
            ((future, future, Some(Provider)), true, Some(NOW)),
            ((future, future, Some(Backoff)), true, Some(NOW)),
            ((future, future, None), true, Some(NOW)),
            ((future, None, None), true, Some(NOW)),
            ((past, None, None), true, past),
            ((None, future, Some(Provider)), true, Some(NOW)),
            ((None, None, None), false, None),
        ] {
            assert_eq!(resumed(waits(before), has_work, at(NOW)), waits((due, None, None)), "{before:?}");
        }
    }

    #[test]
    fn an_outcome_ends_a_pause_but_no_back_off() {
        for (standing, before, due) in [
            (Active, (Some(70), Some(70), None), Some(50)),
            (Active, (Some(20), None, None), Some(20)),
            (Active, (None, None, None), Some(50)),
            (Active, (Some(70), Some(70), Some(Person)), Some(50)),
            (Active, (Some(70), Some(70), Some(Backoff)), None),
            (Suspended, (None, Some(70), None), None),
            (Retired, (None, None, None), None),
        ] {
            let after = due.map(|due| waits((Some(due), None, None)));
            assert_eq!(answered(waits(before), standing, at(50)), after, "{standing:?} {before:?}");
        }
    }

    #[test]
    fn whoever_waits_for_a_person_is_woken_by_events_and_by_nothing_else_holds_them_back() {
        for (reason, delays, kept) in [
            (Some(Person), None, Some(30)),
            (Some(Provider), Some(90), Some(90)),
            (Some(Backoff), Some(90), Some(90)),
            (Some(Debounce), Some(90), Some(90)),
            (None, Some(90), Some(90)),
        ] {
            assert_eq!(delays_events(Some(at(90)), reason), delays.map(at), "{reason:?}");
            assert_eq!(kept_until(waits((Some(30), Some(90), reason))), kept.map(at), "{reason:?}");
        }
    }

    #[test]
    fn every_idle_agent_with_work_has_a_reason() {
        let idle = |reason, until| Some(IdleUntil { reason, until: at(until) });
        for (standing, open, before, expected) in [
            (Active, false, (Some(70), Some(70), Some(Backoff)), idle(Backoff, 70)),
            (Active, true, (Some(70), Some(70), Some(Provider)), idle(Provider, 70)),
            (Active, false, (Some(70), None, None), idle(Debounce, 70)),
            (Active, false, (None, None, None), None),
            (Active, true, (Some(70), None, None), None),
            (Suspended, false, (Some(70), None, None), None),
        ] {
            assert_eq!(idle_until(waits(before), standing, open), expected, "{standing:?} {open} {before:?}");
        }
    }
}
