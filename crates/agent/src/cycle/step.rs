//! One step: what it is shown in addition to the log, how it is asked, and what was spent on it in vain. It
//! ends by being replaced.

use std::sync::Arc;

use jiff::Timestamp;

use super::{ActivationEnd, At, Cycle, State};
use crate::changes::{Changes, Settlement};
use crate::config::{Gate, WantedChoice};
use crate::entry::{Entry, EntryKind};
use crate::event::{EventState, Waiting};
use crate::inbox::{self, Batch};
use crate::life::{Glimpse, Layer, OpenCycle};
use crate::message::ModelMessage;
use crate::prepare::{Prepared, Situation, prepare};
use crate::prompt::ToolChoice;
use crate::run::Usage;

/// A step that is not decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    /// The events of the batch; none after the first decision.
    pub(super) taken: Vec<Waiting>,
    /// Events that are shown in addition to them.
    pub(super) injected: Vec<Waiting>,
    /// Entries that the decision appends before its own: the inbox entry where nothing is processed yet,
    /// injections.
    pub(super) entries: Vec<Arc<Entry>>,
    /// What messages of the step descend from, where an injection changed it.
    pub(super) cause: Option<Batch>,
    pub(super) previewed: Glimpse,
    /// Whether it has shown what the agent asked to see.
    pub(super) peeked: bool,
    /// What may be called.
    pub(super) gate: Option<Gate>,
    pub(super) choice: ToolChoice,
    /// Who answers; `None` is the agent's own model.
    pub(super) model: Option<String>,
    /// When it was first asked, in this activation.
    pub(super) asked_first: Option<Timestamp>,
    /// Entries that are not sent any more, since there was no room for them.
    pub(super) left_out: u32,
    /// Times that it was cut to half, since a vendor refused it as too long.
    pub(super) cut: u32,
    /// Whether it was rebuilt, since a vendor refused it as invalid.
    pub(super) rebuilt: bool,
}

impl Step {
    /// The step that a cycle thinks next.
    pub(super) fn next(open: &OpenCycle) -> Box<Self> {
        Box::new(Self { previewed: open.previewed, ..Self::default() })
    }

    /// Events that it is shown.
    pub(super) fn in_sight(&self) -> impl Iterator<Item = &Waiting> {
        self.taken.iter().chain(&self.injected)
    }

    pub(super) fn seqs(&self) -> Vec<u64> {
        self.in_sight().map(|waiting| waiting.seq).collect()
    }

    /// Whether it was shown something that its cycle did not know: in full, or in a preview.
    pub(super) fn shows_more_than(&self, open: &OpenCycle) -> bool {
        !self.injected.is_empty() || self.previewed != open.previewed
    }

    /// The same end for everything that it was shown.
    pub(super) fn settled(&self, state: &EventState) -> Vec<Settlement> {
        self.in_sight().map(|shown| Settlement { seq: shown.seq, state: state.clone() }).collect()
    }

    /// Bytes of what it is shown in addition to the window and the layers.
    pub(super) fn shown_bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.message.text().len()).sum()
    }

    /// Seqs of all events that the cycle was shown, by the numbers under which they were listed.
    pub(super) fn listed(&self, open: &OpenCycle) -> Vec<u64> {
        let mut listed = open.listed.clone();
        listed.extend(inbox::listed(&self.taken));
        listed.extend(self.injected.iter().map(|waiting| waiting.seq));
        listed
    }

    /// Why the tool may not be called.
    pub(super) fn gated(&self, tool: &str) -> Option<String> {
        let gate = self.gate.as_ref().filter(|gate| !gate.allows(tool))?;
        let allowed = match (&gate.active_tools, gate.tool_choice) {
            (Some(active), WantedChoice::Auto | WantedChoice::Required) if !active.is_empty() => {
                format!("{}, skip and done", active.join(", "))
            }
            _ => "skip and done".to_owned(),
        };
        Some(format!("`{tool}` may not be called now ({}); you may call {allowed}", gate.steps()))
    }
}

impl Cycle {
    /// Renders the entry that the first step is shown and the workspace behind it, once.
    pub(super) fn show_inbox(&mut self, step: &mut Step, now: Timestamp) {
        if self.open.decided || !step.entries.is_empty() {
            return;
        }
        let text = inbox::format_inbox(&step.taken, now, self.row.notice.as_deref());
        let entry = self.entry(1, EntryKind::Inbox, ModelMessage::user(text), now);
        let workspace =
            crate::workspace::render(&self.who.entity, &self.outside.facts, self.row.active_space, now);
        self.log.layers = vec![Layer { after: entry.seq, text: workspace.into() }];
        step.entries = vec![Arc::new(entry)];
    }

    /// How the step is asked; as long as nothing is processed, with as little of the log as fits.
    pub(super) fn prepare_narrowed(&mut self, step: &mut Step, now: Timestamp) -> Prepared {
        let mut prepared = self.prepare(step, now);
        while let Some(view) = prepared.view.take_if(|_| !self.open.decided) {
            step.left_out += self.log.adopt(view);
            prepared = self.prepare(step, now);
        }
        prepared
    }

    /// Prepares the step; nothing is shown yet.
    pub(super) fn prepare(&self, step: &Step, now: Timestamp) -> Prepared {
        let in_hand = step.seqs();
        let shown = self.log.layer_bytes() + step.shown_bytes();
        let budget = |model: Option<&str>| self.who.budget(model, shown);
        let fallen = self.outside.fallen.checked_sub(1).and_then(|at| self.who.config.fallback.get(at));
        let injected = self.log.of(self.open.id).chain(&step.entries);
        let injected = injected.filter(|entry| entry.kind == EntryKind::Injection);
        let injected: usize = injected.map(|entry| entry.message.text().len()).sum();
        prepare(&Situation {
            config: &self.who.config,
            step: self.open.step,
            decided: self.open.decided,
            held_back: self.open.held_back,
            interrupted: self.open.vain.interrupts > 0,
            suspect: self.is_suspect(step),
            peek: if step.peeked { 0 } else { self.open.peek },
            previewed: step.previewed,
            fallback: fallen.map(String::as_str),
            waits: &self.outside.waits,
            in_hand: &in_hand,
            requesters: &self.open.requesters,
            room: self.injection_room(step),
            max_bytes: self.who.batch_bytes(step.model.as_deref()).saturating_sub(injected),
            view: &self.log.view,
            window: &self.log.window,
            cycle: self.open.decided.then_some(self.open.id),
            last_model: self.open.decided.then_some(&self.open.model),
            budget: &budget,
            now,
        })
    }

    /// Shows what was prepared, at the end of all that is shown.
    pub(super) fn show(&mut self, step: &mut Step, prepared: Prepared, now: Timestamp) {
        if !prepared.inject.is_empty() {
            self.inject(step, prepared.inject, now);
        }
        let after = self.log.head_seq + step.entries.len() as u64;
        for text in prepared.layers {
            let known = |layer: &Layer| layer.after >= self.log.head_seq && *layer.text == *text;
            if !self.log.layers.iter().any(known) {
                self.log.layers.push(Layer { after, text: text.into() });
            }
        }
        step.peeked = true;
        step.previewed = prepared.previewed;
        step.gate = prepared.gate;
        step.choice = prepared.choice;
        step.model = prepared.model;
    }

    fn inject(&self, step: &mut Step, events: Vec<Waiting>, now: Timestamp) {
        let text = inbox::format_injection(&events, step.listed(&self.open).len() + 1, now);
        let ahead = step.entries.len() as u64 + 1;
        let entry = self.entry(ahead, EntryKind::Injection, ModelMessage::user(text), now);
        step.entries.push(Arc::new(entry));
        let order: Vec<u64> = inbox::listed(&events).collect();
        let mut shown = events;
        shown.sort_by_key(|waiting| order.iter().position(|seq| *seq == waiting.seq));
        step.injected.extend(shown);
        let more = inbox::batch(step.injected.clone());
        // A person's word is a cause of its own, also in the middle: what is said from here on descends
        // from it. Among agents the longest chain counts.
        let deeper = self.open.by_agents && more.hop > self.open.hop;
        step.cause = (!more.by_agents || deeper).then_some(more);
    }

    /// Events left before they could be processed: the step is thought again without them. Where the activation
    /// is about one of them, it is out of date.
    pub(super) fn without(&mut self, mut step: Box<Step>, gone: &[u64], now: Timestamp) -> State {
        let left = |waiting: &Waiting| !gone.contains(&waiting.seq);
        let known = |seq: &u64| step.injected.iter().any(|waiting| waiting.seq == *seq);
        if !gone.iter().all(known) {
            return State::Finished(ActivationEnd::Lost);
        }
        self.outside.waits.urgent.retain(left);
        self.outside.waits.oldest.retain(left);
        let mut shown = std::mem::take(&mut step.injected);
        shown.retain(left);
        step.entries.retain(|entry| entry.kind != EntryKind::Injection);
        let end = self.log.head_seq + step.entries.len() as u64;
        self.log.layers.retain(|layer| layer.after <= end);
        step.previewed = self.open.previewed;
        step.cause = None;
        if !shown.is_empty() {
            self.inject(&mut step, shown, now);
        }
        State::Ready(step)
    }

    /// Whether nothing new is let in: one of the events may be poison, and is tried without company; or what
    /// was let in has failed the step.
    pub(super) fn is_suspect(&self, step: &Step) -> bool {
        let failed = |waiting: &Waiting| waiting.attempts > 0 || waiting.deaths > 0;
        self.open.suspect || (!self.open.decided && step.taken.iter().any(failed))
    }

    /// Whether the process has died during this step or over these events.
    pub(super) fn process_died(&self, step: &Step) -> bool {
        self.open.deaths > 0 || step.taken.iter().any(|waiting| waiting.deaths > 0)
    }

    /// A generation was dropped after about so many tokens. Nobody reports what it took, so it is
    /// estimated; `None`: there was none.
    pub(super) fn charge(&mut self, step: &Step, tokens: Option<u64>) {
        let Some(output) = tokens else { return };
        let shown = crate::tokens::at_most(self.log.layer_bytes() + step.shown_bytes());
        let input = self.log.tokens() + self.who.fixed_tokens + shown;
        let usage = Usage { input: Some(input), output: Some(output), ..Usage::default() };
        self.open.tokens = self.open.tokens.saturating_add(output);
        self.open.estimated.add(&usage);
        self.open.vain.aborted.add(&usage);
    }

    /// Nothing comes of a reply that used this.
    pub(super) fn discard(&mut self, usage: &Usage) {
        self.open.usage.add(usage);
        self.open.vain.discarded.add(usage);
    }

    /// Events that may still be injected: in one cycle as many as an activation takes.
    pub(super) fn injection_room(&self, step: &Step) -> u32 {
        let shown = self.open.injected + u32::try_from(step.injected.len()).unwrap_or(u32::MAX);
        self.who.config.limits.events_per_cycle.saturating_sub(shown)
    }

    /// Everything that the step was shown is processed by its decision, and what was shown beside it is
    /// kept for whoever continues the cycle.
    pub(super) fn live_shown(&self, step: &Step, changes: &mut Changes, open: &mut OpenCycle) {
        changes.settle = step.settled(&EventState::Processed { cycle: open.id, step: open.step });
        changes.layers = self.log.new_layers();
        open.listed = step.listed(open);
        open.previewed = step.previewed;
        open.model.clone_from(&step.model);
        open.peek = 0;
        if step.injected.is_empty() {
            return;
        }
        open.held_back = false;
        open.injected += u32::try_from(step.injected.len()).unwrap_or(u32::MAX);
        let more = inbox::batch(step.injected.clone());
        open.trust = open.trust.min(more.trust);
        // What was said there before does not address what is shown only now.
        open.addressed
            .retain(|space| !more.requesters.iter().any(|requester| requester.space == Some(*space)));
        for requester in more.requesters {
            if !open.requesters.contains(&requester) {
                open.requesters.push(requester);
            }
        }
        if let Some(cause) = &step.cause {
            open.root.clone_from(&cause.root);
            open.hop = cause.hop;
            open.by_agents = cause.by_agents;
        }
    }

    /// Whether the step must not go without a call.
    pub(super) fn must_call(&self, step: &Step) -> bool {
        self.who.config.stop.require_tool
            || step.gate.as_ref().is_some_and(|gate| gate.tool_choice == WantedChoice::Required)
    }

    /// An entry of this step, `ahead` places behind the last one, its tokens counted.
    pub(super) fn entry(&self, ahead: u64, kind: EntryKind, message: ModelMessage, at: Timestamp) -> Entry {
        let tokens = crate::tokens::estimate(&message.countable());
        let seq = self.log.head_seq + ahead;
        Entry { seq, cycle: self.open.id, step: self.open.step, kind, message, tokens, at }
    }
}

impl From<Box<Step>> for At {
    fn from(step: Box<Step>) -> Self {
        Self::Step(step)
    }
}
