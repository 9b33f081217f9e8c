//! What every command may use of the current opening of the store.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use agent::port::Clock;
use jiff::Timestamp;
use tokio::sync::Notify;

use super::configs::Configs;
use super::lead::Lead;
use super::opening::Opening;
use super::queue::Signal;
use super::totals::Counted;
use crate::sqlite::engine::writer::Memory;

/// What every command may use of the current opening of the store.
pub(crate) struct Session {
    /// The number of this opening, stored in rows that are accepted during it.
    pub(crate) boot: i64,
    /// Whether the store was closed cleanly before this opening.
    pub(crate) clean: bool,
    /// Parsed configs by revision.
    pub(crate) configs: Configs,
    /// How many agents and spaces have been counted.
    pub(crate) counted: Counted,
    /// On which clock the stored times are based: shows when it was set back.
    pub(crate) lead: Lead,
    pub(crate) clock: Arc<dyn Clock>,
    /// What the search index waits for.
    pub(crate) index: Arc<Signal>,
    /// What a check of the file has found damaged.
    pub(crate) damage: OnceLock<String>,
    /// Whether the store is being closed: then no check goes on.
    pub(crate) closing: AtomicBool,
    /// Told of every commit, for who sends what targets are told.
    pub(crate) committed: Arc<Notify>,
}

impl Session {
    /// The current time, for comparison with stored times of agents that are settled ([`super::shift::settle`]).
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A session of this opening; nothing is cached yet.
    pub(crate) fn new(opening: Opening, clock: Arc<dyn Clock>) -> Self {
        let (boot, clean, lead) = (opening.boot, opening.clean, Lead::new(&*clock));
        let (configs, counted, index) = (Configs::default(), Counted::default(), Arc::default());
        let (damage, closing, committed) = (OnceLock::new(), AtomicBool::new(false), Arc::default());
        Self { boot, clean, configs, counted, lead, clock, index, damage, closing, committed }
    }
}

impl Memory for Session {
    fn committed(&self) {
        self.lead.committed();
        self.index.wake();
        self.committed.notify_one();
    }

    fn rolled_back(&self) {
        self.lead.rolled_back();
    }
}
