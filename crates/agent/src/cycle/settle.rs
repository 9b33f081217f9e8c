//! Outward calls: started after their decision is committed, settled as they come, and answered to
//! the model by one outcomes entry per step, in call order.

use std::time::Duration;

use jiff::Timestamp;

use super::decide::{not_done, outcomes};
use super::{After, Cycle, Next, Rested, State, names};
use crate::call::{CallRow, CallState, Effect, Outcome, OutcomeStatus};
use crate::changes::{CallChange, CommitKind};
use crate::entry::{Entry, EntryKind};
use crate::id::CallId;
use crate::life::{Finishing, OpenCycle};
use crate::limits;
use crate::message::ModelMessage;
use crate::run::Ending;

/// For notices.
const BYTES_PER_TOKEN: usize = 4;

impl Cycle {
    pub(super) fn next_acting(&mut self, now: Timestamp) -> Next {
        if self.cancel {
            return self.next_canceled(now);
        }
        if self.calls.iter().all(|row| self.outcome_of(row).is_some()) {
            let entry = self.outcomes_entry(now);
            self.state = State::Settling(Box::new(entry), false);
            return self.next(now);
        }
        if !self.arrived.is_empty() {
            let mut changes = self.changes(CommitKind::Settle, now);
            changes.call_changes = self.arrivals();
            if let Some(open) = &mut changes.open {
                self.note_calls(open, &changes.call_changes);
            }
            return self.commit(changes, After::Started);
        }
        match self.park.clone().filter(|_| self.running.is_empty()) {
            Some(reason) => self.next_parked(&reason, now),
            None => self.start_calls(now),
        }
    }

    /// Starts what may run now: all that can be repeated side by side, and one unsafe call at a time,
    /// marked as begun just before. So a crash leaves at most one of them in doubt.
    fn start_calls(&mut self, now: Timestamp) -> Next {
        let open = |row: &&CallRow| row.outcome.is_none();
        let idle = |row: &&CallRow| row.outcome.is_none() && !self.running.contains(&row.id);
        let next_unsafe = self.calls.iter().filter(open).find(|row| row.effect == Effect::Unsafe);
        let begin = next_unsafe.filter(|row| row.state == CallState::Planned && self.park.is_none());
        if let Some(row) = begin {
            let change = CallChange { id: row.id.clone(), state: CallState::Started, outcome: None };
            let mut changes = self.changes(CommitKind::Start, now);
            changes.call_changes = vec![change];
            changes.barrier = self.config.barrier;
            return self.commit(changes, After::Started);
        }
        let may = |row: &&CallRow| row.effect != Effect::Unsafe || row.state == CallState::Started;
        let rows: Vec<CallRow> = self.calls.iter().filter(idle).filter(may).cloned().collect();
        self.state = State::Acting;
        if rows.is_empty() || self.park.is_some() {
            return Next::Await;
        }
        for row in &rows {
            match row.awaited {
                true => self.running.push(row.id.clone()),
                false => self.arrived.push((row.id.clone(), Outcome::pending(&row.id))),
            }
        }
        Next::Outward(rows)
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
            *row = as_told(row.clone());
            self.running.retain(|running| *running != id);
            self.arrived.retain(|(arrived, _)| *arrived != id);
        }
    }

    /// A call has taken longer than it may. Whether it goes on beyond its cycle: there must be `room` for it
    /// on the node, and the agent may have only so many.
    pub fn overdue(&mut self, call: &CallId, timeout: Duration, room: bool) -> bool {
        let Some(row) = self.calls.iter().find(|row| row.id == *call && self.awaits(&row.id)) else {
            return false;
        };
        let goes_on = room && self.detached < limits::DETACHED_PER_AGENT;
        let outcome = match goes_on {
            true => Outcome::overdue(call, timeout.as_millis()),
            false => Outcome::given_up(row.effect, timeout.as_millis()),
        };
        let alone = goes_on && row.effect == Effect::Unsafe;
        self.detached += usize::from(goes_on);
        self.settled(call.clone(), outcome);
        if alone {
            let text = format!(
                "not begun: `{call}` before it has not ended, and calls that cannot be repeated run one after \
                 another. Nothing was done; when its answer has come, decide again."
            );
            self.leave_unsafe(&text);
        }
        goes_on
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

    /// Whether the driver's outcome of a call is still wanted.
    pub fn awaits(&self, call: &CallId) -> bool {
        self.running.contains(call)
    }

    /// Where a commit was planned that is out of date since calls of it were answered.
    pub(super) fn again(&mut self, kind: CommitKind, now: Timestamp) -> State {
        // A cycle that is given up looks again at what is open, and gives up again.
        if kind == CommitKind::Close && !self.cancel { self.look_at_open(now) } else { State::Acting }
    }

    pub(super) fn next_settling(&mut self, entry: Box<Entry>, counted: bool, now: Timestamp) -> Next {
        if !counted {
            let text = entry.message.countable();
            self.state = State::Settling(entry, false);
            return Next::Count(vec![text]);
        }
        let mut changes = self.changes(CommitKind::Settle, now);
        changes.call_changes = self.arrivals();
        let mut open = self.open.clone();
        open.tokens = open.tokens.saturating_add(entry.tokens.into());
        self.note_calls(&mut open, &changes.call_changes);
        let outcomes = self.told();
        self.step_over(&mut open, outcomes.iter().map(|(row, outcome)| (row.tool.as_str(), outcome)));
        if self.vain_done().is_some() {
            self.go_on_after_all(&mut open);
        }
        changes.entries = vec![*entry];
        if open.continued && open.finishing.is_none() {
            changes.entries.push(self.notice(2, super::stop::CUT, now));
        }
        let ending = open.finishing.take().or_else(|| self.exhausted(&open));
        match self.go_on_or_close(&mut changes, open, ending, now) {
            Some(rested) => self.commit(changes, After::Rest(rested)),
            None => self.commit(changes, After::Settled),
        }
    }

    /// The step is settled, or a resumed cycle has nothing unanswered.
    pub(super) fn after_settle(&mut self) -> State {
        self.calls.clear();
        self.arrived.clear();
        self.running.clear();
        self.spans.clear();
        State::Ready
    }

    /// What came and is not in the rows yet.
    pub(super) fn arrivals(&self) -> Vec<CallChange> {
        self.calls
            .iter()
            .filter(|row| row.outcome.is_none())
            .filter_map(|row| {
                let outcome = self.outcome_of(row)?;
                let goes_on = outcome.status == OutcomeStatus::Pending;
                let state = if goes_on { CallState::Detached } else { CallState::Done };
                Some(CallChange { id: row.id.clone(), state, outcome: Some(outcome) })
            })
            .collect()
    }

    /// Forgets arrivals that the rows hold now.
    pub(super) fn absorb(&mut self) {
        let calls = &self.calls;
        self.arrived.retain(|(id, _)| calls.iter().any(|row| row.id == *id && row.outcome.is_none()));
    }

    fn outcome_of(&self, row: &CallRow) -> Option<Outcome> {
        row.outcome
            .clone()
            .or_else(|| self.arrived.iter().find(|(id, _)| *id == row.id).map(|(_, outcome)| outcome.clone()))
    }

    /// What the model reads of the calls in hand: a `done` whose step had calls that failed was in vain.
    fn told(&self) -> Vec<(CallRow, Outcome)> {
        let vain = self.vain_done();
        let told = |row: &CallRow| {
            let vain = vain.as_ref().filter(|_| row.tool == names::DONE);
            let outcome = vain.cloned().or_else(|| self.outcome_of(row));
            (row.clone(), outcome.unwrap_or_else(|| Outcome::error("no outcome")))
        };
        self.calls.iter().map(told).collect()
    }

    /// What a `done` among the calls in hand is told, where others of them failed.
    fn vain_done(&self) -> Option<Outcome> {
        self.calls.iter().find(|row| row.tool == names::DONE)?;
        let outcomes: Vec<_> = self.calls.iter().map(|row| (&row.tool, self.outcome_of(row))).collect();
        not_done(outcomes.iter().map(|(tool, outcome)| (tool.as_str(), outcome.as_ref())))
    }

    /// What ended the cycle was a `done` in vain: the outcomes entry tells the model so.
    fn go_on_after_all(&self, open: &mut OpenCycle) {
        let skipped = self.calls.iter().any(|row| row.tool == names::SKIP);
        let by_done = |end: &Finishing| end.ending == Ending::Rested && end.reason.is_none() && !skipped;
        open.finishing = open.finishing.take().filter(|finishing| !by_done(finishing));
        let calls = open.steps.last_mut().map(|step| &mut step.calls);
        for call in calls.into_iter().flatten().filter(|call| call.tool == names::DONE) {
            call.status = Some(OutcomeStatus::Error);
        }
    }

    fn outcomes_entry(&self, now: Timestamp) -> Entry {
        let told = self.told().into_iter();
        let rows: Vec<CallRow> =
            told.map(|(row, outcome)| CallRow { outcome: Some(outcome), ..row }).collect();
        self.entry(1, EntryKind::Outcomes, outcomes(&rows.iter().collect::<Vec<_>>()), now)
    }

    /// Words of the runtime, whose tokens are not worth a count.
    pub(super) fn notice(&self, ahead: u64, text: &str, now: Timestamp) -> Entry {
        let mut entry = self.entry(ahead, EntryKind::Notice, ModelMessage::user(text), now);
        let bytes = entry.message.countable().len();
        entry.tokens = u32::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u32::MAX);
        entry
    }

    /// An entry of this step, `ahead` places behind the last one.
    pub(super) fn entry(&self, ahead: u64, kind: EntryKind, message: ModelMessage, now: Timestamp) -> Entry {
        Entry {
            seq: self.head_seq + ahead,
            cycle: self.open.id,
            step: self.open.step,
            kind,
            message,
            tokens: 0,
            at: now,
        }
    }

    /// Where a commit that settles everything leads to.
    pub(super) fn ended(&self, ending: Ending, reason: Option<String>) -> Rested {
        Rested::Ended { cycle: self.open.id, ending, reason }
    }
}

/// A row as the cycle's outcomes entry tells it: of a call that nobody waits for the answer comes as an
/// event, however soon it came.
pub(super) fn as_told(row: CallRow) -> CallRow {
    if row.awaited || row.state != CallState::Done {
        return row;
    }
    CallRow { outcome: Some(Outcome::pending(&row.id)), ..row }
}
