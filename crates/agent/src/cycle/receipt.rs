//! What a step's receipt says of time: when the model was asked, when calls ran, how they ended.
//! Display only: nothing is decided by it.

use jiff::Timestamp;

use super::{Cycle, Decision, Occasion, Span, State};
use crate::call::{CallRow, Outcome};
use crate::changes::CallChange;
use crate::id::CallId;
use crate::life::OpenCycle;
use crate::run::{CallReceipt, StepReceipt};

impl Cycle {
    /// When a call of the step in hand ran; told by the driver beside its result.
    pub fn timed(&mut self, call: CallId, span: Span) {
        self.spans.push((call, span));
    }

    /// How long the oldest of the events that the step is first shown has waited at `now`.
    fn waited(&self, now: Timestamp) -> Option<u64> {
        let oldest = self.taken.iter().chain(&self.injected).map(|waiting| waiting.event.at).min()?;
        u64::try_from(now.as_millisecond() - oldest.as_millisecond()).ok()
    }

    /// What this waking is about, for whoever traces it; none where there is nothing to do.
    pub fn occasion(&self) -> Option<Occasion<'_>> {
        if matches!(self.state, State::Rest(_)) {
            return None;
        }
        Some(Occasion {
            name: &self.me.name,
            ordinal: self.cycles + 1,
            events: self.open.taken.len(),
            window_tokens: self.window.iter().map(|entry| u64::from(entry.tokens)).sum(),
            waited_ms: self.waited(self.open.opened_at),
        })
    }

    /// The receipt of a decision; of calls that are still open it names the tool.
    pub(super) fn step_receipt(&self, decision: &Decision) -> StepReceipt {
        let thought = &decision.thought;
        let calls = decision.calls.iter().map(|call| CallReceipt {
            repaired: call.repaired.clone(),
            ..self.call_receipt(&call.row, call.row.outcome.as_ref())
        });
        StepReceipt {
            step: self.open.step,
            tools: decision.calls.iter().map(|call| call.row.tool.clone()).collect(),
            usage: thought.reply.usage,
            model_ms: thought.model_ms,
            attempts: thought.attempts,
            injected: u32::try_from(self.injected.len()).unwrap_or(u32::MAX),
            // What came only after the first asking waited for the last one.
            waited_ms: self
                .asked_first
                .and_then(|at| self.waited(at))
                .or_else(|| self.waited(thought.asked_at)),
            interrupts: self.aborted,
            aborted: self.wasted,
            left_out: self.mended.left_out,
            cut: self.mended.cut,
            rebuilt: self.mended.rebuilt,
            model: self.voice.as_ref().map(|voice| self.model(Some(voice)).name.clone()),
            started_ms: Some(self.offset(thought.asked_at)),
            first_ms: thought.first_ms,
            calls: calls.collect(),
        }
    }

    /// Brings the newest receipt to what is known of the calls in hand. What an earlier waking noted
    /// of them stays.
    pub(super) fn note_calls(&self, open: &mut OpenCycle, changes: &[CallChange]) {
        let Some(receipt) = open.steps.last_mut() else { return };
        for row in self.calls.iter().filter(|row| row.step == receipt.step) {
            let Some(noted) = usize::try_from(row.index).ok().and_then(|index| receipt.calls.get_mut(index))
            else {
                continue;
            };
            let changed = changes.iter().find(|change| change.id == row.id);
            let outcome = changed.and_then(|change| change.outcome.as_ref()).or(row.outcome.as_ref());
            let now = self.call_receipt(row, outcome);
            noted.started_ms = now.started_ms.or(noted.started_ms);
            noted.took_ms = now.took_ms.or(noted.took_ms);
            noted.status = now.status.or(noted.status);
        }
    }

    fn call_receipt(&self, row: &CallRow, outcome: Option<&Outcome>) -> CallReceipt {
        let span = self.spans.iter().find(|(call, _)| *call == row.id).map(|(_, span)| *span);
        CallReceipt {
            tool: row.tool.clone(),
            started_ms: span.map(|span| self.offset(span.at)),
            took_ms: span.map(|span| span.ms),
            status: outcome.map(|outcome| outcome.status),
            repaired: None,
        }
    }

    /// Milliseconds since the cycle opened; a wall clock that went back makes it none.
    fn offset(&self, at: Timestamp) -> u64 {
        u64::try_from(at.as_millisecond() - self.open.opened_at.as_millisecond()).unwrap_or(0)
    }
}
