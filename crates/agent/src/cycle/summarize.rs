//! How a summary of the history is had: from a model, within a few attempts, or else by rule. Nothing is written before the view
//! is committed, so a crash on the way leaves the old view.

use std::sync::Arc;

use jiff::Timestamp;

use super::driver::{SummaryEnd, SummaryRequest};
use super::{ActivationEnd, After, Cycle, Next, State, Step};
use crate::changes::CommitKind;
use crate::compaction;
use crate::config::SummaryBy;
use crate::entry::{Compaction, Entry, UnusableSummaries, View};
use crate::limits;
use crate::port::{ModelInfo, Reply};
use crate::prompt::{Item, Prompt};
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
    /// What the requests used.
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
}

impl Cycle {
    /// Goes over to that view; asks a model for the summary first if the config wants it.
    pub(super) fn compact(&self, view: View, must: bool, then: Then, now: Timestamp) -> State {
        let gone = compaction::left_out(&self.log.window, &view);
        if !self.wants_model(&view) || self.outside.park.is_some() || self.is_little(&gone) {
            return self.change_view(view, Usage::default(), then, now);
        }
        let summarizing = Summarizing { view, gone, attempts: 0, usage: Usage::default(), must, then };
        let rounds = self.unusable_rounds(&summarizing.view);
        if rounds >= limits::SUMMARY_UNUSABLE_ROUNDS && !rounds.is_multiple_of(limits::SUMMARY_ASKED_EVERY) {
            let why = format!("not asked: it had no usable answer for {rounds} compactions in a row");
            return self.unusable(summarizing, &why, now);
        }
        State::Summarizing(Box::new(summarizing))
    }

    /// Whether a model is to write the summary of this view: it has a new one, and the config wants that.
    fn wants_model(&self, view: &View) -> bool {
        let by_model = self.pinned.config.history.summary == SummaryBy::Model && !self.summarizer().demo;
        by_model && view.compaction != self.log.view.compaction
    }

    /// Whether a summary of these entries is not worth a request. They are digested instead, with the summary before.
    fn is_little(&self, gone: &[Arc<Entry>]) -> bool {
        let tokens: u64 = gone.iter().map(|entry| u64::from(entry.tokens)).sum();
        let share = self.pinned.budget(None, 0).tokens * limits::SUMMARY_ASKED_MIN_PERCENT / 100;
        tokens < share.min(limits::SUMMARY_ASKED_MIN_TOKENS)
    }

    /// The view, which must be used at once, with the reason why no model is asked for its summary.
    pub(super) fn at_once(&self, mut view: View, why: &str) -> View {
        if self.wants_model(&view)
            && let Some(compaction) = &mut view.compaction
        {
            compaction.refused = Some(why.to_owned());
        }
        view
    }

    pub(super) fn next_summarizing(&mut self, summarizing: Box<Summarizing>, now: Timestamp) -> Next {
        if self.outside.cancel || self.outside.park.is_some() {
            self.state = self.drop_summary(*summarizing, now);
            return self.next(now);
        }
        let prompt = self.summary_prompt(&summarizing);
        let model = self.pinned.config.history.summary_model.clone();
        let may_wait = summarizing.step().is_none();
        self.state = State::Summarizing(summarizing);
        Next::Summarize(Box::new(SummaryRequest { prompt, model, may_wait }))
    }

    fn summary_prompt(&self, summarizing: &Summarizing) -> Prompt {
        let info = self.summarizer();
        let (window, output) = (u64::from(info.context_window), u64::from(info.max_output));
        let room =
            tokens::bytes_within(window.saturating_sub(output + limits::SUMMARY_RULES_TOKENS).max(1_024));
        let (previous, bytes) = (self.log.view.summary.as_deref(), self.summary_bytes());
        compaction::prompt(previous, &summarizing.gone, room, bytes, self.open.id)
    }

    /// Reports how the request of [`Next::Summarize`] ended.
    pub fn summarized(&mut self, end: SummaryEnd, now: Timestamp) {
        let State::Summarizing(mut summarizing) = self.take() else { return };
        let ends_anyway = self.outside.cancel || self.outside.park.is_some();
        summarizing.attempts += 1;
        if let SummaryEnd::Dropped(Some(output)) = end {
            // The provider reports no usage for it, so it is estimated.
            let input = Some(estimate(&self.summary_prompt(&summarizing)));
            summarizing.usage.add(&Usage { input, output: Some(output), ..Usage::default() });
        }
        self.state = match end {
            // New work waits: a full window is digested, which takes no time.
            SummaryEnd::Dropped(_) if summarizing.must && !ends_anyway => {
                self.use_digest(*summarizing, Compaction::NEW_WORK, now)
            }
            SummaryEnd::Dropped(_) => self.drop_summary(*summarizing, now),
            SummaryEnd::Replied(replied) => match *replied {
                Ok(model_reply) => self.summary_replied(summarizing, &model_reply.reply, now),
                // The model cannot be reached now; while there is room, a later summary will do.
                Err(_) if !summarizing.must => self.drop_summary(*summarizing, now),
                Err(error) => self.use_digest(*summarizing, error.class(), now),
            },
        };
    }

    fn summary_replied(&self, mut summarizing: Box<Summarizing>, reply: &Reply, now: Timestamp) -> State {
        summarizing.usage.add(&reply.usage);
        let (previous, bytes) = (self.log.view.summary.as_deref(), self.summary_bytes());
        match compaction::accepted(reply, previous, &summarizing.gone, bytes) {
            Ok(text) => {
                let Summarizing { view, usage, then, .. } = *summarizing;
                let view = compaction::summarized(view, text, &self.summarizer().name, usage);
                self.change_view(view, usage, then, now)
            }
            Err(_) if summarizing.attempts < limits::SUMMARY_ATTEMPTS => State::Summarizing(summarizing),
            Err(why) => self.unusable(*summarizing, &why.to_string(), now),
        }
    }

    /// The digest stays, because the model once more has no usable answer, or was not asked for one.
    fn unusable(&self, mut summarizing: Summarizing, why: &str, now: Timestamp) -> State {
        let rounds = self.unusable_rounds(&summarizing.view).saturating_add(1);
        if let Some(compaction) = &mut summarizing.view.compaction {
            let model = self.summarizer().name.clone();
            compaction.unusable = Some(UnusableSummaries { model, rounds });
        }
        self.use_digest(summarizing, why, now)
    }

    /// Compactions in a row before this one without a usable answer of the model that writes summaries now.
    fn unusable_rounds(&self, view: &View) -> u32 {
        let unusable = view.compaction.as_ref().and_then(|compaction| compaction.unusable.as_ref());
        unusable
            .filter(|unusable| unusable.model == self.summarizer().name)
            .map_or(0, |unusable| unusable.rounds)
    }

    /// The model that writes summaries.
    fn summarizer(&self) -> &ModelInfo {
        self.pinned.model(self.pinned.config.history.summary_model.as_deref())
    }

    /// The digest stays, because of `why`.
    fn use_digest(&self, summarizing: Summarizing, why: &str, now: Timestamp) -> State {
        let Summarizing { mut view, usage, then, .. } = summarizing;
        if let Some(compaction) = &mut view.compaction {
            (compaction.refused, compaction.usage) = (Some(why.to_owned()), usage);
        }
        self.change_view(view, usage, then, now)
    }

    /// What follows without the new view: the step (which asks for it again, or ends because of a cancel), or the end. What
    /// the requests used is charged.
    fn drop_summary(&self, summarizing: Summarizing, now: Timestamp) -> State {
        let Summarizing { usage, then, .. } = summarizing;
        match then {
            Then::Step(step) if usage.is_none() => State::Ready(step),
            Then::End(end) if usage.is_none() => State::Finished(end),
            then => self.commit_summary(None, usage, then, now),
        }
    }

    fn change_view(&self, view: View, usage: Usage, then: Then, now: Timestamp) -> State {
        self.commit_summary(Some(view), usage, then, now)
    }

    /// Commits the view, if there is one; the usage is charged to the agent.
    fn commit_summary(&self, view: Option<View>, usage: Usage, then: Then, now: Timestamp) -> State {
        let mut changes = self.changes(CommitKind::View, now);
        let after = match then {
            Then::Step(step) => After::Ready(step),
            Then::End(end) => {
                changes.open = None;
                After::ViewThenFinished(end)
            }
        };
        let price = self.summarizer().price;
        changes.cost_micros = price.filter(|_| !usage.is_none()).and_then(|price| price.cost(&usage));
        changes.usage = usage;
        changes.view = view;
        State::Committing(Box::new(changes), after)
    }

    fn summary_bytes(&self) -> usize {
        self.pinned.budget(None, 0).summary
    }
}

/// Tokens of a request for a summary, by the estimate.
fn estimate(prompt: &Prompt) -> u64 {
    let items = prompt.items.iter().map(|item| match item {
        Item::Layer(text) => tokens::estimate(text),
        Item::Entry(entry) => entry.tokens,
    });
    items.chain([tokens::estimate(&prompt.system)]).map(u64::from).sum()
}
