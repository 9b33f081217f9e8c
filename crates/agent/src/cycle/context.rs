//! What would be sent to the agent's model if the agent woke now: the prompt of the machine, and its layers.
//! Reads only.

use std::sync::Arc;

use jiff::Timestamp;

use super::{At, Cycle, State, Step};
use crate::entry::Entry;
use crate::layer::Layer;
use crate::limits;
use crate::prompt::Prompt;

/// What would be sent to an agent's model, by layers.
#[derive(Clone, Debug)]
pub struct ContextPreview {
    /// The whole prompt.
    pub prompt: Prompt,
    /// Entries that the view shows; their tokens are known.
    pub window: Vec<Arc<Entry>>,
    /// Seq of the last entry of the log, shown or not.
    pub head_seq: u64,
    /// A summary of the entries that the view does not show.
    pub summary: Option<String>,
    /// The inbox entry that would be processed next; its tokens are not counted yet.
    pub inbox: Option<Arc<Entry>>,
    /// Events in it.
    pub events: usize,
    /// Volatile layers: the workspace.
    pub layers: Vec<Layer>,
    /// Tokens of the window above which it is cut.
    pub cut_above: u64,
    /// Tokens of the window after a cut.
    pub cut_to: u64,
}

impl Cycle {
    /// What would be sent to the model now.
    pub fn context(mut self, now: Timestamp) -> ContextPreview {
        let mut step = match self.take() {
            State::Opening(opening) => match opening.at {
                At::Step(step) => step,
                At::Acting(_) => Step::next(&self.open),
            },
            _ => Step::next(&self.open),
        };
        // If nothing waits, the workspace is shown as it would follow the next event.
        if !step.taken.is_empty() || self.open.decided {
            self.show_inbox(&mut step, now);
        }
        if let Some(view) = self.show_workspace(&mut step, now) {
            self.log.replace(view);
            self.show_workspace(&mut step, now);
        }
        let mut prepared = self.prepare(&step, now);
        let view = prepared.view.take();
        if !step.entries.is_empty() || self.open.decided {
            self.show(&mut step, prepared, now);
        }
        if let Some(view) = view {
            self.log.replace(view);
            self.show_workspace(&mut step, now);
        }
        let shown = self.log.layer_tokens() + step.shown_tokens();
        let budget = self.pinned.budget(step.model.as_deref(), shown).tokens;
        ContextPreview {
            prompt: self.prompt(&step),
            summary: self.log.summary().map(|summary| summary.to_string()),
            inbox: step.entries.first().filter(|_| !self.open.decided).cloned(),
            events: step.taken.len(),
            head_seq: self.log.head_seq,
            layers: self.log.shown_layers().cloned().collect(),
            window: self.log.window,
            cut_above: budget * limits::VIEW_TRIGGER_PERCENT / 100,
            cut_to: budget * limits::VIEW_TARGET_PERCENT / 100,
        }
    }
}
