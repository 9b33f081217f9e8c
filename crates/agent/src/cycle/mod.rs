//! The cycle machine: all *decisions* of one activation (think again, act, commit, skip, stop) and no
//! *doing*. The driver asks [`Cycle::next`], does what it says, and tells the machine what came of
//! it; the machine never waits, so it is tested without a runtime.
//!
//! ```text
//!            ┌──────── Open (may overlap Think) ──┐
//!   begin ───┤                                    ▼
//!            └─ Rest (nothing to do)   ┌─────▶ Ready ─▶ Think ──── skip ──▶ Commit(close) ─▶ Rest
//!                                      │                  │ thought
//!                                      │                  ▼
//!                                      │   Inward ─▶ Commit(decide) ── ends ─▶ Rest
//!                                      │                  │ open calls
//!                                      │                  ▼
//!                                      └── Commit(settle) ◀─ Outward / Await
//! ```
//!
//! What lives equally long lives in one struct, and what ends with a step ends by being replaced: a
//! transition takes its state and gives the next. With an open cycle the machine is rebuilt from entries,
//! call rows, the life row and the stored layers alone, so that every prefix of the commits is a valid
//! start (invariant 7).

mod acting;
mod attempts;
mod bad;
mod begin;
mod close;
mod decide;
mod fail;
mod log;
mod mind;
mod outcome;
mod outside;
mod prompt;
mod record;
mod show;
mod step;
mod stop;
mod talk;
#[cfg(test)]
mod tests;
mod who;

pub use fail::idle_after;
pub use mind::ContextPreview;
pub use talk::{ActivationEnd, ModelReply, Next, Occasion, Setup, Span};

use jiff::Timestamp;

use self::acting::Acting;
use self::begin::Opening;
use self::decide::Decision;
use self::log::Log;
use self::outside::Outside;
use self::step::Step;
use self::who::{Row, Who};
use crate::changes::{Changes, CommitKind, CommitOutcome, News};
use crate::config::Awareness;
use crate::id::{CycleId, RootId, SpaceId};
use crate::life::{Facts, Lease, OpenCycle};
use crate::limits;
use crate::port::{Done, ModelError, ToolError};
use crate::prepare::{self, Unread};
use crate::prompt::Prompt;
use crate::tool::names;

/// One activation of one agent.
#[derive(Debug)]
pub struct Cycle {
    /// Fixed for the activation.
    who: Who,
    /// The life row as the next commit finds it.
    row: Row,
    /// What the model is sent of the past.
    log: Log,
    /// The open cycle as the next commit writes it.
    open: OpenCycle,
    /// What the world did meanwhile.
    outside: Outside,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The opening is to be submitted.
    Opening(Box<Opening>),
    /// A commit is under way; where to go when it is done.
    Committing(Box<Changes>, After),
    /// The opening is under way, and the model is asked meanwhile.
    OpeningAndThinking(Box<Changes>, Box<Step>),
    /// The lease is held; the step is to be prepared.
    Ready(Box<Step>),
    /// The request is to be built and not sent: the process has died here before.
    Encoding(Box<Step>),
    /// The model is asked.
    Thinking(Box<Step>),
    /// The inward calls are to be run.
    Inward(Box<Step>, Box<Decision>),
    /// The decision is to be committed.
    Deciding(Box<Step>, Box<Decision>),
    /// Calls of the step are open.
    Acting(Acting),
    /// Over.
    Finished(ActivationEnd),
}

#[derive(Debug)]
enum After {
    /// What is open decides how to go on.
    Opened(Box<Opening>),
    /// The view was changed.
    Ready(Box<Step>),
    Sent(Box<Step>),
    Arrived(Box<Step>, Box<ModelReply>),
    Decided(Box<Step>, Box<Decision>, Option<ActivationEnd>),
    /// A call was begun, or some were settled.
    Acting(Acting),
    /// All calls are settled.
    Settled(Acting),
    /// The cycle is given up or over; what it was doing, should a cancel come first.
    Finished(ActivationEnd, At),
    /// The view was changed after the close.
    ViewThenFinished(ActivationEnd),
}

/// What a cycle is doing: thinking about a step, or acting on one.
#[derive(Clone, Debug)]
enum At {
    Step(Box<Step>),
    Acting(Acting),
}

impl Cycle {
    /// The right to run the agent, as the next commit must carry it.
    pub fn lease(&self) -> Lease {
        Lease { agent: self.who.agent, epoch: self.row.epoch }
    }

    /// The open cycle (or the one that would open).
    pub fn id(&self) -> CycleId {
        self.open.id
    }

    /// The present step.
    pub fn step(&self) -> u32 {
        self.open.step
    }

    /// Spaces that this cycle's events came from or that it has spoken in.
    pub fn spaces(&self) -> Vec<SpaceId> {
        let mut spaces: Vec<SpaceId> = self.open.requesters.iter().filter_map(|r| r.space).collect();
        spaces.extend(self.open.addressed.iter().copied());
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    /// Where the agent stands.
    pub fn active_space(&self) -> Option<SpaceId> {
        self.row.active_space
    }

    /// What its messages descend from, and the hop that they carry.
    pub fn descent(&self) -> (&RootId, u32) {
        let cause = self.step_now().and_then(|step| step.cause.as_ref());
        cause.map_or((&self.open.root, self.open.hop), |cause| (&cause.root, cause.hop))
    }

    /// Whose model answers the present step: a name of the config, or `None` for the agent's own.
    pub fn model(&self) -> Option<&str> {
        self.step_now()?.model.as_deref()
    }

    /// Spaces, members, memories as last known.
    pub fn facts(&self) -> &Facts {
        &self.outside.facts
    }

    /// The window and `commit_n`, to be kept warm.
    pub fn into_warm(self) -> (u64, Vec<std::sync::Arc<crate::entry::Entry>>) {
        (self.row.commit_n, self.log.window)
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
            State::Inward(step, decision) => {
                let rows = decision.inward_rows();
                self.state = State::Inward(step, decision);
                Next::Inward(rows)
            }
            State::Deciding(step, decision) => self.next_deciding(step, decision, now),
            State::Acting(acting) => self.next_acting(acting, now),
            State::Finished(rested) => {
                self.state = State::Finished(rested.clone());
                Next::Finished(rested)
            }
            // The driver has been told what to do and has not answered: it asks again what it waits for.
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

    /// The opening of [`Next::Open`] is submitted: what may be asked before it is done, if anything.
    pub fn meanwhile(&mut self, now: Timestamp) -> Option<Prompt> {
        match self.take() {
            State::Committing(changes, After::Opened(opening)) => match *opening {
                Opening { at: At::Step(mut step), .. } => {
                    self.show_inbox(&mut step, now);
                    let prepared = self.prepare_narrowed(&mut step, now);
                    self.show(&mut step, prepared, now);
                    step.asked_first = Some(now);
                    let prompt = self.prompt(&step);
                    self.state = State::OpeningAndThinking(changes, step);
                    Some(prompt)
                }
                opening => {
                    self.state = State::Committing(changes, After::Opened(Box::new(opening)));
                    None
                }
            },
            other => {
                self.state = other;
                None
            }
        }
    }

    /// What came of the commit that was asked for.
    pub fn committed(&mut self, outcome: CommitOutcome, now: Timestamp) {
        self.state = match self.take() {
            State::OpeningAndThinking(changes, step) => match outcome {
                CommitOutcome::Committed { glance, .. } => {
                    self.applied(&changes);
                    self.outside.noted(glance);
                    State::Thinking(step)
                }
                _ => State::Finished(ActivationEnd::Lost),
            },
            State::Committing(changes, after) => self.came_of(*changes, after, outcome, now),
            other => other,
        };
    }

    /// What the world did meanwhile, read since [`Next::Look`] or a signal; `None` where the lease is lost.
    pub fn looked(&mut self, news: Option<News>) {
        let Some(news) = news else {
            self.state = State::Finished(ActivationEnd::Lost);
            return;
        };
        self.outside.looked(&news);
        if let State::Acting(acting) = &mut self.state {
            acting.answered(news.answered);
        }
        if let Some(facts) = news.facts {
            self.outside.facts = facts;
        }
    }

    /// Whether a generation or a wait should be given up at once.
    pub fn interrupted(&self) -> bool {
        self.outside.cancel
    }

    /// Whether a generation should be given up for these news.
    pub fn outdated_by(&self, news: &News) -> bool {
        let (State::Thinking(step) | State::OpeningAndThinking(_, step)) = &self.state else { return false };
        self.who.config.awareness == Awareness::Interrupt
            && !self.is_suspect(step)
            && self.open.interrupts < limits::INTERRUPTS_PER_CYCLE
            && self.injection_room(step) > 0
            && prepare::is_news(&Unread::of(news), &step.seqs())
    }

    /// The driver gave up a generation because of [`Cycle::outdated_by`], after about so many tokens of it
    /// (`None`: there was none): they are charged, and the step begins anew.
    pub fn outdated(&mut self, news: News, tokens: Option<u64>) {
        self.open.interrupts += 1;
        self.open.vain.interrupts += 1;
        self.looked(Some(news));
        self.discarded(tokens);
    }

    /// The driver gave up a generation after about so many tokens of it: they are charged, and the step
    /// is looked at again.
    pub fn discarded(&mut self, tokens: Option<u64>) {
        self.state = match self.take() {
            State::Thinking(step) => {
                self.charge(&step, tokens);
                State::Ready(step)
            }
            other => other,
        };
    }

    /// The node stops: end the activation at the next border of a step.
    pub fn stop(&mut self, reason: &str) {
        self.outside.park.get_or_insert_with(|| reason.to_owned());
    }

    /// The request of [`Next::Encode`] could be built: it may be sent.
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

    /// The model answered, or it did not.
    pub fn replied(&mut self, model_reply: Result<ModelReply, ModelError>, now: Timestamp) {
        self.state = match (self.take(), model_reply) {
            (State::Thinking(step), Ok(model_reply)) if self.open.asked => {
                let mut changes = self.changes(CommitKind::Arrived, now);
                changes.open = Some(OpenCycle { asked: false, ..self.open.clone() });
                State::Committing(Box::new(changes), After::Arrived(step, Box::new(model_reply)))
            }
            (State::Thinking(step), Ok(model_reply)) => self.decide(step, model_reply, now),
            (State::Thinking(step), Err(error)) => self.refused_by_model(step, &error, now),
            (other, _) => other,
        };
    }

    /// What the inward calls gave, in the order they were handed out.
    pub fn acted(&mut self, results: Vec<Result<Done, ToolError>>) {
        self.state = match self.take() {
            State::Inward(step, mut decision) => {
                self.take_results(&mut decision, results);
                State::Deciding(step, decision)
            }
            other => other,
        };
    }

    /// This activation has lasted so long, by a clock that never jumps. What lies between the activations
    /// of a cycle (an outage, a suspension, a stop of the server) counts for nothing.
    pub fn awake(&mut self, ms: u64) {
        self.open.awake_ms = self.who.awake_before.saturating_add(ms);
    }

    /// Takes the state to make the next of it. Should a panic come between, what is left commits nothing.
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
            State::Acting(_) | State::Finished(_) => None,
        }
    }

    /// A commit of the open cycle that leaves it open.
    fn changes(&self, kind: CommitKind, now: Timestamp) -> Changes {
        let mut changes = Changes::new(kind, self.open.id, self.open.step, self.row.commit_n, now);
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
