//! Outward calls: started after their decision is committed, settled as they come, and answered to
//! the model by one outcomes entry per step, in call order.

use std::time::Duration;

use jiff::Timestamp;

use super::decide::{not_done, outcomes, step_over};
use super::{ActivationEnd, After, At, Cycle, Next, Span, State, names};
use crate::call::{CallRow, CallState, Effect, Outcome, OutcomeStatus};
use crate::changes::{CallChange, CommitKind};
use crate::entry::{Entry, EntryKind};
use crate::id::CallId;
use crate::life::{Finishing, OpenCycle};
use crate::limits;
use crate::run::Ending;

/// The calls of a step that was decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Acting {
    /// Those that were decided.
    pub(super) calls: Vec<CallRow>,
    /// Those handed to the driver and not answered.
    pub(super) running: Vec<CallId>,
    /// Outcomes that came and are not committed.
    pub(super) arrived: Vec<(CallId, Outcome)>,
    /// When calls ran, as far as the driver has told.
    pub(super) spans: Vec<(CallId, Span)>,
}

impl Acting {
    pub(super) fn of(calls: Vec<CallRow>) -> Self {
        Self { calls, ..Self::default() }
    }

    /// Takes over what was answered from outside. Whoever was first has answered: what came here
    /// meanwhile is dropped.
    pub(super) fn answered(&mut self, answers: Vec<(CallId, Outcome)>) {
        for (id, outcome) in answers {
            let Some(row) = self.calls.iter_mut().find(|row| row.id == id && row.state != CallState::Done)
            else {
                continue;
            };
            row.state = CallState::Done;
            row.outcome = Some(outcome);
            *row = as_reported(row.clone());
            self.running.retain(|running| *running != id);
            self.arrived.retain(|(arrived, _)| *arrived != id);
        }
    }

    /// The rows hold what a commit wrote of them.
    pub(super) fn written(&mut self, changes: &[CallChange]) {
        for change in changes {
            if let Some(row) = self.calls.iter_mut().find(|row| row.id == change.id) {
                row.state = change.state;
                row.outcome.clone_from(&change.outcome);
            }
        }
        let calls = &self.calls;
        self.arrived.retain(|(id, _)| calls.iter().any(|row| row.id == *id && row.outcome.is_none()));
    }

    /// An outward call ended.
    fn settled(&mut self, call: CallId, outcome: Outcome) {
        self.running.retain(|running| *running != call);
        self.arrived.push((call, outcome));
    }

    /// None of the calls that cannot be repeated and have not begun begins any more: the model reads why.
    pub(super) fn leave_unsafe(&mut self, why: &str) {
        for row in self.calls.iter().filter(|row| row.effect == Effect::Unsafe) {
            if row.state == CallState::Planned && row.outcome.is_none() {
                let outcome = Outcome { status: OutcomeStatus::Canceled, text: why.into(), detail: None };
                self.arrived.push((row.id.clone(), outcome));
            }
        }
    }

    /// What came and is not in the rows yet.
    pub(super) fn arrivals(&self) -> Vec<CallChange> {
        let open = self.calls.iter().filter(|row| row.outcome.is_none());
        let arrived = open.filter_map(|row| {
            let outcome = self.outcome_of(row)?;
            let goes_on = outcome.status == OutcomeStatus::Pending;
            let state = if goes_on { CallState::Detached } else { CallState::Done };
            Some(CallChange { id: row.id.clone(), state, outcome: Some(outcome) })
        });
        arrived.collect()
    }

    fn outcome_of(&self, row: &CallRow) -> Option<Outcome> {
        let arrived =
            || self.arrived.iter().find(|(id, _)| *id == row.id).map(|(_, outcome)| outcome.clone());
        row.outcome.clone().or_else(arrived)
    }

    /// What the model reads of the calls: a `done` whose step had calls that failed was in vain.
    fn reported(&self) -> Vec<CallRow> {
        let vain = self.vain_done();
        let reported = |row: &CallRow| {
            let vain = vain.as_ref().filter(|_| row.tool == names::DONE);
            let outcome = vain.cloned().or_else(|| self.outcome_of(row));
            let outcome = outcome.unwrap_or_else(|| Outcome::error("no outcome"));
            CallRow { outcome: Some(outcome), ..row.clone() }
        };
        self.calls.iter().map(reported).collect()
    }

    /// What a `done` among the calls is told, where others of them failed.
    fn vain_done(&self) -> Option<Outcome> {
        self.calls.iter().find(|row| row.tool == names::DONE)?;
        let outcomes: Vec<_> = self.calls.iter().map(|row| (&row.tool, self.outcome_of(row))).collect();
        not_done(outcomes.iter().map(|(tool, outcome)| (tool.as_str(), outcome.as_ref())))
    }

    /// What ended the cycle was a `done` in vain: the outcomes entry tells the model so.
    fn go_on_after_all(&self, open: &mut OpenCycle) {
        let skipped = self.calls.iter().any(|row| row.tool == names::SKIP);
        let by_done = |end: &Finishing| end.ending == Ending::Completed && end.reason.is_none() && !skipped;
        open.finishing = open.finishing.take().filter(|finishing| !by_done(finishing));
        let calls = open.steps.last_mut().map(|step| &mut step.calls);
        for call in calls.into_iter().flatten().filter(|call| call.tool == names::DONE) {
            call.status = Some(OutcomeStatus::Error);
        }
    }
}

impl Cycle {
    pub(super) fn next_acting(&mut self, acting: Acting, now: Timestamp) -> Next {
        if self.outside.cancel {
            return self.next_canceled(At::Acting(acting), now);
        }
        if self.outside.has_answers() {
            self.state = State::Acting(acting);
            return Next::Look;
        }
        if acting.calls.iter().all(|row| acting.outcome_of(row).is_some()) {
            return self.settle(acting, now);
        }
        if !acting.arrived.is_empty() {
            let mut changes = self.changes(CommitKind::Settle, now);
            changes.call_changes = acting.arrivals();
            if let Some(open) = &mut changes.open {
                self.note_calls(open, &acting, &changes.call_changes);
            }
            return self.commit(changes, After::Acting(acting));
        }
        match self.outside.park.clone().filter(|_| acting.running.is_empty()) {
            Some(reason) => self.next_parked(At::Acting(acting), &reason, now),
            None => self.start_calls(acting, now),
        }
    }

    /// Starts what may run now: all that can be repeated side by side, and one unsafe call at a time,
    /// marked as begun just before. So a crash leaves at most one of them in doubt.
    fn start_calls(&mut self, mut acting: Acting, now: Timestamp) -> Next {
        let parks = self.outside.park.is_some();
        let open = |row: &&CallRow| row.outcome.is_none();
        let next_unsafe = acting.calls.iter().filter(open).find(|row| row.effect == Effect::Unsafe);
        if let Some(row) = next_unsafe.filter(|row| row.state == CallState::Planned && !parks) {
            let change = CallChange { id: row.id.clone(), state: CallState::Started, outcome: None };
            let mut changes = self.changes(CommitKind::Start, now);
            changes.call_changes = vec![change];
            changes.barrier = self.who.config.barrier;
            return self.commit(changes, After::Acting(acting));
        }
        let idle = |row: &&CallRow| row.outcome.is_none() && !acting.running.contains(&row.id);
        let may = |row: &&CallRow| row.effect != Effect::Unsafe || row.state == CallState::Started;
        let rows: Vec<CallRow> = acting.calls.iter().filter(idle).filter(may).cloned().collect();
        if rows.is_empty() || parks {
            self.state = State::Acting(acting);
            return Next::Await;
        }
        for row in &rows {
            match row.awaited {
                true => acting.running.push(row.id.clone()),
                false => acting.arrived.push((row.id.clone(), Outcome::pending(&row.id))),
            }
        }
        self.state = State::Acting(acting);
        Next::Outward(rows)
    }

    /// Something urgent of a requester came before a call that cannot be repeated: none of them begins,
    /// and the model decides again when it has seen it.
    pub(super) fn hold_back(&mut self, mut acting: Acting) -> State {
        let text = "not begun: something newer of whoever asked for this came first and is shown to you next. \
                    Nothing was done; decide again.";
        acting.leave_unsafe(text);
        self.open.held_back = true;
        self.open.finishing = None;
        State::Acting(acting)
    }

    /// An outward call ended.
    pub fn settled(&mut self, call: CallId, outcome: Outcome) {
        if let State::Acting(acting) = &mut self.state {
            acting.settled(call, outcome);
        }
    }

    /// The driver gave up the calls that run, because the node stops or the cycle is canceled.
    pub fn let_go(&mut self) {
        if let State::Acting(acting) = &mut self.state {
            acting.running.clear();
        }
    }

    /// A call has taken longer than it may. Whether it goes on beyond its cycle: there must be `room` for it
    /// on the node, and the agent may have only so many.
    pub fn overdue(&mut self, call: &CallId, timeout: Duration, room: bool) -> bool {
        let State::Acting(acting) = &mut self.state else { return false };
        let waits = acting.running.contains(call);
        let Some(row) = acting.calls.iter().find(|row| row.id == *call && waits) else { return false };
        let goes_on = room && self.outside.detached < limits::DETACHED_PER_AGENT;
        let outcome = match goes_on {
            true => Outcome::overdue(call, timeout.as_millis()),
            false => Outcome::given_up(row.effect, timeout.as_millis()),
        };
        let alone = goes_on && row.effect == Effect::Unsafe;
        self.outside.detached += usize::from(goes_on);
        acting.settled(call.clone(), outcome);
        if alone {
            let text = format!(
                "not begun: `{call}` before it has not ended, and calls that cannot be repeated run one after \
                 another. Nothing was done; when its answer has come, decide again."
            );
            acting.leave_unsafe(&text);
        }
        goes_on
    }

    /// Whether the driver's outcome of a call is still wanted.
    pub fn awaits(&self, call: &CallId) -> bool {
        matches!(&self.state, State::Acting(acting) if acting.running.contains(call))
    }

    /// All outcomes of the step are known.
    fn settle(&mut self, acting: Acting, now: Timestamp) -> Next {
        let reported = acting.reported();
        let rows: Vec<&CallRow> = reported.iter().collect();
        let entry = self.entry(1, EntryKind::Outcomes, outcomes(&rows), now);
        let mut changes = self.changes(CommitKind::Settle, now);
        changes.call_changes = acting.arrivals();
        let mut open = self.open.clone();
        open.tokens = open.tokens.saturating_add(u64::from(entry.tokens));
        self.note_calls(&mut open, &acting, &changes.call_changes);
        let outcomes = reported.iter().filter_map(|row| Some((row.tool.as_str(), row.outcome.as_ref()?)));
        step_over(&mut open, outcomes);
        if acting.vain_done().is_some() {
            acting.go_on_after_all(&mut open);
        }
        changes.entries = vec![entry];
        if open.continued && open.finishing.is_none() {
            changes.entries.push(self.notice(2, super::stop::CUT, now));
        }
        let ending = open.finishing.take().or_else(|| self.exhausted(&open));
        match self.go_on_or_close(&mut changes, open, ending, now) {
            Some(rested) => self.commit(changes, After::Finished(rested, At::Acting(acting))),
            None => self.commit(changes, After::Settled(acting)),
        }
    }

    /// Words of the runtime.
    pub(super) fn notice(&self, ahead: u64, text: &str, now: Timestamp) -> Entry {
        self.entry(ahead, EntryKind::Notice, crate::message::ModelMessage::user(text), now)
    }

    /// Where a commit that settles everything leads to.
    pub(super) fn ended(&self, ending: Ending, reason: Option<String>) -> ActivationEnd {
        ActivationEnd::Ended { cycle: self.open.id, ending, reason }
    }
}

/// A row as the cycle's outcomes entry tells it: of a call that nobody waits for the answer comes as an
/// event, however soon it came.
pub(super) fn as_reported(row: CallRow) -> CallRow {
    if row.awaited || row.state != CallState::Done {
        return row;
    }
    CallRow { outcome: Some(Outcome::pending(&row.id)), ..row }
}
