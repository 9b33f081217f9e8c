//! How a cycle comes to rest: ended, skipped, canceled, or given up for now.

use jiff::Timestamp;

use super::decide::outcomes;
use super::{After, Cycle, Next, Rested, State};
use crate::call::{CallState, Outcome, OutcomeStatus};
use crate::changes::{CallChange, Changes, CommitKind, Rest, Settlement};
use crate::entry::{Entry, EntryKind};
use crate::event::Fate;
use crate::life::{Finishing, OpenCycle, RestReason};
use crate::message::ModelMessage;
use crate::port::Price;
use crate::run::{Ending, Run, StepReceipt, Usage};

/// Bytes per token for notices, which are not worth a count.
const BYTES_PER_TOKEN: usize = 4;

impl Cycle {
    /// Makes `changes` the last commit of the cycle.
    pub(super) fn finish(
        &self,
        changes: &mut Changes,
        open: &OpenCycle,
        finishing: Finishing,
        now: Timestamp,
    ) -> Rested {
        let Finishing { ending, summary, reason } = finishing;
        if ending == Ending::Exhausted {
            let why = reason.as_deref().unwrap_or("a limit was reached");
            changes.notice = Some(Some(format!(
                "Your last cycle was cut off: {why}. What you had begun may be unfinished."
            )));
        }
        changes.open = None;
        changes.rest = Some(Rest { not_before: None, reason: None });
        changes.retire = self.config.ephemeral;
        changes.run = Some(self.receipt(open, ending, reason.clone(), summary, now));
        self.ended(ending, reason)
    }

    /// What the cycle cost: each step at the price of the model that answered it.
    fn cost_of(&self, open: &OpenCycle) -> Option<u64> {
        let price_of = |name: &Option<String>| match name {
            None => self.setup.model.price,
            Some(name) => {
                self.setup.others.iter().find(|(_, info)| info.name == *name).and_then(|(_, info)| info.price)
            }
        };
        let unknown = |step: &StepReceipt| step.usage.input.is_none() && step.usage.output.is_none();
        if !open.steps.is_empty() && open.steps.iter().all(unknown) {
            // What is known then is only the estimate of what was dropped.
            return None;
        }
        if open.steps.iter().all(|step| step.model.is_none()) {
            return cost(self.setup.model.price?, &open.usage);
        }
        let all = |step: &StepReceipt| {
            let mut usage = step.usage;
            usage.add(&step.aborted);
            usage
        };
        open.steps
            .iter()
            .try_fold(0u64, |sum, step| Some(sum.saturating_add(cost(price_of(&step.model)?, &all(step))?)))
    }

    fn receipt(
        &self,
        open: &OpenCycle,
        ending: Ending,
        reason: Option<String>,
        summary: Option<String>,
        now: Timestamp,
    ) -> Run {
        Run {
            id: open.id,
            agent: self.agent,
            ordinal: self.cycles + 1,
            woke_for: open.woke_for.clone(),
            events: u32::try_from(open.taken.len()).unwrap_or(u32::MAX).saturating_add(open.injected),
            opened_at: open.opened_at,
            ended_at: now,
            steps: open.steps.clone(),
            usage: open.usage,
            cost_micros: self.cost_of(open),
            model: self.setup.model.name.clone(),
            config_rev: open.config_rev,
            ending,
            reason,
            summary,
        }
    }

    /// `skip` as the only call of step 0: the log is not touched, there is no run.
    pub(super) fn skip(&self, reason: Option<String>, usage: Usage, now: Timestamp) -> State {
        let mut changes = self.changes(CommitKind::Close, now);
        changes.open = None;
        let fate = Fate::Skipped { reason: reason.clone() };
        let shown = self.taken.iter().chain(&self.injected);
        changes.settle = shown.map(|w| Settlement { seq: w.seq, fate: fate.clone() }).collect();
        changes.usage = usage;
        changes.usage.add(&self.open.usage);
        changes.rest = Some(Rest { not_before: None, reason: None });
        changes.retire = self.config.ephemeral;
        if self.failures > 0 {
            changes.failures = Some(0);
        }
        if self.batch_cap.is_some() && !self.suspects_left {
            changes.batch_cap = Some(None);
        }
        let rested = self.ended(Ending::Skipped, reason);
        State::Committing(Box::new(changes), After::Rest(rested))
    }

    /// Canceled: what is open is answered so, the log says so, and the events do not wake it again.
    pub(super) fn next_canceled(&mut self, now: Timestamp) -> Next {
        let mut changes = self.changes(CommitKind::Close, now);
        let reason = "canceled on request".to_owned();
        self.close_log(&mut changes, "[NOTICE] This cycle was canceled. Do not go on with it.", now);
        let fate = Fate::Canceled { reason: None };
        let shown = self.taken.iter().chain(&self.injected);
        changes.settle = shown.map(|w| Settlement { seq: w.seq, fate: fate.clone() }).collect();
        let mut open = self.open.clone();
        open.injected += u32::try_from(self.injected.len()).unwrap_or(u32::MAX);
        self.note_calls(&mut open, &changes.call_changes);
        let finishing = Finishing { ending: Ending::Canceled, summary: None, reason: Some(reason) };
        let rested = self.finish(&mut changes, &open, finishing, now);
        self.commit(changes, After::Rest(rested))
    }

    /// Answers open calls as canceled and appends what the log needs to be whole, with a notice.
    pub(super) fn close_log(&self, changes: &mut Changes, notice: &str, now: Timestamp) {
        let mut entries: Vec<Entry> = Vec::new();
        if self.unanswered() {
            let mut rows = self.calls.clone();
            changes.call_changes = self.arrivals();
            for row in rows.iter_mut().filter(|row| row.outcome.is_none()) {
                let arrived = changes.call_changes.iter().find(|change| change.id == row.id).cloned();
                let change = arrived.unwrap_or_else(|| CallChange {
                    id: row.id.clone(),
                    state: CallState::Done,
                    outcome: Some(broken_call(row.state)),
                });
                row.outcome.clone_from(&change.outcome);
                if !changes.call_changes.contains(&change) {
                    changes.call_changes.push(change);
                }
            }
            let message = outcomes(&rows.iter().collect::<Vec<_>>());
            entries.push(self.entry(1, EntryKind::Outcomes, message, now));
        }
        // What was canceled together with the cycle; else it waits, and is read another time.
        for shown in self.unlived.iter().filter(|_| self.cancel) {
            let ahead = entries.len() as u64 + 1;
            entries.push(self.entry(ahead, shown.kind, shown.message.clone(), now));
        }
        let ahead = entries.len() as u64 + 1;
        entries.push(self.entry(ahead, EntryKind::Notice, ModelMessage::user(notice), now));
        for entry in &mut entries {
            let bytes = entry.message.countable().len();
            entry.tokens = u32::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u32::MAX);
        }
        changes.entries = entries;
    }

    /// Ends the waking at this border of a step: a lived cycle parks, an untouched one is given back.
    pub(super) fn next_parked(&mut self, reason: &str, now: Timestamp) -> Next {
        let rest = Rest { not_before: Some(now), reason: None };
        let (changes, rested) = self.give_up(rest, reason, false, now);
        self.commit(changes, After::Rest(rested))
    }

    /// Parks a lived cycle, or gives an untouched one back, until `rest` allows it again.
    pub(super) fn give_up(&self, rest: Rest, reason: &str, blame: bool, now: Timestamp) -> (Changes, Rested) {
        let (until, kept_back) = (rest.not_before, rest.reason);
        let mut changes = self.changes(CommitKind::Park, now);
        if self.open.lived {
            if let Some(open) = changes.open.as_mut() {
                // The opening counted an attempt; it stands where the content was at fault.
                open.attempts = open.attempts.saturating_sub(u32::from(!blame));
                open.wary |= blame && !self.injected.is_empty();
                // What the step has shown waits, and is shown again.
                open.shown.clear();
            }
        } else {
            changes.kind = CommitKind::Close;
            changes.open = None;
            changes.blame = blame;
            changes.usage = self.open.usage;
            changes.settle =
                self.taken.iter().map(|w| Settlement { seq: w.seq, fate: Fate::Waiting }).collect();
        }
        changes.rest = Some(rest);
        let (cycle, reason) = (self.open.id, reason.to_owned());
        (changes, Rested::Parked { cycle, until, rest: kept_back, reason })
    }

    /// A rest with its reason.
    pub(super) fn rest_until(until: Timestamp, reason: RestReason) -> Rest {
        Rest { not_before: Some(until), reason: Some(reason) }
    }
}

fn broken_call(state: CallState) -> Outcome {
    let (status, text) = match state {
        CallState::Started => (OutcomeStatus::Unknown, "canceled while it ran; unknown whether it happened"),
        _ => (OutcomeStatus::Canceled, "canceled"),
    };
    Outcome { status, text: text.into(), detail: None }
}

/// Micro-dollars; `None` where the provider did not report what it is charged for.
fn cost(price: Price, usage: &Usage) -> Option<u64> {
    let (input, output) = (usage.input?, usage.output?);
    let cached = usage.cached.unwrap_or(0).min(input);
    let sum = (input - cached)
        .saturating_mul(price.input)
        .saturating_add(cached.saturating_mul(price.cached))
        .saturating_add(output.saturating_mul(price.output));
    Some(sum / 1_000_000)
}
