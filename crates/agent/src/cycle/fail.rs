//! What follows a failed model call. It depends on whose fault the failure is. Retries within the activation have
//! already been made.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{After, At, Cycle, State, Step};
use crate::changes::CommitKind;
use crate::entry::Compaction;
use crate::life::IdleReason;
use crate::limits;
use crate::port::{Fault, ModelError};
use crate::{transcript, view};

impl Cycle {
    /// The model that has just refused the request has never answered any request.
    pub fn never_answered(&mut self) {
        self.outside.model_answers = false;
    }

    /// There is no reply. A request that the vendor refuses as too long is cut and sent again, a few times. One
    /// that it refuses as invalid is sent again only after the transcript is rebuilt, once.
    pub(super) fn model_failed(&mut self, mut step: Box<Step>, error: &ModelError, now: Timestamp) -> State {
        let cycle = self.open.decided.then_some(self.open.id);
        if matches!(error, ModelError::Invalid(_)) {
            // The full log is rebuilt, not the part that was left for this step.
            self.log.widen();
        }
        let (shown, window) = (&self.log.view, &self.log.window);
        let view = match error {
            ModelError::TooLong(_) if self.log.cuts < limits::TOO_LONG_CUTS => {
                let bytes = self.pinned.budget(step.model.as_deref(), 0).summary;
                view::halve(shown, window, bytes, cycle).map(|view| self.at_once(view, Compaction::TOO_LONG))
            }
            ModelError::Invalid(_) if !self.log.rebuilt => transcript::rebuilt(shown, window),
            _ => None,
        };
        let Some(view) = view else { return self.failed(step, error, now) };
        if matches!(error, ModelError::TooLong(_)) {
            self.log.cuts += 1;
            step.cut += 1;
            if !self.open.decided {
                step.left_out += self.log.narrow(view);
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
        let unproven = !self.outside.model_answers && !self.open.decided;
        match fault_after(error, self.life.failures, unproven) {
            Fault::Surroundings if self.outside.fallbacks_used < self.pinned.config.fallback.len() => {
                // The next fallback of the config is called; the run records which model answered.
                self.outside.fallbacks_used += 1;
                State::Ready(step)
            }
            Fault::Surroundings => self.wait_for_surroundings(step, error, unproven, now),
            Fault::Content if self.open.decided => self.retry_or_break_off(step, error, now),
            Fault::Content => self.give_events_back(step, error, now),
        }
    }

    /// The agent backs off, longer each time or as long as the vendor says. No attempt is counted, and a model that
    /// was never called has not failed. Exception: a request that an `unproven` model (one that has never answered)
    /// refuses counts attempts until each event is tried alone. Such attempts mark no event dead.
    fn wait_for_surroundings(
        &self,
        step: Box<Step>,
        error: &ModelError,
        unproven: bool,
        now: Timestamp,
    ) -> State {
        let not_alone = step.taken.iter().all(|event| event.attempts < limits::ALONE_AFTER_ATTEMPTS);
        let separates = unproven && not_alone && error.fault() == Fault::Content;
        let called = !matches!(error, ModelError::NotCalled { .. });
        let failures = self.life.failures.saturating_add(u32::from(called));
        let pause = pause_after(error, failures);
        let idle = Self::idle_until(later(now, pause), IdleReason::Provider);
        let at = At::Step(step);
        let (mut changes, end) = self.give_up(&at, idle, &error.to_string(), separates, now);
        changes.failures = called.then_some(failures);
        State::Committing(Box::new(changes), After::Finished(end, at))
    }

    /// Before anything was processed: the events wait again. An event that fails alone too often is dead.
    fn give_events_back(&mut self, step: Box<Step>, error: &ModelError, now: Timestamp) -> State {
        let attempts = step.taken.iter().map(|event| event.attempts).max().unwrap_or(0).saturating_add(1);
        if step.taken.len() <= 1 && attempts >= self.pinned.config.limits.max_attempts {
            return self.dead_letter(step, error.to_string(), true, now);
        }
        self.back_off(step, error, attempts, now)
    }

    /// After something was processed: the cycle is retried from its last commit, up to the limit.
    fn retry_or_break_off(&mut self, step: Box<Step>, error: &ModelError, now: Timestamp) -> State {
        // A request that was rebuilt and refused again would be sent unchanged, unless the step was shown more
        // events: the retry leaves those out.
        let same = !step.shows_more_than(&self.open);
        let useless = self.log.rebuilt && matches!(error, ModelError::Invalid(_)) && same;
        let attempts = self.open.attempts.saturating_add(1);
        if useless || attempts >= self.pinned.config.limits.max_attempts {
            return self.fail_cycle(At::Step(step), &error.to_string(), now);
        }
        self.back_off(step, error, attempts, now)
    }

    /// Blames the content and backs off. An ambiguous failure may still be an outage: it keeps counting failures
    /// and backs off as long as in an outage, so no event dies too early.
    fn back_off(&self, step: Box<Step>, error: &ModelError, attempts: u32, now: Timestamp) -> State {
        let failures = error.is_ambiguous().then_some(self.life.failures.saturating_add(1));
        let pause = idle_after(failures.unwrap_or(attempts));
        let idle = Self::idle_until(later(now, pause), IdleReason::Backoff);
        let at = At::Step(step);
        let (mut changes, end) = self.give_up(&at, idle, &error.to_string(), true, now);
        changes.failures = failures;
        State::Committing(Box::new(changes), After::Finished(end, at))
    }
}

/// Whose fault a failure is, after `failures` failures in a row. An ambiguous failure (an outage or one bad request)
/// is blamed on the content after many in a row. A refusal by a model that has never answered (`unproven`) is
/// blamed on the content much later, because its server may be configured to refuse everything.
fn fault_after(error: &ModelError, failures: u32, unproven: bool) -> Fault {
    let failures = failures.saturating_add(1);
    match error.fault() {
        Fault::Surroundings if error.is_ambiguous() && failures >= limits::AMBIGUOUS_MAX => Fault::Content,
        Fault::Content if unproven && failures < limits::NEVER_ANSWERED_MAX => Fault::Surroundings,
        fault => fault,
    }
}

/// The backoff after so many failures in a row: doubled for each, within bounds. The driver adds jitter, since
/// the rules use no randomness.
pub(super) fn idle_after(failures: u32) -> Duration {
    let doubled = limits::BACKOFF_BASE_MS.saturating_mul(1u64 << failures.saturating_sub(1).min(20));
    Duration::from_millis(doubled.min(limits::PARK_MAX_MS))
}

/// How long nobody asks again after so many failures in a row: as long as the vendor says, within bounds. A vendor that
/// says "at once" again and again is asked ever less often all the same.
pub fn pause_after(error: &ModelError, failures: u32) -> Duration {
    let grown = idle_after(failures);
    let longest = Duration::from_millis(limits::RETRY_AFTER_MAX_MS);
    match (error, error.retry_after()) {
        // Nobody was asked.
        (ModelError::NotCalled { retry_after, .. }, _) => (*retry_after).min(longest),
        (_, Some(after)) => after.max(grown.min(Duration::from_millis(limits::BACKOFF_MAX_MS))).min(longest),
        (_, None) => grown,
    }
}

fn later(now: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::from_millis(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 2));
    now.checked_add(pause).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ambiguous_failure_is_blamed_on_the_content_only_after_many_in_a_row() {
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
