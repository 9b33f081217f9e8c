//! What the model is sent of the past: the entries that the view shows, and the volatile layers between
//! them.

use std::sync::Arc;

use crate::entry::{Entry, View};
use crate::id::CycleId;
use crate::life::Layer;
use crate::transcript;

/// The log as far as it is sent.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) view: View,
    /// Entries that the view shows.
    pub(super) window: Vec<Arc<Entry>>,
    /// The last entry of the log, whether it is shown or not.
    pub(super) head_seq: u64,
    pub(super) layers: Vec<Layer>,
    /// How many of these, the first ones, the store has.
    stored: usize,
    /// View and window as they stand in the store, where less of them is sent as long as nothing of the
    /// cycle is processed.
    pub(super) full: Option<(View, Vec<Arc<Entry>>)>,
    /// Times in this activation that a vendor refused what was sent as too long, and whether it was rebuilt.
    pub(super) cuts: u32,
    pub(super) rebuilt: bool,
}

impl Log {
    pub(super) fn new(view: View, window: Vec<Arc<Entry>>, head_seq: u64, layers: Vec<Layer>) -> Self {
        let window = transcript::without_refused(window, &view);
        let stored = layers.len();
        Self { view, window, head_seq, layers, stored, full: None, cuts: 0, rebuilt: false }
    }

    /// Appends what a commit wrote.
    pub(super) fn append(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.head_seq = entry.seq;
            let entry = Arc::new(entry.clone());
            self.full.iter_mut().for_each(|(_, window)| window.push(Arc::clone(&entry)));
            self.window.push(entry);
        }
    }

    /// Sends less of the log. As long as nothing is processed the view in the store stays as it is: the
    /// decision writes this one, and an activation that comes to nothing leaves no trace. Says how many
    /// entries are left out.
    pub(super) fn adopt(&mut self, view: View) -> u32 {
        if self.full.is_none() {
            self.full = Some((self.view.clone(), self.window.clone()));
        }
        self.narrow(view)
    }

    /// The store has this view now.
    pub(super) fn replace(&mut self, view: View) {
        self.full = None;
        self.narrow(view);
    }

    fn narrow(&mut self, view: View) -> u32 {
        let before = self.window.len();
        self.window.retain(|entry| view.shows(entry.seq));
        self.window = transcript::without_refused(std::mem::take(&mut self.window), &view);
        self.view = view;
        u32::try_from(before - self.window.len()).unwrap_or(u32::MAX)
    }

    /// Takes back what [`Log::adopt`] did.
    pub(super) fn widen(&mut self) {
        if let Some((view, window)) = self.full.take() {
            (self.view, self.window) = (view, window);
        }
    }

    /// The view that the first decision writes, where less than the stored one was sent.
    pub(super) fn adopted(&self) -> Option<View> {
        self.full.as_ref().map(|(old, _)| View { rev: old.rev + 1, ..self.view.clone() })
    }

    pub(super) fn tokens(&self) -> u64 {
        self.window.iter().map(|entry| u64::from(entry.tokens)).sum()
    }

    pub(super) fn layer_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.text.len()).sum()
    }

    /// Layers that the store does not have yet.
    pub(super) fn new_layers(&self) -> Vec<Layer> {
        self.layers[self.stored..].to_vec()
    }

    /// The store has these too now.
    pub(super) fn layers_stored(&mut self, new: usize) {
        self.stored += new;
    }

    /// Whether the log ends with calls whose outcomes entry is not appended.
    pub(super) fn unanswered(&self) -> bool {
        let calls = |entry: &Arc<Entry>| {
            entry.kind == crate::entry::EntryKind::Assistant && entry.message.calls().next().is_some()
        };
        self.window.last().is_some_and(calls)
    }

    /// Entries of that cycle.
    pub(super) fn of(&self, cycle: CycleId) -> impl Iterator<Item = &Arc<Entry>> {
        self.window.iter().filter(move |entry| entry.cycle == cycle)
    }
}
