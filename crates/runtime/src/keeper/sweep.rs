//! The sweep: finds by index, at intervals, what no signal announced: due work, plans that fire, and detached calls
//! that nobody runs.

use std::sync::Arc;

use agent::limits;
use agent::plan::span_text;
use agent::port::{Due, DueFired, Lapsed, LatePlan, NextDue, StoreError};
use agent::waits;
use jiff::Timestamp;

use super::KeeperLoop;

impl KeeperLoop {
    /// Handles due alarms and, when it is time, sweeps the store.
    pub(super) async fn tick(&mut self) {
        while let Some(agent) = self.alarms.pop_due(self.clock_ms()) {
            self.enqueue(agent);
        }
        self.admit();
        if self.clock_ms() < self.next_sweep {
            if self.next_firing.is_some_and(|at| at <= self.clock_ms()) {
                self.fire().await;
            }
            return;
        }
        self.next_sweep = self.clock_ms() + limits::SWEEP_MS;
        self.fire().await;
        self.lapse(self.node_context.ports.clock.now()).await;
        self.find_due().await;
        if self.due_cursor.is_some() {
            self.sweep_soon();
        }
        self.take_up().await;
    }

    /// Turns due plans into events, and finds out when the next ones are due.
    async fn fire(&mut self) {
        self.next_firing = None;
        let now = self.node_context.ports.clock.now();
        let store = Arc::clone(&self.node_context.ports.store);
        let found = async {
            let fired = store.fire_due(now, limits::DUE_BATCH).await?;
            let next = store.next_due(now).await?;
            Ok::<_, StoreError>((fired, next))
        };
        match found.await {
            Ok((DueFired { wake, late, shifting }, NextDue { agent, firing })) => {
                if !wake.is_empty() {
                    failpoint::hit!("firing.committed");
                }
                late.iter()
                    .for_each(|late| log_late(self.node_context.ports.live.name(late.agent), late, now));
                wake.into_iter().for_each(|wakeup| self.due(wakeup.agent, wakeup.at));
                agent.into_iter().for_each(|at| self.sweep_at(at));
                firing.into_iter().for_each(|at| self.fire_at(at));
                if shifting {
                    self.fire_at(now);
                    self.sweep_soon();
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot read due plans from the store");
                self.next_sweep = self.clock_ms() + limits::STORE_PROBE_MS;
            }
        }
    }

    /// Reminds people of what waits for them, and ends what nobody has answered in time.
    async fn lapse(&mut self, now: Timestamp) {
        let approvals = Arc::clone(&self.node_context.ports.approvals);
        let lapse = async {
            let mut lapsed = Vec::new();
            if approvals.next_lapse().await?.is_some_and(|at| at <= now) {
                lapsed = approvals.lapse(now, limits::APPROVALS_LAPSED_MAX).await?;
            }
            Ok::<_, StoreError>((lapsed, approvals.next_lapse().await?))
        };
        match lapse.await {
            Ok((lapsed, next)) => {
                // What stays due belongs to quarantined agents.
                let next = next.filter(|at| *at > now || !lapsed.is_empty());
                for Lapsed { agent, notifications, expired, .. } in lapsed {
                    self.node_context.node.notify(notifications);
                    if expired {
                        self.recheck(agent);
                    }
                }
                if let Some(at) = next {
                    self.sweep_at(at);
                }
            }
            Err(error) => tracing::error!(%error, "cannot read what waits for people from the store"),
        }
    }

    /// Queues one page of due agents, after the page before; after the last page it begins again. So agents that
    /// stay due for long never hide those behind them.
    async fn find_due(&mut self) {
        if !self.turns.has_room() {
            return;
        }
        let now = self.node_context.ports.clock.now();
        let due =
            match self.node_context.ports.store.due(now, self.due_cursor.take(), limits::DUE_BATCH).await {
                Ok(due) => due,
                Err(error) => {
                    self.next_sweep = self.next_sweep.min(self.clock_ms() + limits::STORE_PROBE_MS);
                    return tracing::error!(%error, "cannot read due agents from the store");
                }
            };
        self.due_cursor = due.last().filter(|_| due.len() == limits::DUE_BATCH as usize).copied();
        // An awake agent checks again by itself, and one that waits for a permit is activated when it gets it.
        for Due { agent, .. } in due {
            if !self.awake.contains_key(&agent) && !self.node_context.permits.is_queued(agent) {
                self.enqueue(agent);
            }
        }
    }

    /// Reads further pages of due agents as soon as the queue is short, so that no slot stays empty until the next
    /// sweep. A few pages at a time: all agents on them may wait for something else.
    pub(super) async fn refill(&mut self) {
        for _ in 0..limits::DUE_PAGES {
            if self.due_cursor.is_none() || !self.turns.is_short() {
                return;
            }
            self.find_due().await;
        }
    }

    /// If the wall clock was set back, times in the store seem to lie ahead until the store has adjusted them. A
    /// sweep makes it do so at once.
    pub(super) fn check_clock(&mut self) {
        let lead = self.node_context.ports.clock.lead();
        let back = waits::set_back(self.clock_lead, lead);
        if back.is_some() {
            self.next_sweep = self.clock_ms();
        }
        self.clock_lead = if back.is_some() { lead } else { lead.max(self.clock_lead) };
    }

    pub(super) fn sweep_soon(&mut self) {
        let soon = self.clock_ms() + limits::SWEEP_MS / 10;
        self.next_sweep = self.next_sweep.min(soon);
    }

    /// Resumes detached calls that nobody runs, a page at a time.
    async fn take_up(&mut self) {
        match self.node_context.detached.take_up(self.detached_cursor.take()).await {
            Ok(next) => self.detached_cursor = next,
            Err(error) => tracing::error!(%error, "cannot resume detached calls"),
        }
        if self.detached_cursor.is_some() {
            self.sweep_soon();
        }
    }

    /// Fires plans at that time, if it is before the next firing; but not at once again, so that a flood of plans
    /// leaves the store to others in between.
    pub(super) fn fire_at(&mut self, at: Timestamp) {
        let at = self.clock_ms() + self.ahead(at).max(limits::FIRING_LEAST_MS);
        self.next_firing = Some(self.next_firing.map_or(at, |next| next.min(at)));
    }

    /// Sweeps at that time, if it is before the next sweep; but not at once again, so that many times close together
    /// need one sweep.
    pub(super) fn sweep_at(&mut self, at: Timestamp) {
        let ahead = self.ahead(at).max(limits::SWEEP_LEAST_MS);
        self.next_sweep = self.next_sweep.min(self.clock_ms() + ahead);
    }
}

fn log_late(agent: String, late: &LatePlan, now: Timestamp) {
    let LatePlan { plan, name, slot, .. } = late;
    let by = span_text(u64::try_from(now.duration_since(*slot).as_secs()).unwrap_or_default() * 1_000);
    tracing::info!(agent, %plan, ?name, %slot, "a plan did not fire: its time passed {by} ago, later than it may fire");
}
