//! What an agent's model would be sent if the agent woke now: the very prompt of the machine, and what
//! its layers are. Reads only; nothing is opened, taken or changed.

use std::sync::Arc;

use jiff::Timestamp;

use super::Cycle;
use crate::entry::Entry;
use crate::life::Layer;
use crate::limits;
use crate::prompt::Prompt;

/// What an agent's model would be sent, by layers.
#[derive(Clone, Debug)]
pub struct Mind {
    /// All of it.
    pub prompt: Prompt,
    /// Entries that the view shows; their tokens are known.
    pub window: Vec<Arc<Entry>>,
    /// A summary of what the view does not show.
    pub summary: Option<String>,
    /// The entry that would be lived next; not counted yet.
    pub inbox: Option<Arc<Entry>>,
    /// Events in it.
    pub events: usize,
    /// Volatile layers: the workspace.
    pub layers: Vec<Layer>,
    /// Tokens of the window above which it is cut.
    pub cut_above: u64,
    /// Tokens that a cut leaves of it.
    pub cut_to: u64,
}

impl Cycle {
    /// What the model would be sent now.
    pub fn mind(mut self, now: Timestamp) -> Mind {
        if !self.open.lived && !self.taken.is_empty() {
            self.show_inbox(now);
        } else if !self.open.lived {
            // Nothing waits: the workspace as it would be shown behind whatever comes.
            let text = crate::workspace::render(&self.me, &self.facts, self.active_space, now);
            self.layers = vec![Layer { after: self.head_seq, text: text.into() }];
        }
        let mut prepared = self.prepare(now);
        let view = prepared.view.take();
        if !self.unlived.is_empty() || self.open.lived {
            self.show(prepared, now);
        }
        if let Some(view) = view {
            self.window.retain(|entry| view.shows(entry.seq));
            self.view = view;
        }
        let budget = self.budget().tokens;
        Mind {
            prompt: self.prompt(),
            summary: self.view.summary.clone(),
            inbox: self.unlived.first().filter(|_| !self.open.lived).cloned(),
            events: self.taken.len(),
            layers: self.layers,
            window: self.window,
            cut_above: budget * limits::VIEW_TRIGGER_PERCENT / 100,
            cut_to: budget * limits::VIEW_TARGET_PERCENT / 100,
        }
    }
}
