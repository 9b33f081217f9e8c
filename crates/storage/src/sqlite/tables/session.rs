//! What every command may know of this opening of the store.

use std::sync::Arc;

use agent::port::Clock;
use jiff::{SignedDuration, Timestamp};

use super::configs::Configs;
use super::opening::Opening;
use super::totals::Counted;
use super::waits::Lead;

/// What every command may know of this opening of the store.
pub(crate) struct Session {
    /// Counts the openings; rows accepted during this one carry it.
    pub(crate) boot: i64,
    /// Whether the store was closed cleanly before this opening.
    pub(crate) clean: bool,
    /// Configs by revision: they never change.
    pub(crate) configs: Configs,
    /// What was counted already.
    pub(crate) counted: Counted,
    /// How far the wall clock is ahead, so that it is noticed when it is set back.
    pub(crate) lead: Lead,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Session {
    /// Now, on the clock that the stored times were written with: until they are shifted after the clock was set
    /// back, this is the time before that.
    pub(crate) fn now(&self) -> Timestamp {
        let (now, back) = (self.clock.now(), self.lead.set_back(&*self.clock).unwrap_or(0));
        now.checked_add(SignedDuration::from_millis(back)).unwrap_or(now)
    }

    /// Nothing is known yet but how it began.
    pub(crate) fn new(opening: Opening, clock: Arc<dyn Clock>) -> Self {
        let (boot, clean, lead) = (opening.boot, opening.clean, Lead::new(&*clock));
        Self { boot, clean, configs: Configs::default(), counted: Counted::default(), lead, clock }
    }
}
