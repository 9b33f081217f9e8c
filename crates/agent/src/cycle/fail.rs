//! What a failed model call leads to: whose fault it was decides. Retries within the activation are over
//! when a failure comes here.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{After, At, Cycle, State, Step};
use crate::changes::CommitKind;
use crate::life::IdleReason;
use crate::limits;
use crate::port::{Fault, ModelError};
use crate::{transcript, view};

impl Cycle {
    /// The model that has just refused what it was sent has never answered anything.
    pub fn never_answered(&mut self) {
        self.outside.answers = false;
    }

    /// There is no reply. What a vendor refuses as too long is cut and asked again, a few times; what it
    /// refuses as invalid is never sent again as it was: the transcript is rebuilt before, once.
    pub(super) fn refused_by_model(
        &mut self,
        mut step: Box<Step>,
        error: &ModelError,
        now: Timestamp,
    ) -> State {
        let cycle = self.open.decided.then_some(self.open.id);
        if matches!(error, ModelError::Invalid(_)) {
            // What is rebuilt is the log and not what was left of it for this step.
            self.log.widen();
        }
        let (shown, window) = (&self.log.view, &self.log.window);
        let view = match error {
            ModelError::TooLong(_) if self.log.cuts < limits::TOO_LONG_CUTS => {
                view::halve(shown, window, cycle)
            }
            ModelError::Invalid(_) if !self.log.rebuilt => transcript::rebuilt(shown, window),
            _ => None,
        };
        let Some(view) = view else { return self.failed(step, error, now) };
        if matches!(error, ModelError::TooLong(_)) {
            self.log.cuts += 1;
            step.cut += 1;
            if !self.open.decided {
                step.left_out += self.log.adopt(view);
                return State::Ready(step);
            }
        } else {
            self.log.rebuilt = true;
            step.rebuilt = true;
        }
        let mut changes = self.changes(CommitKind::View, now);
        changes.view = Some(view);
        State::Committing(Box::new(changes), After::Ready(step))
    }

    pub(super) fn failed(&mut self, step: Box<Step>, error: &ModelError, now: Timestamp) -> State {
        let unproven = !self.outside.answers && !self.open.decided;
        match fault_after(error, self.row.failures, unproven) {
            Fault::Surroundings if self.outside.fallen < self.who.config.fallback.len() => {
                // The config names who is asked instead; the run says who answered.
                self.outside.fallen += 1;
                State::Ready(step)
            }
            Fault::Surroundings => self.wait_for_surroundings(step, error, unproven, now),
            Fault::Content if self.open.decided => self.retry_or_break_off(step, error, now),
            Fault::Content => self.give_back(step, error, now),
        }
    }

    /// Counts nothing; the agent rests longer each time, or as long as the vendor says. Who was not even
    /// asked did not fail. What is refused by a model that has never answered (`unproven`) counts until it is tried
    /// alone, so that it hides behind nobody; that kills no event.
    fn wait_for_surroundings(
        &self,
        step: Box<Step>,
        error: &ModelError,
        unproven: bool,
        now: Timestamp,
    ) -> State {
        let together = step.taken.iter().all(|event| event.attempts < limits::ALONE_AFTER_ATTEMPTS);
        let separates = unproven && together && error.fault() == Fault::Content;
        let asked = !matches!(error, ModelError::Unasked { .. });
        let failures = self.row.failures.saturating_add(u32::from(asked));
        let pause = error
            .retry_after()
            .unwrap_or_else(|| idle_after(failures))
            .min(Duration::from_millis(limits::RETRY_AFTER_MAX_MS));
        let rest = Self::idle_until_time(later(now, pause), IdleReason::Provider);
        let at = At::Step(step);
        let (mut changes, rested) = self.give_up(&at, rest, &error.to_string(), separates, now);
        changes.failures = asked.then_some(failures);
        State::Committing(Box::new(changes), After::Finished(rested, at))
    }

    /// Before anything was processed: the events wait, and one that fails alone as often as it may is dead.
    fn give_back(&mut self, step: Box<Step>, error: &ModelError, now: Timestamp) -> State {
        let attempts = step.taken.iter().map(|event| event.attempts).max().unwrap_or(0).saturating_add(1);
        if step.taken.len() <= 1 && attempts >= self.who.config.limits.max_attempts {
            return self.dead_letter(step, error.to_string(), true, now);
        }
        self.back_off(step, error, attempts, now)
    }

    /// After something was processed: the cycle is retried from its last commit, up to the bound.
    fn retry_or_break_off(&mut self, step: Box<Step>, error: &ModelError, now: Timestamp) -> State {
        // What was refused as invalid, rebuilt and refused again would be sent once more as it was; but for
        // what the step was shown besides, which it is tried without.
        let same = !step.shows_more_than(&self.open);
        let in_vain = self.log.rebuilt && matches!(error, ModelError::Invalid(_)) && same;
        let attempts = self.open.attempts.saturating_add(1);
        if in_vain || attempts >= self.who.config.limits.max_attempts {
            return self.broken_off(At::Step(step), &error.to_string(), now);
        }
        self.back_off(step, error, attempts, now)
    }

    /// Blames the content and rests for a while. What is blamed only for how often it failed goes on being
    /// counted and rests as long as an outage is waited for: it may be one, and buries nothing in haste.
    fn back_off(&self, step: Box<Step>, error: &ModelError, attempts: u32, now: Timestamp) -> State {
        let failures = error.is_ambiguous().then_some(self.row.failures.saturating_add(1));
        let pause = idle_after(failures.unwrap_or(attempts));
        let rest = Self::idle_until_time(later(now, pause), IdleReason::Backoff);
        let at = At::Step(step);
        let (mut changes, rested) = self.give_up(&at, rest, &error.to_string(), true, now);
        changes.failures = failures;
        State::Committing(Box::new(changes), After::Finished(rested, at))
    }
}

/// Whose fault it is, after so many failures in a row. What a server does in an outage and at one request
/// alike is the request's where it does not end; so is what a model refuses that has never answered anything
/// (`unproven`), only much later: its server may be set up so that it refuses everything.
fn fault_after(error: &ModelError, failures: u32, unproven: bool) -> Fault {
    let failures = failures.saturating_add(1);
    match error.fault() {
        Fault::Surroundings if error.is_ambiguous() && failures >= limits::AMBIGUOUS_MAX => Fault::Content,
        Fault::Content if unproven && failures < limits::NEVER_ANSWERED_MAX => Fault::Surroundings,
        fault => fault,
    }
}

/// How long is rested after so many failures in a row: doubled for each, within bounds. Jitter is the
/// driver's: the rules draw nothing.
pub fn idle_after(failures: u32) -> Duration {
    let doubled = limits::BACKOFF_BASE_MS.saturating_mul(1u64 << failures.saturating_sub(1).min(20));
    Duration::from_millis(doubled.min(limits::PARK_MAX_MS))
}

fn later(now: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::from_millis(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 2));
    now.checked_add(pause).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_an_outage_is_blamed_on_the_content_only_after_many_failures_in_a_row() {
        let failed = |retry_after| ModelError::Failed { message: "500".into(), retry_after };
        let last = limits::AMBIGUOUS_MAX - 1;
        let rows = [
            (failed(None), 0, false, Fault::Surroundings),
            (failed(None), last - 1, false, Fault::Surroundings),
            (failed(None), last, false, Fault::Content),
            (ModelError::Cut("there".into()), last, false, Fault::Content),
            (failed(Some(Duration::ZERO)), last, false, Fault::Surroundings),
            (ModelError::Network("down".into()), 1_000, true, Fault::Surroundings),
            (ModelError::Invalid("400".into()), 0, false, Fault::Content),
            (ModelError::Invalid("400".into()), 0, true, Fault::Surroundings),
            (ModelError::Garbage("?".into()), limits::NEVER_ANSWERED_MAX - 2, true, Fault::Surroundings),
            (ModelError::Garbage("?".into()), limits::NEVER_ANSWERED_MAX - 1, true, Fault::Content),
        ];
        for (error, failures, unproven, fault) in rows {
            assert_eq!(
                fault_after(&error, failures, unproven),
                fault,
                "{error} after {failures}, {unproven}"
            );
        }
    }
}
