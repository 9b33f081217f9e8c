//! What the world did meanwhile, as the last glance brought it.

use crate::changes::{Glance, News};
use crate::life::Facts;
use crate::prepare::Unread;

/// As last seen.
#[derive(Debug)]
pub(super) struct Outside {
    /// What waits beside the events that are taken.
    pub(super) waits: Unread,
    pub(super) facts: Facts,
    /// Calls of the agent that go on beyond their cycles.
    pub(super) detached: usize,
    /// Somebody asked to cancel the cycle.
    pub(super) cancel: bool,
    /// The activation is to end at the next border of a step, for this reason.
    pub(super) park: Option<String>,
    /// Whether the model that is asked has answered anything yet, to anybody.
    pub(super) answers: bool,
    /// Providers that failed in this activation: so many models of `fallback` are passed over.
    pub(super) fallen: usize,
    /// The newest glance, and the one behind which was looked.
    glance: Glance,
    seen: Glance,
}

impl Outside {
    /// Nothing is known yet but what the activation began with.
    pub(super) fn new(facts: Facts, cancel: bool) -> Self {
        let glance = Glance { facts_rev: facts.rev, ..Glance::default() };
        let waits = Unread::default();
        Self { waits, facts, detached: 0, cancel, park: None, answers: true, fallen: 0, glance, seen: glance }
    }

    pub(super) fn noted(&mut self, glance: Glance) {
        self.cancel |= glance.cancel;
        self.detached = glance.detached as usize;
        if glance.suspended {
            self.park.get_or_insert_with(|| "suspended".to_owned());
        }
        if glance.waiting == 0 {
            self.waits = Unread::default();
        }
        self.glance = glance;
    }

    pub(super) fn looked(&mut self, news: &News) {
        self.noted(news.glance);
        self.waits = Unread::of(news);
        self.seen = news.glance;
    }

    /// Whether more is known to wait, or to have changed, than was read; what waits matters only where
    /// somebody would be shown it.
    pub(super) fn is_stale(&self, shows_what_waits: bool) -> bool {
        let waits = |glance: &Glance| (glance.waiting, glance.newest, glance.urgent);
        let new = self.glance.waiting > 0 && waits(&self.glance) != waits(&self.seen);
        (shows_what_waits && new) || self.glance.facts_rev != self.facts.rev
    }

    /// Whether calls of the step were answered from outside since that was looked for.
    pub(super) fn has_answers(&self) -> bool {
        self.glance.answered > 0 && self.glance.answered != self.seen.answered
    }
}
