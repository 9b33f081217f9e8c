//! How an activation begins: with a fresh batch, with a cycle that was left open, or not at all.

use std::sync::Arc;

use jiff::Timestamp;

use super::acting::{self, Acting};
use super::attempts::{self, End};
use super::{ActivationEnd, After, At, Cycle, Log, Next, Outside, Row, Setup, State, Step, Who};
use crate::call::{CallRow, CallState, Effect, Outcome};
use crate::changes::{CommitKind, Settlement, Tried};
use crate::config::{AgentConfig, Triage};
use crate::entry::Entry;
use crate::event::{EventState, Waiting};
use crate::inbox::{self, Batch};
use crate::life::{Activation, OpenCycle};
use crate::limits;
use crate::run::{Ending, Usage};
use crate::triage;

/// An opening that is not done.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) at: At,
    /// Whether it may overlap the model call.
    overlap: bool,
    /// What the activation before came to, counted by this one.
    tried: Vec<Tried>,
    /// Why its one event is dead.
    dead: Option<String>,
}

impl Cycle {
    /// Decides what this activation is about. `window` holds the entries that the view shows.
    pub fn begin(activation: Activation, window: Vec<Arc<Entry>>, setup: Setup, now: Timestamp) -> Self {
        let Activation { life, entity, config_rev, config, view, calls, waiting, facts, layers, .. } =
            activation;
        let kept_back = life.is_kept_back(now);
        let left = Left {
            canceled: life.open.as_ref().is_some_and(|open| activation.cancel == Some(open.id)),
            open: life.open,
            died: activation.died,
            calls,
            waiting,
        };
        let canceled = left.canceled;
        let (open, opening) = match left.open {
            _ if kept_back && !canceled => (fresh(&setup, config_rev, now, &Batch::default()), None),
            Some(ref open) if open.decided => again(open.clone(), left, &setup),
            _ => anew(left, &config, config_rev, &setup, now, activation.clean),
        };
        let row = Row {
            epoch: life.epoch,
            commit_n: life.commit_n,
            cycles: life.cycles,
            failures: life.failures,
            notice: life.notice,
            active_space: life.active_space,
        };
        Self {
            who: Who::new(life.agent, entity, config, setup, open.awake_ms),
            row,
            log: Log::new(view, window, life.head_seq, layers),
            outside: Outside::new(facts, canceled),
            open,
            state: opening
                .map_or(State::Finished(ActivationEnd::Idle), |opening| State::Opening(Box::new(opening))),
        }
    }

    pub(super) fn next_opening(&mut self, opening: Box<Opening>, now: Timestamp) -> Next {
        self.row.epoch += 1;
        let mut changes = self.changes(CommitKind::Open, now);
        changes.tried.clone_from(&opening.tried);
        // Whether the rules settle it is judged behind the opening: what breaks over a text is counted then.
        let judged = self.who.config.triage == Triage::Rules && self.row.notice.is_none();
        if judged || opening.dead.is_some() || !opening.overlap {
            return self.commit(changes, After::Opened(opening));
        }
        let changes = Box::new(changes);
        self.state = State::Committing(changes.clone(), After::Opened(opening));
        Next::Open(changes)
    }

    /// The lease is held: what is open decides how to go on.
    pub(super) fn opened(&mut self, opening: Opening, now: Timestamp) -> State {
        let cancel = self.outside.cancel;
        match opening.at {
            At::Step(step) if opening.dead.is_some() && !cancel => {
                let reason = opening.dead.unwrap_or_default();
                self.dead_letter(step, reason, false, now)
            }
            At::Step(mut step) if !cancel && self.is_idle(&step) => {
                let reason = Some("triage: not addressed to this agent".to_owned());
                self.skip(&mut step, reason, Usage::default(), now)
            }
            At::Step(step) => State::Ready(step),
            At::Acting(acting) if cancel => State::Acting(acting),
            At::Acting(acting) => match self.worn_out() {
                Some(reason) => self.broken_off(At::Acting(acting), &reason, now),
                None if self.log.unanswered() => State::Acting(acting),
                None => State::Ready(Step::next(&self.open)),
            },
        }
    }

    /// Why a cycle that was taken up again has failed too often.
    fn worn_out(&self) -> Option<String> {
        let OpenCycle { attempts, deaths, .. } = self.open;
        if deaths >= limits::DEATHS_MAX {
            return Some(attempts::died(deaths));
        }
        (attempts >= self.who.config.limits.max_attempts).then(|| format!("failed {attempts} times"))
    }

    /// The only event of the batch is given up; `blame`: for a failure that is not counted yet.
    pub(super) fn dead_letter(
        &mut self,
        step: Box<Step>,
        reason: String,
        blame: bool,
        now: Timestamp,
    ) -> State {
        let mut changes = self.changes(CommitKind::Close, now);
        changes.open = None;
        changes.settle = step.taken.iter().map(|event| dead(event, &reason)).collect();
        changes.blame = blame;
        self.charge_totals(&mut changes, &step, Usage::default());
        let rested = self.ended(Ending::Failed, Some(reason));
        State::Committing(Box::new(changes), After::Finished(rested, step.into()))
    }

    /// Whether the rules settle the whole batch without asking a model.
    fn is_idle(&self, step: &Step) -> bool {
        let addressed =
            |waiting: &Waiting| triage::is_addressed(waiting, &self.who.entity, &self.outside.facts);
        !self.open.decided
            && self.who.config.triage == Triage::Rules
            && self.row.notice.is_none()
            && !step.taken.is_empty()
            && !step.taken.iter().any(addressed)
    }
}

/// What an earlier activation has left behind.
struct Left {
    open: Option<OpenCycle>,
    canceled: bool,
    died: bool,
    calls: Vec<CallRow>,
    waiting: Vec<Waiting>,
}

/// A cycle of which something is processed goes on.
fn again(mut open: OpenCycle, left: Left, setup: &Setup) -> (OpenCycle, Option<Opening>) {
    let end = End::of(&open, left.died, setup.panicked);
    match end {
        End::Died => open.deaths = open.deaths.saturating_add(1),
        End::Panicked => open.attempts = open.attempts.saturating_add(1),
        End::DiedWaiting | End::Blameless => {}
    }
    // The cause may have been what else the step was shown: without calls, it was in its model request.
    open.suspect |= end != End::Blameless && left.calls.is_empty();
    open.asked = false;
    open.opening = Some(setup.fresh);
    let mut acting = Acting::of(left.calls.into_iter().map(acting::as_reported).collect());
    for row in &acting.calls {
        if row.state == CallState::Started && row.effect == Effect::Unsafe && !left.canceled {
            // A detached call was begun: the process that takes it up reports what is known of it.
            let outcome = if row.awaited { Outcome::interrupted() } else { Outcome::pending(&row.id) };
            acting.arrived.push((row.id.clone(), outcome));
        }
    }
    let at = At::Acting(acting);
    (open, Some(Opening { at, overlap: false, tried: Vec::new(), dead: None }))
}

/// What waits is taken. A cycle that was opened over it and has processed nothing is the same cycle.
fn anew(
    left: Left,
    config: &AgentConfig,
    config_rev: u64,
    setup: &Setup,
    now: Timestamp,
    clean: bool,
) -> (OpenCycle, Option<Opening>) {
    let mut waiting = left.waiting;
    let (mut tried, mut dead) = (Vec::new(), None);
    if let Some(open) = &left.open {
        let end = End::of(open, left.died, setup.panicked);
        tried = attempts::count(&mut waiting, &open.taken, end);
        dead = attempts::given_up(&tried, end, config.limits.max_attempts).filter(|_| open.taken.len() == 1);
        if left.canceled || dead.is_some() {
            // Exactly its events are canceled, or the one dead event is set aside and no other.
            waiting.retain(|event| open.taken.contains(&event.seq));
        }
    }
    let together = if left.canceled { u32::MAX } else { attempts::together(&waiting) };
    let max_events = config.limits.events_per_cycle.min(together);
    let batch = inbox::take(&waiting, max_events, None, super::who::batch_bytes(&setup.model));
    let mut open = fresh(setup, config_rev, now, batch.as_ref().unwrap_or(&Batch::default()));
    if let Some(left) = left.open {
        open.id = left.id;
    }
    let opening = batch.map(|batch| {
        let step = Step { taken: batch.events, ..Step::default() };
        Opening { at: At::Step(Box::new(step)), overlap: clean && !left.canceled, tried, dead }
    });
    (open, opening)
}

/// A cycle at its first step, over these events, of which nothing is processed yet.
fn fresh(setup: &Setup, config_rev: u64, opened_at: Timestamp, batch: &Batch) -> OpenCycle {
    OpenCycle {
        taken: batch.events.iter().map(|waiting| waiting.seq).collect(),
        requesters: batch.requesters.clone(),
        root: batch.root.clone(),
        hop: batch.hop,
        trust: batch.trust,
        woke_for: batch.woke_for.clone(),
        by_agents: batch.by_agents,
        opening: Some(setup.fresh),
        ..OpenCycle::new(setup.fresh, config_rev, opened_at)
    }
}

fn dead(event: &Waiting, reason: &str) -> Settlement {
    Settlement { seq: event.seq, state: EventState::Dead { reason: reason.to_owned() } }
}
