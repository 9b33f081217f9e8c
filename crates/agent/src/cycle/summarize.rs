//! How a summary of the history is had: from a model, within a few attempts, or else by rule. Nothing is written before the view
//! is committed, so a crash on the way leaves the old view.

use std::sync::Arc;

use jiff::Timestamp;

use super::driver::{SummaryEnd, SummaryRequest};
use super::record::cost;
use super::{ActivationEnd, After, Cycle, Next, State, Step};
use crate::changes::CommitKind;
use crate::compaction;
use crate::config::SummaryBy;
use crate::entry::{Entry, View};
use crate::limits;
use crate::port::Reply;
use crate::run::Usage;
use crate::tokens;

/// A summary that is being written.
#[derive(Debug)]
pub(super) struct Summarizing {
    /// The new view, with a digest.
    view: View,
    /// The entries that it leaves out.
    gone: Vec<Arc<Entry>>,
    /// Requests that were answered unusably.
    attempts: u32,
    /// What they used.
    usage: Usage,
    /// Whether the window is so full that the view changes now, with or without a model's summary.
    must: bool,
    then: Then,
}

/// What follows a change of the view.
#[derive(Debug)]
pub(super) enum Then {
    /// The step goes on.
    Step(Box<Step>),
    /// The activation ends.
    End(ActivationEnd),
}

impl Summarizing {
    /// The step that waits for it.
    pub(super) fn step(&self) -> Option<&Step> {
        match &self.then {
            Then::Step(step) => Some(step),
            Then::End(_) => None,
        }
    }

    /// What follows without the new view: the step (which asks for it again, or ends because of a cancel), or the end.
    fn dropped(self) -> State {
        match self.then {
            Then::Step(step) => State::Ready(step),
            Then::End(end) => State::Finished(end),
        }
    }
}

impl Cycle {
    /// Goes over to that view; asks a model for the summary first if the config wants it.
    pub(super) fn compact(&self, view: View, must: bool, then: Then, now: Timestamp) -> State {
        let history = &self.pinned.config.history;
        let is_new = view.compaction != self.log.view.compaction;
        let demo = self.pinned.model(history.summary_model.as_deref()).demo;
        if !is_new || history.summary != SummaryBy::Model || demo || self.outside.park.is_some() {
            return self.change_view(view, Usage::default(), then, now);
        }
        let gone = compaction::left_out(&self.log.window, &view);
        let (attempts, usage) = (0, Usage::default());
        State::Summarizing(Box::new(Summarizing { view, gone, attempts, usage, must, then }))
    }

    pub(super) fn next_summarizing(&mut self, summarizing: Box<Summarizing>, now: Timestamp) -> Next {
        if self.outside.cancel || self.outside.park.is_some() {
            self.state = summarizing.dropped();
            return self.next(now);
        }
        let model = self.pinned.config.history.summary_model.clone();
        let info = self.pinned.model(model.as_deref());
        let (window, output) = (u64::from(info.context_window), u64::from(info.max_output));
        let room =
            tokens::bytes_within(window.saturating_sub(output + limits::SUMMARY_RULES_TOKENS).max(1_024));
        let (previous, bytes) = (self.log.view.summary.as_deref(), self.summary_bytes());
        let prompt = compaction::prompt(previous, &summarizing.gone, room, bytes, self.open.id);
        let may_wait = summarizing.step().is_none();
        self.state = State::Summarizing(summarizing);
        Next::Summarize(Box::new(SummaryRequest { prompt, model, may_wait }))
    }

    /// Reports how the request of [`Next::Summarize`] ended.
    pub fn summarized(&mut self, end: SummaryEnd, now: Timestamp) {
        let State::Summarizing(mut summarizing) = self.take() else { return };
        let ends_anyway = self.outside.cancel || self.outside.park.is_some();
        summarizing.attempts += 1;
        self.state = match end {
            // New work waits: a full window is digested, which takes no time.
            SummaryEnd::Dropped if summarizing.must && !ends_anyway => {
                self.use_digest(*summarizing, "new work came", now)
            }
            SummaryEnd::Dropped => summarizing.dropped(),
            SummaryEnd::Replied(replied) => match *replied {
                Ok(model_reply) => self.summary_replied(summarizing, &model_reply.reply, now),
                // The model cannot be reached now; while there is room, a later summary will do.
                Err(_) if !summarizing.must => summarizing.dropped(),
                Err(error) => self.use_digest(*summarizing, error.class(), now),
            },
        };
    }

    fn summary_replied(&self, mut summarizing: Box<Summarizing>, reply: &Reply, now: Timestamp) -> State {
        summarizing.usage.add(&reply.usage);
        let (previous, bytes) = (self.log.view.summary.as_deref(), self.summary_bytes());
        match compaction::accepted(reply, previous, &summarizing.gone, bytes) {
            Ok(text) => {
                let model = self.pinned.config.history.summary_model.as_deref();
                let name = self.pinned.model(model).name.clone();
                let Summarizing { view, usage, then, .. } = *summarizing;
                self.change_view(compaction::summarized(view, text, &name, usage), usage, then, now)
            }
            Err(_) if summarizing.attempts < limits::SUMMARY_ATTEMPTS => State::Summarizing(summarizing),
            Err(why) => self.use_digest(*summarizing, &why.to_string(), now),
        }
    }

    /// The digest stays, because of `why`.
    fn use_digest(&self, summarizing: Summarizing, why: &str, now: Timestamp) -> State {
        let Summarizing { mut view, usage, then, .. } = summarizing;
        if let Some(compaction) = &mut view.compaction {
            (compaction.refused, compaction.usage) = (Some(why.to_owned()), usage);
        }
        self.change_view(view, usage, then, now)
    }

    /// Commits the view; the usage is charged to the agent.
    fn change_view(&self, view: View, usage: Usage, then: Then, now: Timestamp) -> State {
        let mut changes = self.changes(CommitKind::View, now);
        let after = match then {
            Then::Step(step) => After::Ready(step),
            Then::End(end) => {
                changes.open = None;
                After::ViewThenFinished(end)
            }
        };
        let price = self.pinned.model(self.pinned.config.history.summary_model.as_deref()).price;
        changes.cost_micros = price.filter(|_| !usage.is_none()).and_then(|price| cost(price, &usage));
        changes.usage = usage;
        changes.view = Some(view);
        State::Committing(Box::new(changes), after)
    }

    fn summary_bytes(&self) -> usize {
        self.pinned.budget(None, 0).summary
    }
}
