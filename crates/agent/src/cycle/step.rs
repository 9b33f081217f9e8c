//! What the step in hand is shown besides the log, and what follows for the cycle from showing it.

use std::sync::Arc;

use jiff::Timestamp;

use super::Cycle;
use crate::changes::{Changes, Settlement};
use crate::config::WantedChoice;
use crate::entry::{Entry, EntryKind};
use crate::event::{Fate, Waiting};
use crate::id::ContentRef;
use crate::inbox;
use crate::life::{Layer, LayerRef, OpenCycle};
use crate::message::ModelMessage;
use crate::port::ModelInfo;
use crate::prepare::{Prepared, Situation, prepare};
use crate::prompt::ToolChoice;
use crate::run::Usage;
use crate::view::Budget;

/// Bytes of shown text that a token stands for at least, on average. Used only to bound a batch.
const BYTES_PER_TOKEN: u64 = 3;

impl Cycle {
    /// Prepares the step in hand; nothing is shown yet.
    pub(super) fn prepare(&self, now: Timestamp) -> Prepared {
        let in_hand = self.in_hand();
        let budget = |voice: Option<&str>| self.budget_of(voice);
        prepare(&Situation {
            config: &self.config,
            step: self.open.step,
            lived: self.open.lived,
            held_back: self.open.held_back,
            interrupted: self.aborted > 0,
            wary: self.is_wary(),
            peek: if self.peeked { 0 } else { self.open.peek },
            previewed: self.previewed,
            fallback: self
                .fallen
                .checked_sub(1)
                .and_then(|at| self.config.fallback.get(at))
                .map(String::as_str),
            waits: &self.waits,
            in_hand: &in_hand,
            requesters: &self.open.requesters,
            room: self.injection_room(),
            max_bytes: batch_bytes(self.model(self.voice())).saturating_sub(self.injected_bytes()),
            view: &self.view,
            window: &self.window,
            cycle: self.open.lived.then_some(self.open.id),
            last_voice: self.open.lived.then_some(&self.open.voice),
            budget: &budget,
            now,
        })
    }

    /// Shows what was prepared, at the end of all that is shown.
    pub(super) fn show(&mut self, prepared: Prepared, now: Timestamp) {
        if !prepared.inject.is_empty() {
            self.inject(prepared.inject, now);
        }
        let after = self.head_seq + self.unlived.len() as u64;
        for text in prepared.layers {
            let known = |layer: &Layer| layer.after >= self.head_seq && *layer.text == *text;
            if !self.layers.iter().any(known) {
                self.layers.push(Layer { after, text: text.into() });
            }
        }
        self.peeked = true;
        self.previewed = prepared.previewed;
        self.gate = prepared.gate;
        self.choice = prepared.choice;
        self.voice = prepared.voice;
    }

    fn inject(&mut self, events: Vec<Waiting>, now: Timestamp) {
        let text = inbox::format_injection(&events, self.listed().len() + 1, now);
        let ahead = self.unlived.len() as u64 + 1;
        let entry = self.entry(ahead, EntryKind::Injection, ModelMessage::user(text), now);
        self.unlived.push(Arc::new(entry));
        let order: Vec<u64> = inbox::listed(&events).collect();
        let mut shown = events;
        shown.sort_by_key(|waiting| order.iter().position(|seq| *seq == waiting.seq));
        self.injected.extend(shown);
        let more = inbox::batch(self.injected.clone());
        // A person's word is a cause of its own, also in the middle: what is said from here on descends
        // from it. Among agents the longest chain counts.
        let deeper = self.open.by_agents && more.hop > self.open.hop;
        self.cause = (!more.by_agents || deeper).then_some(more);
    }

    /// The open cycle with the names of what the step shows besides, where the store does not know them
    /// yet: what the model is shown can no longer be taken back or put together with others.
    pub(super) fn naming(&self) -> Option<OpenCycle> {
        let shown: Vec<u64> = self.injected.iter().map(|waiting| waiting.seq).collect();
        (shown != self.open.shown).then(|| OpenCycle { shown, ..self.open.clone() })
    }

    /// Events left before they could be named or lived: the step is thought again without them. Where the
    /// waking is about one of them, it is out of date.
    pub(super) fn without(&mut self, gone: &[u64], now: Timestamp) {
        let left = |waiting: &Waiting| !gone.contains(&waiting.seq);
        let known = |seq: &u64| self.injected.iter().any(|waiting| waiting.seq == *seq);
        if !gone.iter().all(known) {
            self.state = super::State::Rest(super::Rested::Lost);
            return;
        }
        self.waits.urgent.retain(left);
        self.waits.oldest.retain(left);
        let mut shown = std::mem::take(&mut self.injected);
        shown.retain(left);
        self.unlived.retain(|entry| entry.kind != EntryKind::Injection);
        let end = self.head_seq + self.unlived.len() as u64;
        self.layers.retain(|layer| layer.after <= end);
        self.previewed = self.open.previewed;
        self.cause = None;
        if !shown.is_empty() {
            self.inject(shown, now);
        }
        self.state = super::State::Ready;
    }

    /// Whether nothing new is let in: one of the events in hand may be poison, and is tried without company;
    /// or what was let in has failed the step.
    pub(super) fn is_wary(&self) -> bool {
        self.open.wary || (!self.open.lived && self.batch_cap.is_some())
    }

    /// A generation was dropped after about so many tokens. Whoever drops one is not told what it took, so
    /// it is estimated; `None`: there was none.
    pub fn charge(&mut self, tokens: Option<u64>) {
        let Some(output) = tokens else { return };
        let window: u64 = self.window.iter().map(|entry| u64::from(entry.tokens)).sum();
        let input = window + self.fixed_tokens + super::think::estimate(self.shown_bytes());
        self.open.tokens = self.open.tokens.saturating_add(output);
        self.waste(&Usage { input: Some(input), output: Some(output), ..Usage::default() });
    }

    /// Nothing comes of what was used.
    pub fn waste(&mut self, usage: &Usage) {
        self.wasted.add(usage);
        self.open.usage.add(usage);
    }

    /// Events that may still be injected: in one cycle as many as a waking takes.
    pub(super) fn injection_room(&self) -> u32 {
        let shown = self.open.injected + u32::try_from(self.injected.len()).unwrap_or(u32::MAX);
        self.config.limits.events_per_cycle.saturating_sub(shown)
    }

    /// Bytes of what was injected into the cycle so far.
    fn injected_bytes(&self) -> usize {
        let own = self.window.iter().filter(|entry| entry.cycle == self.open.id);
        let injected = own.chain(&self.unlived).filter(|entry| entry.kind == EntryKind::Injection);
        injected.map(|entry| entry.message.text().len()).sum()
    }

    /// Seqs of all events that the cycle was shown, by the numbers under which they were listed.
    pub(super) fn listed(&self) -> Vec<u64> {
        let mut listed = self.open.listed.clone();
        listed.extend(inbox::listed(&self.taken));
        listed.extend(self.injected.iter().map(|waiting| waiting.seq));
        listed
    }

    /// Seqs of events that are taken or shown, and not settled.
    pub(super) fn in_hand(&self) -> Vec<u64> {
        self.taken.iter().chain(&self.injected).map(|waiting| waiting.seq).collect()
    }

    /// Everything that the step was shown is lived by its decision, and what was shown beside it is
    /// kept for whoever continues the cycle.
    pub(super) fn live_shown(&self, changes: &mut Changes, open: &mut OpenCycle) {
        let fate = Fate::Lived { cycle: open.id, step: open.step };
        let shown = self.taken.iter().chain(&self.injected);
        changes.settle = shown.map(|w| Settlement { seq: w.seq, fate: fate.clone() }).collect();
        for layer in &self.layers {
            let content = ContentRef::of(layer.text.as_bytes());
            let named = LayerRef { after: layer.after, content };
            if !open.layers.contains(&named) {
                open.layers.push(named);
                changes.layers.push(layer.clone());
            }
        }
        open.listed = self.listed();
        open.previewed = self.previewed;
        open.voice.clone_from(&self.voice);
        open.peek = 0;
        open.shown.clear();
        if self.injected.is_empty() {
            return;
        }
        open.held_back = false;
        open.injected += u32::try_from(self.injected.len()).unwrap_or(u32::MAX);
        let more = inbox::batch(self.injected.clone());
        open.trust = open.trust.min(more.trust);
        // What was said there before does not address what is shown only now.
        open.addressed
            .retain(|space| !more.requesters.iter().any(|requester| requester.space == Some(*space)));
        for requester in more.requesters {
            if !open.requesters.contains(&requester) {
                open.requesters.push(requester);
            }
        }
        if let Some(cause) = &self.cause {
            open.root.clone_from(&cause.root);
            open.hop = cause.hop;
            open.by_agents = cause.by_agents;
        }
    }

    /// The step is decided: nothing of what it was shown is open any more.
    pub(super) fn forget_shown(&mut self) {
        self.unlived.clear();
        self.taken.clear();
        self.injected.clear();
        self.cause = None;
        self.peeked = false;
        self.aborted = 0;
        self.wasted = Usage::default();
        self.asked_first = None;
        self.mended = super::Mended::default();
    }

    /// Something urgent of a requester came before a call that cannot be repeated: none of them begins,
    /// and the model decides again when it has seen it.
    pub(super) fn hold_back(&mut self) {
        let text = "not begun: something newer of whoever asked for this came first and is shown to you next. \
                    Nothing was done; decide again.";
        self.leave_unsafe(text);
        self.open.held_back = true;
        self.open.finishing = None;
        self.state = super::State::Acting;
    }

    /// What is known of a model that the config names; `None` is the agent's own.
    pub(super) fn model(&self, voice: Option<&str>) -> &ModelInfo {
        let other = voice.and_then(|voice| self.setup.others.iter().find(|(name, _)| name == voice));
        other.map_or(&self.setup.model, |(_, info)| info)
    }

    /// Room for entries with that model.
    pub(super) fn budget_of(&self, voice: Option<&str>) -> Budget {
        let (model, shown) = (self.model(voice), super::think::estimate(self.shown_bytes()));
        Budget::of(model.context_window, model.max_output, self.fixed_tokens, shown)
    }

    /// Bytes of what is sent besides the window.
    fn shown_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.text.len()).sum::<usize>()
            + self.unlived.iter().map(|entry| entry.message.text().len()).sum::<usize>()
    }

    /// Whether the vendor is made to force a call, as far as it can be.
    pub(super) fn forced(&self) -> ToolChoice {
        match self.choice {
            ToolChoice::Required if !self.model(self.voice()).forced_tool_choice => ToolChoice::Auto,
            choice => choice,
        }
    }

    /// Why the tool may not be called in the step in hand.
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

    /// Whether the step must not go without a call.
    pub(super) fn must_call(&self) -> bool {
        self.config.stop.require_tool
            || self.gate.as_ref().is_some_and(|gate| gate.tool_choice == WantedChoice::Required)
    }

    /// The entries that the step's decision appends before its own.
    pub(super) fn shown_entries(&self) -> impl Iterator<Item = &Entry> {
        self.unlived.iter().map(|entry| &**entry)
    }
}

/// Bytes of events that may be shown at once: a quarter of the window.
pub(super) fn batch_bytes(model: &ModelInfo) -> usize {
    let room = Budget::of(model.context_window, model.max_output, 0, 0).tokens / 4;
    usize::try_from(room * BYTES_PER_TOKEN).unwrap_or(usize::MAX)
}
