//! [`Changes`]: everything that one commit may change, and the outcome of a commit. With a single write path,
//! atomicity, crash recovery, fencing, audit and contract tests are handled in one place.

use jiff::Timestamp;

use crate::alert::Raised;
use crate::call::{CallRow, CallState, Outcome};
use crate::entry::{Entry, View};
use crate::event::{Cause, EventProgress, EventState, Trust, Waiting};
use crate::id::{AgentId, CallId, CycleId, EventId, GoalId, PlanId, SpaceId};
use crate::layer::Layer;
use crate::life::{Goal, GoalStatus, IdleReason, OpenCycle};
use crate::memory::Importance;
use crate::plan::Plan;
use crate::run::{Run, Usage};
use crate::space::{NewMessage, PostedMessage};

names! {
    /// The kind of a commit within a cycle; stored in the audit row.
    pub enum CommitKind {
        /// A cycle begins or is taken over: the epoch is raised. If all calls of its step were answered from outside, it also
        /// appends the step's outcomes entry.
        Open,
        /// A decision, with the events it saw and the changes of its inward calls.
        Decide,
        /// An unsafe call is about to start.
        Start,
        /// An outcome arrived. The last one of a step also appends the step's outcomes entry.
        Settle,
        /// The cycle ended, or its events were returned to the inbox unprocessed.
        Close,
        /// The cycle waits.
        Park,
        /// The view of the log changed.
        View,
        /// A model request is about to be sent for an agent during whose work the process has died before.
        Sent,
        /// The reply to such a request has arrived.
        Arrived,
    }
}

impl CommitKind {
    /// Names of the crash points around this commit, for tests that kill the process: before it is written, and
    /// after.
    pub fn points(self) -> (&'static str, &'static str) {
        match self {
            Self::Open => ("open.before", "open.committed"),
            Self::Decide => ("decide.before", "decide.committed"),
            Self::Start => ("start.before", "start.committed"),
            Self::Settle => ("settle.before", "settle.committed"),
            Self::Close => ("close.before", "close.committed"),
            Self::Park => ("park.before", "park.committed"),
            Self::View => ("view.before", "view.committed"),
            Self::Sent => ("sent.before", "sent.committed"),
            Self::Arrived => ("arrived.before", "arrived.committed"),
        }
    }
}

/// The new state of one taken event.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// Its seq in the inbox.
    pub seq: u64,
    /// Its new state in the ledger. [`EventState::Waiting`] returns it to the inbox unprocessed.
    pub state: EventState,
}

/// How often a waiting event has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Its seq in the inbox.
    pub seq: u64,
    /// Cycles with this event that failed because of their content.
    pub attempts: u32,
    /// Deaths of the process while the event was being processed.
    pub deaths: u32,
}

/// How the agent refers to an event of its cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventRef {
    /// By its seq in the inbox.
    Seq(u64),
    /// By its id.
    Id(EventId),
}

/// A change of one keyed note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    /// Write or overwrite.
    Set {
        /// What it is about.
        key: String,
        /// The note.
        value: String,
        /// How important it is; `None`: as before, for a new one the default.
        importance: Option<Importance>,
        /// Whether it is pinned; `None`: as before, a new one is not.
        pinned: Option<bool>,
        /// How far it can be trusted, if less than whoever writes it: a copy is worth what was copied.
        trust: Option<Trust>,
    },
    /// Change how important a note is and whether it is pinned; the note stays as it is.
    Mark {
        /// What it is about.
        key: String,
        /// How important it is; `None`: as before.
        importance: Option<Importance>,
        /// Whether it is pinned; `None`: as before.
        pinned: Option<bool>,
    },
    /// The agent has found it by searching.
    Used {
        /// What it is about.
        key: String,
    },
    /// Forget.
    Delete {
        /// What it was about.
        key: String,
    },
}

impl MemoryChange {
    /// Writes a note whose importance and pin stay as they are.
    pub fn set(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Set { key: key.into(), value: value.into(), importance: None, pinned: None, trust: None }
    }

    /// The key of the memory.
    pub fn key(&self) -> &str {
        let (Self::Set { key, .. } | Self::Mark { key, .. } | Self::Used { key } | Self::Delete { key }) =
            self;
        key
    }
}

/// A change of one goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalChange {
    /// Write or overwrite.
    Set(Goal),
    /// Remove.
    Delete(GoalId),
}

/// What an operator does with one of an agent's goals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalEdit {
    /// Set a new one.
    Set(Goal),
    /// Change one; what is `None` stays.
    Change {
        /// Which.
        id: GoalId,
        /// What the agent is to reach.
        description: Option<String>,
        /// Higher comes first.
        priority: Option<i32>,
        /// Whether it is pursued, reached or given up.
        status: Option<GoalStatus>,
    },
    /// Delete one, with its sub-goals.
    Delete(GoalId),
}

impl GoalEdit {
    /// Which goal.
    pub fn id(&self) -> GoalId {
        match self {
            Self::Set(goal) => goal.id,
            Self::Change { id, .. } | Self::Delete(id) => *id,
        }
    }
}

/// A change of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanChange {
    /// Write or overwrite.
    Set(Plan),
    /// Remove.
    Delete(PlanId),
}

impl PlanChange {
    /// When the plan fires next.
    pub fn next_at(&self) -> Option<Timestamp> {
        match self {
            Self::Set(plan) => plan.next_at,
            Self::Delete(_) => None,
        }
    }
}

/// Changes requested by inward calls. They take effect in the decision's commit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inward {
    /// Messages to post, in order.
    pub messages: Vec<NewMessage>,
    /// Notes to write, in order.
    pub memories: Vec<MemoryChange>,
    /// Goals to write, in order.
    pub goals: Vec<GoalChange>,
    /// Plans to write, in order.
    pub plans: Vec<PlanChange>,
    /// The new active space.
    pub active_space: Option<SpaceId>,
    /// Number of waiting events that the agent wants to see at its next step.
    pub peek: u32,
}

impl Inward {
    /// Appends the changes of a later call.
    pub fn extend(&mut self, later: Self) {
        self.messages.extend(later.messages);
        self.memories.extend(later.memories);
        self.goals.extend(later.goals);
        self.plans.extend(later.plans);
        self.active_space = later.active_space.or(self.active_space);
        self.peek = self.peek.max(later.peek);
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The change of one call row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallChange {
    /// Which call.
    pub id: CallId,
    /// Its new state.
    pub state: CallState,
    /// With `Done` its outcome; with `Detached` what the agent reads until the outcome arrives.
    pub outcome: Option<Outcome>,
}

/// How long the agent is idle after this commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// The agent is not due before this time, even if events wait. `None`: due as soon as an event waits.
    pub not_before: Option<Timestamp>,
    /// Why it may not run before that time.
    pub reason: Option<IdleReason>,
}

/// Everything that one commit may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The kind of commit.
    pub kind: CommitKind,
    /// The cycle it belongs to.
    pub cycle: CycleId,
    /// The step it belongs to.
    pub step: u32,
    /// `commit_n` of the life row as the writer knows it; the commit increments it. After a lost connection it
    /// shows whether the commit was written.
    pub expect: u64,
    /// When the writer made the commit.
    pub at: Timestamp,
    /// The life row's open cycle after this commit; `None` closes it.
    pub open: Option<OpenCycle>,
    /// With [`CommitKind::Open`]: failure counts of waiting events, where they differ from what is stored.
    pub tried: Vec<Tried>,
    /// With [`CommitKind::Open`]: the panic that it has counted, as it was read ([`crate::life::Activation::panicked`]).
    pub panicked: Option<u64>,
    /// Appended to the log, with their seqs.
    pub entries: Vec<Entry>,
    /// Taken events that are settled or returned to the inbox.
    pub settle: Vec<Settlement>,
    /// Whether returned or dead events count one more failed attempt, because their content was at fault.
    pub blame: bool,
    /// New call rows.
    pub calls: Vec<CallRow>,
    /// Changes of call rows.
    pub call_changes: Vec<CallChange>,
    /// Changes requested by the inward calls.
    pub inward: Inward,
    /// The cause of the events that the plans in `inward` will create. Its trust is that of the memories and goals in `inward`, too.
    pub cause: Cause,
    /// Messages of kind `tool`, one for each new call row of a visible tool. They cause no events and never cause a
    /// refusal: if the agent may not post in the space, the message is left out. Each outcome that is later written
    /// to a call row updates its message in the same transaction.
    pub shows: Vec<NewMessage>,
    /// Volatile layers to keep with the cycle.
    pub layers: Vec<Layer>,
    /// A new view row.
    pub view: Option<View>,
    /// The run.
    pub run: Option<Run>,
    /// Tokens to add to the agent's totals in addition to those of `run`: a skipped cycle has no run, but its usage
    /// counts.
    pub usage: Usage,
    /// Cost of this usage in micro-dollars; `None` if unknown.
    pub cost_micros: Option<u64>,
    /// With `Close` or `Park`: how long the agent is idle.
    pub idle: Option<Idle>,
    /// New count of failures that are not caused by content (a provider that is down).
    pub failures: Option<u32>,
    /// New notice for the next inbox entry (`Some(None)` clears it).
    pub notice: Option<Option<String>>,
    /// With [`CommitKind::Start`]: refuse it if a requester of the open cycle has sent an urgent event that is not
    /// taken yet.
    pub barrier: bool,
    /// With `barrier`: urgent events from before this time hold nothing back, since a person has approved the call after them.
    pub barrier_since: Option<Timestamp>,
    /// With a park that waits for a person: [`Glance::answered`] as its writer knows it. If somebody has answered since, the agent
    /// is due at once.
    pub answered: Option<u32>,
    /// Events of the cycle that the agent reports as handled.
    pub addressed: Vec<EventRef>,
    /// What operators should know of that has happened since the commit before.
    pub alerts: Vec<Raised>,
    /// Whether the agent retires with this commit (an `ephemeral` agent after its first cycle).
    pub retire: bool,
}

impl Changes {
    /// A commit that changes nothing but the audit row and `commit_n`.
    pub fn new(kind: CommitKind, cycle: CycleId, step: u32, expect: u64, at: Timestamp) -> Self {
        Self {
            kind,
            cycle,
            step,
            expect,
            at,
            open: None,
            tried: Vec::new(),
            panicked: None,
            entries: Vec::new(),
            settle: Vec::new(),
            blame: false,
            calls: Vec::new(),
            call_changes: Vec::new(),
            inward: Inward::default(),
            cause: Cause::default(),
            shows: Vec::new(),
            layers: Vec::new(),
            view: None,
            run: None,
            usage: Usage::default(),
            cost_micros: None,
            idle: None,
            failures: None,
            notice: None,
            barrier: false,
            barrier_since: None,
            answered: None,
            addressed: Vec::new(),
            alerts: Vec::new(),
            retire: false,
        }
    }

    /// Whether the commit addresses an event that the cycle has processed, now or earlier: it posts a message in the
    /// event's space, or its `done` names the event.
    pub fn addresses(&self, seq: u64, event: &EventId, space: Option<SpaceId>) -> bool {
        let posted = self.inward.messages.iter().any(|message| Some(message.space) == space);
        let is_event = |named: &EventRef| match named {
            EventRef::Seq(named) => *named == seq,
            EventRef::Id(named) => named == event,
        };
        posted || self.addressed.iter().any(is_event)
    }
}

/// What happened since the last commit. Every commit returns it: counts and flags that are cheap to read by index.
/// The details are read by [`crate::port::Store::glance`], which does not delay other commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// Waiting events that the open cycle has not taken.
    pub waiting: u32,
    /// The highest seq in the inbox; it changes with every accepted event.
    pub newest: u64,
    /// Whether a waiting event is urgent.
    pub urgent: bool,
    /// Whether somebody requested to cancel the open cycle.
    pub cancel: bool,
    /// Whether the agent was suspended: the open cycle parks.
    pub suspended: bool,
    /// Detached calls of the agent.
    pub detached: u32,
    /// How often calls of the open step were answered or approved from outside.
    pub answered: u32,
    /// Incremented by every change of the agent's facts.
    pub facts_rev: u64,
}

/// The details of a [`Glance`], bounded in rows and bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// The counts and flags at the same moment.
    pub glance: Glance,
    /// The oldest waiting events that are not taken: at most [`crate::limits::PEEK_MAX`], and as many as
    /// [`crate::inbox::fits_read_limit`] allows.
    pub oldest: Vec<Waiting>,
    /// The urgent events among them in full, each with the earlier events of its sender, oldest first: at most
    /// [`crate::limits::URGENT_MAX`], and as many as [`crate::inbox::fits_read_limit`] allows.
    pub urgent: Vec<Waiting>,
    /// Calls of the open step that got their outcome from outside: canceled, or answered by their claimant or a person.
    pub answered: Vec<(CallId, Outcome)>,
    /// Calls of the open step that a person has approved.
    pub granted: Vec<CallRow>,
    /// The facts behind the agent's tools and workspace, unless the caller already has them.
    pub facts: Option<crate::life::Facts>,
}

/// Why a commit did not accept one of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The call whose change is refused.
    pub call: CallId,
    /// Text for the model.
    pub reason: String,
}

/// An agent that became due because an event was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// Which.
    pub agent: AgentId,
    /// It is due at this time (later than now because of its `debounce`, or because it is backing off).
    pub at: Timestamp,
    /// Whether the event may interrupt an open cycle.
    pub urgent: bool,
}

/// Effects of a commit outside its agent, for watchers and signals only, never for the cycle machine. A watcher that
/// misses them can read them from the store. Empty if the commit had already been written before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notifications {
    /// Messages as stored, in order: posted messages, messages of visible calls, and changes of those.
    pub messages: Vec<PostedMessage>,
    /// Agents that have work, including this one if more events wait for it.
    pub wake: Vec<Wakeup>,
    /// Progress of the cycle's events in this commit, in order.
    pub progress: Vec<EventMoved>,
}

/// A change of an event's progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventMoved {
    /// Which.
    pub event: EventId,
    /// Its progress now.
    pub progress: EventProgress,
    /// The cycle, while it has the event.
    pub cycle: Option<CycleId>,
    /// The step at which it was shown.
    pub step: Option<u32>,
    /// Why it is dead; only then.
    pub reason: Option<String>,
}

impl EventMoved {
    /// An event that reaches this progress with a commit of that cycle.
    pub fn new(event: EventId, progress: EventProgress, cycle: CycleId, step: Option<u32>) -> Self {
        let has = matches!(
            progress,
            EventProgress::Taken | EventProgress::Shown | EventProgress::Addressed | EventProgress::Read
        );
        Self { event, progress, cycle: has.then_some(cycle), step, reason: None }
    }
}

/// The outcome of a commit. It carries no value that the store assigned.
#[derive(Clone, Debug, PartialEq)]
pub enum CommitOutcome {
    /// Written durably.
    Committed {
        /// The life row's new `commit_n`.
        n: u64,
        /// What happened since the last commit.
        glance: Glance,
    },
    /// Another process runs this agent now; the caller must discard its state.
    Lost,
    /// Nothing was written: these calls are not allowed (any more).
    Refused(Vec<Refusal>),
    /// Nothing was written: the cycle was canceled.
    Canceled,
    /// Nothing was written: a requester sent an urgent event before a start with a barrier.
    Barred,
    /// Nothing was written: these calls already got their outcome from outside. The first outcome counts, and the
    /// model reads the one in the row.
    Answered(Vec<(CallId, Outcome)>),
    /// Nothing was written: these events were to be settled but no longer wait.
    Gone(Vec<u64>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Principal;
    use crate::id::{EntityId, MessageId, RootId};
    use uuid::Uuid;

    #[test]
    fn a_commit_addresses_an_event_by_a_message_in_its_space_or_by_naming_it() {
        let (here, there) = (SpaceId(Uuid::from_u128(1)), SpaceId(Uuid::from_u128(2)));
        let message_in = |space| NewMessage {
            id: MessageId(Uuid::nil()),
            space,
            sender: EntityId(Uuid::nil()),
            text: "done".into(),
            mentions: Vec::new(),
            urgent: false,
            at: Timestamp::UNIX_EPOCH,
            cycle: None,
            call: None,
            data: None,
            principal: Principal::Own,
            trust: Trust::Agent,
            root: RootId(String::new()),
            hop: 0,
        };
        let event = EventId("e7".into());
        for (posted_in, named, space, addressed) in [
            (None, None, Some(here), false),
            (Some(here), None, Some(here), true),
            (Some(there), None, Some(here), false),
            (Some(here), None, None, false),
            (None, Some(EventRef::Seq(7)), Some(here), true),
            (None, Some(EventRef::Seq(8)), Some(here), false),
            (None, Some(EventRef::Id(EventId("e7".into()))), None, true),
            (None, Some(EventRef::Id(EventId("e8".into()))), None, false),
        ] {
            let mut changes =
                Changes::new(CommitKind::Decide, CycleId(Uuid::nil()), 0, 0, Timestamp::UNIX_EPOCH);
            changes.inward.messages = posted_in.map(message_in).into_iter().collect();
            changes.addressed = named.clone().into_iter().collect();
            assert_eq!(changes.addresses(7, &event, space), addressed, "{posted_in:?} {named:?} {space:?}");
        }
    }
}
