//! The cycle machine: all *decisions* of one waking (think again, act, commit, skip, stop) and no
//! *doing*. The driver asks [`Cycle::next`], does what it says, and tells the machine what came of
//! it; the machine never waits, so it is tested without a runtime.
//!
//! ```text
//!            ┌────────────── OpenAndThink / Commit(open) ─┐
//!   begin ───┤                                            ▼
//!            └─ Rest (nothing to do)      ┌──────────▶ Think ──── skip ──▶ Commit(close) ─▶ Rest
//!                                         │              │ thought
//!                                         │              ▼
//!                                         │   Inward ─▶ Count ─▶ Commit(decide) ── ends ─▶ Rest
//!                                         │                        │ open calls
//!                                         │                        ▼
//!                                         └── Commit(settle) ◀─ Outward / Await
//! ```
//!
//! On waking with an open cycle the machine is rebuilt from entries, call rows, the life row and the
//! stored layers alone, so every prefix of the commits is a valid start (invariant 7).

mod applied;
mod bad;
mod begin;
mod close;
mod decide;
mod fail;
mod mind;
mod receipt;
mod settle;
mod show;
mod step;
mod stop;
mod talk;
#[cfg(test)]
mod tests;
mod think;

pub use fail::rest_after;
pub use mind::Mind;
pub use talk::{Next, Occasion, Rested, Setup, Span, Thought, Verdict};

use std::sync::Arc;

use jiff::Timestamp;

use crate::call::{CallRow, Outcome};
use crate::changes::{Changes, Glance, Inward};
use crate::config::{AgentConfig, Awareness, Gate};
use crate::entity::Entity;
use crate::entry::{Entry, View};
use crate::event::Waiting;
use crate::id::{AgentId, CallId, CycleId, RootId, SpaceId};
use crate::inbox;
use crate::life::{Facts, Glimpse, Layer, Lease, OpenCycle};
use crate::limits;
use crate::port::{Done, ModelError, ToolError};
use crate::prepare::{self, Waits};
use crate::prompt::ToolChoice;
use crate::run::Usage;

/// Names of the prebuilt tools whose meaning is part of the rules.
pub mod names {
    /// Gives the whole waking back, as the only call of step 0.
    pub const SKIP: &str = "skip";
    /// Ends the cycle.
    pub const DONE: &str = "done";
    /// Says something in a space.
    pub const SEND_MESSAGE: &str = "send_message";
    /// Makes a space the active one.
    pub const ENTER_SPACE: &str = "enter_space";
}

/// One call of the step in hand.
#[derive(Clone, Debug)]
struct Planned {
    row: CallRow,
    inward: Inward,
    /// What was repaired of it.
    repaired: Option<String>,
}

/// A decision on its way to its commit.
#[derive(Clone, Debug)]
struct Decision {
    thought: Thought,
    calls: Vec<Planned>,
    refusals: u32,
    /// Entries to append, their tokens counted once `counted` is set.
    entries: Vec<Entry>,
    counted: bool,
}

/// What was done to the view so that the step can be asked at all.
#[derive(Clone, Copy, Debug, Default)]
struct Mended {
    /// Entries that are not sent any more.
    left_out: u32,
    /// Times that it was cut to half, since a vendor refused it as too long.
    cut: u32,
    /// Whether it was rebuilt.
    rebuilt: bool,
}

#[derive(Clone, Debug)]
enum State {
    /// The opening is not submitted yet.
    Fresh,
    /// The opening of an earlier cycle's resumption is not submitted yet.
    Resume,
    /// A commit is under way; where to go when it is done.
    Committing(Box<Changes>, After),
    /// Opening and thinking at once.
    OpeningAndThinking(Box<Changes>),
    /// The lease is held, nothing of the step has happened.
    Ready,
    /// The model is asked.
    Thinking,
    /// The inward calls are to be run.
    Inward(Box<Decision>),
    /// Entries are to be counted, then committed.
    Deciding(Box<Decision>),
    /// Calls of the step are open.
    Acting,
    /// The last outcome came: the outcomes entry is to be counted, then committed.
    Settling(Box<Entry>, bool),
    /// Over.
    Rest(Rested),
}

#[derive(Clone, Debug)]
enum After {
    Ready,
    /// A fresh opening without overlap, or a resumption: look at what is open.
    Opened,
    /// What the step shows is named.
    Named,
    Decided(Box<Decision>, Option<Rested>),
    Started,
    Settled,
    Rest(Rested),
    /// The view was changed after the close.
    ViewThenRest(Rested),
}

/// One waking of one agent.
#[derive(Debug)]
pub struct Cycle {
    agent: AgentId,
    me: Entity,
    config: Arc<AgentConfig>,
    setup: Setup,
    system: Arc<str>,
    /// Tokens of system and tools, estimated from above.
    fixed_tokens: u64,
    lease: Lease,
    commit_n: u64,
    head_seq: u64,
    cycles: u64,
    batch_cap: Option<u32>,
    failures: u32,
    notice: Option<String>,
    active_space: Option<SpaceId>,
    facts: Facts,
    view: View,
    window: Vec<Arc<Entry>>,
    layers: Vec<Layer>,
    open: OpenCycle,
    /// The taken events; empty where the cycle is resumed after its first decision.
    taken: Vec<Waiting>,
    /// Whether suspects are left waiting behind the taken ones.
    suspects_left: bool,
    /// Entries that the step in hand is shown and its decision appends: the inbox entry where nothing
    /// is lived yet, injections.
    unlived: Vec<Arc<Entry>>,
    /// Events that the step in hand is shown besides the taken ones.
    injected: Vec<Waiting>,
    /// What the messages of the step in hand descend from, where an injection changed it.
    cause: Option<inbox::Batch>,
    /// What waits beside them, as last seen.
    waits: Waits,
    /// What may be called in the step in hand.
    gate: Option<Gate>,
    choice: ToolChoice,
    /// Who answers the step in hand; `None` is the agent's own model.
    voice: Option<String>,
    /// Voices of `fallback` that are asked instead, in this waking: so many providers failed.
    fallen: usize,
    previewed: Glimpse,
    /// Whether the step in hand has shown what the agent asked to see.
    peeked: bool,
    /// Generations of the step in hand that were aborted for news, and what they used.
    aborted: u32,
    wasted: Usage,
    /// When the step in hand was first asked for, in this waking.
    asked_first: Option<Timestamp>,
    /// The view and its entries as they stand in the store, where less of them is sent as long as
    /// nothing is lived.
    uncut: Option<(View, Vec<Arc<Entry>>)>,
    /// Milliseconds of the cycle's earlier wakings.
    awake_before: u64,
    /// What was done to the view: for the step in hand, in this waking.
    mended: Mended,
    mends: Mended,
    /// Calls of the step in hand that were decided and are not all settled.
    calls: Vec<CallRow>,
    /// Outward calls handed to the driver and not answered.
    running: Vec<CallId>,
    /// Outcomes that came and are not committed.
    arrived: Vec<(CallId, Outcome)>,
    /// Calls of the agent that go on beyond their cycles, as last known.
    detached: usize,
    /// When calls of the step in hand ran, as far as the driver has told.
    spans: Vec<(CallId, Span)>,
    /// Whether opening may overlap the model call.
    overlap: bool,
    /// Someone asked to cancel the cycle.
    cancel: bool,
    /// The waking is to end at the next border of a step, for this reason.
    park: Option<String>,
    state: State,
}

impl Cycle {
    /// The right to live the agent, as the next commit must carry it.
    pub fn lease(&self) -> Lease {
        self.lease
    }

    /// The cycle in hand (or the one that would open).
    pub fn id(&self) -> CycleId {
        self.open.id
    }

    /// The step in hand.
    pub fn step(&self) -> u32 {
        self.open.step
    }

    /// Events that the step in hand is shown: taken at the opening, injected since.
    pub fn in_sight(&self) -> impl Iterator<Item = &Waiting> {
        self.taken.iter().chain(&self.injected)
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
        self.active_space
    }

    /// What its messages descend from, and the hop that they carry.
    pub fn descent(&self) -> (&RootId, u32) {
        self.cause.as_ref().map_or((&self.open.root, self.open.hop), |cause| (&cause.root, cause.hop))
    }

    /// Whose voice answers the step in hand: a name of the config, or `None` for the agent's own.
    pub fn voice(&self) -> Option<&str> {
        self.voice.as_deref()
    }

    /// Spaces, members, memories as last known.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The window and `commit_n`, to be kept warm.
    pub fn into_warm(self) -> (u64, Vec<Arc<Entry>>) {
        (self.commit_n, self.window)
    }

    /// What to do next.
    pub fn next(&mut self, now: Timestamp) -> Next {
        match std::mem::replace(&mut self.state, State::Ready) {
            State::Fresh => self.next_fresh(now),
            State::Resume => self.next_resume(now),
            State::Ready => self.next_ready(now),
            State::Inward(decision) => self.next_inward(decision),
            State::Deciding(decision) => self.next_deciding(decision, now),
            State::Acting => self.next_acting(now),
            State::Settling(entry, counted) => self.next_settling(entry, counted, now),
            State::Rest(rested) => {
                self.state = State::Rest(rested.clone());
                Next::Rest(rested)
            }
            State::Committing(changes, after) => {
                let next = Next::Commit(changes.clone());
                self.state = State::Committing(changes, after);
                next
            }
            // The driver has been told what to do and has not answered: it asks again what it
            // waits for.
            State::Thinking | State::OpeningAndThinking(_) => {
                self.state = State::Thinking;
                Next::Think(self.prompt())
            }
        }
    }

    /// What came of the commit in hand.
    pub fn committed(&mut self, verdict: Verdict, now: Timestamp) {
        match std::mem::replace(&mut self.state, State::Ready) {
            State::OpeningAndThinking(changes) => match verdict {
                Verdict::Committed(glance) => {
                    self.applied(&changes);
                    self.glanced(glance);
                    self.state = State::Thinking;
                }
                _ => self.state = State::Rest(Rested::Lost),
            },
            State::Committing(changes, after) => match verdict {
                Verdict::Committed(glance) => {
                    self.applied(&changes);
                    self.glanced(glance);
                    self.state = self.after(after, now);
                }
                Verdict::Lost => self.state = State::Rest(Rested::Lost),
                Verdict::Canceled => {
                    self.cancel = true;
                    self.state = State::Ready;
                }
                Verdict::Barred => self.hold_back(),
                Verdict::Answered(answers) => {
                    self.answered(answers);
                    self.state = self.again(changes.kind, now);
                }
                Verdict::Gone(gone) => {
                    if let After::Decided(decision, _) = after {
                        self.waste(&decision.thought.reply.usage);
                    }
                    self.without(&gone, now);
                }
                Verdict::Refused(refusals) => self.refused(after, &refusals, now),
            },
            other => self.state = other,
        }
    }

    /// What the world did meanwhile, brought by a commit or looked up by the driver.
    pub fn glanced(&mut self, glance: Glance) {
        self.cancel |= glance.cancel;
        self.answered(glance.answered.clone());
        self.detached = glance.detached as usize;
        self.waits = Waits::of(&glance);
        if glance.suspended {
            self.park.get_or_insert_with(|| "suspended".to_owned());
        }
        if let Some(facts) = glance.facts {
            self.facts = *facts;
        }
    }

    /// Whether a generation or a wait in flight should be given up at once.
    pub fn interrupted(&self) -> bool {
        self.cancel
    }

    /// The driver gave up a generation in flight because of [`Cycle::interrupted`].
    pub fn abandoned(&mut self) {
        self.state = State::Ready;
    }

    /// Whether a generation in flight should be given up for what this glance brings.
    pub fn outdated_by(&self, glance: &Glance) -> bool {
        self.config.awareness == Awareness::Interrupt
            && !self.is_wary()
            && self.open.interrupts < limits::INTERRUPTS_PER_CYCLE
            && self.injection_room() > 0
            && matches!(self.state, State::Thinking | State::OpeningAndThinking(_))
            && prepare::is_news(&Waits::of(glance), &self.in_hand())
    }

    /// The driver gave up a generation in flight because of [`Cycle::outdated_by`], after about so many
    /// tokens of it (`None`: there was none): they are charged, and the step begins anew.
    pub fn outdated(&mut self, glance: Glance, tokens: Option<u64>) {
        self.open.interrupts += 1;
        self.aborted += 1;
        self.charge(tokens);
        self.glanced(glance);
        self.state = State::Ready;
    }

    /// The node stops: end the waking at the next border of a step.
    pub fn stop(&mut self, reason: &str) {
        self.park.get_or_insert_with(|| reason.to_owned());
    }

    /// The model answered, or it did not.
    pub fn thought(&mut self, thought: Result<Thought, ModelError>, now: Timestamp) {
        if !matches!(self.state, State::Thinking) {
            return;
        }
        match thought {
            Ok(thought) => self.decide(thought, now),
            Err(error) => self.refused_by_model(&error, now),
        }
    }

    /// What the inward calls gave, in the order they were handed out.
    pub fn acted(&mut self, results: Vec<Result<Done, ToolError>>) {
        let State::Inward(mut decision) = std::mem::replace(&mut self.state, State::Ready) else { return };
        self.take_results(&mut decision, results);
        self.state = State::Deciding(decision);
    }

    /// Token counts of the texts asked for by [`Next::Count`], in order.
    pub fn counted(&mut self, counts: &[u32]) {
        match &mut self.state {
            State::Deciding(decision) => {
                for (entry, count) in decision.entries.iter_mut().zip(counts) {
                    entry.tokens = *count;
                }
                decision.counted = true;
            }
            State::Settling(entry, counted) => {
                entry.tokens = counts.first().copied().unwrap_or(0);
                *counted = true;
            }
            _ => {}
        }
    }

    /// An outward call ended.
    pub fn settled(&mut self, call: CallId, outcome: Outcome) {
        self.running.retain(|running| *running != call);
        self.arrived.push((call, outcome));
    }

    /// The driver gave up the calls in hand, because the node stops or the cycle is canceled.
    pub fn let_go(&mut self) {
        self.running.clear();
    }

    /// A commit of the cycle in hand that leaves it open.
    fn changes(&self, kind: crate::changes::CommitKind, now: Timestamp) -> Changes {
        let mut changes = Changes::new(kind, self.open.id, self.open.step, self.commit_n, now);
        changes.open = Some(self.open.clone());
        changes
    }

    fn commit(&mut self, changes: Changes, after: After) -> Next {
        let changes = Box::new(changes);
        self.state = State::Committing(changes.clone(), after);
        Next::Commit(changes)
    }
}
