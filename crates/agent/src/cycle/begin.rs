//! How an activation begins: with a new batch, with a cycle that was left open, or with no work.

use std::sync::Arc;

use jiff::Timestamp;

use super::acting::{self, Acting};
use super::attempts::{self, End};
use super::{ActivationEnd, After, At, Cycle, LifeState, Log, Next, Outside, Pinned, Setup, State, Step};
use crate::call::{CallRow, CallState, Effect, Outcome, Runner};
use crate::changes::{CommitKind, Settlement, Tried};
use crate::config::{AgentConfig, Triage};
use crate::entry::Entry;
use crate::event::{EventData, EventState, NamedMessage, Waiting};
use crate::id::SpaceId;
use crate::inbox::{self, Batch};
use crate::life::{Activation, OpenCycle};
use crate::limits;
use crate::run::{Ending, Usage};
use crate::triage;

/// An opening that is not committed.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) at: At,
    /// Whether it may overlap the model call.
    overlap: bool,
    /// Counts of the previous activation's failure, written by this one.
    tried: Vec<Tried>,
    /// The panic that they count.
    panicked: Option<u64>,
    /// Why its only event is dead.
    dead: Option<String>,
}

impl Cycle {
    /// Decides what this activation works on. `window` holds the entries that the view shows.
    pub fn begin(activation: Activation, window: Vec<Arc<Entry>>, setup: Setup, now: Timestamp) -> Self {
        let Activation {
            life,
            entity,
            config_rev,
            config,
            view,
            calls,
            rules,
            waiting,
            recent,
            facts,
            layers,
            ..
        } = activation;
        let not_due = life.is_kept_back(now);
        let left = LeftOver {
            canceled: life.open.as_ref().is_some_and(|open| activation.cancel == Some(open.id)),
            open: life.open,
            died: activation.died,
            panicked: activation.panicked,
            calls,
            waiting,
        };
        let canceled = left.canceled;
        let (open, opening) = match left.open {
            _ if not_due && !canceled => (new_cycle(&setup, config_rev, now, &Batch::default()), None),
            Some(ref open) if open.decided => resume(open.clone(), left, &setup, activation.clean),
            _ => take_batch(left, &config, config_rev, &setup, now, activation.clean),
        };
        let recent = before_taken(recent, opening.as_ref());
        let entered = match &opening {
            Some(Opening { at: At::Step(step), .. }) => entered(step, life.active_space),
            _ => None,
        };
        let life_state = LifeState {
            epoch: life.epoch,
            commit_n: life.commit_n,
            cycles: life.cycles,
            failures: life.failures,
            notice: life.notice,
            active_space: entered.or(life.active_space),
            entered,
        };
        Self {
            pinned: Pinned::new(life.agent, entity, config, setup, open.awake_ms, rules),
            life: life_state,
            log: Log::new(view, window, life.head_seq, layers),
            outside: Outside::new(facts, recent, canceled),
            open,
            state: opening
                .map_or(State::Finished(ActivationEnd::Idle), |opening| State::Opening(Box::new(opening))),
        }
    }

    pub(super) fn next_opening(&mut self, opening: Box<Opening>, now: Timestamp) -> Next {
        self.life.epoch += 1;
        let opening = match self.settle_while_opening(opening, now) {
            Ok(next) => return next,
            Err(opening) => opening,
        };
        let mut changes = self.changes(CommitKind::Open, now);
        changes.tried.clone_from(&opening.tried);
        changes.panicked = opening.panicked;
        // The triage rules run only after the opening is committed: a crash on a text is then counted.
        let triaged = self.pinned.config.triage == Triage::Rules && self.life.notice.is_none();
        let overlap = opening.overlap && matches!(opening.at, At::Step(_));
        if triaged || opening.dead.is_some() || !overlap {
            return self.commit(changes, After::Opened(opening));
        }
        let changes = Box::new(changes);
        self.state = State::Committing(changes.clone(), After::Opened(opening));
        Next::Open(changes)
    }

    /// If all calls of the step have their outcomes in the store, the opening also commits the entry that reports them, and the
    /// next request need not wait for another commit.
    fn settle_while_opening(&mut self, opening: Box<Opening>, now: Timestamp) -> Result<Next, Box<Opening>> {
        let acting = match &opening.at {
            At::Acting(acting) if opening.overlap && self.outside.park.is_none() => acting,
            _ => return Err(opening),
        };
        let known = !acting.calls.is_empty() && acting.calls.iter().all(|row| row.outcome.is_some());
        if !known || !self.log.unanswered() {
            return Err(opening);
        }
        let (mut changes, open, ending) = self.settlement(acting, CommitKind::Open, now);
        if ending.is_some() {
            return Err(opening);
        }
        changes.open = Some(open);
        let (changes, acting) = (Box::new(changes), acting.clone());
        self.state = State::Committing(changes.clone(), After::Settled(acting));
        Ok(Next::Open(changes))
    }

    /// The lease is held: the open cycle decides what comes next.
    pub(super) fn opened(&mut self, opening: Opening, now: Timestamp) -> State {
        let cancel = self.outside.cancel;
        match opening.at {
            At::Step(step) if opening.dead.is_some() && !cancel => {
                let reason = opening.dead.unwrap_or_default();
                self.dead_letter(step, reason, false, now)
            }
            At::Step(mut step) if !cancel && self.none_is_addressed(&step) => {
                let reason = Some("triage: not addressed to this agent".to_owned());
                self.skip(&mut step, reason, Usage::default(), now)
            }
            At::Step(step) => State::Ready(step),
            At::Acting(acting) if cancel => State::Acting(acting),
            At::Acting(acting) => match self.failed_too_often() {
                Some(reason) => self.fail_cycle(At::Acting(acting), &reason, now),
                None if self.log.unanswered() => State::Acting(acting),
                None => State::Ready(Step::next(&self.open)),
            },
        }
    }

    /// Why a resumed cycle has failed too often.
    pub(super) fn failed_too_often(&self) -> Option<String> {
        let OpenCycle { attempts, deaths, .. } = self.open;
        if deaths >= limits::DEATHS_MAX {
            return Some(attempts::died(deaths));
        }
        (attempts >= self.pinned.config.limits.max_attempts).then(|| format!("failed {attempts} times"))
    }

    /// Marks the only event of the batch dead. `blame`: count one more failed attempt.
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
        let end = self.ended(Ending::Failed, Some(reason));
        State::Committing(Box::new(changes), After::Finished(end, step.into()))
    }

    /// Whether the triage rules skip the whole batch without a model call.
    fn none_is_addressed(&self, step: &Step) -> bool {
        let addressed =
            |waiting: &Waiting| triage::is_addressed(waiting, &self.pinned.entity, &self.outside.facts);
        !self.open.decided
            && self.pinned.config.triage == Triage::Rules
            && self.life.notice.is_none()
            && !step.taken.is_empty()
            && !step.taken.iter().any(addressed)
    }
}

/// The space that becomes active because all messages of the batch are from there.
fn entered(step: &Step, active: Option<SpaceId>) -> Option<SpaceId> {
    let spaces = step.taken.iter().filter_map(|waiting| match waiting.event.data {
        EventData::Message { space, .. } => Some(space),
        _ => None,
    });
    let mut spaces: Vec<SpaceId> = spaces.collect();
    spaces.dedup();
    match spaces.as_slice() {
        [only] if active != Some(*only) => Some(*only),
        _ => None,
    }
}

/// Those of the messages that come before a taken event of their space: fewer events may be taken than wait.
fn before_taken(mut recent: Vec<NamedMessage>, opening: Option<&Opening>) -> Vec<NamedMessage> {
    let taken = match opening.map(|opening| &opening.at) {
        Some(At::Step(step)) => step.taken.as_slice(),
        _ => &[],
    };
    let ends = |waiting: &Waiting, message: &NamedMessage| match waiting.event.data {
        EventData::Message { space, seq, .. } => space == message.space && message.seq < seq,
        _ => false,
    };
    recent.retain(|message| taken.iter().any(|waiting| ends(waiting, message)));
    recent
}

/// What an earlier activation left behind.
struct LeftOver {
    open: Option<OpenCycle>,
    canceled: bool,
    died: bool,
    panicked: Option<u64>,
    calls: Vec<CallRow>,
    waiting: Vec<Waiting>,
}

/// Resumes a cycle that has processed something.
fn resume(mut open: OpenCycle, left: LeftOver, setup: &Setup, clean: bool) -> (OpenCycle, Option<Opening>) {
    let (panicked, end) = (left.panicked, End::of(&open, left.died, left.panicked.is_some()));
    let blameless = end == End::Blameless && open.deaths == 0 && open.attempts == 0 && !open.suspect;
    // What waits is read again before a request; without anything, the request may go at once.
    let overlap = clean && blameless && !left.canceled && left.waiting.is_empty();
    match end {
        End::Died => open.deaths = open.deaths.saturating_add(1),
        End::Panicked => open.attempts = open.attempts.saturating_add(1),
        End::DiedWaiting | End::Blameless => {}
    }
    // An injected event may have caused the failure: without open calls, the step was at its model request.
    open.suspect |= end != End::Blameless && left.calls.is_empty();
    open.asked = false;
    open.opening = Some(setup.new_cycle);
    let mut acting = Acting::of(left.calls.into_iter().map(acting::as_reported).collect());
    for row in &acting.calls {
        let interrupted = row.runner == Runner::Node && row.effect == Effect::Unsafe;
        if row.state != CallState::Started || !interrupted {
            continue;
        }
        let unstored = setup.unstored.iter().find(|(call, _)| *call == row.id);
        let outcome = match unstored.map(|(_, outcome)| outcome.clone()) {
            Some(known) => known.within(open.room_for_outcome(acting.outcome_bytes())),
            None if left.canceled => continue,
            None if row.awaited => Outcome::interrupted(),
            // A detached call had started: the process that recovers it reports what is known.
            None => Outcome::pending(&row.id),
        };
        acting.arrived.push((row.id.clone(), outcome));
    }
    let at = At::Acting(acting);
    (open, Some(Opening { at, overlap, tried: Vec::new(), panicked, dead: None }))
}

/// Takes the waiting events. A cycle that was opened and has processed nothing keeps its id.
fn take_batch(
    left: LeftOver,
    config: &AgentConfig,
    config_rev: u64,
    setup: &Setup,
    now: Timestamp,
    clean: bool,
) -> (OpenCycle, Option<Opening>) {
    let mut waiting = left.waiting;
    let (mut tried, mut dead, panicked) = (Vec::new(), None, left.panicked);
    if let Some(open) = &left.open {
        let end = End::of(open, left.died, panicked.is_some());
        tried = attempts::count(&mut waiting, &open.taken, end);
        dead = attempts::given_up(&tried, end, config.limits.max_attempts).filter(|_| open.taken.len() == 1);
        if left.canceled || dead.is_some() {
            // A cancel settles exactly the cycle's events; a dead event is set aside without any other.
            waiting.retain(|event| open.taken.contains(&event.seq));
        }
    } else if let Some(newest) = panicked {
        tried = attempts::count_unopened(&mut waiting, config.limits.events_per_cycle, newest);
    }
    let together = if left.canceled { u32::MAX } else { attempts::together(&waiting) };
    let max_events = config.limits.events_per_cycle.min(together);
    let batch = inbox::take(&waiting, max_events, None, super::pinned::batch_bytes(&setup.model));
    let mut open = new_cycle(setup, config_rev, now, batch.as_ref().unwrap_or(&Batch::default()));
    if let Some(left) = left.open {
        open.id = left.id;
    }
    let opening = batch.map(|batch| {
        let step = Step { taken: batch.events, ..Step::default() };
        let overlap = clean && !left.canceled && panicked.is_none();
        Opening { at: At::Step(Box::new(step)), overlap, tried, panicked, dead }
    });
    (open, opening)
}

/// A new cycle over this batch, at its first step.
fn new_cycle(setup: &Setup, config_rev: u64, opened_at: Timestamp, batch: &Batch) -> OpenCycle {
    OpenCycle {
        taken: batch.events.iter().map(|waiting| waiting.seq).collect(),
        requesters: batch.requesters.clone(),
        root: batch.root.clone(),
        hop: batch.hop,
        trust: batch.trust,
        woke_for: batch.woke_for.clone(),
        by_agents: batch.by_agents,
        opening: Some(setup.new_cycle),
        ..OpenCycle::new(setup.new_cycle, config_rev, opened_at)
    }
}

fn dead(event: &Waiting, reason: &str) -> Settlement {
    Settlement { seq: event.seq, state: EventState::Dead { reason: reason.to_owned() } }
}
