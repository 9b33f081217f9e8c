//! How a waking begins: with a fresh batch, with a cycle that was left open, or not at all.

use std::sync::Arc;

use jiff::Timestamp;

use super::{After, Cycle, Mended, Next, Rested, Setup, State, settle};
use crate::call::{CallState, Outcome, OutcomeStatus};
use crate::changes::{Changes, CommitKind, Settlement};
use crate::config::Triage;
use crate::entry::{Entry, EntryKind};
use crate::event::{Fate, Waiting};
use crate::inbox::{self, Batch};
use crate::life::{Lease, Life, OpenCycle, Standing, Waking};
use crate::message::ModelMessage;
use crate::prepare::Waits;
use crate::prompt::ToolChoice;
use crate::run::{Ending, Usage};
use crate::{transcript, triage};

impl Cycle {
    /// Decides what this waking is about. `window` holds the entries that the view shows.
    pub fn begin(waking: Waking, window: Vec<Arc<Entry>>, setup: Setup, now: Timestamp) -> Self {
        let Chosen { state, taken, mut open, cap, suspects_left, canceled } = choose(&waking, &setup, now);
        // What was being shown when the cycle was canceled goes with it; else the step shows it anew.
        let mut being_shown = waking.waiting;
        being_shown.retain(|waiting| canceled && open.lived && open.shown.contains(&waiting.seq));
        open.shown = being_shown.iter().map(|waiting| waiting.seq).collect();
        let life = waking.life;
        let (system, fixed_tokens) = super::think::fixed(&waking.entity, &waking.config, &setup.tools);
        let calls =
            waking.calls.into_iter().filter(|row| row.step == open.step).map(settle::as_told).collect();
        Self {
            agent: life.agent,
            me: waking.entity,
            config: waking.config,
            lease: Lease { agent: life.agent, epoch: life.epoch },
            commit_n: life.commit_n,
            head_seq: life.head_seq,
            cycles: life.cycles,
            batch_cap: cap,
            failures: life.failures,
            notice: life.notice,
            active_space: life.active_space,
            facts: waking.facts,
            window: transcript::without_refused(window, &waking.view),
            view: waking.view,
            layers: waking.layers,
            taken,
            suspects_left,
            unlived: Vec::new(),
            injected: being_shown,
            cause: None,
            waits: Waits::default(),
            gate: None,
            choice: ToolChoice::Auto,
            voice: None,
            fallen: 0,
            previewed: open.previewed,
            peeked: false,
            aborted: 0,
            wasted: Usage::default(),
            asked_first: None,
            uncut: None,
            awake_before: open.awake_ms,
            mended: Mended::default(),
            mends: Mended::default(),
            calls,
            running: Vec::new(),
            arrived: Vec::new(),
            detached: 0,
            spans: Vec::new(),
            overlap: waking.clean && !canceled,
            cancel: canceled,
            park: None,
            setup,
            system,
            fixed_tokens,
            open,
            state,
        }
    }

    pub(super) fn next_fresh(&mut self, now: Timestamp) -> Next {
        self.show_inbox(now);
        let changes = self.opening(now);
        let prepared = self.prepare(now);
        if self.poisoned() || prepared.view.is_some() || !self.overlap || self.is_idle() {
            return self.commit(changes, After::Opened);
        }
        self.show(prepared, now);
        self.asked_first.get_or_insert(now);
        let changes = Box::new(changes);
        self.state = State::OpeningAndThinking(changes.clone());
        Next::OpenAndThink(changes, self.prompt())
    }

    pub(super) fn next_resume(&mut self, now: Timestamp) -> Next {
        self.open.attempts += 1;
        let changes = self.opening(now);
        self.commit(changes, After::Opened)
    }

    /// The opening commit; from here on the lease is the one that it makes.
    fn opening(&mut self, now: Timestamp) -> Changes {
        self.lease.epoch += 1;
        let mut changes = self.changes(CommitKind::Open, now);
        if self.batch_cap.is_some() {
            changes.batch_cap = Some(self.batch_cap);
        }
        changes
    }

    /// The lease is held: what is open decides how to go on.
    pub(super) fn look_at_open(&mut self, now: Timestamp) -> State {
        if self.poisoned() {
            return self.bury(now);
        }
        if !self.open.lived && !self.cancel && self.is_idle() {
            let reason = Some("triage: not addressed to this agent".to_owned());
            return self.skip(reason, Usage::default(), now);
        }
        if !self.open.lived || self.cancel {
            return State::Ready;
        }
        if self.open.attempts > self.config.limits.max_attempts {
            let reason = format!("failed {} times", self.open.attempts - 1);
            return self.broken_off(&reason, now);
        }
        for row in &self.calls {
            if row.state == CallState::Started && row.effect == crate::call::Effect::Unsafe {
                // One that nobody waits for was begun: whoever takes it up tells what is known of it.
                let outcome = if row.awaited { unknown_outcome() } else { Outcome::pending(&row.id) };
                self.arrived.push((row.id.clone(), outcome));
            }
        }
        if self.unanswered() { State::Acting } else { self.after_settle() }
    }

    /// Whether the log ends with calls whose outcomes entry is not appended.
    pub(super) fn unanswered(&self) -> bool {
        self.window
            .last()
            .is_some_and(|entry| entry.kind == EntryKind::Assistant && entry.message.calls().next().is_some())
    }

    /// One event that has failed as often as it may, and of which the process died alone: failures in
    /// company may have been its neighbour's, so it is tried alone before it is given up.
    fn poisoned(&self) -> bool {
        let may = self.config.limits.max_attempts;
        !self.open.lived && self.open.attempts > 1 && self.taken.len() == 1 && self.taken[0].attempts >= may
    }

    fn bury(&mut self, now: Timestamp) -> State {
        let reason = format!("failed {} times, at last alone", self.taken[0].attempts);
        let mut changes = self.changes(CommitKind::Close, now);
        changes.open = None;
        changes.settle =
            vec![Settlement { seq: self.taken[0].seq, fate: Fate::Dead { reason: reason.clone() } }];
        changes.batch_cap = Some(self.batch_cap.filter(|_| self.suspects_left));
        let rested = self.ended(Ending::Failed, Some(reason));
        State::Committing(Box::new(changes), After::Rest(rested))
    }

    /// Whether the rules settle the whole batch without asking a model.
    fn is_idle(&self) -> bool {
        self.config.triage == Triage::Rules
            && self.notice.is_none()
            && !self.taken.is_empty()
            && self.taken.iter().all(|waiting| !triage::is_addressed(waiting, &self.me, &self.facts))
    }

    /// Renders the entry that step 0 is shown, once.
    pub(super) fn show_inbox(&mut self, now: Timestamp) {
        let text = inbox::format_inbox(&self.taken, now, self.notice.as_deref());
        let seq = self.head_seq + 1;
        self.unlived = vec![Arc::new(Entry {
            seq,
            cycle: self.open.id,
            step: 0,
            kind: EntryKind::Inbox,
            message: ModelMessage::user(text),
            tokens: 0,
            at: now,
        })];
        let workspace = crate::workspace::render(&self.me, &self.facts, self.active_space, now);
        self.layers = vec![crate::life::Layer { after: seq, text: workspace.into() }];
    }
}

/// What a waking is about.
struct Chosen {
    state: State,
    taken: Vec<Waiting>,
    open: OpenCycle,
    cap: Option<u32>,
    suspects_left: bool,
    /// The cycle in hand, or the one whose events are taken again, was canceled.
    canceled: bool,
}

fn choose(waking: &Waking, setup: &Setup, now: Timestamp) -> Chosen {
    let life = &waking.life;
    let left_open = life.open.as_ref();
    let canceled = left_open.is_some_and(|open| waking.cancel == Some(open.id));
    let resumed = left_open.filter(|open| open.lived);
    // Canceled, then died before anything was lived: exactly its events are canceled now.
    let dead = left_open.filter(|open| canceled && !open.lived);
    let mut of_the_dead = Vec::new();
    let waiting: &[Waiting] = match dead {
        Some(dead) => {
            let had = |w: &&Waiting| dead.taken.contains(&w.seq) || dead.shown.contains(&w.seq);
            of_the_dead.extend(waking.waiting.iter().filter(had).cloned());
            &of_the_dead
        }
        None => &waking.waiting,
    };
    let cap = cap_after_death(life, left_open, waiting);
    let max_bytes = super::step::batch_bytes(&setup.model);
    let batch = match resumed {
        Some(_) => None,
        None => inbox::take(waiting, waking.config.limits.events_per_cycle, cap, max_bytes),
    };
    let kept_back = life.not_before.is_some_and(|until| until > now) && !canceled;
    let state = match (resumed, &batch) {
        _ if kept_back || !(life.standing == Standing::Active || canceled) => State::Rest(Rested::Idle),
        (Some(_), _) => State::Resume,
        (None, Some(_)) => State::Fresh,
        (None, None) => State::Rest(Rested::Idle),
    };
    let taken = batch.as_ref().map_or(0, |batch| batch.events.len());
    let suspects_left = batch.is_some() && waiting.iter().skip(taken).any(|w| w.attempts > 0);
    let open = match (resumed, &batch) {
        (Some(open), _) => OpenCycle { opening: Some(setup.fresh), ..open.clone() },
        (None, Some(batch)) => {
            let fresh = OpenCycle::new(setup.fresh, waking.config_rev, now, batch);
            OpenCycle { attempts: 1 + deaths_alone(left_open, &fresh), ..fresh }
        }
        (None, None) => OpenCycle::new(setup.fresh, waking.config_rev, now, &Batch::default()),
    };
    let taken = batch.map(|batch| batch.events).unwrap_or_default();
    Chosen { state, taken, open, cap, suspects_left, canceled }
}

/// How large a batch may be, given how the last cycle ended. A process that died twice with the same
/// events before they were lived may have died of one of them.
fn cap_after_death(life: &Life, left_open: Option<&OpenCycle>, waiting: &[Waiting]) -> Option<u32> {
    let Some(open) = left_open.filter(|open| !open.lived) else { return life.batch_cap };
    let twice = waiting.iter().any(|w| open.taken.contains(&w.seq) && w.attempts >= 2);
    if !twice || open.taken.len() < 2 {
        return life.batch_cap;
    }
    let half = u32::try_from(open.taken.len() / 2).unwrap_or(u32::MAX).max(1);
    Some(life.batch_cap.map_or(half, |cap| cap.min(half)))
}

/// How often in a row the process died with just the one event that is taken again.
fn deaths_alone(left_open: Option<&OpenCycle>, fresh: &OpenCycle) -> u32 {
    let same = |open: &&OpenCycle| !open.lived && open.taken.len() == 1 && open.taken == fresh.taken;
    left_open.filter(same).map_or(0, |open| open.attempts)
}

/// What the model is told of an unsafe call that had begun when the process died.
fn unknown_outcome() -> Outcome {
    Outcome {
        status: OutcomeStatus::Unknown,
        text: "interrupted; unknown whether it happened. Find out before you try again.".into(),
        detail: None,
    }
}
