//! What a failed model call leads to: whose fault it was decides (SYSTEM.md §3, HOUSE.md case table).
//! Retries within the waking are over when a failure comes here.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{After, Cycle, State};
use crate::changes::{CommitKind, Settlement};
use crate::event::Fate;
use crate::life::{Finishing, RestReason};
use crate::limits;
use crate::port::{Fault, ModelError};
use crate::run::Ending;
use crate::{quote, transcript, view};

impl Cycle {
    /// There is no reply. What a vendor refuses as too long is cut and asked again, a few times; what it
    /// refuses as invalid is never sent again as it was: the transcript is rebuilt before, once.
    pub(super) fn refused_by_model(&mut self, error: &ModelError, now: Timestamp) {
        let cycle = self.open.lived.then_some(self.open.id);
        if matches!(error, ModelError::Invalid(_)) {
            // What is rebuilt is the log and not what was left of it for this step.
            self.widen();
        }
        let view = match error {
            ModelError::TooLong(_) if self.mends.cut < limits::TOO_LONG_CUTS => {
                view::halve(&self.view, &self.window, cycle)
            }
            ModelError::Invalid(_) if !self.mends.rebuilt => transcript::rebuilt(&self.view, &self.window),
            _ => None,
        };
        let Some(view) = view else { return self.failed(error, now) };
        for mended in [&mut self.mended, &mut self.mends] {
            match error {
                ModelError::TooLong(_) => mended.cut += 1,
                _ => mended.rebuilt = true,
            }
        }
        if matches!(error, ModelError::TooLong(_)) && !self.open.lived {
            self.adopt(view);
            self.state = State::Ready;
            return;
        }
        let mut changes = self.changes(CommitKind::View, now);
        changes.view = Some(view);
        self.state = State::Committing(Box::new(changes), After::Ready);
    }

    pub(super) fn failed(&mut self, error: &ModelError, now: Timestamp) {
        if error.fault() == Fault::Surroundings && self.fallen < self.config.fallback.len() {
            // The config names who is asked instead; the receipt says who answered.
            self.fallen += 1;
            self.state = State::Ready;
            return;
        }
        self.state = match error.fault() {
            Fault::Surroundings => self.wait_for_surroundings(error, now),
            Fault::Content if self.open.lived => self.retry_or_break_off(error, now),
            Fault::Content => self.give_back_smaller(error, now),
        };
    }

    /// Whether a failure of the step in hand that may be its own doing is worth a second look: it is not the
    /// first waking in a row that fails, and nobody else is named to be asked.
    pub fn doubts(&self) -> bool {
        self.failures > 0 && self.fallen >= self.config.fallback.len()
    }

    /// Counts nothing; the agent rests longer each time, or as long as the vendor says. Who was not even
    /// asked did not fail.
    fn wait_for_surroundings(&self, error: &ModelError, now: Timestamp) -> State {
        let asked = !matches!(error, ModelError::Unasked { .. });
        let failures = self.failures + u32::from(asked);
        let pause = error
            .retry_after()
            .unwrap_or_else(|| rest_after(failures))
            .min(Duration::from_millis(limits::RETRY_AFTER_MAX_MS));
        let rest = Self::rest_until(later(now, pause), RestReason::Provider);
        let (mut changes, rested) = self.give_up(rest, &error.to_string(), false, now);
        changes.failures = asked.then_some(failures);
        State::Committing(Box::new(changes), After::Rest(rested))
    }

    /// Before anything was lived: the events wait, the next batch is half as large, and one that
    /// fails alone as often as it may is dead.
    fn give_back_smaller(&self, error: &ModelError, now: Timestamp) -> State {
        let attempts = self.taken.iter().map(|w| w.attempts).max().unwrap_or(0) + 1;
        let alone = self.taken.len() <= 1;
        let reason = error.to_string();
        if alone && attempts >= self.config.limits.max_attempts {
            let mut changes = self.changes(CommitKind::Close, now);
            changes.open = None;
            let fate = Fate::Dead { reason: reason.clone() };
            changes.settle =
                self.taken.iter().map(|w| Settlement { seq: w.seq, fate: fate.clone() }).collect();
            changes.batch_cap = Some(self.batch_cap.filter(|_| self.suspects_left));
            changes.usage = self.open.usage;
            return State::Committing(
                Box::new(changes),
                After::Rest(self.ended(Ending::Failed, Some(reason))),
            );
        }
        let rest = Self::rest_until(later(now, pause_after(error, attempts)), RestReason::Backoff);
        let (mut changes, rested) = self.give_up(rest, &reason, true, now);
        let half = u32::try_from(self.taken.len() / 2).unwrap_or(u32::MAX).max(1);
        changes.batch_cap = Some(Some(half));
        State::Committing(Box::new(changes), After::Rest(rested))
    }

    /// After something was lived: the cycle is retried from its last commit, up to the bound.
    fn retry_or_break_off(&mut self, error: &ModelError, now: Timestamp) -> State {
        // What was refused as invalid, rebuilt and refused again would be sent once more as it was.
        let in_vain = self.mends.rebuilt && matches!(error, ModelError::Invalid(_));
        if in_vain || self.open.attempts >= self.config.limits.max_attempts {
            return self.broken_off(&error.to_string(), now);
        }
        let rest = Self::rest_until(later(now, pause_after(error, self.open.attempts)), RestReason::Backoff);
        let (changes, rested) = self.give_up(rest, &error.to_string(), true, now);
        State::Committing(Box::new(changes), After::Rest(rested))
    }

    /// The cycle cannot go on: the agent reads why in its log.
    pub(super) fn broken_off(&mut self, reason: &str, now: Timestamp) -> State {
        let mut changes = self.changes(CommitKind::Close, now);
        let why = quote::unbroken(reason);
        let notice = format!("[NOTICE] Your cycle was broken off at step {}: {why}", self.open.step);
        self.close_log(&mut changes, &notice, now);
        let mut open = self.open.clone();
        self.note_calls(&mut open, &changes.call_changes);
        let reason = Some(format!("broken off at step {}: {reason}", self.open.step));
        let finishing = Finishing { ending: Ending::Failed, summary: None, reason };
        let rested = self.finish(&mut changes, &open, finishing, now);
        State::Committing(Box::new(changes), After::Rest(rested))
    }
}

/// How long is rested after content failed so often. What is only blamed by evidence is given longer: the
/// server may have been half broken.
fn pause_after(error: &ModelError, attempts: u32) -> Duration {
    let longer = if matches!(error, ModelError::OwnDoing(_)) { limits::OWN_DOING_PAUSES } else { 1 };
    Duration::from_millis(pause_ms(attempts).saturating_mul(longer).min(limits::PARK_MAX_MS))
}

/// How long is rested after so many failures of the surroundings in a row.
pub fn rest_after(failures: u32) -> Duration {
    Duration::from_millis(pause_ms(failures))
}

/// Doubled for each failure in a row, within bounds. Jitter is the driver's: the rules draw nothing.
fn pause_ms(failures: u32) -> u64 {
    let doubled = limits::BACKOFF_BASE_MS.saturating_mul(1u64 << failures.saturating_sub(1).min(20));
    doubled.min(limits::PARK_MAX_MS)
}

fn later(now: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::from_millis(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 2));
    now.checked_add(pause).unwrap_or(now)
}
