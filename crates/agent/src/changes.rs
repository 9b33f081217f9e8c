//! One value for everything that one commit may change, and what comes of it. One write path means
//! one place for atomicity, crash recovery, fencing, audit and contract tests.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::call::{CallRow, CallState, Outcome};
use crate::entry::{Entry, View};
use crate::event::{Cause, EventProgress, EventState, Waiting};
use crate::id::{AgentId, CallId, CycleId, EventId, GoalId, PlanId, SpaceId};
use crate::life::{Goal, IdleReason, Layer, OpenCycle, Plan};
use crate::run::{Run, Usage};
use crate::space::{NewMessage, Spoken};

/// Which of the commits of a cycle this is; kept in the audit row.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CommitKind {
    /// A cycle begins or is taken over: the epoch is raised.
    Open,
    /// A decision with everything that it saw and does inwardly.
    Decide,
    /// An unsafe call is about to begin.
    Start,
    /// An outcome came; with the last one the step's outcomes entry.
    Settle,
    /// The cycle is over (or was given back untouched).
    Close,
    /// The cycle waits.
    Park,
    /// Another view of the log.
    View,
    /// The request of an agent during which the process has died before is about to be sent.
    Sent,
    /// The reply to such a request is here.
    Arrived,
}

impl CommitKind {
    /// The name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The named points around such a commit at which a process can be made to die: before it is written,
    /// and behind it.
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

/// What becomes of one taken event.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// Its place in the inbox.
    pub seq: u64,
    /// Its new state in the ledger. [`EventState::Waiting`] gives it back untouched.
    pub state: EventState,
}

/// How often a waiting event has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Its place in the inbox.
    pub seq: u64,
    /// Cycles over it that failed by their content.
    pub attempts: u32,
    /// Deaths of the process while it was being processed.
    pub deaths: u32,
}

/// An event of the cycle as its agent names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its place in the inbox.
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
    },
    /// Forget.
    Delete {
        /// What it was about.
        key: String,
    },
}

/// A change of one goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalChange {
    /// Write or overwrite.
    Set(Goal),
    /// Remove.
    Delete(GoalId),
}

/// A change of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanChange {
    /// Write or overwrite.
    Set(Plan),
    /// Remove.
    Delete(PlanId),
}

/// What inward calls want changed; nothing happens before the decision's commit.
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
    /// Waiting events that the agent wants to see at its next step.
    pub peek: u32,
}

impl Inward {
    /// Appends what a later call wants.
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

/// A call row's step forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallChange {
    /// Which call.
    pub id: CallId,
    /// Its new state.
    pub state: CallState,
    /// Its outcome, with `Done`; what its agent reads for now, with `Detached`.
    pub outcome: Option<Outcome>,
}

/// How long the agent is idle after this commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Not due before this time, whatever waits; `None`: due as soon as something waits.
    pub not_before: Option<Timestamp>,
    /// Why it is kept back.
    pub reason: Option<IdleReason>,
}

/// Everything that one commit may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// Which commit.
    pub kind: CommitKind,
    /// The cycle it belongs to.
    pub cycle: CycleId,
    /// The step it belongs to.
    pub step: u32,
    /// `commit_n` of the life row as the writer knows it; the commit makes it one more. Tells after
    /// a lost connection whether the commit was done.
    pub expect: u64,
    /// When.
    pub at: Timestamp,
    /// The life row's open cycle after this commit; `None` closes it.
    pub open: Option<OpenCycle>,
    /// With [`CommitKind::Open`]: how often waiting events have failed by now, where that has changed since
    /// the store wrote it.
    pub tried: Vec<Tried>,
    /// Appended to the log, with their seqs.
    pub entries: Vec<Entry>,
    /// Taken events that are settled or given back.
    pub settle: Vec<Settlement>,
    /// Whether events that are given back, or given up, have failed once more (their content was at fault).
    pub blame: bool,
    /// New call rows.
    pub calls: Vec<CallRow>,
    /// Steps forward of call rows.
    pub call_changes: Vec<CallChange>,
    /// What the inward calls want.
    pub inward: Inward,
    /// What events of the plans among that descend from.
    pub cause: Cause,
    /// Messages of kind `tool`, one for each new call row of a visible tool. They cause no events and
    /// are no reason to refuse: one whose agent may not (any more) speak in its space is left out. From
    /// then on each outcome that is written to a call row changes its message in the same transaction.
    pub shows: Vec<NewMessage>,
    /// Volatile layers to keep with the cycle.
    pub layers: Vec<Layer>,
    /// A new view row.
    pub view: Option<View>,
    /// The run.
    pub run: Option<Run>,
    /// Tokens for the agent's totals besides those of `run`: a skipped cycle has no run, and what it
    /// used is kept all the same.
    pub usage: Usage,
    /// What these cost, in micro-dollars; `None` where that is not known.
    pub cost_micros: Option<u64>,
    /// With close or park: how long the agent is idle.
    pub idle: Option<Idle>,
    /// New count of failures of the surroundings.
    pub failures: Option<u32>,
    /// New notice for the next inbox entry (`Some(None)` clears it).
    pub notice: Option<Option<String>>,
    /// With [`CommitKind::Start`]: refuse it where a requester of the open cycle has said something
    /// urgent that is not taken.
    pub barrier: bool,
    /// Events of the cycle that the agent says are dealt with.
    pub addressed: Vec<Named>,
    /// Whether the agent retires with this commit (an `ephemeral` one at its first rest).
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
            addressed: Vec::new(),
            retire: false,
        }
    }

    /// Whether the commit addresses an event that its cycle has processed, with this decision or before: it says
    /// something in the event's space, or its `done` names it.
    pub fn addresses(&self, seq: u64, event: &EventId, space: Option<SpaceId>) -> bool {
        let spoke = self.inward.messages.iter().any(|said| Some(said.space) == space);
        let names = |named: &Named| match named {
            Named::Seq(named) => *named == seq,
            Named::Id(named) => named == event,
        };
        spoke || self.addressed.iter().any(names)
    }
}

/// What the world did meanwhile, brought by every commit: counts and flags, read by index. What is behind
/// them is read by [`crate::port::Store::glance`], off the way of other commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// Events that wait and are not among the open cycle's taken ones.
    pub waiting: u32,
    /// The newest place in the inbox: changes with everything that is accepted.
    pub newest: u64,
    /// Whether something urgent is among what waits.
    pub urgent: bool,
    /// Whether the open cycle is to be canceled.
    pub cancel: bool,
    /// Whether the agent was suspended: the open cycle parks.
    pub suspended: bool,
    /// Calls of the agent that go on beyond their cycles.
    pub detached: u32,
    /// How many calls of the open step were answered from outside.
    pub answered: u32,
    /// Raised by whatever changes the agent's facts.
    pub facts_rev: u64,
}

/// What is behind a [`Glance`], bounded in rows and bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// The counts and flags as of the same moment.
    pub glance: Glance,
    /// The oldest events that wait and are not taken, at most [`crate::limits::PEEK_MAX`], and as many as
    /// [`crate::inbox::is_read`] lets in.
    pub oldest: Vec<Waiting>,
    /// The urgent ones of them in full, each with all that its sender said there before, oldest first, at
    /// most [`crate::limits::URGENT_MAX`], and as many as [`crate::inbox::is_read`] lets in.
    pub urgent: Vec<Waiting>,
    /// Calls of the open step that were answered from outside: canceled, or answered by their claimant.
    pub answered: Vec<(CallId, Outcome)>,
    /// What the agent's tools and workspace are made from, unless the caller knows it.
    pub facts: Option<crate::life::Facts>,
}

/// Why a commit did not accept one of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The call whose change is refused.
    pub call: CallId,
    /// In words for the model.
    pub reason: String,
}

/// An agent that an accept made due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// Which.
    pub agent: AgentId,
    /// Not before this time (its `debounce`, or it is kept back).
    pub at: Timestamp,
    /// Whether it may break into a cycle that is open.
    pub urgent: bool,
}

/// What a commit caused outside its agent, for watchers and signals only, never for the machine. Whoever
/// misses it finds it in the store; empty where the commit turned out to have been done before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notifications {
    /// Messages as stored, in order: what was said, visible calls and changes of these.
    pub messages: Vec<Spoken>,
    /// Agents that have something to do, this one included where more waits for it.
    pub wake: Vec<Wakeup>,
    /// How far events of the cycle have come with it, in order.
    pub stages: Vec<EventMoved>,
}

/// An event of a cycle that has come further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventMoved {
    /// Which.
    pub event: EventId,
    /// How far.
    pub progress: EventProgress,
    /// The cycle, as long as it has the event.
    pub cycle: Option<CycleId>,
    /// The step at which it was shown.
    pub step: Option<u32>,
}

impl EventMoved {
    /// An event that comes so far with a commit of that cycle.
    pub fn new(event: EventId, progress: EventProgress, cycle: CycleId, step: Option<u32>) -> Self {
        let has = matches!(
            progress,
            EventProgress::Taken | EventProgress::Shown | EventProgress::Addressed | EventProgress::Read
        );
        Self { event, progress, cycle: has.then_some(cycle), step }
    }
}

/// What came of a commit. None of these carries a value that the store assigned.
#[derive(Clone, Debug, PartialEq)]
pub enum CommitOutcome {
    /// Done, durably.
    Committed {
        /// The life row's new `commit_n`.
        n: u64,
        /// What the world did meanwhile.
        glance: Glance,
    },
    /// Another process runs this agent now; drop everything.
    Lost,
    /// Nothing was written: these calls may not do what they want (any more).
    Refused(Vec<Refusal>),
    /// Nothing was written: the cycle was canceled.
    Canceled,
    /// Nothing was written: a start with a barrier came after something urgent of a requester.
    Barred,
    /// Nothing was written: these of its calls were answered from outside before. Whoever is first has
    /// answered, and what the model reads is what the rows say.
    Answered(Vec<(CallId, Outcome)>),
    /// Nothing was written: these events were to be settled and do not wait any more.
    Gone(Vec<u64>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Principal, Trust};
    use crate::id::{EntityId, MessageId, RootId};
    use uuid::Uuid;

    #[test]
    fn an_event_is_dealt_with_by_a_word_in_its_space_or_by_its_name() {
        let (here, there) = (SpaceId(Uuid::from_u128(1)), SpaceId(Uuid::from_u128(2)));
        let says = |space| NewMessage {
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
        for (said, named, space, dealt_with) in [
            (None, None, Some(here), false),
            (Some(here), None, Some(here), true),
            (Some(there), None, Some(here), false),
            (Some(here), None, None, false),
            (None, Some(Named::Seq(7)), Some(here), true),
            (None, Some(Named::Seq(8)), Some(here), false),
            (None, Some(Named::Id(EventId("e7".into()))), None, true),
            (None, Some(Named::Id(EventId("e8".into()))), None, false),
        ] {
            let mut changes =
                Changes::new(CommitKind::Decide, CycleId(Uuid::nil()), 0, 0, Timestamp::UNIX_EPOCH);
            changes.inward.messages = said.map(says).into_iter().collect();
            changes.addressed = named.clone().into_iter().collect();
            assert_eq!(changes.addresses(7, &event, space), dealt_with, "{said:?} {named:?} {space:?}");
        }
    }
}
