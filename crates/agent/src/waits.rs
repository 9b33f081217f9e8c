//! What keeps an agent with work from it, and for how long: no wait lasts longer than it was meant to, whatever
//! the wall clock does meanwhile, and every wait has a reason.

use jiff::{SignedDuration, Timestamp};

use crate::life::{IdleReason, IdleUntil, Standing};
use crate::limits;

/// What the head of an inbox says of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// From when on its agent has something to do; `None` if it has nothing, or may not run.
    pub due_at: Option<Timestamp>,
    /// Kept back until then, whatever waits.
    pub hold_until: Option<Timestamp>,
    /// Why it is kept back.
    pub reason: Option<IdleReason>,
}

/// How far the wall clock was set back, in milliseconds, where it was. `before` and `lead` are how far it was and
/// is ahead of the clock that never jumps.
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

/// From when on the first of what waits may be processed. What was accepted before this start of the store has
/// waited long enough: who knows what the clock did meanwhile.
pub fn first_due(not_before: Timestamp, accepted_before: bool, now: Timestamp) -> Timestamp {
    if accepted_before { not_before.min(now) } else { not_before }
}

/// From when on the agent is due, where something waits from `first` on (since its cycle was opened, where one
/// is).
pub fn due<T: Ord + Copy>(standing: Standing, first: Option<T>, hold_until: Option<T>) -> Option<T> {
    let first = first.filter(|_| standing == Standing::Active)?;
    Some(hold_until.map_or(first, |hold| hold.max(first)))
}

/// What a start makes of the waits of one agent. Whoever starts the server may have mended what a provider
/// refused, and what was gathered is complete; only who failed by its own content rests on, no longer than after
/// one more failure. `first` is from when on the first of what waits could be processed.
pub fn at_start(waits: Waits, first: Option<Timestamp>, now: Timestamp) -> Waits {
    let longest = later(now, limits::PARK_MAX_MS);
    let rests = waits.reason == Some(IdleReason::Backoff);
    let hold_until = waits.hold_until.filter(|_| rests).map(|until| until.min(longest));
    let since = |due: Timestamp| first.unwrap_or(due).min(due).min(now);
    let due_at = waits.due_at.map(|due| hold_until.map_or(since(due), |hold| hold.max(since(due))));
    Waits { due_at, hold_until, reason: hold_until.and(waits.reason) }
}

/// What an operator's word makes of the waits of one agent: whatever they say, it is due at once where it has
/// anything to do.
pub fn resumed(waits: Waits, has_work: bool, now: Timestamp) -> Waits {
    let due_at = has_work.then(|| waits.due_at.map_or(now, |due| due.min(now)));
    Waits { due_at, hold_until: None, reason: None }
}

/// What an outcome from outside makes of the waits of the agent whose open cycle waits for it: it ends a pause, but
/// not a rest that the provider or a failure made necessary. `None` where nothing changes.
pub fn answered(waits: Waits, standing: Standing, at: Timestamp) -> Option<Waits> {
    let ends = waits.reason.is_none() && standing == Standing::Active;
    ends.then(|| Waits {
        due_at: Some(waits.due_at.map_or(at, |due| due.min(at))),
        hold_until: None,
        reason: None,
    })
}

/// When time alone lets go, at the latest, what is held at `now`.
pub fn latest_release(now: Timestamp) -> Timestamp {
    later(now, limits::HELD_MS)
}

/// Why an agent with work is not at it, and until when. That time may be over. `open` says whether a cycle is.
pub fn resting(waits: Waits, standing: Standing, open: bool) -> Option<IdleUntil> {
    let due_at = waits.due_at.filter(|_| standing == Standing::Active && !open);
    match (waits.reason, waits.hold_until) {
        (Some(reason), Some(until)) => Some(IdleUntil { reason, until }),
        // Nothing else makes an event wait that could be processed.
        _ => due_at.map(|until| IdleUntil { reason: IdleReason::Debounce, until }),
    }
}

fn later(now: Timestamp, ms: u64) -> Timestamp {
    now.checked_add(SignedDuration::from_millis(ms.cast_signed())).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use IdleReason::{Backoff, Debounce, Provider};
    use Standing::{Active, Retired, Suspended};

    const NOW: i64 = 10_000_000;
    const PARK: i64 = limits::PARK_MAX_MS.cast_signed();

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
            assert_eq!(rebased(at(until), at(at_), at(NOW)), at(expected), "until {until}, told at {at_}");
        }
        assert_eq!(rebased(Timestamp::MIN, Timestamp::MAX, at(NOW)), Timestamp::MIN);
    }

    #[test]
    fn a_clock_that_is_set_back_is_told_from_noise_and_from_one_that_is_set_forward() {
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
    fn who_may_live_is_due_from_the_first_that_waits_on_but_not_before_a_rest_is_over() {
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
    fn a_start_ends_every_wait_but_that_of_failed_content_which_it_bounds() {
        let day = NOW + 86_400_000;
        for (before, first, after) in [
            // Debounced, or accepted by a clock that was ahead.
            ((Some(day), None, None), Some(day), (Some(NOW), None, None)),
            ((Some(70), None, None), Some(70), (Some(70), None, None)),
            ((Some(day), Some(day), Some(Provider)), Some(70), (Some(70), None, None)),
            // Only its open cycle waits.
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
            // It may not run.
            ((None, Some(day), Some(Provider)), Some(70), (None, None, None)),
            ((None, None, None), None, (None, None, None)),
        ] {
            assert_eq!(at_start(waits(before), first.map(at), at(NOW)), waits(after), "{before:?} {first:?}");
        }
        assert_eq!(latest_release(at(NOW)), at(NOW + limits::HELD_MS.cast_signed()));
    }

    #[test]
    fn an_operators_word_ends_every_wait() {
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
    fn an_outcome_ends_a_pause_and_no_rest() {
        for (standing, before, due) in [
            (Active, (Some(70), Some(70), None), Some(50)),
            (Active, (Some(20), None, None), Some(20)),
            (Active, (None, None, None), Some(50)),
            (Active, (Some(70), Some(70), Some(Backoff)), None),
            (Suspended, (None, Some(70), None), None),
            (Retired, (None, None, None), None),
        ] {
            let after = due.map(|due| waits((Some(due), None, None)));
            assert_eq!(answered(waits(before), standing, at(50)), after, "{standing:?} {before:?}");
        }
    }

    #[test]
    fn whoever_waits_has_a_reason() {
        let rest = |reason, until| Some(IdleUntil { reason, until: at(until) });
        for (standing, open, before, expected) in [
            (Active, false, (Some(70), Some(70), Some(Backoff)), rest(Backoff, 70)),
            (Active, true, (Some(70), Some(70), Some(Provider)), rest(Provider, 70)),
            (Active, false, (Some(70), None, None), rest(Debounce, 70)),
            (Active, false, (None, None, None), None),
            (Active, true, (Some(70), None, None), None),
            (Suspended, false, (Some(70), None, None), None),
        ] {
            assert_eq!(resting(waits(before), standing, open), expected, "{standing:?} {open} {before:?}");
        }
    }
}
