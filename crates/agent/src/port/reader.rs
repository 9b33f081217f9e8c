//! Paged queries for the console and the CLI, used only by `server` and `cli`. They are not scoped to an agent: the
//! API decides who may read.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::registry::CredentialRow;
use super::{BoxFuture, StoreError};
use crate::alert::{Alert, AlertKind};
use crate::call::CallRow;
use crate::changes::CommitKind;
use crate::config::AgentConfig;
use crate::entity::{Entity, EntityKind, Member, Space};
use crate::entry::{Entry, View};
use crate::event::{Event, EventKind, EventProgress, EventState};
use crate::id::{AgentId, CallId, CycleId, EntityId, EventId, MessageId, PlanId, SpaceId};
use crate::layer::Layer;
use crate::life::{Facts, IdleReason, IdleUntil, OpenCycle, Standing};
use crate::memory::Memory;
use crate::plan::Plan;
use crate::run::{Ending, Run, Usage};
use crate::space::{Message, MessageKind};

/// Which page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// `next` of the page before; `None` is the first page.
    pub cursor: Option<String>,
    /// Number of rows, at most [`crate::limits::PAGE_MAX`].
    pub limit: u32,
}

/// One page. Its rows together have at most [`crate::limits::PAGE_MAX_BYTES`], unless one row alone has more. A query
/// with a filter looks at no more than [`crate::limits::PAGE_LOOK_MAX`] rows for one page. So a page may have fewer rows
/// than requested although more follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` if this is the last.
    pub next: Option<String>,
}

/// Which messages of a space; what is `None` excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageFilter {
    /// Only those with a greater `seq`; the page then begins with the oldest, else it ends with the newest.
    pub after: Option<u64>,
    /// Only those with a lower `seq`.
    pub before: Option<u64>,
    /// Only those of this sender.
    pub sender: Option<EntityId>,
    /// Only those of this kind.
    pub kind: Option<MessageKind>,
    /// Only those posted at this time or later.
    pub since: Option<Timestamp>,
}

impl MessageFilter {
    /// The messages after this `seq`, the oldest first.
    pub fn after(seq: u64) -> Self {
        Self { after: Some(seq), ..Self::default() }
    }
}

/// Which events of an inbox; what is `None` excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxFilter {
    /// Only those in this state (as [`EventState::as_str`]).
    pub state: Option<String>,
    /// Only those of this kind.
    pub kind: Option<EventKind>,
    /// Only those that happened at this time or later.
    pub since: Option<Timestamp>,
}

impl InboxFilter {
    /// The events in this state.
    pub fn in_state(state: impl Into<String>) -> Self {
        Self { state: Some(state.into()), ..Self::default() }
    }
}

/// Which runs of an agent; what is `None` excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only those that ended like this.
    pub ending: Option<Ending>,
    /// Only those that ended at this time or later.
    pub since: Option<Timestamp>,
}

/// Which alerts; what is `None` excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertFilter {
    /// Only those of this agent.
    pub agent: Option<AgentId>,
    /// Only those of this kind.
    pub alert: Option<AlertKind>,
    /// Only those of this time or later.
    pub since: Option<Timestamp>,
}

/// An agent as operators see it.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentCard {
    /// Identity.
    pub id: AgentId,
    /// Its entity, as members see it.
    pub entity: Entity,
    /// Newest config revision.
    pub config_rev: u64,
    /// That config.
    pub config: Arc<AgentConfig>,
    /// Whether it may run.
    pub standing: Standing,
    /// The open cycle.
    pub open: Option<OpenCycle>,
    /// Waiting events.
    pub waiting: u32,
    /// Events held by the limit on agent-to-agent messages.
    pub held: u32,
    /// Cycles in which something was processed.
    pub cycles: u64,
    /// Cycles that were skipped.
    pub skips: u64,
    /// All tokens it has used, skipped cycles included.
    pub usage: Usage,
    /// The agent does not start waiting work before this time, which may have passed.
    pub not_before: Option<Timestamp>,
    /// Why it is idle.
    pub idle_reason: Option<IdleReason>,
    /// Where it posts by default.
    pub active_space: Option<SpaceId>,
    /// `commit_n` of its life row.
    pub commit_n: u64,
    /// The cost of all its runs in micro-dollars; `None` if none of them has a price.
    pub cost_micros: Option<u64>,
    /// Runs whose cost is unknown.
    pub unpriced: u64,
    /// A summary of its newest run.
    pub last: Option<LastRun>,
    /// When its next plan fires.
    pub next_plan: Option<Timestamp>,
    /// Why it is quarantined, if a record of it cannot be read.
    pub damage: Option<String>,
    /// Its dead events, if there are any.
    pub dead: Option<DeadEvents>,
}

/// The events of an agent that failed too often and are not tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadEvents {
    /// How many there are.
    pub count: u32,
    /// The one that arrived last.
    pub last: EventId,
    /// Why that one is dead.
    pub reason: String,
}

/// A summary of an agent's newest run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// The cycle.
    pub id: CycleId,
    /// How it ended.
    pub ending: Ending,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// A recent message or run.
#[derive(Clone, Debug, PartialEq)]
pub enum RecentItem {
    /// A message posted in a space.
    Message(Message),
    /// A cycle that ended.
    Run(Run),
}

impl RecentItem {
    /// When it happened.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Message(message) => message.at,
            Self::Run(run) => run.ended_at,
        }
    }
}

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxRow {
    /// Its position in the agent's inbox.
    pub seq: u64,
    /// The event itself.
    pub event: Event,
    /// Its one state.
    pub state: EventState,
    /// Its progress.
    pub progress: EventProgress,
    /// The cycle that has taken or processed it.
    pub cycle: Option<CycleId>,
    /// That cycle's ordinal, which its run has or will have.
    pub ordinal: Option<u64>,
    /// The step that shows or showed it.
    pub step: Option<u32>,
    /// When it is released automatically; only while it is held.
    pub release_at: Option<Timestamp>,
    /// Failed attempts; only while it waits.
    pub attempts: u32,
    /// The text of its message, for people; only the beginning if it is long.
    pub preview: String,
}

/// A row of the audit of commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRow {
    /// `commit_n`.
    pub n: u64,
    /// The epoch of the lease.
    pub epoch: u64,
    /// Cycle.
    pub cycle: CycleId,
    /// Step.
    pub step: u32,
    /// The kind of commit.
    pub kind: CommitKind,
    /// When it was committed.
    pub at: Timestamp,
}

/// The history as a request had it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownLog {
    /// The view.
    pub view: View,
    /// The entries that it showed, oldest first.
    pub entries: Vec<Entry>,
    /// The layers between them that are still kept (those of the newest [`crate::limits::LAYERS_KEPT`] requests).
    pub layers: Vec<Layer>,
}

/// StoreFigures of the whole store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Agents, retired ones included.
    pub agents: u64,
    /// Spaces.
    pub spaces: u64,
    /// Messages.
    pub messages: u64,
    /// Waiting events.
    pub waiting: u64,
    /// Dead events.
    pub dead: u64,
    /// Open cycles.
    pub open_cycles: u64,
    /// When the oldest change was committed that `recall` cannot find yet; `None` if it finds everything.
    #[serde(default)]
    pub unindexed_since: Option<Timestamp>,
    /// What the check that follows a start has found damaged in the store's file; `None`: nothing, or it has not ended yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// StoreFigures of the whole store for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// Those that everybody is interested in.
    pub totals: Totals,
    /// Agents that are suspended, quarantined ones included.
    pub suspended: u64,
    /// Agents that are retired.
    pub retired: u64,
    /// Agents of which a record cannot be read.
    pub quarantined: u64,
    /// Agents whose open cycle waits for a person.
    pub paused: u64,
    /// Events that are held.
    pub held: u64,
    /// Calls for which a person is waited.
    pub asked: u64,
    /// Calls whose cycle does not wait for them.
    pub detached: u64,
    /// Bytes of the store's file.
    pub store_bytes: u64,
    /// Bytes of its write-ahead log.
    pub wal_bytes: u64,
    /// Bytes of the search index.
    pub index_bytes: u64,
}

/// Paged queries.
pub trait Reader: Send + Sync {
    /// StoreFigures of the whole store.
    fn totals(&self) -> BoxFuture<'_, Result<Totals, StoreError>>;
    /// More of them, for metrics.
    fn figures(&self) -> BoxFuture<'_, Result<StoreFigures, StoreError>>;
    /// Agents by name, only those with this standing, if given.
    fn agents(
        &self,
        standing: Option<Standing>,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<AgentCard>, StoreError>>;
    /// One agent.
    fn agent(&self, agent: AgentId) -> BoxFuture<'_, Result<Option<AgentCard>, StoreError>>;
    /// An agent's spaces, memories, goals and plans.
    fn facts(&self, agent: AgentId) -> BoxFuture<'_, Result<Option<Facts>, StoreError>>;
    /// An agent's memories, by key.
    fn memories(&self, agent: AgentId, page: PageRequest) -> BoxFuture<'_, Result<Page<Memory>, StoreError>>;
    /// An agent's plans that will fire, the next one first: few.
    fn plans(&self, agent: AgentId) -> BoxFuture<'_, Result<Vec<Plan>, StoreError>>;
    /// A plan of the agent, also one that has ended: it has no next slot.
    fn plan(&self, agent: AgentId, id: PlanId) -> BoxFuture<'_, Result<Option<Plan>, StoreError>>;
    /// Keys, also revoked ones, the newest first.
    fn credentials(&self, page: PageRequest) -> BoxFuture<'_, Result<Page<CredentialRow>, StoreError>>;
    /// Entities by name, of one kind or of both.
    fn entities(
        &self,
        kind: Option<EntityKind>,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<Entity>, StoreError>>;
    /// The entity with that id or handle (any case).
    fn entity(&self, id_or_name: String) -> BoxFuture<'_, Result<Option<Entity>, StoreError>>;
    /// Spaces by name; only those of `member` and only closed or open ones, if given.
    fn spaces(
        &self,
        member: Option<EntityId>,
        closed: Option<bool>,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<Space>, StoreError>>;
    /// The space with that id or handle (any case).
    fn space(&self, id_or_name: String) -> BoxFuture<'_, Result<Option<Space>, StoreError>>;
    /// Members of a space, oldest first (bounded by [`crate::limits::SPACE_MEMBERS_MAX`]).
    fn members(&self, space: SpaceId) -> BoxFuture<'_, Result<Vec<Member>, StoreError>>;
    /// Whether both are members of one space.
    fn share_a_space(&self, one: EntityId, other: EntityId) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Agents that are idle at `now` although events of that space wait for them or their open cycle is about it,
    /// each with the reason and the time.
    fn idle_agents(
        &self,
        space: SpaceId,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<(AgentId, IdleUntil)>, StoreError>>;
    /// A page of messages, oldest first. `next` is the `seq` of its last message if the filter has `after`, else of its
    /// first.
    fn messages(
        &self,
        space: SpaceId,
        filter: MessageFilter,
        limit: u32,
    ) -> BoxFuture<'_, Result<Page<Message>, StoreError>>;
    /// Messages whose `rev` is above `rev`, in that order: those that a watcher missed. At least one, then as many as
    /// have `max_bytes` together.
    fn messages_since_rev(
        &self,
        space: SpaceId,
        rev: u64,
        limit: u32,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Page<Message>, StoreError>>;
    /// The latest messages and runs after `since`, oldest first: at most `limit`, and as many as fit into one page. With
    /// `agents`: only their runs and the messages in their spaces.
    fn recent(
        &self,
        agents: Option<Vec<AgentId>>,
        since: Option<Timestamp>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<RecentItem>, StoreError>>;
    /// One message.
    fn message(&self, message: MessageId) -> BoxFuture<'_, Result<Option<Message>, StoreError>>;
    /// The messages that a cycle posted, in order.
    fn messages_of_cycle(&self, cycle: CycleId) -> BoxFuture<'_, Result<Vec<Message>, StoreError>>;
    /// Alerts, newest first, each with its number.
    fn alerts(
        &self,
        filter: AlertFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<(u64, Alert)>, StoreError>>;
    /// An agent's ledger, newest first.
    fn inbox(
        &self,
        agent: AgentId,
        filter: InboxFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<InboxRow>, StoreError>>;
    /// One accepted event of an agent.
    fn event(&self, agent: AgentId, event: EventId) -> BoxFuture<'_, Result<Option<InboxRow>, StoreError>>;
    /// One call of an agent.
    fn call(&self, agent: AgentId, call: CallId) -> BoxFuture<'_, Result<Option<CallRow>, StoreError>>;
    /// Calls of an agent that have no outcome, in the order in which they were decided: at most
    /// [`crate::limits::PAGE_MAX`].
    fn open_calls(&self, agent: AgentId) -> BoxFuture<'_, Result<Vec<CallRow>, StoreError>>;
    /// The open cycle of an agent, with the records of all of its steps.
    fn open_cycle(&self, agent: AgentId) -> BoxFuture<'_, Result<Option<OpenCycle>, StoreError>>;
    /// An agent's runs, newest first.
    fn runs(
        &self,
        agent: AgentId,
        filter: RunFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<Run>, StoreError>>;
    /// One run.
    fn run(&self, cycle: CycleId) -> BoxFuture<'_, Result<Option<Run>, StoreError>>;
    /// A page of an agent's log after the entry `after`, oldest first. `next` is the `seq` of its last entry.
    fn entries(
        &self,
        agent: AgentId,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<Page<Entry>, StoreError>>;
    /// What a view of an agent showed when that entry was the last of its log. `None` if it has no such view.
    fn shown(
        &self,
        agent: AgentId,
        view: u64,
        last: u64,
    ) -> BoxFuture<'_, Result<Option<ShownLog>, StoreError>>;
    /// An agent's view.
    fn view(&self, agent: AgentId) -> BoxFuture<'_, Result<Option<View>, StoreError>>;
    /// Audit rows of an agent's commits after `after`, oldest first.
    fn commits(
        &self,
        agent: AgentId,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<CommitRow>, StoreError>>;
}
