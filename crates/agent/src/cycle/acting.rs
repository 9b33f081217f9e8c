//! Outward calls: started after their decision is committed and settled as their outcomes arrive. The model
//! reads them in one outcomes entry per step, in call order.

use std::time::Duration;

use jiff::Timestamp;

use super::decide::{done_refusal, finish_step, lowest_trust, outcomes};
use super::{ActivationEnd, After, At, Cycle, Next, Span, State, names};
use crate::call::{CallRow, CallState, Effect, Outcome, OutcomeStatus, Runner};
use crate::changes::{CallChange, Changes, CommitKind};
use crate::entry::{Entry, EntryKind};
use crate::event::Trust;
use crate::id::CallId;
use crate::life::{Finishing, OpenCycle};
use crate::limits;
use crate::run::Ending;

/// The calls of a step that was decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Acting {
    pub(super) calls: Vec<CallRow>,
    /// Calls that the driver runs.
    pub(super) running: Vec<CallId>,
    /// Outcomes that have arrived and are not committed.
    pub(super) arrived: Vec<(CallId, Outcome)>,
    /// When calls ran, as reported by the driver.
    pub(super) spans: Vec<(CallId, Span)>,
}

impl Acting {
    pub(super) fn of(calls: Vec<CallRow>) -> Self {
        Self { calls, ..Self::default() }
    }

    /// Applies outcomes that came from outside. The first outcome wins: one that arrived here in the meantime is
    /// dropped.
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

    /// Applies committed changes to the rows.
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

    /// Bytes of the outcomes that are known.
    pub(super) fn outcome_bytes(&self) -> usize {
        let stored = self.calls.iter().filter_map(|row| row.outcome.as_ref());
        let arrived = self.arrived.iter().map(|(_, outcome)| outcome);
        stored.chain(arrived).map(|outcome| outcome.text.len()).sum()
    }

    /// An outward call ended.
    fn settled(&mut self, call: CallId, outcome: Outcome) {
        self.running.retain(|running| *running != call);
        self.arrived.push((call, outcome));
    }

    /// Cancels all unsafe calls that have not started; the model reads why.
    pub(super) fn cancel_unsafe(&mut self, why: &str) {
        for row in self.calls.iter().filter(|row| row.effect == Effect::Unsafe) {
            let runs = self.running.contains(&row.id);
            if row.state == CallState::Planned && row.outcome.is_none() && !runs {
                self.arrived.push((row.id.clone(), Outcome::of_runtime(OutcomeStatus::Canceled, why)));
            }
        }
    }

    /// Outcomes that have arrived and are not in the rows yet.
    pub(super) fn arrivals(&self) -> Vec<CallChange> {
        let open = self.calls.iter().filter(|row| row.outcome.is_none());
        let arrived = open.filter_map(|row| {
            let outcome = self.outcome_of(row)?;
            let detaches = outcome.status == OutcomeStatus::Pending;
            let state = if detaches { CallState::Detached } else { CallState::Done };
            Some(CallChange { id: row.id.clone(), state, outcome: Some(outcome) })
        });
        arrived.collect()
    }

    fn outcome_of(&self, row: &CallRow) -> Option<Outcome> {
        let arrived =
            || self.arrived.iter().find(|(id, _)| *id == row.id).map(|(_, outcome)| outcome.clone());
        row.outcome.clone().or_else(arrived)
    }

    /// The rows as the model reads them: a `done` is refused if another call of its step failed.
    fn reported(&self) -> Vec<CallRow> {
        let refused = self.refused_done();
        let reported = |row: &CallRow| {
            let refused = refused.as_ref().filter(|_| row.tool == names::DONE);
            let outcome = refused.cloned().or_else(|| self.outcome_of(row));
            let outcome = outcome.unwrap_or_else(|| Outcome::error("no outcome"));
            CallRow { outcome: Some(outcome), ..row.clone() }
        };
        self.calls.iter().map(reported).collect()
    }

    /// The error of a `done` among the calls, if another call failed.
    fn refused_done(&self) -> Option<Outcome> {
        self.calls.iter().find(|row| row.tool == names::DONE)?;
        let outcomes: Vec<_> = self.calls.iter().map(|row| (&row.tool, self.outcome_of(row))).collect();
        done_refusal(outcomes.iter().map(|(tool, outcome)| (tool.as_str(), outcome.as_ref())))
    }

    /// Withdraws the ending of a refused `done`: the outcomes entry reports the refusal to the model.
    fn withdraw_done(&self, open: &mut OpenCycle) {
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
    pub(super) fn next_acting(&mut self, mut acting: Acting, now: Timestamp) -> Next {
        if self.outside.cancel {
            return self.next_canceled(At::Acting(acting), now);
        }
        if self.outside.has_answers() {
            self.state = State::Acting(acting);
            return Next::Look;
        }
        self.end_pauses(&mut acting, now);
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
        let acting = match self.paused(acting, now) {
            Ok(next) => return next,
            Err(acting) => acting,
        };
        match self.outside.park.clone().filter(|_| acting.running.is_empty()) {
            Some(reason) => self.next_parked(At::Acting(acting), &reason, now),
            None => self.start_calls(acting, now),
        }
    }

    /// Starts the calls that may run now: repeatable ones in parallel, unsafe ones one at a time. An unsafe call
    /// is committed as started just before, so a crash leaves at most one with an unknown outcome. Those that wait for a
    /// person stand aside. For the first one of a
    /// step that a worker runs the claim does that: the decision was committed just before.
    fn start_calls(&mut self, mut acting: Acting, now: Timestamp) -> Next {
        let stopping = self.outside.park.is_some();
        let open = |row: &&CallRow| row.outcome.is_none() && !row.waits_for_person();
        let next_unsafe = acting.calls.iter().filter(open).find(|row| row.effect == Effect::Unsafe);
        let first_unsafe = acting.calls.iter().find(|row| row.effect == Effect::Unsafe);
        let claim_starts = |row: &CallRow| {
            row.runner == Runner::Worker && first_unsafe.is_some_and(|first| first.id == row.id)
        };
        let starts = |row: &&CallRow| row.state == CallState::Planned && !stopping && !claim_starts(row);
        if let Some(row) = next_unsafe.filter(starts) {
            let change = CallChange { id: row.id.clone(), state: CallState::Started, outcome: None };
            let approved = row.approval.as_ref().and_then(|approval| Some(approval.by.as_ref()?.at));
            let mut changes = self.changes(CommitKind::Start, now);
            changes.call_changes = vec![change];
            changes.barrier = self.pinned.config.barrier;
            changes.barrier_since = approved;
            return self.commit(changes, After::Acting(acting));
        }
        let not_started = |row: &&CallRow| open(row) && !acting.running.contains(&row.id);
        let may_run = |row: &&CallRow| {
            row.effect != Effect::Unsafe || row.state == CallState::Started || claim_starts(row)
        };
        let rows: Vec<CallRow> = acting.calls.iter().filter(not_started).filter(may_run).cloned().collect();
        if rows.is_empty() || stopping {
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

    /// An urgent event of a requester arrived before an unsafe call started: no unsafe call starts, and the model
    /// decides again after reading the event.
    pub(super) fn hold_back(&mut self, mut acting: Acting) -> State {
        acting.cancel_unsafe(&Outcome::held_back().text);
        self.open.held_back = true;
        self.open.finishing = None;
        State::Acting(acting)
    }

    /// Reports the outcome of an outward call. A canceled one was held back before a worker could claim it.
    pub fn settled(&mut self, call: CallId, outcome: Outcome) {
        let held_back =
            outcome.status == OutcomeStatus::Canceled && outcome.text == Outcome::held_back().text;
        if let State::Acting(acting) = &mut self.state {
            let room = self.open.room_for_outcome(acting.outcome_bytes());
            acting.settled(call, outcome.within(room));
            if held_back {
                let acting = std::mem::take(acting);
                self.state = self.hold_back(acting);
            }
        }
    }

    /// The driver dropped all running calls, because the node stops or the cycle is canceled.
    pub fn drop_running(&mut self) {
        if let State::Acting(acting) = &mut self.state {
            acting.running.clear();
        }
    }

    /// A call has exceeded its time-out. Returns whether it continues as a detached call: the node must have
    /// `room` for it, and the agent must be below its limit.
    pub fn overdue(&mut self, call: &CallId, timeout: Duration, room: bool) -> bool {
        let State::Acting(acting) = &mut self.state else { return false };
        let waits = acting.running.contains(call);
        let Some(row) = acting.calls.iter().find(|row| row.id == *call && waits) else { return false };
        let detaches = room && self.outside.detached < limits::DETACHED_PER_AGENT;
        let outcome = match detaches {
            true => Outcome::overdue(call, timeout.as_millis()),
            false => Outcome::given_up(row.effect, row.runner, timeout.as_millis()),
        };
        let blocks_unsafe = detaches && row.effect == Effect::Unsafe;
        self.outside.detached += usize::from(detaches);
        acting.settled(call.clone(), outcome);
        if blocks_unsafe {
            let text = format!(
                "not started: the earlier call `{call}` is still running, and calls that cannot be repeated run one \
                 at a time. Nothing was done; decide again when its result has arrived."
            );
            acting.cancel_unsafe(&text);
        }
        detaches
    }

    /// Whether the driver's outcome of a call is still wanted.
    pub fn awaits(&self, call: &CallId) -> bool {
        matches!(&self.state, State::Acting(acting) if acting.running.contains(call))
    }

    /// All outcomes of the step are known.
    fn settle(&mut self, acting: Acting, now: Timestamp) -> Next {
        let (mut changes, open, ending) = self.settlement(&acting, CommitKind::Settle, now);
        match self.continue_or_close(&mut changes, open, ending, now) {
            Some(end) => self.commit(changes, After::Finished(end, At::Acting(acting))),
            None => self.commit(changes, After::Settled(acting)),
        }
    }

    /// The commit that reports all outcomes of the step to the model, the open cycle after it, and how the cycle ends, if it
    /// does.
    pub(super) fn settlement(
        &self,
        acting: &Acting,
        kind: CommitKind,
        now: Timestamp,
    ) -> (Changes, OpenCycle, Option<Finishing>) {
        let reported = acting.reported();
        let rows: Vec<&CallRow> = reported.iter().collect();
        let trust = lowest_trust(&rows);
        let entry = self.entry(1, EntryKind::Outcomes, outcomes(&rows), trust, now);
        let mut changes = self.changes(kind, now);
        changes.call_changes = acting.arrivals();
        let mut open = self.open.clone();
        self.note_calls(&mut open, acting, &changes.call_changes);
        let outcomes = reported.iter().filter_map(|row| Some((row.tool.as_str(), row.outcome.as_ref()?)));
        finish_step(&mut open, outcomes);
        let bytes = u32::try_from(acting.outcome_bytes()).unwrap_or(u32::MAX);
        open.outcome_bytes = open.outcome_bytes.saturating_add(bytes);
        if acting.refused_done().is_some() {
            acting.withdraw_done(&mut open);
        }
        for row in rows.iter().filter(|row| row.tool == names::SEND_MESSAGE && row.effect != Effect::Inward) {
            // Somebody has let it be posted.
            let posted = row.outcome.as_ref().is_some_and(|outcome| outcome.status == OutcomeStatus::Ok);
            if let Some((space, hash)) = self.posted(row).filter(|_| posted) {
                open.addressed.push(space);
                open.sent.push(hash);
            }
        }
        changes.entries = vec![entry];
        if open.continued && open.finishing.is_none() {
            changes.entries.push(self.notice(2, super::stop::CUT, now));
        }
        let ending = open.finishing.take().or_else(|| self.exhausted(&open));
        (changes, open, ending)
    }

    /// A notice of the runtime to the agent.
    pub(super) fn notice(&self, ahead: u64, text: &str, now: Timestamp) -> Entry {
        let read = self.log.of_cycle(self.open.id).map(|entry| entry.trust);
        let (message, trust) =
            (crate::message::ModelMessage::user(text), read.fold(self.open.trust, Trust::min));
        self.entry(ahead, EntryKind::Notice, message, trust, now)
    }

    /// The end of an activation whose cycle ended.
    pub(super) fn ended(&self, ending: Ending, reason: Option<String>) -> ActivationEnd {
        ActivationEnd::Ended { cycle: self.open.id, ending, reason }
    }
}

/// A row as the cycle's outcomes entry shows it. The result of a call that is not awaited always arrives as an
/// event, even if it is known already.
pub(super) fn as_reported(row: CallRow) -> CallRow {
    if row.awaited || row.state != CallState::Done {
        return row;
    }
    CallRow { outcome: Some(Outcome::pending(&row.id)), ..row }
}
