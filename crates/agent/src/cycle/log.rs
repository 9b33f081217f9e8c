//! The part of the history that is sent to the model: the entries that the view shows, and the volatile layers
//! between them.

use std::sync::Arc;

use crate::compaction;
use crate::config::WorkspacePart;
use crate::entry::{Entry, View};
use crate::id::CycleId;
use crate::layer::{Layer, ShownLine};
use crate::tokens;
use crate::transcript;

/// The part of the log that is sent.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) view: View,
    /// The summary as it is sent, and its tokens.
    summary: Option<(Arc<str>, u32)>,
    /// Entries that the view shows.
    pub(super) window: Vec<Arc<Entry>>,
    /// Seq of the last entry of the log, shown or not.
    pub(super) head_seq: u64,
    layers: Vec<Layer>,
    /// What of the workspace the agent has changed itself, as it was then: it knows that without being shown.
    pub(super) known: Vec<(WorkspacePart, String, ShownLine)>,
    /// How many of the layers, from the first on, the store has.
    stored: usize,
    /// View and window as stored, if less is sent. This happens only before the first decision of a cycle.
    pub(super) full: Option<(View, Vec<Arc<Entry>>)>,
    /// Requests of this activation that a vendor refused as too long.
    pub(super) cuts: u32,
    /// Whether this activation has rebuilt the transcript.
    pub(super) rebuilt: bool,
}

impl Log {
    pub(super) fn new(view: View, window: Vec<Arc<Entry>>, head_seq: u64, layers: Vec<Layer>) -> Self {
        let window = transcript::without_refused(window, &view);
        let (stored, summary) = (layers.len(), sent(&view));
        let known = Vec::new();
        Self { view, summary, window, head_seq, layers, known, stored, full: None, cuts: 0, rebuilt: false }
    }

    /// Appends committed entries.
    pub(super) fn append(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.head_seq = entry.seq;
            let entry = Arc::new(entry.clone());
            self.full.iter_mut().for_each(|(_, window)| window.push(Arc::clone(&entry)));
            self.window.push(entry);
        }
    }

    /// Sends less of the log and returns how many entries are left out. The stored view does not change before the
    /// first decision, which writes this one. So an activation without a decision leaves no trace.
    pub(super) fn narrow(&mut self, view: View) -> u32 {
        if self.full.is_none() {
            self.full = Some((self.view.clone(), self.window.clone()));
        }
        self.set_view(view)
    }

    /// Uses this view, which the store now has.
    pub(super) fn replace(&mut self, view: View) {
        self.full = None;
        self.set_view(view);
    }

    fn set_view(&mut self, view: View) -> u32 {
        let before = self.window.len();
        self.window.retain(|entry| view.shows(entry.seq));
        self.window = transcript::without_refused(std::mem::take(&mut self.window), &view);
        self.summary = sent(&view);
        self.view = view;
        // The outcomes by which the agent knows of its own changes may be left out now.
        self.known.clear();
        u32::try_from(before - self.window.len()).unwrap_or(u32::MAX)
    }

    /// Undoes [`Log::narrow`].
    pub(super) fn widen(&mut self) {
        if let Some((view, window)) = self.full.take() {
            self.summary = sent(&view);
            (self.view, self.window) = (view, window);
        }
    }

    /// The view that the store has.
    pub(super) fn stored_view(&self) -> &View {
        self.full.as_ref().map_or(&self.view, |(view, _)| view)
    }

    /// The view that the first decision writes, if less than the stored view was sent.
    pub(super) fn narrowed_view(&self) -> Option<View> {
        self.full.as_ref().map(|(old, _)| {
            let rev = old.rev + 1;
            View { rev, layers_from: self.view.layers_from.min(rev), ..self.view.clone() }
        })
    }

    pub(super) fn tokens(&self) -> u64 {
        self.window.iter().map(|entry| u64::from(entry.tokens)).sum()
    }

    /// Tokens of what is sent and is not in the log: the summary and the layers.
    pub(super) fn layer_tokens(&self) -> u64 {
        let summary = self.summary.as_ref().map_or(0, |(_, tokens)| u64::from(*tokens));
        self.shown_layers().map(|layer| u64::from(layer.tokens)).sum::<u64>() + summary
    }

    /// The layers that are sent: those of the view.
    pub(super) fn shown_layers(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| layer.view >= self.view.layers_from)
    }

    /// Adds a layer.
    pub(super) fn show(&mut self, layer: Layer) {
        // What is shown is what counts, whatever the agent knew before.
        let parts =
            layer.shown.parts.iter().flat_map(|part| part.lines.iter().map(|(item, _)| (part.part, item)));
        for (part, item) in parts {
            self.known.retain(|(of, known, _)| (*of, known) != (part, item));
        }
        self.layers.push(layer);
    }

    /// Whether the view shows none of the layers that the store has.
    pub(super) fn is_anew(&self) -> bool {
        !self.layers[..self.stored].iter().any(|layer| layer.view >= self.view.layers_from)
    }

    /// Removes the layers that are not stored: nothing was decided after them.
    pub(super) fn drop_new_layers(&mut self) {
        self.layers.truncate(self.stored);
    }

    /// Removes those of them that follow an entry behind this one.
    pub(super) fn drop_layers_behind(&mut self, end: u64) {
        let mut at = 0..;
        let stored = self.stored;
        self.layers.retain(|layer| at.next().is_some_and(|at| at < stored) || layer.after <= end);
    }

    /// The summary as it is sent, if there is one.
    pub(super) fn summary(&self) -> Option<Arc<str>> {
        self.summary.as_ref().map(|(text, _)| Arc::clone(text))
    }

    /// The layers of the view that the store does not have, as it will have them.
    pub(super) fn new_layers(&self) -> Vec<Layer> {
        let view = self.narrowed_view().map_or(self.view.rev, |view| view.rev);
        let new = self.layers[self.stored..].iter().filter(|layer| layer.view >= self.view.layers_from);
        new.map(|layer| Layer { view, ..layer.clone() }).collect()
    }

    /// The store has these layers now.
    pub(super) fn layers_stored(&mut self, new: &[Layer]) {
        self.layers.truncate(self.stored);
        self.layers.extend_from_slice(new);
        self.stored = self.layers.len();
    }

    /// Whether the log ends with calls that have no outcomes entry.
    pub(super) fn unanswered(&self) -> bool {
        let calls = |entry: &Arc<Entry>| {
            entry.kind == crate::entry::EntryKind::Assistant && entry.message.calls().next().is_some()
        };
        self.window.last().is_some_and(calls)
    }

    /// Entries of the cycle.
    pub(super) fn of_cycle(&self, cycle: CycleId) -> impl Iterator<Item = &Arc<Entry>> {
        self.window.iter().filter(move |entry| entry.cycle == cycle)
    }
}

fn sent(view: &View) -> Option<(Arc<str>, u32)> {
    compaction::shown(view).map(|text| (Arc::from(text.as_str()), tokens::estimate(&text)))
}
