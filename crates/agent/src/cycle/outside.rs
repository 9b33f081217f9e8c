//! What happened outside the cycle, as the last glance reported it.

use std::sync::Arc;

use crate::changes::{Glance, Inward, News};
use crate::event::NamedMessage;
use crate::life::Facts;
use crate::prepare::Unread;
use crate::workspace::OwnChange;

/// The outside world, as last seen.
#[derive(Debug)]
pub(super) struct Outside {
    /// Waiting events, apart from those that are taken.
    pub(super) waits: Unread,
    pub(super) facts: Arc<Facts>,
    /// Messages before the taken events that the agent was not shown.
    pub(super) recent: Vec<NamedMessage>,
    /// What of the workspace the last decision changed.
    pub(super) own_changes: Vec<OwnChange>,
    /// Number of the agent's detached calls.
    pub(super) detached: usize,
    /// A cancel of the cycle was requested.
    pub(super) cancel: bool,
    /// The activation must end before the next step, for this reason.
    pub(super) park: Option<String>,
    /// Whether the model has answered any request yet, of any agent.
    pub(super) model_answers: bool,
    /// Models that failed in this activation: the number of `fallback` models used so far.
    pub(super) fallbacks_used: usize,
    /// The newest glance.
    glance: Glance,
    /// The glance whose news was read last.
    seen: Glance,
}

impl Outside {
    /// Only what the activation began with is known.
    pub(super) fn new(facts: Facts, recent: Vec<NamedMessage>, cancel: bool) -> Self {
        let glance = Glance { facts_rev: facts.rev, ..Glance::default() };
        let waits = Unread::default();
        Self {
            waits,
            facts: Arc::new(facts),
            recent,
            own_changes: Vec::new(),
            detached: 0,
            cancel,
            park: None,
            model_answers: true,
            fallbacks_used: 0,
            glance,
            seen: glance,
        }
    }

    pub(super) fn note_glance(&mut self, glance: Glance) {
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

    /// The agent has changed its own facts.
    pub(super) fn note_own(&mut self, inward: &Inward) {
        self.own_changes.extend(OwnChange::of(inward));
    }

    pub(super) fn looked(&mut self, news: &News) {
        self.note_glance(news.glance);
        self.waits = Unread::of(news);
        self.seen = news.glance;
    }

    /// Whether the glance reports newer events or facts than were read. Events matter only if the step may show
    /// them.
    pub(super) fn is_stale(&self, shows_what_waits: bool) -> bool {
        let waiting = |glance: &Glance| (glance.waiting, glance.newest, glance.urgent);
        let new = self.glance.waiting > 0 && waiting(&self.glance) != waiting(&self.seen);
        (shows_what_waits && new) || self.glance.facts_rev != self.facts.rev
    }

    /// Whether events wait for the agent that no step has shown in full.
    pub(super) fn is_wanted(&self) -> bool {
        self.glance.waiting > 0
    }

    /// How often calls of the step were answered from outside, as last seen.
    pub(super) fn answered(&self) -> u32 {
        self.glance.answered
    }

    /// Whether calls of the step were answered from outside since the news was read.
    pub(super) fn has_answers(&self) -> bool {
        self.glance.answered > 0 && self.glance.answered != self.seen.answered
    }
}
