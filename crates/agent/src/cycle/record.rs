//! Records of steps and runs: time, tokens and cost. They are for display; no decision depends on them.

use jiff::Timestamp;

use super::acting::Acting;
use super::decide::Decision;
use super::text_reply::{TextReply, text_of};
use super::{ActivationInfo, Cycle, Span, State, Step, names};
use crate::call::{CallRow, Outcome, head_and_tail};
use crate::changes::{CallChange, Changes};
use crate::id::CallId;
use crate::life::{OpenCycle, Waste};
use crate::limits;
use crate::run::{CallRecord, Ending, PersonWait, Run, SentRequest, StepRecord, Usage};

impl Cycle {
    /// Reports when a call of the current step ran.
    pub fn timed(&mut self, call: CallId, span: Span) {
        match &mut self.state {
            State::Inward(_, decision) | State::Deciding(_, decision) => decision.spans.push((call, span)),
            State::Acting(acting) => acting.spans.push((call, span)),
            _ => {}
        }
    }

    /// What this activation works on, for tracing; `None` if there is nothing to do.
    pub fn info(&self) -> Option<ActivationInfo<'_>> {
        if matches!(self.state, State::Finished(_)) {
            return None;
        }
        Some(ActivationInfo {
            name: &self.pinned.entity.name,
            ordinal: self.life.cycles + 1,
            events: self.open.taken.len(),
            window_tokens: self.log.tokens(),
            waited_ms: self.step_now().and_then(|step| waited(step, self.open.opened_at)),
        })
    }

    /// The record of a decision; for calls that are still open it has only the tool.
    pub(super) fn step_record(&self, step: &Step, decision: &Decision) -> StepRecord {
        let model_reply = &decision.model_reply;
        let calls = decision.calls.iter().map(|call| CallRecord {
            repaired: call.repaired.clone(),
            ..self.call_record(&call.row, call.row.outcome.as_ref(), &decision.spans)
        });
        StepRecord {
            tools: decision.calls.iter().map(|call| call.row.tool.clone()).collect(),
            usage: model_reply.reply.usage,
            model_ms: model_reply.model_ms,
            attempts: model_reply.attempts,
            started_ms: Some(self.offset(model_reply.asked_at)),
            first_ms: model_reply.first_ms,
            calls: calls.collect(),
            unsent: unsent_text(decision),
            sent: Some(SentRequest { trust: Some(self.exposure(step).trust), ..model_reply.sent.clone() }),
            ..self.undecided_record(step, model_reply.asked_at)
        }
    }

    /// What is known of a step without its decision.
    fn undecided_record(&self, step: &Step, asked_at: Timestamp) -> StepRecord {
        StepRecord {
            injected: u32::try_from(step.injected.len()).unwrap_or(u32::MAX),
            // An event that came only after the first request waited until the last one.
            waited_ms: step.first_called.and_then(|at| waited(step, at)).or_else(|| waited(step, asked_at)),
            left_out: step.left_out,
            cut: step.cut,
            rebuilt: step.rebuilt,
            model: step.model.as_ref().map(|model| self.pinned.model(Some(model)).name.clone()),
            ..wasted(&self.open)
        }
    }

    /// Records a step that ends with its cycle before its decision, if this activation (`step`) or an earlier one
    /// used tokens for it.
    pub(super) fn note_undecided(&self, open: &mut OpenCycle, step: Option<&Step>, now: Timestamp) {
        if !open.vain.is_empty() {
            let record = step.map_or_else(|| wasted(open), |step| self.undecided_record(step, now));
            open.steps.push(record);
            open.vain = Waste::default();
        }
    }

    /// Updates the newest step record with what is known about its calls. Values that an earlier activation
    /// recorded are kept.
    pub(super) fn note_calls(&self, open: &mut OpenCycle, acting: &Acting, changes: &[CallChange]) {
        let Some(record) = open.steps.last_mut() else { return };
        for row in acting.calls.iter().filter(|row| row.step == record.step) {
            let Some(noted) = usize::try_from(row.index).ok().and_then(|index| record.calls.get_mut(index))
            else {
                continue;
            };
            let changed = changes.iter().find(|change| change.id == row.id);
            let outcome = changed.and_then(|change| change.outcome.as_ref()).or(row.outcome.as_ref());
            let now = self.call_record(row, outcome, &acting.spans);
            noted.started_ms = now.started_ms.or(noted.started_ms);
            noted.took_ms = now.took_ms.or(noted.took_ms);
            noted.status = now.status.or(noted.status);
            noted.found = now.found.or(noted.found);
            noted.asked = now.asked.or(noted.asked.take());
        }
    }

    fn call_record(&self, row: &CallRow, outcome: Option<&Outcome>, spans: &[(CallId, Span)]) -> CallRecord {
        let span = spans.iter().find(|(call, _)| *call == row.id).map(|(_, span)| *span);
        CallRecord {
            tool: row.tool.clone(),
            started_ms: span.map(|span| self.offset(span.at)),
            took_ms: span.map(|span| span.ms),
            status: outcome.map(|outcome| outcome.status),
            repaired: None,
            found: outcome.filter(|_| row.tool == names::RECALL).and_then(|outcome| found(&outcome.text)),
            asked: row.approval.as_deref().map(|asked| PersonWait {
                asked_ms: self.offset(asked.asked_at),
                waited_ms: asked.by.as_ref().map(|by| between(asked.asked_at, by.at)),
                by: asked.by.as_ref().map(|by| by.name.clone()),
                approvers: asked.approvers.clone(),
            }),
        }
    }

    /// Milliseconds since the cycle opened.
    fn offset(&self, at: Timestamp) -> u64 {
        between(self.open.opened_at, at)
    }

    pub(super) fn run(
        &self,
        open: &OpenCycle,
        ending: Ending,
        reason: Option<String>,
        summary: Option<String>,
        now: Timestamp,
    ) -> Run {
        Run {
            id: open.id,
            agent: self.pinned.agent,
            ordinal: self.life.cycles + 1,
            woke_for: open.woke_for.clone(),
            // A cycle that has decided nothing has processed nothing.
            events: match open.decided {
                true => u32::try_from(open.taken.len()).unwrap_or(u32::MAX).saturating_add(open.injected),
                false => 0,
            },
            opened_at: open.opened_at,
            ended_at: now,
            steps: open.steps.clone(),
            usage: open.usage,
            cost_micros: self.cost_of(open),
            model: self.pinned.setup.model.name.clone(),
            config_rev: open.config_rev,
            ending,
            reason,
            summary,
        }
    }

    /// The cost of the cycle: each step at the price of its model, discarded replies and aborted generations included.
    fn cost_of(&self, open: &OpenCycle) -> Option<u64> {
        let unknown = |step: &StepRecord| step.usage.input.is_none() && step.usage.output.is_none();
        if !open.steps.is_empty() && open.steps.iter().all(unknown) {
            // Only estimates of aborted generations are known.
            return None;
        }
        let price_of = |name: &Option<String>| match name {
            None => self.pinned.setup.model.price,
            Some(name) => {
                let others = &self.pinned.setup.others;
                others.iter().find(|(_, info)| info.name == *name).and_then(|(_, info)| info.price)
            }
        };
        let all = |step: &StepRecord| {
            let mut usage = step.usage;
            usage.add(&step.aborted);
            usage.add(&step.discarded);
            usage
        };
        let add =
            |sum: u64, step: &StepRecord| Some(sum.saturating_add(price_of(&step.model)?.cost(&all(step))?));
        open.steps.iter().try_fold(0, add).filter(|_| !open.steps.is_empty())
    }

    /// Charges the tokens and the cost of a cycle that has no run.
    pub(super) fn charge_totals(&self, changes: &mut Changes, step: &Step, usage: Usage) {
        let mut all = usage;
        all.add(&self.open.usage);
        all.add(&self.open.estimated);
        let price = self.pinned.model(step.model.as_deref()).price;
        changes.cost_micros = price.and_then(|price| price.cost(&all));
        changes.usage = all;
    }
}

/// The beginning of the text that the reply has outside its calls, unless it is posted.
fn unsent_text(decision: &Decision) -> Option<String> {
    let text = text_of(&decision.model_reply.reply);
    let private = !text.is_empty() && !matches!(decision.text_reply, Some(TextReply::Posted(_)));
    private.then(|| head_and_tail(&text, limits::UNSENT_TEXT_MAX_BYTES))
}

/// Milliseconds from one time to another; 0 if the wall clock was set back.
fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millisecond() - from.as_millisecond()).unwrap_or(0)
}

/// A record of what the current step has wasted.
fn wasted(open: &OpenCycle) -> StepRecord {
    let Waste { interrupts, aborted, discarded } = open.vain;
    StepRecord { step: open.step, interrupts, aborted, discarded, ..StepRecord::default() }
}

/// How many milliseconds the oldest event of the step has waited at `now`.
fn waited(step: &Step, now: Timestamp) -> Option<u64> {
    let oldest = step.shown_events().map(|waiting| waiting.event.at).min()?;
    u64::try_from(now.as_millisecond() - oldest.as_millisecond()).ok()
}

/// How many texts a search of the archive found, by its outcome.
fn found(text: &str) -> Option<usize> {
    let reply: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(reply["found"].as_array()?.len())
}
