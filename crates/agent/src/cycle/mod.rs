//! The cycle machine. It makes every *decision* of one activation (think again, act, commit, skip, stop) and
//! performs none of them. The driver calls [`Cycle::next`], does what it returns, and reports the result. The
//! machine never waits, so it can be tested without a runtime.
//!
//! ```text
//!            ┌──────── Open (may overlap Think) ──┐
//!   begin ───┤                                    ▼
//!            └─ Finished (no work)     ┌─────▶ Ready ─▶ Think ──── skip ──▶ Commit(close) ─▶ Finished
//!                                      │                  │ reply
//!                                      │                  ▼
//!                                      │   Inward ─▶ Commit(decide) ── ends ─▶ Finished
//!                                      │                  │ open calls
//!                                      │                  ▼
//!                                      └── Commit(settle) ◀─ Outward / Await
//! ```
//!
//! Values with the same lifetime share a struct. A transition consumes its state and returns the next one, so
//! the values of a step are dropped with it. An open cycle is rebuilt from its entries, call rows, life row and
//! stored layers alone, so every prefix of the commits is a valid start (invariant 7).

mod acting;
mod asking;
mod attempts;
mod begin;
mod close;
mod context;
mod decide;
mod driver;
mod exposure;
mod fail;
mod log;
mod outcome;
mod outside;
mod pinned;
mod prompt;
mod record;
mod reply_check;
mod step;
mod stop;
mod summarize;
#[cfg(test)]
mod tests;
mod text_reply;
mod visible_calls;

pub use context::ContextPreview;
pub use driver::{
    ActivationEnd, ActivationInfo, Crowded, ModelReply, Next, Overfull, Setup, Span, SummaryEnd,
    SummaryRequest,
};
pub use fail::pause_after;

use std::sync::Arc;

use jiff::Timestamp;

use self::acting::Acting;
use self::begin::Opening;
use self::decide::Decision;
use self::log::Log;
use self::outside::Outside;
use self::pinned::{LifeState, Pinned};
use self::step::Step;
use self::summarize::Summarizing;
use crate::changes::{Changes, CommitKind, CommitOutcome, News};
use crate::config::{Awareness, WorkspacePart};
use crate::entry::Compaction;
use crate::event::Trust;
use crate::id::{CycleId, RootId, SpaceId};
use crate::life::{Facts, Lease, OpenCycle};
use crate::limits;
use crate::port::{Done, ModelError, ToolError};
use crate::prepare::{self, Unread};
use crate::prompt::{Item, Prompt};
use crate::tool::names;
use crate::workspace;

/// One activation of one agent.
#[derive(Debug)]
pub struct Cycle {
    /// Fixed for the activation.
    pinned: Pinned,
    /// The life row that the next commit will find.
    life: LifeState,
    /// The part of the history that is sent to the model.
    log: Log,
    /// The open cycle that the next commit will write.
    open: OpenCycle,
    /// What happened outside the cycle, as last seen.
    outside: Outside,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The opening must be submitted.
    Opening(Box<Opening>),
    /// A commit is under way; `After` is what follows it.
    Committing(Box<Changes>, After),
    /// The opening is being committed while the model is called.
    OpeningAndThinking(Box<Changes>, Box<Step>),
    /// The lease is held; the step must be prepared.
    Ready(Box<Step>),
    /// The request must be built but not sent: the process has died here before.
    Encoding(Box<Step>),
    /// A model is asked for the summary of what a new view leaves out.
    Summarizing(Box<Summarizing>),
    /// The model is called.
    Thinking(Box<Step>),
    /// The inward calls must be run.
    Inward(Box<Step>, Box<Decision>),
    /// The decision must be committed.
    Deciding(Box<Step>, Box<Decision>),
    /// Calls of the step are open.
    Acting(Acting),
    Finished(ActivationEnd),
}

#[derive(Debug)]
enum After {
    /// The open cycle decides what comes next.
    Opened(Box<Opening>),
    /// The view was changed.
    Ready(Box<Step>),
    Sent(Box<Step>),
    Arrived(Box<Step>, Box<ModelReply>),
    Decided(Box<Step>, Box<Decision>, Option<ActivationEnd>),
    /// A call was started, or some calls were settled.
    Acting(Acting),
    /// All calls are settled.
    Settled(Acting),
    /// The cycle ended or was parked. `At` is what it was doing, in case a cancel arrives first.
    Finished(ActivationEnd, At),
    /// The view is cut after the cycle closed.
    ViewThenFinished(ActivationEnd),
}

/// What a cycle is doing: thinking about a step, or running its calls.
#[derive(Clone, Debug)]
enum At {
    Step(Box<Step>),
    Acting(Acting),
}

impl Cycle {
    /// The lease that the next commit must carry.
    pub fn lease(&self) -> Lease {
        Lease { agent: self.pinned.agent, epoch: self.life.epoch }
    }

    /// The open cycle (or the one that would open).
    pub fn id(&self) -> CycleId {
        self.open.id
    }

    /// The current step.
    pub fn step(&self) -> u32 {
        self.open.step
    }

    /// Spaces that this cycle's events came from or that it has posted in.
    pub fn spaces(&self) -> Vec<SpaceId> {
        let mut spaces: Vec<SpaceId> = self.open.requesters.iter().filter_map(|r| r.space).collect();
        spaces.extend(self.open.addressed.iter().copied());
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    /// The agent's active space.
    pub fn active_space(&self) -> Option<SpaceId> {
        self.life.active_space
    }

    /// The causal root and the hop of its messages.
    pub fn cause(&self) -> (&RootId, u32) {
        let cause = self.step_now().and_then(|step| step.cause.as_ref());
        cause.map_or((&self.open.root, self.open.hop), |cause| (&cause.root, cause.hop))
    }

    /// The trust of what the agent says in the current step.
    pub fn trust_of_messages(&self) -> Trust {
        self.step_now().map_or(Trust::Outside, |step| self.trust_of_message(step))
    }

    /// Whether an urgent event of a requester keeps a call that cannot be repeated from beginning.
    pub fn barrier(&self) -> bool {
        self.pinned.config.barrier
    }

    /// The model of the current step, as the config names it; `None` is the agent's own model.
    pub fn model(&self) -> Option<&str> {
        self.step_now()?.model.as_deref()
    }

    /// Spaces, members and memories, as last read.
    pub fn facts(&self) -> &Arc<Facts> {
        &self.outside.facts
    }

    /// `commit_n` and the window, to be kept in memory for the next activation.
    pub fn into_warm(self) -> (u64, Vec<Arc<crate::entry::Entry>>) {
        (self.life.commit_n, self.log.window)
    }

    /// The keys of pinned memories that the prompt does not show although it must.
    pub fn missing_pins(&self, prompt: &Prompt) -> Vec<String> {
        if !self.pinned.config.workspace.show.contains(&WorkspacePart::Memories) {
            return Vec::new();
        }
        let layers = prompt.items.iter().filter_map(|item| match item {
            Item::Layer(text) => Some(&**text),
            Item::Entry(_) => None,
        });
        workspace::missing_pins(&self.outside.facts.memories, layers)
    }

    /// The compaction of the view that the store has.
    pub fn compaction(&self) -> Option<&Compaction> {
        self.log.stored_view().compaction.as_ref()
    }

    /// What to do next.
    pub fn next(&mut self, now: Timestamp) -> Next {
        match self.take() {
            State::Opening(opening) => self.next_opening(opening, now),
            State::Ready(step) => self.next_ready(step, now),
            State::Encoding(step) => {
                let prompt = self.prompt(&step);
                self.state = State::Encoding(step);
                Next::Encode(prompt)
            }
            State::Summarizing(summarizing) => self.next_summarizing(summarizing, now),
            State::Inward(step, decision) => {
                let rows = decision.inward_rows();
                self.state = State::Inward(step, decision);
                Next::Inward(rows)
            }
            State::Deciding(step, decision) => self.next_deciding(step, decision, now),
            State::Acting(acting) => self.next_acting(acting, now),
            State::Finished(end) => {
                self.state = State::Finished(end.clone());
                Next::Finished(end)
            }
            // The driver has not reported a result yet: return the same request again.
            State::Committing(changes, after) => {
                let next = Next::Commit(changes.clone());
                self.state = State::Committing(changes, after);
                next
            }
            State::Thinking(step) => {
                let prompt = self.prompt(&step);
                self.state = State::Thinking(step);
                Next::Think(prompt)
            }
            State::OpeningAndThinking(changes, step) => {
                let prompt = self.prompt(&step);
                self.state = State::OpeningAndThinking(changes, step);
                Next::Think(prompt)
            }
        }
    }

    /// The opening of [`Next::Open`] is submitted. Returns the prompt that may be sent before it is committed, if any.
    pub fn prompt_while_opening(&mut self, now: Timestamp) -> Option<Prompt> {
        match self.take() {
            State::Committing(changes, After::Opened(opening)) => match *opening {
                Opening { at: At::Step(mut step), .. } => {
                    self.show_inbox(&mut step, now);
                    if let Some(view) = self.show_workspace(&mut step, now) {
                        self.log.narrow(view);
                        self.show_workspace(&mut step, now);
                    }
                    let prepared = self.prepare_narrowed(&mut step, now);
                    self.show(&mut step, prepared, now);
                    step.first_called = Some(now);
                    let prompt = self.prompt(&step);
                    self.state = State::OpeningAndThinking(changes, step);
                    Some(prompt)
                }
                opening => {
                    self.state = State::Committing(changes, After::Opened(Box::new(opening)));
                    None
                }
            },
            State::Committing(mut changes, After::Settled(acting)) => {
                // As if it were committed; then its entries are not added again. If it is not, the activation ends.
                self.applied(&changes);
                changes.entries.clear();
                let mut step = Step::next(&self.open);
                let anew = self.show_workspace(&mut step, now);
                let prepared = self.prepare(&step, now);
                if anew.is_some() || prepared.view.is_some() {
                    self.state = State::Committing(changes, After::Settled(acting));
                    return None;
                }
                self.show(&mut step, prepared, now);
                step.first_called = Some(now);
                let prompt = self.prompt(&step);
                self.state = State::OpeningAndThinking(changes, step);
                Some(prompt)
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Reports the outcome of the requested commit.
    pub fn committed(&mut self, outcome: CommitOutcome, now: Timestamp) {
        self.state = match self.take() {
            State::OpeningAndThinking(changes, step) => match outcome {
                CommitOutcome::Committed { glance, .. } => {
                    self.applied(&changes);
                    self.outside.note_glance(glance);
                    State::Thinking(step)
                }
                _ => State::Finished(ActivationEnd::Lost),
            },
            State::Committing(changes, after) => self.apply_outcome(*changes, after, outcome, now),
            other => other,
        };
    }

    /// Reports news that was read after [`Next::Look`] or a signal; `None` if the lease is lost.
    pub fn looked(&mut self, news: Option<News>) {
        let Some(news) = news else {
            self.state = State::Finished(ActivationEnd::Lost);
            return;
        };
        self.outside.looked(&news);
        if let State::Acting(acting) = &mut self.state {
            acting.answered(news.answered);
            acting.granted(news.granted);
        }
        if let Some(facts) = news.facts {
            self.outside.facts = Arc::new(facts);
        }
    }

    /// Whether another model of the config is called if this one fails.
    pub fn has_fallback(&self) -> bool {
        self.outside.fallbacks_used < self.pinned.config.fallback.len()
    }

    /// Whether a generation or a wait should be aborted at once.
    pub fn interrupted(&self) -> bool {
        self.outside.cancel
    }

    /// Whether a generation should be aborted because of this news.
    pub fn outdated_by(&self, news: &News) -> bool {
        let (State::Thinking(step) | State::OpeningAndThinking(_, step)) = &self.state else { return false };
        self.pinned.config.awareness == Awareness::Interrupt
            && !self.is_suspect(step)
            && self.open.interrupts < limits::INTERRUPTS_PER_CYCLE
            && self.injection_room(step) > 0
            && prepare::is_news(&Unread::of(news), &step.seqs())
    }

    /// The driver aborted a generation because of [`Cycle::outdated_by`]. `tokens` is the estimated number of
    /// generated tokens (`None`: no generation was running). They are charged, and the step starts again.
    pub fn outdated(&mut self, news: News, tokens: Option<u64>) {
        self.open.interrupts += 1;
        self.open.vain.interrupts += 1;
        self.looked(Some(news));
        self.discarded(tokens);
    }

    /// The driver aborted a generation after an estimated number of tokens. They are charged, and the step is
    /// prepared again.
    pub fn discarded(&mut self, tokens: Option<u64>) {
        self.state = match self.take() {
            State::Thinking(step) => {
                self.charge_aborted(&step, tokens);
                State::Ready(step)
            }
            other => other,
        };
    }

    /// The node stops: end the activation before the next step.
    pub fn stop(&mut self, reason: &str) {
        self.outside.park.get_or_insert_with(|| reason.to_owned());
    }

    /// The request of [`Next::Encode`] was built: it may be sent.
    pub fn encoded(&mut self, now: Timestamp) {
        self.state = match self.take() {
            State::Encoding(step) => {
                let mut changes = self.changes(CommitKind::Sent, now);
                changes.open = Some(OpenCycle { asked: true, ..self.open.clone() });
                State::Committing(Box::new(changes), After::Sent(step))
            }
            other => other,
        };
    }

    /// Reports the model's reply or its error.
    pub fn replied(&mut self, model_reply: Result<ModelReply, ModelError>, now: Timestamp) {
        self.state = match (self.take(), model_reply) {
            (State::Thinking(step), Ok(model_reply)) if self.open.asked => {
                let mut changes = self.changes(CommitKind::Arrived, now);
                changes.open = Some(OpenCycle { asked: false, ..self.open.clone() });
                State::Committing(Box::new(changes), After::Arrived(step, Box::new(model_reply)))
            }
            (State::Thinking(step), Ok(model_reply)) => self.decide(step, model_reply, now),
            (State::Thinking(step), Err(error)) => self.model_failed(step, &error, now),
            (other, _) => other,
        };
    }

    /// Reports the results of the inward calls, in the order of [`Next::Inward`].
    pub fn acted(&mut self, results: Vec<Result<Done, ToolError>>) {
        self.state = match self.take() {
            State::Inward(step, mut decision) => {
                self.take_results(&step, &mut decision, results);
                State::Deciding(step, decision)
            }
            other => other,
        };
    }

    /// Reports how long this activation has lasted, by a monotonic clock. Time between the activations of a
    /// cycle (an outage, a suspension, a server stop) does not count.
    pub fn set_awake_ms(&mut self, ms: u64) {
        self.open.awake_ms = self.pinned.awake_before.saturating_add(ms);
    }

    /// Takes the state in order to replace it. If a panic comes between, the remaining state commits nothing.
    fn take(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Finished(ActivationEnd::Lost))
    }

    fn step_now(&self) -> Option<&Step> {
        match &self.state {
            State::Ready(step)
            | State::Encoding(step)
            | State::Thinking(step)
            | State::OpeningAndThinking(_, step)
            | State::Inward(step, _)
            | State::Deciding(step, _) => Some(step),
            State::Opening(opening) => opening.at.step(),
            State::Committing(_, after) => after.step(),
            State::Summarizing(summarizing) => summarizing.step(),
            State::Acting(_) | State::Finished(_) => None,
        }
    }

    /// A commit of the open cycle that leaves it open.
    fn changes(&self, kind: CommitKind, now: Timestamp) -> Changes {
        let mut changes = Changes::new(kind, self.open.id, self.open.step, self.life.commit_n, now);
        changes.open = Some(self.open.clone());
        changes
    }

    fn commit(&mut self, changes: Changes, after: After) -> Next {
        let changes = Box::new(changes);
        self.state = State::Committing(changes.clone(), after);
        Next::Commit(changes)
    }
}

impl At {
    fn step(&self) -> Option<&Step> {
        match self {
            Self::Step(step) => Some(step),
            Self::Acting(_) => None,
        }
    }
}

impl After {
    fn step(&self) -> Option<&Step> {
        match self {
            Self::Opened(opening) => opening.at.step(),
            Self::Ready(step) | Self::Sent(step) | Self::Arrived(step, _) | Self::Decided(step, ..) => {
                Some(step)
            }
            Self::Finished(_, at) => at.step(),
            Self::Acting(_) | Self::Settled(_) | Self::ViewThenFinished(_) => None,
        }
    }
}
