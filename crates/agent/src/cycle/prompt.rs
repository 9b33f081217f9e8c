//! The prompt of the current step, and the view that makes it fit.

use std::sync::Arc;

use jiff::Timestamp;

use super::summarize::Then;
use super::{ActivationEnd, After, At, Crowded, Cycle, Next, State, Step};
use crate::changes::CommitKind;
use crate::config::WorkspacePart;
use crate::life::OpenCycle;
use crate::limits;
use crate::memory::shown_bytes;
use crate::prompt::{Item, Prompt, ToolChoice};
use crate::view::{self, Budget};

impl Cycle {
    pub(super) fn next_ready(&mut self, mut step: Box<Step>, now: Timestamp) -> Next {
        if self.outside.cancel {
            return self.next_canceled(At::Step(step), now);
        }
        if let Some(reason) = self.outside.park.clone() {
            return self.next_parked(At::Step(step), &reason, now);
        }
        if self.open.asked {
            // No reply is awaited any more: a crash while the next request is built must count as a death.
            let mut changes = self.changes(CommitKind::Arrived, now);
            changes.open = Some(OpenCycle { asked: false, ..self.open.clone() });
            return self.commit(changes, After::Ready(step));
        }
        if self.outside.is_stale(self.shows_what_waits()) {
            self.state = State::Ready(step);
            return Next::Look;
        }
        self.show_inbox(&mut step, now);
        if let Some(view) = self.show_workspace(&mut step, now) {
            if self.open.decided {
                let mut changes = self.changes(CommitKind::View, now);
                changes.view = Some(view);
                return self.commit(changes, After::Ready(step));
            }
            self.log.narrow(view);
            self.show_workspace(&mut step, now);
        }
        let mut prepared = self.prepare_narrowed(&mut step, now);
        if let Some(view) = prepared.view.take() {
            self.state = self.compact(view, true, Then::Step(step), now);
            return self.next(now);
        }
        self.show(&mut step, prepared, now);
        let prompt = self.prompt(&step);
        if self.process_died(&step) {
            self.state = State::Encoding(step);
            return Next::Encode(prompt);
        }
        step.first_called.get_or_insert(now);
        self.state = State::Thinking(step);
        Next::Think(prompt)
    }

    /// Whether a step may show waiting events.
    fn shows_what_waits(&self) -> bool {
        let awareness = self.pinned.config.awareness;
        let shows = awareness.previews() || awareness.injects() || self.open.held_back || self.open.peek > 0;
        shows || awareness == crate::config::Awareness::Interrupt
    }

    /// What of the step's request has outgrown its room.
    pub fn crowded(&self) -> Vec<Crowded> {
        let (model, layers) = (self.model(), self.log.layer_tokens());
        if let Some(overfull) = self.pinned.overfull(model, layers) {
            return vec![Crowded::Window(overfull)];
        }
        let (tokens, budget) = (self.log.tokens(), self.pinned.budget(model, layers));
        let history = view::is_over(
            &self.log.window,
            Budget { entries: usize::MAX, ..budget },
            limits::VIEW_TRIGGER_PERCENT,
        )
        .then(|| Crowded::History {
            model: self.pinned.model(model).name.clone(),
            tokens,
            room: budget.tokens,
        });
        let (bytes, room) = (self.notes_bytes(), self.pinned.workspace_room());
        history.into_iter().chain((bytes > room).then_some(Crowded::Notes { bytes, room })).collect()
    }

    /// How long the notes are that the workspace shows.
    fn notes_bytes(&self) -> usize {
        let facts = &self.outside.facts;
        let part = |part: &WorkspacePart| -> usize {
            match part {
                WorkspacePart::Memories => {
                    facts.memories.iter().map(|memory| shown_bytes(&memory.key, &memory.value)).sum()
                }
                WorkspacePart::Goals => facts.goals.iter().map(|goal| goal.description.len()).sum(),
                WorkspacePart::Plans => {
                    facts.plans.iter().map(|plan| plan.name.len() + plan.instruction.len()).sum()
                }
                WorkspacePart::Clock
                | WorkspacePart::Spaces
                | WorkspacePart::Calls
                | WorkspacePart::Messages => 0,
            }
        };
        self.pinned.config.workspace.show.iter().map(part).sum()
    }

    /// The request of the step. Within a cycle each request extends the one before.
    pub(super) fn prompt(&self, step: &Step) -> Prompt {
        let examples = &self.pinned.examples;
        let mut items = Vec::with_capacity(self.log.window.len() + examples.len() + 3);
        items.extend(examples.iter().cloned().map(Item::Entry));
        items.extend(self.log.summary().map(Item::Layer));
        for entry in self.log.window.iter().chain(&step.entries) {
            items.push(Item::Entry(Arc::clone(entry)));
            let layers = self.log.shown_layers().filter(|layer| layer.after == entry.seq);
            items.extend(layers.map(|layer| Item::Layer(Arc::clone(&layer.text))));
        }
        // A call is forced only if the vendor allows it.
        let forced = self.pinned.model(step.model.as_deref()).forced_tool_choice;
        let choice = match step.choice {
            ToolChoice::Required if !forced => ToolChoice::Auto,
            choice => choice,
        };
        Prompt {
            system: Arc::clone(&self.pinned.system),
            tools: Arc::clone(&self.pinned.setup.tools),
            items,
            choice,
            cycle: self.open.id,
            reasoning_from: self.log.view.reasoning_from,
            tokens: self.request_tokens(step),
            view: self.log.view.rev,
        }
    }

    /// The cycle has ended: cut the view now, so that the next activation need not. A window that is not full is tried
    /// once, after the cycle with which it passed the lower limit: a request that is dropped each time would be paid each
    /// time.
    pub(super) fn finish_or_cut(&mut self, end: ActivationEnd, now: Timestamp) -> State {
        let ended = matches!(end, ActivationEnd::Ended { .. });
        let budget = self.pinned.budget(None, self.log.layer_tokens());
        let window = &self.log.window;
        let full = view::is_over(window, budget, limits::VIEW_TRIGGER_PERCENT);
        let before = window.partition_point(|entry| entry.cycle != self.open.id);
        let was_over = view::is_over(&window[..before], budget, limits::VIEW_IDLE_PERCENT);
        let view = match ended && (full || !was_over) {
            true => view::cut(&self.log.view, window, budget, limits::VIEW_IDLE_PERCENT, None),
            false => None,
        };
        match view {
            Some(view) => self.compact(view, full, Then::End(end), now),
            None => State::Finished(end),
        }
    }
}
