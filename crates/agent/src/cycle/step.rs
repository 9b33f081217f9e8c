//! One step: what it is shown in addition to the log, how the model is called, and which tokens were wasted.

use std::sync::Arc;

use jiff::Timestamp;

use super::{ActivationEnd, At, Cycle, State};
use crate::changes::{Changes, Settlement};
use crate::config::{Gate, WantedChoice};
use crate::entry::{Compaction, Entry, EntryKind, View};
use crate::event::{EventState, Trust, Waiting};
use crate::inbox::{self, Batch};
use crate::layer::{self, Known, Layer, LayerKind};
use crate::life::{OpenCycle, Previewed};
use crate::limits;
use crate::message::ModelMessage;
use crate::prepare::{Prepared, Situation, prepare};
use crate::prompt::ToolChoice;
use crate::run::Usage;
use crate::workspace::{self, Moment};

/// A step without a decision.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    /// The events of the batch; empty after the first decision.
    pub(super) taken: Vec<Waiting>,
    /// Further events that are shown.
    pub(super) injected: Vec<Waiting>,
    /// Entries that the decision appends before its own: the inbox entry (first step only) and injections.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The cause of the step's messages, if an injection changed it.
    pub(super) cause: Option<Batch>,
    /// What the last preview showed.
    pub(super) previewed: Previewed,
    /// Whether the events that the agent asked to see are shown.
    pub(super) peeked: bool,
    /// The view for which it shows the workspace.
    pub(super) workspace: Option<u64>,
    /// Which tools may be called; `None` is all.
    pub(super) gate: Option<Gate>,
    pub(super) choice: ToolChoice,
    /// The model that is called; `None` is the agent's own.
    pub(super) model: Option<String>,
    /// When the model was first called for this step in this activation.
    pub(super) first_called: Option<Timestamp>,
    /// Entries that are left out for lack of room.
    pub(super) left_out: u32,
    /// How often the log was halved because a vendor refused the request as too long.
    pub(super) cut: u32,
    /// Whether the transcript was rebuilt because a vendor refused the request as invalid.
    pub(super) rebuilt: bool,
    /// The lowest trust of what its requests have shown.
    pub(super) read: Option<Trust>,
}

impl Step {
    /// The next step of an open cycle.
    pub(super) fn next(open: &OpenCycle) -> Box<Self> {
        Box::new(Self { previewed: open.previewed, ..Self::default() })
    }

    /// All events that the step shows.
    pub(super) fn shown_events(&self) -> impl Iterator<Item = &Waiting> {
        self.taken.iter().chain(&self.injected)
    }

    pub(super) fn seqs(&self) -> Vec<u64> {
        self.shown_events().map(|waiting| waiting.seq).collect()
    }

    /// Whether the step shows events that are new to its cycle, in full or in a preview.
    pub(super) fn shows_more_than(&self, open: &OpenCycle) -> bool {
        !self.injected.is_empty() || self.previewed != open.previewed
    }

    /// Settles all events of the step with this state.
    pub(super) fn settled(&self, state: &EventState) -> Vec<Settlement> {
        self.shown_events().map(|shown| Settlement { seq: shown.seq, state: state.clone() }).collect()
    }

    /// Tokens that the step shows in addition to the window and the layers.
    pub(super) fn shown_tokens(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.tokens)).sum()
    }

    /// Seqs of all events that the cycle was shown, in the order of their list numbers.
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
    /// Renders the inbox entry of the first step, once.
    pub(super) fn show_inbox(&mut self, step: &mut Step, now: Timestamp) {
        if self.open.decided || !step.entries.is_empty() {
            return;
        }
        let text = inbox::format_inbox(&step.taken, now, self.life.notice.as_deref());
        // The workspace quotes these messages right behind the entry.
        let trust = self.outside.recent.iter().map(|message| message.trust).fold(self.open.trust, Trust::min);
        let entry = self.entry(1, EntryKind::Inbox, ModelMessage::user(text), trust, now);
        self.log.drop_new_layers();
        step.entries = vec![Arc::new(entry)];
    }

    /// Shows what the request must show of the workspace: the whole of it where the view has none yet, else the lines that
    /// have changed. Before the first decision that is done once, right behind the inbox entry. Returns the view that begins
    /// anew if the changes have no more room; then nothing is shown.
    pub(super) fn show_workspace(&mut self, step: &mut Step, now: Timestamp) -> Option<View> {
        let view = self.log.view.layers_from;
        let shown = step.entries.len() as u64;
        let ahead = if self.open.decided { shown } else { shown.min(1) };
        if !self.open.decided && step.workspace == Some(view) {
            return None;
        }
        let whole = !self.log.shown_layers().any(|layer| layer.kind == LayerKind::Whole);
        let (kind, rendered) = match whole {
            true => (LayerKind::Whole, self.moment(now).whole()),
            false => (LayerKind::Update, self.workspace_update(step, now)),
        };
        step.workspace = Some(view);
        let workspace::Rendered { text, shown } = rendered?;
        let layer =
            Layer { shown, ..Layer::new(kind, self.log.view.rev, self.log.head_seq + ahead, text.into()) };
        if kind == LayerKind::Update && layer::is_tail_full(self.log.shown_layers(), layer.tokens) {
            let (view, head) = (&self.log.view, self.log.head_seq);
            let (rev, layers_from) = (view.rev + 1, view.rev + 1);
            return Some(View { rev, layers_from, reasoning_from: head + 1, ..view.clone() });
        }
        self.log.show(layer);
        None
    }

    fn moment(&self, now: Timestamp) -> Moment<'_> {
        self.pinned.moment(&self.outside, self.life.active_space, now)
    }

    /// What has changed in the workspace since it was shown. What the agent itself has just changed it knows from the outcomes
    /// of its calls.
    fn workspace_update(&mut self, step: &Step, now: Timestamp) -> Option<workspace::Rendered> {
        let own = std::mem::take(&mut self.outside.own_changes);
        let mut known = Known::of(self.log.shown_layers());
        for (part, item, line) in &self.log.known {
            known.set(*part, item, *line);
        }
        if !own.is_empty() {
            let own = self.moment(now).own(&own, &known);
            own.iter().for_each(|(part, item, line)| known.set(*part, item, *line));
            self.log.known.extend(own);
        }
        // The inbox entry shows the time, too.
        let entries = self.log.of_cycle(self.open.id).chain(&step.entries);
        let inbox = entries.filter(|entry| entry.kind == EntryKind::Inbox).map(|entry| entry.at).max();
        known.clock = known.clock.max(inbox);
        // A parked cycle goes on at another time.
        let parked = self.pinned.awake_before > 0;
        let stale = if parked { limits::CLOCK_STALE_PARKED_MINUTES } else { limits::CLOCK_STALE_MINUTES };
        self.moment(now).update(&known, stale)
    }

    /// Prepares the step. Before the first decision, leaves out the entries that do not fit.
    pub(super) fn prepare_narrowed(&mut self, step: &mut Step, now: Timestamp) -> Prepared {
        let mut prepared = self.prepare(step, now);
        while let Some(view) = prepared.view.take_if(|_| !self.open.decided) {
            step.left_out += self.log.narrow(self.at_once(view, Compaction::NO_TIME));
            // The new view shows nothing of the workspace yet, so this begins no other.
            self.show_workspace(step, now);
            prepared = self.prepare(step, now);
        }
        prepared
    }

    /// Prepares the step without showing anything.
    pub(super) fn prepare(&self, step: &Step, now: Timestamp) -> Prepared {
        let in_progress = step.seqs();
        let shown = self.log.layer_tokens() + step.shown_tokens();
        let budget = |model: Option<&str>| self.pinned.budget(model, shown);
        let fallback =
            self.outside.fallbacks_used.checked_sub(1).and_then(|at| self.pinned.config.fallback.get(at));
        let injected = self.log.of_cycle(self.open.id).chain(&step.entries);
        let injected = injected.filter(|entry| entry.kind == EntryKind::Injection);
        let injected: usize = injected.map(|entry| entry.message.text().len()).sum();
        prepare(&Situation {
            config: &self.pinned.config,
            step: self.open.step,
            decided: self.open.decided,
            held_back: self.open.held_back,
            interrupted: self.open.vain.interrupts > 0,
            suspect: self.is_suspect(step),
            peek: if step.peeked { 0 } else { self.open.peek },
            previewed: step.previewed,
            fallback: fallback.map(String::as_str),
            waits: &self.outside.waits,
            in_progress: &in_progress,
            requesters: &self.open.requesters,
            room: self.injection_room(step),
            max_bytes: self.pinned.batch_bytes(step.model.as_deref()).saturating_sub(injected),
            anew: self.open.decided && self.log.is_anew(),
            view: &self.log.view,
            window: &self.log.window,
            cycle: self.open.decided.then_some(self.open.id),
            last_model: self.open.decided.then_some(&self.open.model),
            budget: &budget,
            now,
        })
    }

    /// Adds what was prepared to the end of the prompt.
    pub(super) fn show(&mut self, step: &mut Step, prepared: Prepared, now: Timestamp) {
        if !prepared.inject.is_empty() {
            self.inject(step, prepared.inject, now);
        }
        let after = self.log.head_seq + step.entries.len() as u64;
        for (kind, text) in prepared.layers {
            let known = |layer: &Layer| layer.after >= self.log.head_seq && *layer.text == *text;
            if !self.log.shown_layers().any(known) {
                self.log.show(Layer::new(kind, self.log.view.rev, after, text.into()));
            }
        }
        step.peeked = true;
        step.previewed = prepared.previewed;
        step.gate = prepared.gate;
        step.choice = prepared.choice;
        step.model = prepared.model;
        step.read = Some(self.exposure(step).trust);
    }

    fn inject(&self, step: &mut Step, events: Vec<Waiting>, now: Timestamp) {
        let text = inbox::format_injection(&events, step.listed(&self.open).len() + 1, now);
        let ahead = step.entries.len() as u64 + 1;
        let trust = inbox::lowest_trust(&events);
        let entry = self.entry(ahead, EntryKind::Injection, ModelMessage::user(text), trust, now);
        step.entries.push(Arc::new(entry));
        let order: Vec<u64> = inbox::listed(&events).collect();
        let mut shown = events;
        shown.sort_by_key(|waiting| order.iter().position(|seq| *seq == waiting.seq));
        step.injected.extend(shown);
        let more = inbox::batch(step.injected.clone());
        // A person's event becomes the cause of all later messages of the cycle. Among agents the longest chain
        // counts.
        let deeper = self.open.by_agents && more.hop > self.open.hop;
        step.cause = (!more.by_agents || deeper).then_some(more);
    }

    /// Some events are no longer waiting: the step is retried without them. If one of them belongs to the batch,
    /// the activation is outdated.
    pub(super) fn retry_without(&mut self, mut step: Box<Step>, gone: &[u64], now: Timestamp) -> State {
        let remains = |waiting: &Waiting| !gone.contains(&waiting.seq);
        let injected = |seq: &u64| step.injected.iter().any(|waiting| waiting.seq == *seq);
        if !gone.iter().all(injected) {
            return State::Finished(ActivationEnd::Lost);
        }
        self.outside.waits.urgent.retain(remains);
        self.outside.waits.oldest.retain(remains);
        let mut shown = std::mem::take(&mut step.injected);
        shown.retain(remains);
        step.entries.retain(|entry| entry.kind != EntryKind::Injection);
        let end = self.log.head_seq + step.entries.len() as u64;
        self.log.drop_layers_behind(end);
        step.previewed = self.open.previewed;
        step.cause = None;
        if !shown.is_empty() {
            self.inject(&mut step, shown, now);
        }
        State::Ready(step)
    }

    /// Whether no further events may be shown: an event of the batch has failed before and may be poisonous, or
    /// the step has failed with events that were added to it.
    pub(super) fn is_suspect(&self, step: &Step) -> bool {
        let failed = |waiting: &Waiting| waiting.attempts > 0 || waiting.deaths > 0;
        self.open.suspect || (!self.open.decided && step.taken.iter().any(failed))
    }

    /// Whether the process has died during this step or while processing these events.
    pub(super) fn process_died(&self, step: &Step) -> bool {
        self.open.deaths > 0 || step.taken.iter().any(|waiting| waiting.deaths > 0)
    }

    /// Charges an aborted generation of about so many tokens (`None`: there was none). The provider reports no
    /// usage for it, so the usage is estimated. The demo model uses nothing.
    pub(super) fn charge_aborted(&mut self, step: &Step, tokens: Option<u64>) {
        let Some(output) = tokens else { return };
        if self.pinned.model(step.model.as_deref()).demo {
            return;
        }
        let usage =
            Usage { input: Some(self.request_tokens(step)), output: Some(output), ..Usage::default() };
        self.open.tokens = self.open.tokens.saturating_add(self.paid(step, &usage, output));
        self.open.estimated.add(&usage);
        self.open.vain.aborted.add(&usage);
    }

    /// Tokens of the step's request, by the estimate.
    pub(super) fn request_tokens(&self, step: &Step) -> u64 {
        self.pinned.fixed_tokens + self.log.layer_tokens() + self.log.tokens() + step.shown_tokens()
    }

    /// Charges a discarded reply.
    pub(super) fn charge_discarded(&mut self, step: &Step, usage: &Usage) {
        self.open.tokens = self.open.tokens.saturating_add(self.paid(step, usage, 0));
        self.open.usage.add(usage);
        self.open.vain.discarded.add(usage);
    }

    /// Tokens of a request and its reply as they are paid. What the provider does not report is estimated.
    pub(super) fn paid(&self, step: &Step, usage: &Usage, generated: u64) -> u64 {
        let input = usage.input.unwrap_or_else(|| self.request_tokens(step));
        let cached = usage.cached.unwrap_or(0).min(input);
        let price = self.pinned.model(step.model.as_deref()).price.filter(|price| price.input > 0);
        let cached_paid = match price {
            Some(price) => cached.saturating_mul(price.cached) / price.input,
            None => cached * limits::CACHED_PRICE_PERCENT / 100,
        };
        (input - cached).saturating_add(cached_paid).saturating_add(usage.output.unwrap_or(generated))
    }

    /// How many events may still be injected. A cycle may inject as many as an activation may take.
    pub(super) fn injection_room(&self, step: &Step) -> u32 {
        let shown = self.open.injected + u32::try_from(step.injected.len()).unwrap_or(u32::MAX);
        self.pinned.config.limits.events_per_cycle.saturating_sub(shown)
    }

    /// The decision processes all events of the step. Its layers and list numbers are stored for the activation
    /// that continues the cycle.
    pub(super) fn process_shown(&self, step: &Step, changes: &mut Changes, open: &mut OpenCycle) {
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
        // Messages that were posted before do not address the events that are shown now.
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

    /// Whether the step must call a tool.
    pub(super) fn must_call(&self, step: &Step) -> bool {
        self.pinned.config.stop.require_tool
            || step.gate.as_ref().is_some_and(|gate| gate.tool_choice == WantedChoice::Required)
    }

    /// An entry of this step, `ahead` positions after the last one, with its tokens counted.
    pub(super) fn entry(
        &self,
        ahead: u64,
        kind: EntryKind,
        message: ModelMessage,
        trust: Trust,
        at: Timestamp,
    ) -> Entry {
        let tokens = crate::tokens::estimate(&message.countable());
        let seq = self.log.head_seq + ahead;
        Entry { seq, cycle: self.open.id, step: self.open.step, kind, message, tokens, at, trust }
    }
}

impl From<Box<Step>> for At {
    fn from(step: Box<Step>) -> Self {
        Self::Step(step)
    }
}
