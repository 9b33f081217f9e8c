//! How a cycle comes to rest: ended, skipped, canceled, or given up for now.

use jiff::Timestamp;

use super::decide::outcomes;
use super::{Acting, ActivationEnd, After, At, Cycle, Next, State, Step};
use crate::call::{CallRow, CallState, Outcome, OutcomeStatus};
use crate::changes::{CallChange, Changes, CommitKind, Idle, Settlement};
use crate::entry::{Entry, EntryKind};
use crate::event::EventState;
use crate::life::{Finishing, IdleReason, OpenCycle};
use crate::quote;
use crate::run::{Ending, Usage};

/// What may be done again at once.
const AT_ONCE: Idle = Idle { not_before: None, reason: None };

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
        changes.idle = Some(AT_ONCE);
        changes.retire = self.who.config.ephemeral;
        changes.run = Some(self.run(open, ending, reason.clone(), summary, now));
        self.ended(ending, reason)
    }

    /// `skip` as the only call of step 0: the log is not touched, there is no run.
    pub(super) fn skip(
        &self,
        step: &mut Box<Step>,
        reason: Option<String>,
        usage: Usage,
        now: Timestamp,
    ) -> State {
        let mut changes = self.changes(CommitKind::Close, now);
        changes.open = None;
        changes.settle = step.settled(&EventState::Skipped { reason: reason.clone() });
        self.charge_totals(&mut changes, step, usage);
        changes.idle = Some(AT_ONCE);
        changes.retire = self.who.config.ephemeral;
        if self.row.failures > 0 {
            changes.failures = Some(0);
        }
        let rested = self.ended(Ending::Skipped, reason);
        State::Committing(Box::new(changes), After::Finished(rested, At::Step(std::mem::take(step))))
    }

    /// Canceled: what is open is answered so, the log says so, and the events do not wake it again.
    pub(super) fn next_canceled(&mut self, mut at: At, now: Timestamp) -> Next {
        let mut changes = self.changes(CommitKind::Close, now);
        let mut open = self.open.clone();
        if let At::Step(step) = &mut at {
            self.show_inbox(step, now);
            changes.settle = step.settled(&EventState::Canceled { reason: None });
            open.injected += u32::try_from(step.injected.len()).unwrap_or(u32::MAX);
            self.note_undecided(&mut open, Some(step), now);
        }
        self.close_log(&mut changes, &at, "[NOTICE] This cycle was canceled. Do not go on with it.", now);
        if let At::Acting(acting) = &at {
            self.note_calls(&mut open, acting, &changes.call_changes);
            self.note_undecided(&mut open, None, now);
        }
        let reason = Some("canceled on request".to_owned());
        let finishing = Finishing { ending: Ending::Canceled, summary: None, reason };
        let rested = self.finish(&mut changes, &open, finishing, now);
        self.commit(changes, After::Finished(rested, at))
    }

    /// The cycle cannot go on: the agent reads why in its log.
    pub(super) fn broken_off(&mut self, at: At, reason: &str, now: Timestamp) -> State {
        let mut changes = self.changes(CommitKind::Close, now);
        let reason = format!("broken off at step {}: {reason}", self.open.step);
        self.close_log(
            &mut changes,
            &at,
            &format!("[NOTICE] Your cycle was {}", quote::unbroken(&reason)),
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
        let rested = self.finish(&mut changes, &open, finishing, now);
        State::Committing(Box::new(changes), After::Finished(rested, at))
    }

    /// Answers open calls as canceled and appends what the log needs to be whole, with a notice.
    fn close_log(&self, changes: &mut Changes, at: &At, notice: &str, now: Timestamp) {
        let mut entries: Vec<Entry> = Vec::new();
        match at {
            At::Acting(acting) if self.log.unanswered() => {
                let (rows, call_changes) = give_up_calls(acting);
                changes.call_changes = call_changes;
                let message = outcomes(&rows.iter().collect::<Vec<_>>());
                entries.push(self.entry(1, EntryKind::Outcomes, message, now));
            }
            // What was canceled together with the cycle; else it waits, and is read another time.
            At::Step(step) if self.outside.cancel => {
                entries.extend(step.entries.iter().map(|entry| (**entry).clone()));
            }
            At::Acting(_) | At::Step(_) => {}
        }
        entries.push(self.notice(entries.len() as u64 + 1, notice, now));
        changes.entries = entries;
    }

    /// Ends the activation between two steps: a cycle in progress parks, an untouched one is given back.
    pub(super) fn next_parked(&mut self, at: At, reason: &str, now: Timestamp) -> Next {
        let rest = Idle { not_before: Some(now), reason: None };
        let (changes, rested) = self.give_up(&at, rest, reason, false, now);
        self.commit(changes, After::Finished(rested, at))
    }

    /// Parks a cycle in progress, or gives an untouched one back, until `rest` allows it again.
    pub(super) fn give_up(
        &self,
        at: &At,
        rest: Idle,
        reason: &str,
        blame: bool,
        now: Timestamp,
    ) -> (Changes, ActivationEnd) {
        let (until, kept_back) = (rest.not_before, rest.reason);
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
            let back =
                |event: &crate::event::Waiting| Settlement { seq: event.seq, state: EventState::Waiting };
            changes.settle = step.taken.iter().map(back).collect();
        }
        changes.idle = Some(rest);
        let (cycle, reason) = (self.open.id, reason.to_owned());
        (changes, ActivationEnd::Parked { cycle, until, rest: kept_back, reason })
    }

    /// A rest with its reason.
    pub(super) fn idle_until_time(until: Timestamp, reason: IdleReason) -> Idle {
        Idle { not_before: Some(until), reason: Some(reason) }
    }

    /// A cycle that was to be broken off has had an answer meanwhile: the notice tells of it too.
    pub(super) fn broken_again(&mut self, acting: Acting, now: Timestamp) -> State {
        let reason = format!("failed {} times", self.open.attempts);
        self.broken_off(At::Acting(acting), &reason, now)
    }
}

/// Every call of a step with an outcome, and what that changes of the rows.
fn give_up_calls(acting: &Acting) -> (Vec<CallRow>, Vec<CallChange>) {
    let mut changes = acting.arrivals();
    let mut rows = acting.calls.clone();
    for row in rows.iter_mut().filter(|row| row.outcome.is_none()) {
        let arrived = changes.iter().find(|change| change.id == row.id).map(|change| change.outcome.clone());
        row.outcome = arrived.unwrap_or_else(|| {
            let outcome = Some(broken_call(row.state));
            changes.push(CallChange { id: row.id.clone(), state: CallState::Done, outcome: outcome.clone() });
            outcome
        });
    }
    (rows, changes)
}

fn broken_call(state: CallState) -> Outcome {
    let (status, text) = match state {
        CallState::Started => (OutcomeStatus::Unknown, "canceled while it ran; unknown whether it happened"),
        _ => (OutcomeStatus::Canceled, "canceled"),
    };
    Outcome { status, text: text.into(), detail: None }
}
