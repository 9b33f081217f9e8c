//! A small world in which promises are tested, and helpers for tests: post, open, decide, close.

use std::sync::atomic::{AtomicU64, Ordering};

use agent::call::{CallRow, CallState, Effect, Outcome, Runner};
use agent::changes::{Changes, CommitKind, CommitOutcome, Glance, Idle, News, Notifications, Settlement};
use agent::config::AgentConfig;
use agent::entry::{Entry, EntryKind};
use agent::event::{Event, EventState, Trust};
use agent::id::{AgentId, CallId, CycleId, EntityId, EventId, MessageId, RootId, SpaceId};
use agent::life::{Activation, Facts, Lease, OpenCycle};
use agent::message::{ModelMessage, Role};
use agent::port::{Accept, Accepted, NewAgent, NewHuman, NewSpace, PageRequest, RunFilter};
use agent::run::{Ending, Run, Usage};
use agent::space::NewMessage;
use jiff::Timestamp;
use uuid::Uuid;

use super::Backend;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A unique id.
pub(super) fn fresh() -> Uuid {
    Uuid::from_u128(
        0x0192_0000_0000_7000_8000_0000_0000_0000 + u128::from(NEXT.fetch_add(1, Ordering::Relaxed)),
    )
}

/// Later than the clock of any store, as milliseconds for [`at`].
pub(super) const AHEAD: i64 = i32::MAX as i64 * 1_000;

/// The time `ms` milliseconds after the start of the world. The start lies before the clock of any store.
pub(super) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_700_000_000_000 + ms).expect("a time within this century")
}

/// A page that is large enough for everything in a small world.
pub(super) fn everything() -> PageRequest {
    PageRequest { cursor: None, limit: 200 }
}

/// Husam (a person) and the agents Ada and Bob. Ada is in both spaces, Bob in one.
pub(super) struct World {
    pub(super) b: Backend,
    pub(super) husam: EntityId,
    pub(super) ada: AgentId,
    pub(super) bob: AgentId,
    /// The space of Husam and Ada.
    pub(super) family: SpaceId,
    /// The space of all three.
    pub(super) team: SpaceId,
}

pub(super) async fn world(b: Backend) -> World {
    world_with(b, AgentConfig::default()).await
}

/// The same world with another config for Ada.
pub(super) async fn world_with(b: Backend, config: AgentConfig) -> World {
    let husam = EntityId(fresh());
    let human = NewHuman { display_name: "Husam".into(), ..NewHuman::new(husam, "husam", at(0)) };
    b.registry.create_human(human).await.unwrap();
    let ada = agent(&b, "ada", config).await;
    let bob = agent(&b, "bob", AgentConfig::default()).await;
    let family = space(&b, "family", &[husam, ada.entity()]).await;
    let team = space(&b, "team", &[husam, ada.entity(), bob.entity()]).await;
    World { b, husam, ada, bob, family, team }
}

pub(super) async fn agent(b: &Backend, name: &str, config: AgentConfig) -> AgentId {
    let id = AgentId(fresh());
    let new = NewAgent { display_name: name.to_uppercase(), ..NewAgent::new(id, name, config, at(0)) };
    b.registry.create_agent(new).await.unwrap();
    id
}

pub(super) async fn space(b: &Backend, name: &str, members: &[EntityId]) -> SpaceId {
    let id = SpaceId(fresh());
    let new = NewSpace::new(id, name, members.to_vec(), at(0));
    let new = NewSpace { display_name: name.to_uppercase(), ..new };
    b.registry.open_space(new).await.unwrap();
    id
}

/// A message of `sender`, ready to be accepted.
pub(super) fn message_from(sender: EntityId, space: SpaceId, text: &str) -> NewMessage {
    NewMessage::of_person(MessageId(fresh()), space, sender, text, at(10))
}

/// An event of a service.
pub(super) fn service(id: &str) -> Event {
    Event::of_service(EventId(id.into()), "key", "jira", serde_json::json!({"b": 1, "a": [true]}), at(10))
}

impl World {
    /// Posts a message of Husam.
    pub(super) async fn post(&self, space: SpaceId, text: &str) -> Accepted {
        self.accept(message_from(self.husam, space, text)).await
    }

    pub(super) async fn accept(&self, message: NewMessage) -> Accepted {
        self.b.store.accept(Accept::Message(message), None).await.unwrap()
    }

    pub(super) async fn event(&self, agent: AgentId, event: Event) -> Accepted {
        self.b.store.accept(Accept::Event(agent, event), None).await.unwrap()
    }

    pub(super) async fn wake(&self, agent: AgentId) -> Activation {
        self.b.store.wake(agent, at(1_000), None).await.unwrap().expect("the agent exists in this world")
    }

    /// Agents that are due at a time.
    pub(super) async fn due(&self, ms: i64) -> Vec<AgentId> {
        self.b.store.due(at(ms), None, 100).await.unwrap().into_iter().map(|due| due.agent).collect()
    }

    /// The state of one accepted event, as text.
    pub(super) async fn state(&self, agent: AgentId, id: &str) -> &'static str {
        let row = self.b.reader.event(agent, EventId(id.into())).await.unwrap();
        row.map_or("unknown", |row| row.state.as_str())
    }

    /// An agent's entries, runs, view and cycle count, as text to compare.
    pub(super) async fn dump(&self, agent: AgentId) -> String {
        let entries = self.b.reader.entries(agent, 0, agent::limits::PAGE_MAX).await.unwrap().items;
        let runs = self.b.reader.runs(agent, RunFilter::default(), everything()).await.unwrap();
        let view = self.b.reader.view(agent).await.unwrap();
        let cycles = self.b.reader.agent(agent).await.unwrap().map(|card| card.cycles);
        format!("{entries:?}\n{runs:?}\n{view:?}\n{cycles:?}")
    }

    /// Wakes the agent and opens a cycle with all waiting events.
    pub(super) async fn open(&self, agent: AgentId) -> CycleDriver {
        let activation = self.wake(agent).await;
        let mut driver = CycleDriver::about_to_open(agent, &activation);
        let changes = driver.changes(CommitKind::Open);
        driver.commit(self, changes).await;
        driver
    }

    /// Commits, and returns the outcome without the notifications.
    pub(super) async fn commit(&self, lease: Lease, changes: Changes) -> CommitOutcome {
        self.b.store.commit(lease, changes).await.unwrap().0
    }

    /// What the agent sees of waiting events and other changes.
    pub(super) async fn news(&self, lease: Lease) -> News {
        self.b.store.glance(lease, None).await.unwrap().expect("the lease is held")
    }

    /// The facts that the agent is given.
    pub(super) async fn facts(&self, lease: Lease) -> Facts {
        self.news(lease).await.facts.expect("nothing was known before")
    }
}

/// The role of the message in an entry of this kind.
pub(super) fn role_of(kind: EntryKind) -> Role {
    match kind {
        EntryKind::Inbox | EntryKind::Injection | EntryKind::Notice => Role::User,
        EntryKind::Assistant => Role::Assistant,
        EntryKind::Outcomes => Role::Tool,
    }
}

fn fresh_cycle(taken: Vec<u64>) -> OpenCycle {
    let (root, trust, woke_for) = (RootId("root".into()), Trust::Member, "a test".into());
    OpenCycle { taken, root, trust, woke_for, ..OpenCycle::new(CycleId(fresh()), 1, at(1_000)) }
}

/// Runs a cycle step by step from a test.
#[derive(Clone)]
pub(super) struct CycleDriver {
    pub(super) lease: Lease,
    pub(super) n: u64,
    pub(super) head: u64,
    pub(super) cycles: u64,
    pub(super) open: OpenCycle,
}

impl CycleDriver {
    /// A cycle with all waiting events, which is not opened yet. It keeps the id of a cycle that was left open
    /// before it processed anything.
    pub(super) fn about_to_open(agent: AgentId, activation: &Activation) -> Self {
        let mut open = fresh_cycle(activation.waiting.iter().map(|waiting| waiting.seq).collect());
        open.id = activation.life.open.as_ref().map_or(open.id, |left| left.id);
        open.requesters =
            activation.waiting.iter().map(|waiting| agent::delivery::requester(&waiting.event)).collect();
        Self {
            lease: Lease { agent, epoch: activation.life.epoch + 1 },
            n: activation.life.commit_n,
            head: activation.life.head_seq,
            cycles: activation.life.cycles,
            open,
        }
    }

    /// A commit that keeps the cycle open.
    pub(super) fn changes(&self, kind: CommitKind) -> Changes {
        let mut changes = Changes::new(kind, self.open.id, self.open.step, self.n, at(1_000));
        changes.open = Some(self.open.clone());
        changes
    }

    /// The log entry `ahead` places after the head.
    pub(super) fn entry(&self, ahead: u64, kind: EntryKind, text: &str) -> Entry {
        Entry {
            seq: self.head + ahead,
            cycle: self.open.id,
            step: self.open.step,
            kind,
            message: ModelMessage { role: role_of(kind), ..ModelMessage::user(text) },
            tokens: 3,
            at: at(1_000),
            trust: Trust::Member,
        }
    }

    /// The first decision: appends two entries and marks the taken events as processed.
    pub(super) fn decision(&self) -> Changes {
        let mut changes = self.changes(CommitKind::Decide);
        changes.entries =
            vec![self.entry(1, EntryKind::Inbox, "inbox"), self.entry(2, EntryKind::Assistant, "thought")];
        changes.settle = self.settlements(&EventState::Processed { cycle: self.open.id, step: 0 });
        let listed = self.open.taken.clone();
        changes.open = Some(OpenCycle { decided: true, step: 1, listed, ..self.open.clone() });
        changes
    }

    /// The first decision of a cycle that continues with these calls.
    pub(super) fn decision_with(&self, calls: Vec<CallRow>) -> Changes {
        let open = Some(OpenCycle { decided: true, ..self.open.clone() });
        Changes { calls, open, ..self.decision() }
    }

    pub(super) fn settlements(&self, state: &EventState) -> Vec<Settlement> {
        self.open.taken.iter().map(|seq| Settlement { seq: *seq, state: state.clone() }).collect()
    }

    /// The commit that closes the cycle, with its run.
    pub(super) fn closing(&self) -> Changes {
        let mut changes = self.changes(CommitKind::Close);
        changes.open = None;
        changes.idle = Some(Idle { not_before: None, reason: None });
        changes.run = Some(self.record());
        changes
    }

    /// The commit that closes a canceled cycle.
    pub(super) fn canceled(&self) -> Changes {
        let run = Some(Run { ending: Ending::Canceled, ..self.record() });
        Changes { run, ..self.closing() }
    }

    /// The next activation, which takes over the cycle.
    pub(super) fn takeover(&self) -> Self {
        let lease = Lease { epoch: self.lease.epoch + 1, ..self.lease };
        let open = OpenCycle { opening: Some(CycleId(fresh())), ..self.open.clone() };
        Self { lease, open, ..self.clone() }
    }

    pub(super) fn record(&self) -> Run {
        Run {
            id: self.open.id,
            agent: self.lease.agent,
            ordinal: self.cycles + 1,
            woke_for: self.open.woke_for.clone(),
            events: 1,
            opened_at: at(1_000),
            ended_at: at(2_000),
            steps: Vec::new(),
            usage: Usage { input: Some(10), output: Some(5), ..Usage::default() },
            cost_micros: None,
            model: "test/model".into(),
            config_rev: 1,
            ending: Ending::Completed,
            reason: None,
            summary: None,
        }
    }

    /// The message that the inward call with this index posts.
    pub(super) fn message(&self, index: u32, space: SpaceId, text: &str) -> NewMessage {
        let call = self.call(index).id;
        let mut message = message_from(self.lease.agent.entity(), space, text);
        message.id = MessageId::of_call(&call);
        message.trust = Trust::Agent;
        message.cycle = Some(self.open.id);
        message.call = Some(call);
        message.root = self.open.root.clone();
        message.hop = 1;
        message
    }

    /// The row of an inward call that is done.
    pub(super) fn call(&self, index: u32) -> CallRow {
        CallRow {
            id: CallId::derive(self.lease.agent, self.open.id, self.open.step, index),
            cycle: self.open.id,
            step: self.open.step,
            index,
            tool: "send_message".into(),
            arguments: "{}".into(),
            effect: Effect::Inward,
            tool_version: "1".into(),
            runner: Runner::Node,
            claim: None,
            approval: None,
            by_rule: None,
            awaited: true,
            state: CallState::Done,
            outcome: Some(Outcome::ok("sent")),
            trust: Trust::Member,
        }
    }

    /// The row of an outward call that is planned.
    pub(super) fn outward(&self, index: u32, awaited: bool) -> CallRow {
        CallRow {
            tool: "fetch".into(),
            effect: Effect::Unsafe,
            awaited,
            state: CallState::Planned,
            outcome: None,
            ..self.call(index)
        }
    }

    /// Commits, which must succeed, and continues from the new state.
    pub(super) async fn commit(&mut self, world: &World, changes: Changes) -> (Glance, Notifications) {
        let (open, entries) = (changes.open.clone(), changes.entries.len() as u64);
        match world.b.store.commit(self.lease, changes).await.unwrap() {
            (CommitOutcome::Committed { n, glance }, notifications) => {
                assert_eq!(n, self.n + 1, "`commit_n` counts without gaps");
                self.n = n;
                self.head += entries;
                self.open = open.unwrap_or_else(|| self.open.clone());
                (glance, notifications)
            }
            (other, _) => panic!("wanted the commit to be done, got {other:?}"),
        }
    }
}
