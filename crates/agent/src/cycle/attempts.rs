//! Counts failed activations and decides how the next one tries the events. This keeps a poisonous event from
//! blocking the others, and blames no event for a failure that it did not cause.
//!
//! | what happened since the opening | counts | for |
//! |---|---|---|
//! | the model's reply failed by its content | an attempt | each taken event; the step, once something is processed |
//! | the activation panicked | an attempt | the same |
//! | it panicked before anything was opened | an attempt | each event that it would have taken |
//! | the process died | a death | the same |
//! | it died while waiting for a model (commit `Sent`) | a death, until the event is tried alone | each taken event |
//! | the provider or the store failed, the node stopped | nothing | |
//!
//! | an event with | is tried |
//! |---|---|
//! | 2 attempts or 2 deaths | alone |
//! | 1 death | with half of the events that also have one |
//! | `max_attempts` attempts or [`limits::DEATHS_MAX`] deaths, the last one alone | not again: it is dead |

use crate::changes::Tried;
use crate::event::Waiting;
use crate::life::OpenCycle;
use crate::limits;

/// How an activation ended that closed no cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Died,
    /// The process died while waiting for a model. This separates events and marks none dead.
    DiedWaiting,
    Panicked,
    /// Any other end; no event caused it.
    Blameless,
}

impl End {
    pub(super) fn of(open: &OpenCycle, died: bool, panicked: bool) -> Self {
        match (died, panicked) {
            (true, _) if open.asked => Self::DiedWaiting,
            (true, _) => Self::Died,
            (false, true) => Self::Panicked,
            (false, false) => Self::Blameless,
        }
    }
}

/// Counts the end on the events that the activation had taken.
pub(super) fn count(waiting: &mut [Waiting], taken: &[u64], end: End) -> Vec<Tried> {
    let (mut counted, more) = (Vec::new(), |count: u32| count.saturating_add(1));
    for waiting in waiting.iter_mut().filter(|waiting| taken.contains(&waiting.seq)) {
        match end {
            End::Died => waiting.deaths = more(waiting.deaths),
            End::DiedWaiting if waiting.deaths < limits::ALONE_AFTER_DEATHS => {
                waiting.deaths = more(waiting.deaths);
            }
            End::Panicked => waiting.attempts = more(waiting.attempts),
            End::DiedWaiting | End::Blameless => continue,
        }
        counted.push(Tried { seq: waiting.seq, attempts: waiting.attempts, deaths: waiting.deaths });
    }
    counted
}

/// Counts a panic before anything was opened. `newest` is the newest event that had come until then. None is dead for it: nothing
/// says which of them was tried.
pub(super) fn count_unopened(waiting: &mut [Waiting], max_events: u32, newest: u64) -> Vec<Tried> {
    let most = together(waiting).min(max_events) as usize;
    let until_then = waiting.iter().map(|waiting| waiting.seq).take(most).filter(|seq| *seq <= newest);
    let taken: Vec<u64> = until_then.collect();
    count(waiting, &taken, End::Panicked)
}

/// How many events, from the first on, may be tried together.
pub(super) fn together(waiting: &[Waiting]) -> u32 {
    let alone = |waiting: &Waiting| {
        waiting.attempts >= limits::ALONE_AFTER_ATTEMPTS || waiting.deaths >= limits::ALONE_AFTER_DEATHS
    };
    let run = |deaths: bool| {
        waiting.iter().take_while(|waiting| !alone(waiting) && (waiting.deaths > 0) == deaths).count()
    };
    let many = match waiting.first() {
        Some(first) if alone(first) => 1,
        Some(first) if first.deaths > 0 => run(true).div_ceil(2),
        _ => run(false),
    };
    u32::try_from(many).unwrap_or(u32::MAX)
}

/// Why an event is dead: the count of its last failure, alone, reached the limit.
pub(super) fn given_up(tried: &[Tried], end: End, max_attempts: u32) -> Option<String> {
    let [alone] = tried else { return None };
    match end {
        End::Died if alone.deaths >= limits::DEATHS_MAX => Some(died(alone.deaths)),
        End::Panicked if alone.attempts >= max_attempts => {
            Some(format!("failed {} times, the last ones alone", alone.attempts))
        }
        _ => None,
    }
}

/// The reason for operators.
pub(super) fn died(deaths: u32) -> String {
    format!("the process died {deaths} times while it was processed, the last ones alone")
}

#[cfg(test)]
mod tests {
    use super::super::tests::service;
    use super::*;

    fn waiting(rows: &[(u32, u32)]) -> Vec<Waiting> {
        let row = |(at, (attempts, deaths)): (usize, &(u32, u32))| Waiting {
            deaths: *deaths,
            ..service(at as u64 + 1, *attempts)
        };
        rows.iter().enumerate().map(row).collect()
    }

    #[test]
    fn events_are_tried_together_as_the_table_says() {
        for (rows, together_) in [
            (&[(0, 0), (0, 0), (0, 0)][..], 3),
            (&[(1, 0), (0, 0), (1, 0)], 3),
            (&[(2, 0), (0, 0)], 1),
            (&[(0, 0), (2, 0), (0, 0)], 1),
            (&[(0, 1), (0, 1), (0, 1), (0, 1), (0, 0)], 2),
            (&[(0, 1), (0, 1), (0, 1)], 2),
            (&[(0, 1), (0, 0)], 1),
            (&[(0, 0), (0, 0), (0, 1), (0, 1)], 2),
            (&[(0, 2), (0, 1)], 1),
            (&[(0, 1), (0, 2), (0, 1)], 1),
            (&[], 0),
        ] {
            assert_eq!(together(&waiting(rows)), together_, "{rows:?}");
        }
    }

    #[test]
    fn each_end_counts_as_the_table_says() {
        let open = |asked| OpenCycle { asked, ..super::super::tests::left_open(&[1, 2]) };
        for (asked, died, panicked, counted) in [
            (false, true, false, (0, 1)),
            (true, true, false, (0, 1)),
            (false, false, true, (1, 0)),
            (true, false, true, (1, 0)),
            (false, false, false, (0, 0)),
        ] {
            let mut events = waiting(&[(0, 0), (0, 0), (0, 0)]);
            let tried = count(&mut events, &[1, 2], End::of(&open(asked), died, panicked));
            let counts: Vec<_> = events.iter().map(|event| (event.attempts, event.deaths)).collect();
            assert_eq!(counts, [counted, counted, (0, 0)]);
            assert_eq!(tried.len(), if counted == (0, 0) { 0 } else { 2 });
        }
    }

    #[test]
    fn a_panic_before_the_opening_counts_for_the_first_events_that_had_come_until_then() {
        for (rows, max_events, newest, counted) in [
            (&[(0, 0), (0, 0), (0, 0)][..], 10, 2, &[1, 2][..]),
            (&[(0, 0), (0, 0), (0, 0)], 2, 3, &[1, 2]),
            (&[(4, 0), (0, 0)], 10, 2, &[1]),
            (&[(0, 0)], 10, 0, &[]),
            (&[], 10, 5, &[]),
        ] {
            let tried = count_unopened(&mut waiting(rows), max_events, newest);
            assert_eq!(tried.iter().map(|tried| tried.seq).collect::<Vec<_>>(), counted, "{rows:?}");
            assert!(
                tried
                    .iter()
                    .zip(rows)
                    .all(|(tried, row)| tried.attempts == row.0 + 1 && tried.deaths == row.1)
            );
        }
    }

    #[test]
    fn deaths_while_waiting_for_a_model_separate_events_and_mark_none_dead() {
        let mut events = waiting(&[(0, 0), (0, 1), (0, 2), (0, limits::DEATHS_MAX - 1)]);
        for counted in [2, 1, 0] {
            assert_eq!(count(&mut events, &[1, 2, 3, 4], End::DiedWaiting).len(), counted);
        }
        let deaths: Vec<_> = events.iter().map(|event| event.deaths).collect();
        assert_eq!(deaths, [2, 2, 2, limits::DEATHS_MAX - 1]);
        assert_eq!(together(&events), 1);
    }

    #[test]
    fn only_an_event_that_failed_alone_is_dead() {
        let tried = |attempts, deaths| Tried { seq: 1, attempts, deaths };
        let max = limits::DEATHS_MAX;
        for (tried, end, dead) in [
            (vec![tried(0, max)], End::Died, true),
            (vec![tried(0, max - 1)], End::Died, false),
            (vec![tried(0, max), tried(0, max)], End::Died, false),
            (vec![tried(5, 0)], End::Panicked, true),
            (vec![tried(4, 0)], End::Panicked, false),
            (vec![tried(5, 0), tried(5, 0)], End::Panicked, false),
            (vec![tried(5, max)], End::Blameless, false),
        ] {
            assert_eq!(given_up(&tried, end, 5).is_some(), dead, "{tried:?} {end:?}");
        }
    }
}
