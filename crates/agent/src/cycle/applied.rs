//! What a commit that was done means for the machine: where the life row is now, and what comes next.

use std::sync::Arc;

use jiff::Timestamp;

use super::{After, Cycle, State};
use crate::changes::Changes;

impl Cycle {
    /// Brings the machine to where the life row is after `changes`.
    pub(super) fn applied(&mut self, changes: &Changes) {
        self.commit_n = changes.expect + 1;
        for entry in &changes.entries {
            self.head_seq = entry.seq;
            self.window.push(Arc::new(entry.clone()));
            self.uncut.iter_mut().for_each(|(_, window)| window.push(Arc::new(entry.clone())));
        }
        for layer in &changes.layers {
            if !self.layers.iter().any(|known| known.after == layer.after && known.text == layer.text) {
                self.layers.push(layer.clone());
            }
        }
        for call in &changes.calls {
            self.calls.push(call.clone());
        }
        for change in &changes.call_changes {
            if let Some(row) = self.calls.iter_mut().find(|row| row.id == change.id) {
                row.state = change.state;
                row.outcome.clone_from(&change.outcome);
            }
        }
        if let Some(space) = changes.inward.active_space {
            self.active_space = Some(space);
        }
        if let Some(view) = &changes.view {
            self.uncut = None;
            self.narrow(view);
        }
        if let Some(open) = &changes.open {
            self.open = open.clone();
        }
        self.failures = changes.failures.unwrap_or(self.failures);
        self.batch_cap = changes.batch_cap.unwrap_or(self.batch_cap);
        if let Some(notice) = &changes.notice {
            self.notice.clone_from(notice);
        }
    }

    pub(super) fn after(&mut self, after: After, now: Timestamp) -> State {
        match after {
            After::Ready => State::Ready,
            After::Opened => self.look_at_open(now),
            After::Named if self.cancel || self.park.is_some() => State::Ready,
            After::Named => State::Thinking,
            After::Decided(_, rested) => self.after_decision(rested, now),
            After::Started => {
                self.absorb();
                State::Acting
            }
            After::Settled => self.after_settle(),
            After::Rest(rested) => {
                self.widen();
                self.rest_or_cut(rested, now)
            }
            After::ViewThenRest(rested) => State::Rest(rested),
        }
    }
}
