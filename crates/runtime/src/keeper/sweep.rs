//! What no signal told: due work, plans that fire and calls that nobody runs, found by index now and then.

use std::sync::Arc;

use agent::limits;
use agent::port::{Due, StoreError};
use agent::waits;
use jiff::Timestamp;

use super::Keeping;

impl Keeping {
    /// Looks for due work by index, whatever was signalled.
    pub(super) async fn tick(&mut self) {
        while let Some(agent) = self.alarms.rung(self.clock_ms()) {
            self.activate(agent);
        }
        self.admit();
        if self.clock_ms() < self.next_sweep {
            return;
        }
        self.next_sweep = self.clock_ms() + limits::SWEEP_MS;
        let now = self.node_context.ports.clock.now();
        let store = Arc::clone(&self.node_context.ports.store);
        let found = async {
            let fired = store.fire_due(now, limits::DUE_BATCH).await?;
            let next = store.next_due(now).await?;
            Ok::<_, StoreError>((fired, next))
        };
        match found.await {
            Ok((fired, next)) => {
                fired.into_iter().for_each(|waken| self.due(waken.agent, waken.at));
                if let Some(at) = next {
                    self.wake_up_at(at);
                }
            }
            Err(error) => {
                tracing::error!(%error, "the store could not be asked for due work");
                self.next_sweep = self.clock_ms() + limits::STORE_PROBE_MS;
            }
        }
        self.look_for_due().await;
        if self.found_to.is_some() {
            self.sweep_soon();
        }
        self.take_up().await;
    }

    /// One page of those who are due, behind the page before; after the last one it begins again. So
    /// whoever stays due for long, awake or not, hides nobody behind it.
    async fn look_for_due(&mut self) {
        if !self.turns.has_room() {
            return;
        }
        let now = self.node_context.ports.clock.now();
        let due = match self.node_context.ports.store.due(now, self.found_to.take(), limits::DUE_BATCH).await
        {
            Ok(due) => due,
            Err(error) => {
                self.next_sweep = self.next_sweep.min(self.clock_ms() + limits::STORE_PROBE_MS);
                return tracing::error!(%error, "the store could not be asked who is due");
            }
        };
        self.found_to = due.last().filter(|_| due.len() == limits::DUE_BATCH as usize).copied();
        // One that is awake has its own reasons to look again, and one that waits for a permit is called.
        for Due { agent, .. } in due {
            if !self.awake.contains_key(&agent) && !self.node_context.permits.waits(agent) {
                self.activate(agent);
            }
        }
    }

    /// Goes on with a look that found more than a page, as soon as the line is short: no place stays
    /// empty until the next sweep. Some pages at a time: all on them may wait for something else.
    pub(super) async fn refill(&mut self) {
        for _ in 0..limits::DUE_PAGES {
            if self.found_to.is_none() || !self.turns.is_short() {
                return;
            }
            self.look_for_due().await;
        }
    }

    /// Where the wall clock was set back, whatever is due by it seems to be ahead, until the store has followed: that
    /// is asked of it at once.
    pub(super) fn look_at_clock(&mut self) {
        let lead = self.node_context.ports.clock.lead();
        let back = waits::set_back(self.lead, lead);
        if back.is_some() {
            self.next_sweep = self.clock_ms();
        }
        self.lead = if back.is_some() { lead } else { lead.max(self.lead) };
    }

    pub(super) fn sweep_soon(&mut self) {
        let soon = self.clock_ms() + limits::SWEEP_MS / 10;
        self.next_sweep = self.next_sweep.min(soon);
    }

    /// Looks for calls that go on beyond their cycle and that nobody runs, some at a time.
    async fn take_up(&mut self) {
        match self.node_context.detached.take_up(self.taken_up.take()).await {
            Ok(next) => self.taken_up = next,
            Err(error) => tracing::error!(%error, "the store could not be asked for calls that nobody runs"),
        }
        if self.taken_up.is_some() {
            self.sweep_soon();
        }
    }

    /// Looks for due work at that time, should it come before the next sweep; but not again at once, so that
    /// many times close together are met by one look.
    fn wake_up_at(&mut self, at: Timestamp) {
        let ahead = self.ahead(at).max(limits::SWEEP_LEAST_MS);
        self.next_sweep = self.next_sweep.min(self.clock_ms() + ahead);
    }
}
