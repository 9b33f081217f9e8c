//! How a cycle stops: ended, skipped, canceled or parked.

use jiff::Timestamp;

use super::decide::{lowest_trust, outcomes};
use super::{Acting, ActivationEnd, After, At, Cycle, Next, State, Step};
use crate::call::{CallRow, CallState, Effect, Outcome, OutcomeStatus, Runner};
use crate::changes::{CallChange, Changes, CommitKind, Idle, Settlement};
use crate::entry::{Entry, EntryKind};
use crate::event::EventState;
use crate::life::{Finishing, IdleReason, OpenCycle};
use crate::quote;
use crate::run::{Ending, Usage};

/// The agent may run again at once.
const RUN_AT_ONCE: Idle = Idle { not_before: None, reason: None };

impl Cycle {
    /// Makes `changes` the last commit of the cycle.
    pub(super) fn finish(
        &self,
        changes: &mut Changes,
        open: &OpenCycle,
        finishing: Finishing,
        now: Timestamp,
    ) -> ActivationEnd {
        let Finishing { ending, summary, reason } = finishing;
        if ending == Ending::Exhausted {
            let why = reason.as_deref().unwrap_or("a limit was reached");
            changes.notice = Some(Some(format!(
                "Your last cycle was cut off: {why}. What you had begun may be unfinished."
            )));
        }
        changes.open = None;
        changes.idle = Some(RUN_AT_ONCE);
        changes.retire = self.pinned.config.ephemeral;
        changes.run = Some(self.run(open, ending, reason.clone(), summary, now));
        self.ended(ending, reason)
    }

    /// `skip` as the only call of step 0: nothing is appended to the log and there is no run.
    pub(super) fn skip(
        &self,
        step: &mut Box<Step>,
        reason: Option<String>,
        usage: Usage,
        now: Timestamp,
    ) -> State {
        let mut changes = self.changes(CommitKind::Close, now);
        changes.open = None;
        // What a rule excluded was not shown.
        let cycle = step.first_called.map(|_| self.open.id);
        changes.settle = step.settled(&EventState::Skipped { reason: reason.clone(), cycle });
        self.charge_totals(&mut changes, step, usage);
        changes.idle = Some(RUN_AT_ONCE);
        changes.retire = self.pinned.config.ephemeral;
        if self.life.failures > 0 {
            changes.failures = Some(0);
        }
        let end = self.ended(Ending::Skipped, reason);
        State::Committing(Box::new(changes), After::Finished(end, At::Step(std::mem::take(step))))
    }

    /// Cancels the cycle: open calls get the outcome `canceled`, a notice enters the log, and the events are settled.
    pub(super) fn next_canceled(&mut self, mut at: At, now: Timestamp) -> Next {
        let mut changes = self.changes(CommitKind::Close, now);
        let mut open = self.open.clone();
        if let At::Step(step) = &mut at {
            self.show_inbox(step, now);
            changes.settle = step.settled(&EventState::Canceled { reason: None });
            self.note_undecided(&mut open, Some(step), now);
        }
        self.close_log(&mut changes, &at, "[NOTICE] This cycle was canceled. Do not go on with it.", now);
        if let At::Acting(acting) = &at {
            self.note_calls(&mut open, acting, &changes.call_changes);
            self.note_undecided(&mut open, None, now);
        }
        let reason = Some("canceled on request".to_owned());
        let finishing = Finishing { ending: Ending::Canceled, summary: None, reason };
        let end = self.finish(&mut changes, &open, finishing, now);
        self.commit(changes, After::Finished(end, at))
    }

    /// Fails the cycle; the agent reads why in its log.
    pub(super) fn fail_cycle(&mut self, at: At, reason: &str, now: Timestamp) -> State {
        let mut changes = self.changes(CommitKind::Close, now);
        let reason = format!("stopped at step {}: {reason}", self.open.step);
        self.close_log(
            &mut changes,
            &at,
            &format!("[NOTICE] Your cycle was {}", quote::one_line(&reason)),
            now,
        );
        let mut open = self.open.clone();
        match &at {
            At::Step(step) => self.note_undecided(&mut open, Some(step), now),
            At::Acting(acting) => {
                self.note_calls(&mut open, acting, &changes.call_changes);
                self.note_undecided(&mut open, None, now);
            }
        }
        let finishing = Finishing { ending: Ending::Failed, summary: None, reason: Some(reason) };
        let end = self.finish(&mut changes, &open, finishing, now);
        State::Committing(Box::new(changes), After::Finished(end, at))
    }

    /// Cancels open calls and appends the entries that complete the log, then a notice.
    fn close_log(&self, changes: &mut Changes, at: &At, notice: &str, now: Timestamp) {
        let mut entries: Vec<Entry> = Vec::new();
        match at {
            At::Acting(acting) if self.log.unanswered() => {
                let (rows, call_changes) = give_up_calls(acting);
                changes.call_changes = call_changes;
                let rows: Vec<_> = rows.iter().collect();
                let trust = lowest_trust(&rows);
                entries.push(self.entry(1, EntryKind::Outcomes, outcomes(&rows), trust, now));
            }
            // A canceled cycle has settled these events. Otherwise they wait and are shown another time.
            At::Step(step) if self.outside.cancel => {
                entries.extend(step.entries.iter().map(|entry| (**entry).clone()));
            }
            At::Acting(_) | At::Step(_) => {}
        }
        entries.push(self.notice(entries.len() as u64 + 1, notice, now));
        changes.entries = entries;
    }

    /// Ends the activation between two steps: a cycle in progress is parked, an untouched one is given back.
    pub(super) fn next_parked(&mut self, at: At, reason: &str, now: Timestamp) -> Next {
        let idle = Idle { not_before: Some(now), reason: None };
        let (changes, end) = self.give_up(&at, idle, reason, false, now);
        self.commit(changes, After::Finished(end, at))
    }

    /// Parks a cycle in progress, or gives the events of an untouched one back, until `idle` allows it to run again.
    pub(super) fn give_up(
        &self,
        at: &At,
        idle: Idle,
        reason: &str,
        blame: bool,
        now: Timestamp,
    ) -> (Changes, ActivationEnd) {
        let (until, idle_reason) = (idle.not_before, idle.reason);
        let mut changes = self.changes(CommitKind::Park, now);
        if self.open.decided {
            if let (Some(open), At::Step(step)) = (changes.open.as_mut(), at) {
                open.attempts = open.attempts.saturating_add(u32::from(blame));
                open.suspect |= blame && step.shows_more_than(&self.open);
                open.asked = false;
            }
        } else if let At::Step(step) = at {
            changes.kind = CommitKind::Close;
            changes.open = None;
            changes.blame = blame;
            self.charge_totals(&mut changes, step, Usage::default());
            let given_back =
                |event: &crate::event::Waiting| Settlement { seq: event.seq, state: EventState::Waiting };
            changes.settle = step.taken.iter().map(given_back).collect();
        }
        changes.idle = Some(idle);
        let (cycle, reason) = (self.open.id, reason.to_owned());
        (changes, ActivationEnd::Parked { cycle, until, idle_reason, reason })
    }

    pub(super) fn idle_until(until: Timestamp, reason: IdleReason) -> Idle {
        Idle { not_before: Some(until), reason: Some(reason) }
    }

    /// Fails the cycle again after an outcome arrived in the meantime, so that the log includes the outcome.
    pub(super) fn fail_cycle_again(&mut self, acting: Acting, now: Timestamp) -> State {
        let reason = self.failed_too_often().unwrap_or_else(|| "failed too often".to_owned());
        self.fail_cycle(At::Acting(acting), &reason, now)
    }
}

/// All calls of a step, each with an outcome, and the changes of their rows.
fn give_up_calls(acting: &Acting) -> (Vec<CallRow>, Vec<CallChange>) {
    let mut changes = acting.arrivals();
    let mut rows = acting.calls.clone();
    for row in rows.iter_mut().filter(|row| row.outcome.is_none()) {
        let arrived = changes.iter().find(|change| change.id == row.id).map(|change| change.outcome.clone());
        row.outcome = arrived.unwrap_or_else(|| {
            let outcome = Some(canceled_outcome(row));
            changes.push(CallChange { id: row.id.clone(), state: CallState::Done, outcome: outcome.clone() });
            outcome
        });
    }
    (rows, changes)
}

fn canceled_outcome(row: &CallRow) -> Outcome {
    let (status, text) = match (row.state, row.runner) {
        _ if row.waits_for_person() => {
            (OutcomeStatus::Canceled, "canceled before a person answered; nothing of it was done")
        }
        (CallState::Started, _) => {
            (OutcomeStatus::Unknown, "canceled while it ran; unknown whether it happened")
        }
        (_, Runner::Worker) if row.effect == Effect::Unsafe => {
            (OutcomeStatus::Unknown, "canceled; unknown whether a worker had begun it")
        }
        _ => (OutcomeStatus::Canceled, "canceled"),
    };
    Outcome::of_runtime(status, text)
}
