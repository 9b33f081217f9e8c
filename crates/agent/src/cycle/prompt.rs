//! What the model is asked: the prompt of the present step, and the view that makes it fit.

use std::sync::Arc;

use jiff::Timestamp;

use super::{ActivationEnd, After, At, Cycle, Next, State, Step};
use crate::changes::CommitKind;
use crate::life::OpenCycle;
use crate::prompt::{Item, Prompt, ToolChoice};
use crate::view;

impl Cycle {
    pub(super) fn next_ready(&mut self, mut step: Box<Step>, now: Timestamp) -> Next {
        if self.outside.cancel {
            return self.next_canceled(At::Step(step), now);
        }
        if let Some(reason) = self.outside.park.clone() {
            return self.next_parked(At::Step(step), &reason, now);
        }
        if self.open.asked {
            // No reply is waited for any more: what kills the process while the next request is built is to blame.
            let mut changes = self.changes(CommitKind::Arrived, now);
            changes.open = Some(OpenCycle { asked: false, ..self.open.clone() });
            return self.commit(changes, After::Ready(step));
        }
        if self.outside.is_stale(self.shows_what_waits()) {
            self.state = State::Ready(step);
            return Next::Look;
        }
        self.show_inbox(&mut step, now);
        let mut prepared = self.prepare_narrowed(&mut step, now);
        if let Some(view) = prepared.view.take() {
            let mut changes = self.changes(CommitKind::View, now);
            changes.view = Some(view);
            return self.commit(changes, After::Ready(step));
        }
        self.show(&mut step, prepared, now);
        let prompt = self.prompt(&step);
        if self.process_died(&step) {
            self.state = State::Encoding(step);
            return Next::Encode(prompt);
        }
        step.asked_first.get_or_insert(now);
        self.state = State::Thinking(step);
        Next::Think(prompt)
    }

    /// Whether a step may be shown something of what waits.
    fn shows_what_waits(&self) -> bool {
        let awareness = self.who.config.awareness;
        let waits = awareness.previews() || awareness.injects() || self.open.held_back || self.open.peek > 0;
        waits || awareness == crate::config::Awareness::Interrupt
    }

    /// The request of the step. Within a cycle each one extends the one before.
    pub(super) fn prompt(&self, step: &Step) -> Prompt {
        let mut items = Vec::with_capacity(self.log.window.len() + 3);
        if let Some(summary) = &self.log.view.summary {
            items.push(Item::Layer(summary.as_str().into()));
        }
        for entry in self.log.window.iter().chain(&step.entries) {
            items.push(Item::Entry(Arc::clone(entry)));
            let behind = self.log.layers.iter().filter(|layer| layer.after == entry.seq);
            items.extend(behind.map(|layer| Item::Layer(Arc::clone(&layer.text))));
        }
        // A call is forced only where the vendor allows it.
        let forced = self.who.model(step.model.as_deref()).forced_tool_choice;
        let choice = match step.choice {
            ToolChoice::Required if !forced => ToolChoice::Auto,
            choice => choice,
        };
        Prompt {
            system: Arc::clone(&self.who.system),
            tools: Arc::clone(&self.who.setup.tools),
            items,
            choice,
            cycle: self.open.id,
            reasoning_from: self.log.view.reasoning_from,
        }
    }

    /// The cycle is over: cut the view now rather than on the way of the next activation.
    pub(super) fn rest_or_cut(&mut self, rested: ActivationEnd, now: Timestamp) -> State {
        let ended = matches!(rested, ActivationEnd::Ended { .. });
        let budget = self.who.budget(None, self.log.layer_bytes());
        let view = view::cut(&self.log.view, &self.log.window, budget, None).filter(|_| ended);
        let Some(view) = view else { return State::Finished(rested) };
        let mut changes = self.changes(CommitKind::View, now);
        changes.open = None;
        changes.view = Some(view);
        State::Committing(Box::new(changes), After::ViewThenFinished(rested))
    }
}
