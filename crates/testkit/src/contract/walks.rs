//! Runs the protocol model and a real store side by side. After each step both must give the same reply and
//! hold the same data.

use agent::call::{CallRow, CallState, Effect, Outcome, OutcomeStatus, Runner};
use agent::changes::{CallChange, Changes, CommitKind, CommitOutcome, Idle, Settlement, Tried};
use agent::config::AgentConfig;
use agent::entry::{Entry, EntryKind};
use agent::event::{EventState, Trust};
use agent::id::{AgentId, CallId, CycleId, EventId, RootId};
use agent::life::{Activation, Lease, OpenCycle};
use agent::message::ModelMessage;
use agent::port::{Accept, Accepted};
use uuid::Uuid;

use super::Backend;
use super::world::{self, at, role_of, service};
use crate::protocol::explore::explore;
use crate::protocol::model::{Action, ProtocolState};
use crate::protocol::promises::is_idle;
use crate::protocol::stored::{self, Call, Commit, Flaw, IDEMPOTENT, Kind, Rows, StoreReply, UNSAFE};

/// Number of walks per store.
const WALKS: u64 = 60;
/// Steps with faults; after them the walk continues without faults until the agent is idle.
const STEPS: usize = 40;

/// The store does what the model does in any order of actions, and the agent becomes idle.
pub async fn the_store_behaves_like_the_model_on_random_walks(b: Backend) {
    let mut lost = 0;
    for seed in 0..WALKS {
        let mut walk = Walk::new(&b, seed, ProtocolState::new(2, 2, 2).with_cancels(1), Flaw::None).await;
        let mut dice = seed;
        for step in 0.. {
            let mut possible = walk.model.actions(Flaw::None);
            if step >= STEPS {
                possible.retain(|action| !walk.model.is_fault(*action));
            }
            if possible.is_empty() || (step >= STEPS && is_idle(&walk.model)) {
                break;
            }
            let action = possible[below(&mut dice, possible.len())];
            walk.step(action).await.unwrap_or_else(|why| panic!("walk {seed}: {:?}: {why}", walk.path));
        }
        assert!(is_idle(&walk.model), "walk {seed} did not become idle: {:?}", walk.path);
        lost += u32::from(walk.lost);
    }
    assert!(lost > 0, "no walk met an outdated node");
}

/// Each flaw breaks a promise on some path. The store under test differs from the flawed model on that path,
/// so a walk would notice a store with that flaw.
pub async fn the_store_differs_from_the_model_where_a_flaw_breaks_a_promise(b: Backend) {
    let flaws = [Flaw::DrainFirst, Flaw::NoEpoch, Flaw::NoDedup, Flaw::ConfusesOpenings];
    for (seed, flaw) in (1_000..).zip(flaws) {
        let world = ProtocolState::new(1, 1, 0);
        let (_, path) = explore(world, flaw).broken.expect("the flaw shows");
        let mut walk = Walk::new(&b, seed, world, flaw).await;
        let mut differs = None;
        for action in path {
            differs = walk.step(action).await.err();
            if differs.is_some() {
                break;
            }
        }
        assert!(differs.is_some(), "the store has {flaw:?}, path {:?}", walk.path);
    }
}

/// Repeatable random numbers (SplitMix64).
fn below(dice: &mut u64, bound: usize) -> usize {
    *dice = dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *dice;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
}

/// One agent of the store, and the model of it.
struct Walk<'a> {
    b: &'a Backend,
    agent: AgentId,
    seed: u64,
    flaw: Flaw,
    model: ProtocolState,
    path: Vec<Action>,
    /// Whether a node was refused because it is outdated.
    lost: bool,
}

impl<'a> Walk<'a> {
    async fn new(b: &'a Backend, seed: u64, model: ProtocolState, flaw: Flaw) -> Self {
        let agent = world::agent(b, &format!("walk-{seed}"), AgentConfig::default()).await;
        Self { b, agent, seed, flaw, model, path: Vec::new(), lost: false }
    }

    /// Takes the step in both and compares them. The error describes the difference.
    async fn step(&mut self, action: Action) -> Result<(), String> {
        self.path.push(action);
        let before = self.model;
        let (after, wanted) = before.after(action, self.flaw);
        self.model = after;
        let got = match action {
            Action::Accept(event) => self.accept(event).await,
            Action::Commit { node, commit, .. } => {
                let commit = before.requested_commit(node, commit, self.flaw);
                let changes = self.changes(&commit, &before);
                self.commit(commit.lease, changes).await
            }
            Action::Cancel(index) => self.cancel(&before, index).await,
            Action::Wake(_) | Action::Call { .. } | Action::Crash(_) => StoreReply::NotAsked,
        };
        if got != wanted {
            return Err(format!("wanted {wanted:?}, the store replied {got:?}"));
        }
        self.lost |= wanted == StoreReply::Lost;
        self.compare().await
    }

    async fn accept(&self, event: u8) -> StoreReply {
        let event = Accept::Event(self.agent, service(&name(event)));
        match self.b.store.accept(event, None).await.unwrap() {
            Accepted::Fresh { .. } => StoreReply::Fresh,
            Accepted::Duplicate { .. } => StoreReply::Duplicate,
            other => panic!("not accepted: {other:?}"),
        }
    }

    async fn cancel(&self, before: &ProtocolState, index: usize) -> StoreReply {
        let event = before.stored.rows[index].unwrap().event;
        self.b.registry.cancel_event(self.agent, EventId(name(event))).await.unwrap();
        StoreReply::NotAsked
    }

    async fn commit(&self, epoch: u8, changes: Changes) -> StoreReply {
        let lease = Lease { agent: self.agent, epoch: u64::from(epoch) };
        match self.b.store.commit(lease, changes).await.unwrap().0 {
            CommitOutcome::Committed { .. } => StoreReply::Committed,
            CommitOutcome::Lost => StoreReply::Lost,
            CommitOutcome::Gone(_) => StoreReply::Gone,
            other => panic!("not a reply of the protocol: {other:?}"),
        }
    }

    fn cycle(&self, id: u8) -> CycleId {
        CycleId(Uuid::from_u128(
            0x0193_0000_0000_7000_8000_0000_0000_0000 + (u128::from(self.seed) << 8) + u128::from(id),
        ))
    }

    fn open(&self, open: stored::Open) -> OpenCycle {
        OpenCycle {
            taken: seqs(open.taken),
            decided: open.decided,
            step: open.step.into(),
            deaths: open.deaths.into(),
            asked: open.asked,
            root: RootId("root".into()),
            trust: Trust::Member,
            opening: Some(self.cycle(open.opening)),
            ..OpenCycle::new(self.cycle(open.id), 1, at(1_000))
        }
    }

    /// The commit, as the port takes it.
    fn changes(&self, commit: &Commit, before: &ProtocolState) -> Changes {
        let (cycle, step) = (self.cycle(commit.cycle), u32::from(commit.step));
        let mut changes = Changes::new(kind(commit.kind), cycle, step, commit.expect.into(), at(1_000));
        changes.open = commit.open.map(|open| self.open(open));
        changes.tried = tried(commit, before);
        changes.idle = commit.open.is_none().then_some(Idle { not_before: None, reason: None });
        let head = before.stored.log().count() as u64;
        let entries = commit.entries.into_iter().flatten();
        changes.entries =
            (head + 1..).zip(entries).map(|(seq, entry)| log_entry(seq, cycle, step, entry)).collect();
        if let Some((rows, state)) = commit.settle {
            let state = match state {
                stored::RowState::Waiting => EventState::Waiting,
                stored::RowState::Canceled => EventState::Canceled { reason: None },
                stored::RowState::Processed => EventState::Processed { cycle, step },
                stored::RowState::Skipped => EventState::Skipped { reason: None, cycle: None },
                stored::RowState::Dead => EventState::Dead { reason: "failed too often".into() },
            };
            changes.settle =
                seqs(rows).into_iter().map(|seq| Settlement { seq, state: state.clone() }).collect();
            changes.blame = state == EventState::Waiting;
        }
        for (index, call) in
            commit.calls.iter().enumerate().filter_map(|(index, call)| Some((index, (*call)?)))
        {
            let row = self.call(cycle, index);
            let (state, outcome) = match call {
                Call::Undecided | Call::Planned => {
                    changes.calls.push(row);
                    continue;
                }
                Call::Started => (CallState::Started, None),
                Call::Answered => (CallState::Done, Some(Outcome::ok("done"))),
                Call::Unknown => {
                    let outcome = Outcome {
                        status: OutcomeStatus::Unknown,
                        text: "nobody knows".into(),
                        detail: None,
                        trust: None,
                    };
                    (CallState::Done, Some(outcome))
                }
            };
            changes.call_changes.push(CallChange { id: row.id, state, outcome });
        }
        changes
    }

    fn call(&self, cycle: CycleId, index: usize) -> CallRow {
        let (tool, effect) = match index {
            UNSAFE => ("fire", Effect::Unsafe),
            IDEMPOTENT => ("put", Effect::Idempotent),
            other => panic!("the protocol has no call {other}"),
        };
        let index = u32::try_from(index).unwrap();
        CallRow {
            id: CallId::derive(self.agent, cycle, 0, index),
            cycle,
            step: 0,
            index,
            tool: tool.into(),
            arguments: "{}".into(),
            effect,
            tool_version: "1".into(),
            runner: Runner::Node,
            claim: None,
            approval: None,
            by_rule: None,
            awaited: true,
            state: CallState::Planned,
            outcome: None,
            trust: Trust::Member,
        }
    }

    /// Compares everything that the model holds with the store.
    async fn compare(&self) -> Result<(), String> {
        let activation = self.b.store.wake(self.agent, at(1_000), None).await.unwrap().unwrap();
        let stored = &self.model.stored;
        let same = |what: &str, wanted: String, got: String| match wanted == got {
            true => Ok(()),
            false => Err(format!("{what}: wanted {wanted}, the store has {got}")),
        };
        let counts = (u64::from(stored.epoch), u64::from(stored.n), stored.log().count() as u64);
        let got = (activation.life.epoch, activation.life.commit_n, activation.life.head_seq);
        same("epoch, commits, log", format!("{counts:?}"), format!("{got:?}"))?;
        let open = stored.open.map(|open| self.open(open));
        same("open cycle", format!("{open:?}"), format!("{:?}", activation.life.open))?;
        let rows =
            stored.rows.iter().enumerate().filter_map(|(index, row)| Some((index as u64 + 1, (*row)?)));
        let waits = |(seq, row): (u64, stored::Row)| {
            (row.state == stored::RowState::Waiting).then(|| (seq, row.attempts.into(), row.deaths.into()))
        };
        let waiting: Vec<(u64, u32, u32)> = rows.filter_map(waits).collect();
        let got = activation.waiting.iter().map(|waiting| (waiting.seq, waiting.attempts, waiting.deaths));
        let got: Vec<(u64, u32, u32)> = got.collect();
        same("waiting events", format!("{waiting:?}"), format!("{got:?}"))?;
        let calls: Vec<_> = stored
            .open
            .iter()
            .filter(|open| open.decided && open.step == 0)
            .flat_map(|_| stored.calls)
            .collect();
        same("calls", format!("{calls:?}"), format!("{:?}", states(&activation)))?;
        for row in stored.rows() {
            let event = self.b.reader.event(self.agent, EventId(name(row.event))).await.unwrap();
            let state = event.map(|event| event.state.as_str());
            let wanted = format!("{:?}", row.state).to_lowercase();
            same("an event's state", wanted, state.unwrap_or("unknown").to_owned())?;
        }
        let log = self.b.reader.entries(self.agent, 0, 100).await.unwrap().items;
        let wanted: Vec<_> = stored.log().map(entry_kind).collect();
        let got: Vec<_> = log.iter().map(|entry| entry.kind).collect();
        same("the log", format!("{wanted:?}"), format!("{got:?}"))?;
        let due = self.b.store.due(at(1_000), None, u32::MAX).await.unwrap();
        let due = due.iter().any(|due| due.agent == self.agent);
        same("due", format!("{}", !is_idle(&self.model)), format!("{due}"))
    }
}

fn name(event: u8) -> String {
    format!("event-{event}")
}

fn kind(kind: Kind) -> CommitKind {
    match kind {
        Kind::Open => CommitKind::Open,
        Kind::Decide => CommitKind::Decide,
        Kind::Start => CommitKind::Start,
        Kind::Settle => CommitKind::Settle,
        Kind::Close => CommitKind::Close,
        Kind::Sent => CommitKind::Sent,
        Kind::Arrived => CommitKind::Arrived,
    }
}

fn entry_kind(entry: stored::Entry) -> EntryKind {
    match entry {
        stored::Entry::Inbox(_) => EntryKind::Inbox,
        stored::Entry::Injection(_) => EntryKind::Injection,
        stored::Entry::Assistant | stored::Entry::Calling => EntryKind::Assistant,
        stored::Entry::Outcomes => EntryKind::Outcomes,
        stored::Entry::Notice => EntryKind::Notice,
    }
}

fn log_entry(seq: u64, cycle: CycleId, step: u32, entry: stored::Entry) -> Entry {
    let kind = entry_kind(entry);
    let message = ModelMessage { role: role_of(kind), ..ModelMessage::user(format!("{entry:?}")) };
    Entry { seq, cycle, step, kind, message, tokens: 3, at: at(1_000), trust: Trust::Member }
}

/// The counts that an opening writes. If something has changed since they were read, the opening is refused.
fn tried(commit: &Commit, before: &ProtocolState) -> Vec<Tried> {
    let indexes = commit.tried.iter().zip(before.stored.rows).enumerate();
    let tried = indexes.filter_map(|(index, (deaths, row))| {
        let (seq, attempts) = (index as u64 + 1, row?.attempts.into());
        Some(Tried { seq, attempts, deaths: (*deaths)?.into() })
    });
    tried.collect()
}

/// Numbers in the inbox, which start at one.
fn seqs(rows: Rows) -> Vec<u64> {
    (0..8).filter(|index| rows & 1 << index != 0).map(|index| index + 1).collect()
}

/// The states of the open cycle's calls, as the model names them.
fn states(activation: &Activation) -> Vec<Call> {
    let state = |row: &CallRow| match (row.state, row.outcome.as_ref().map(|outcome| outcome.status)) {
        (CallState::Planned, _) => Call::Planned,
        (CallState::Started, _) => Call::Started,
        (_, Some(OutcomeStatus::Unknown)) => Call::Unknown,
        _ => Call::Answered,
    };
    let decided = activation.life.open.as_ref().is_some_and(|open| open.decided);
    activation.calls.iter().filter(|_| decided).map(state).collect()
}
