//! The state of one agent, as stored in its rows: everything that an activation reads.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::approval::ApprovalRule;
use crate::call::CallRow;
use crate::config::AgentConfig;
use crate::entity::{Entity, Member, Space};
use crate::entry::{Entry, View};
use crate::event::{NamedMessage, Principal, Trust, Waiting};
use crate::id::{AgentId, CallId, CycleId, GoalId, RootId, SpaceId};
use crate::layer::Layer;
use crate::limits::{self, STEP_RECORDS_KEPT_MAX};
use crate::memory::Memory;
use crate::plan::Plan;
use crate::run::{StepRecord, Usage};

names! {
    /// Whether an agent may run at all.
    pub enum Standing {
        /// It may run.
        Active,
        /// It opens no cycle; its events keep waiting.
        Suspended,
        /// It never runs again; its history is kept.
        Retired,
    }
}

names! {
    /// Why an agent with work is idle.
    pub enum IdleReason {
        /// The model's provider is not available.
        Provider,
        /// The content of its events failed; it tries again later with smaller batches.
        Backoff,
        /// It waits for more events before it wakes, as its config says.
        Debounce,
        /// Its cycle is paused until a person answers.
        Person,
    }
}

impl IdleReason {
    /// A description for people, to be shown after the agent's name.
    pub fn description(self) -> &'static str {
        match self {
            Self::Provider => "its model cannot be reached",
            Self::Backoff => "processing its events failed",
            Self::Debounce => "it waits for more events before it wakes",
            Self::Person => "it waits for a person's answer",
        }
    }
}

/// Why an agent with work is idle, and until when, for people who wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleUntil {
    /// Why.
    pub reason: IdleReason,
    /// When it tries again.
    pub until: Timestamp,
}

/// The right to run one agent. `epoch` is the fencing token: a commit under an older epoch matches no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The agent.
    pub agent: AgentId,
    /// Incremented by one at every opening.
    pub epoch: u64,
}

/// A sender whose event a cycle processes, and the space of that event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// Who.
    pub principal: Principal,
    /// The space, if the event came from one.
    pub space: Option<SpaceId>,
}

/// The open cycle as stored in the life row. The cycle machine is rebuilt from it, the entries, the call rows and the
/// layers alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenCycle {
    /// Identity.
    pub id: CycleId,
    /// Config revision it was opened under.
    pub config_rev: u64,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Inbox seqs of the taken events.
    pub taken: Vec<u64>,
    /// The next step, or the step whose calls are open.
    pub step: u32,
    /// How often that step failed because of its content.
    pub attempts: u32,
    /// How often the process died during that step, not counting deaths during a model request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deaths: u32,
    /// Whether a model request is under way. Recorded only if the process has died before, so that a death during the
    /// request is not counted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub asked: bool,
    /// Whether its first decision is committed.
    pub decided: bool,
    /// The requesters of the events it processes.
    pub requesters: Vec<Requester>,
    /// The root of its messages.
    pub root: RootId,
    /// The hop of its messages.
    pub hop: u32,
    /// Lowest trust of the events it read.
    pub trust: Trust,
    /// Description of why the agent woke, for the run.
    pub woke_for: String,
    /// Tokens as they are paid: sent and generated in all of its requests, cached ones at their share of the price.
    pub tokens: u64,
    /// Steps in a row whose calls all failed.
    pub mistakes: u32,
    /// Number of nudges given.
    pub nudges: u32,
    /// Whether a reply cut by the length limit was already continued.
    pub continued: bool,
    /// Whether `done` was called in the open step, with its summary.
    pub finishing: Option<Finishing>,
    /// Spaces it has posted in since events from there were last shown.
    pub addressed: Vec<SpaceId>,
    /// The records of its steps. Only the newest few are stored with the cycle, see [`OpenCycle::records_due`].
    #[serde(default, serialize_with = "kept_records")]
    pub steps: Vec<StepRecord>,
    /// Tokens as reported, those of discarded replies included.
    pub usage: Usage,
    /// Tokens of aborted generations; estimated, because providers do not report them.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    pub estimated: Usage,
    /// What the step in progress has wasted so far.
    #[serde(default, skip_serializing_if = "Waste::is_empty")]
    pub vain: Waste,
    /// Whether all events processed so far were caused by agents.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_agents: bool,
    /// Number of events shown in the middle of the cycle, in addition to the taken ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub injected: u32,
    /// Number of generations aborted because of new events.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interrupts: u32,
    /// Number of events that the agent asked to see at the next step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub peek: u32,
    /// What the last preview showed.
    #[serde(default, skip_serializing_if = "Previewed::is_empty")]
    pub previewed: Previewed,
    /// The model that answered last, if it was not the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Seqs of its events in the order in which they were numbered for the model, from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<u64>,
    /// Hashes (text and space) of the messages it has sent, so that the same message is not sent twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<String>,
    /// Bytes of the outcomes of its earlier steps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub outcome_bytes: u32,
    /// Whether an unsafe call was held back because of an urgent event that is not shown yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held_back: bool,
    /// Whether a step failed after new events were shown to it, or may have been. No further events are shown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspect: bool,
    /// Milliseconds of all its activations; the time between them does not count.
    #[serde(default)]
    pub awake_ms: u64,
    /// Mark of the activation that opened it or took it over: the id that a new cycle of that activation would have
    /// had. It distinguishes a repeated opening from the opening of another process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<CycleId>,
}

impl OpenCycle {
    /// A cycle at its first step, without events.
    pub fn new(id: CycleId, config_rev: u64, opened_at: Timestamp) -> Self {
        Self {
            id,
            config_rev,
            opened_at,
            taken: Vec::new(),
            step: 0,
            attempts: 0,
            deaths: 0,
            asked: false,
            decided: false,
            requesters: Vec::new(),
            root: RootId(String::new()),
            hop: 1,
            trust: Trust::Outside,
            woke_for: String::new(),
            tokens: 0,
            mistakes: 0,
            nudges: 0,
            continued: false,
            finishing: None,
            addressed: Vec::new(),
            steps: Vec::new(),
            usage: Usage::default(),
            estimated: Usage::default(),
            vain: Waste::default(),
            by_agents: false,
            injected: 0,
            interrupts: 0,
            peek: 0,
            previewed: Previewed::default(),
            model: None,
            listed: Vec::new(),
            sent: Vec::new(),
            outcome_bytes: 0,
            held_back: false,
            suspect: false,
            awake_ms: 0,
            opening: Some(id),
        }
    }

    /// It has posted in these spaces.
    pub fn address(&mut self, spaces: impl IntoIterator<Item = SpaceId>) {
        for space in spaces {
            if !self.addressed.contains(&space) {
                self.addressed.push(space);
            }
        }
    }

    /// How much room an outcome of this step has, which stores this much so far.
    pub fn room_for_outcome(&self, stored: usize) -> usize {
        let earlier = usize::try_from(self.outcome_bytes).unwrap_or(usize::MAX);
        let of_cycle = limits::CYCLE_OUTCOMES_MAX_BYTES.saturating_sub(earlier);
        limits::STEP_OUTCOMES_MAX_BYTES.min(of_cycle).saturating_sub(stored)
    }

    /// Step records to move to rows of their own with the decision that added the newest record: these records no
    /// longer change. A short cycle needs no such rows, and what is stored with a long cycle stays small.
    pub fn records_due(&self) -> &[StepRecord] {
        let (rows, kept) = split_records(&self.steps);
        let due = if kept.len() == 1 { STEP_RECORDS_KEPT_MAX.min(rows.len()) } else { 0 };
        &rows[rows.len() - due..]
    }
}

/// What one step used without a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waste {
    /// Number of generations that were aborted because of new events.
    pub interrupts: u32,
    /// Estimated tokens of generations that were aborted, for this or another reason.
    pub aborted: Usage,
    /// Tokens of complete replies that were discarded, as the provider reported them.
    pub discarded: Usage,
}

impl Waste {
    /// Whether nothing was wasted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What the last preview showed of the inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previewed {
    /// The highest seq of the events shown.
    pub newest: u64,
    /// Number of events that waited.
    pub count: u32,
}

impl Previewed {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Splits step records into those with rows of their own and those stored with the cycle.
fn split_records(steps: &[StepRecord]) -> (&[StepRecord], &[StepRecord]) {
    steps.split_at(steps.len().saturating_sub(1) / STEP_RECORDS_KEPT_MAX * STEP_RECORDS_KEPT_MAX)
}

fn kept_records<S: Serializer>(steps: &[StepRecord], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(split_records(steps).1)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Set when the cycle ends as soon as the open step's calls are settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finishing {
    /// How it ends.
    pub ending: crate::run::Ending,
    /// The summary that the agent gave to `done`.
    pub summary: Option<String>,
    /// Why it ends, for the run.
    pub reason: Option<String>,
}

/// The life row: one per agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// The agent.
    pub agent: AgentId,
    /// The fencing token.
    pub epoch: u64,
    /// Number of commits so far.
    pub commit_n: u64,
    /// Last entry of the log.
    pub head_seq: u64,
    /// Cycles in which something was processed.
    pub cycles: u64,
    /// Whether it may run.
    pub standing: Standing,
    /// The space to which `send_message` posts if it names none.
    pub active_space: Option<SpaceId>,
    /// Consecutive failures that were not caused by content (a provider that is down).
    pub failures: u32,
    /// Notice to show in the next inbox entry, for example that work was interrupted.
    pub notice: Option<String>,
    /// The open cycle.
    pub open: Option<OpenCycle>,
    /// The agent may not run before this time, even if events wait ([`crate::waits::kept_until`]). Only a cancel overrides this.
    pub not_before: Option<Timestamp>,
}

impl Life {
    /// Whether it may not run at `now`, even if events wait. Only a cancel overrides this.
    pub fn is_kept_back(&self, now: Timestamp) -> bool {
        self.standing != Standing::Active || self.not_before.is_some_and(|until| until > now)
    }
}

/// A long-term goal of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// Identity.
    pub id: GoalId,
    /// The parent goal.
    #[serde(rename = "parent_id")]
    pub parent: Option<GoalId>,
    /// What the agent wants to reach.
    pub description: String,
    /// Higher comes first.
    pub priority: i32,
    /// `active`, `completed` or `abandoned`.
    pub status: GoalStatus,
    /// The lowest trust of what the agent had read when it wrote it; the store sets it. [`Trust::Outside`] in rows of earlier
    /// versions.
    #[serde(default)]
    pub trust: Trust,
}

names! {
    /// The state of a goal.
    pub enum GoalStatus {
        /// Pursued.
        Active,
        /// Reached.
        Completed,
        /// Given up.
        Abandoned,
    }
}

/// A space as a member sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceFacts {
    /// The space.
    pub space: Space,
    /// Its members, including this agent; if there are many, those created first.
    pub members: Vec<Member>,
    /// Number of further members.
    pub more_members: usize,
    /// Whether a server outside is told what is posted there.
    pub told: bool,
}

/// The facts from which the workspace is rendered and against which inward tools are checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Incremented by every change of the facts.
    pub rev: u64,
    /// Spaces of the agent: the active one, then those with the latest messages.
    pub spaces: Vec<SpaceFacts>,
    /// Number of its further spaces, counted up to [`crate::limits::SPACES_COUNTED_MAX`].
    pub more_spaces: usize,
    /// Its memories, in the order in which they get room in the workspace: the pinned ones, then by importance, then by
    /// last use.
    pub memories: Vec<Memory>,
    /// Its goals, highest priority first.
    pub goals: Vec<Goal>,
    /// Its pending plans, next first.
    pub plans: Vec<Plan>,
    /// Its detached calls at the start of the activation.
    pub pending: Vec<PendingCall>,
    /// Whether a server outside is told what it posts anywhere.
    pub told: bool,
    /// Whether one is told what is posted in some of its further spaces.
    pub more_told: bool,
}

/// A call whose outcome will arrive as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// Which.
    pub id: CallId,
    /// The tool.
    pub tool: String,
}

impl Facts {
    /// The `rev` with which a reader can skip reading the facts again. `None` if some spaces are left out here, because
    /// the selection depends on what waits.
    pub fn known_rev(&self) -> Option<u64> {
        (self.more_spaces == 0).then_some(self.rev)
    }

    /// A space of the agent by id.
    pub fn space(&self, id: SpaceId) -> Option<&SpaceFacts> {
        self.spaces.iter().find(|facts| facts.space.id == id)
    }

    /// The space to which the agent posts if it names none: the active one, or its only one.
    pub fn default_space(&self, active: Option<SpaceId>) -> Option<SpaceId> {
        let only = match self.spaces.as_slice() {
            [only] => Some(only.space.id),
            _ => None,
        };
        active.or(only)
    }

    /// Whether a server outside is told what the agent posts in that space; `None`: in some space or other.
    pub fn is_told(&self, space: Option<SpaceId>) -> bool {
        let told = |id| self.space(id).map_or(self.more_told, |facts| facts.told);
        let any = || self.more_told || self.spaces.iter().any(|facts| facts.told);
        self.told || space.map_or_else(any, told)
    }

    /// A space of the agent by id, handle or display name (both case-insensitive). A display name matches only if it is
    /// unique, and only if no spaces are left out here: it could be the handle of one of those.
    pub fn find_space(&self, text: &str) -> Option<&SpaceFacts> {
        let by_id = text.parse::<SpaceId>().ok().and_then(|id| self.space(id));
        let lower = text.trim().to_lowercase();
        by_id.or_else(|| self.spaces.iter().find(|facts| facts.space.name == lower)).or_else(|| {
            let mut named = self.spaces.iter().filter(|f| f.space.display_name.to_lowercase() == lower);
            named.next().filter(|_| named.next().is_none() && self.more_spaces == 0)
        })
    }
}

/// Everything that an activation reads, in one consistent snapshot.
#[derive(Clone, Debug)]
pub struct Activation {
    /// The life row.
    pub life: Life,
    /// The agent as other members see it.
    pub entity: Entity,
    /// Config revision in force: that of the open cycle, if there is one, else the newest.
    pub config_rev: u64,
    /// That config.
    pub config: Arc<AgentConfig>,
    /// The view.
    pub view: View,
    /// The entries that the view shows, oldest first.
    pub window: Window,
    /// Calls of the open cycle's step, in order.
    pub calls: Vec<CallRow>,
    /// Its calls that need no approval for a time.
    pub rules: Vec<ApprovalRule>,
    /// Waiting events that are due, oldest first.
    pub waiting: Vec<Waiting>,
    /// Messages before the newest of these in its space, back to the last one that the agent has processed, oldest first:
    /// those that it has not processed, will not be shown as events, and were written by others. Empty if the open cycle
    /// has decided something, or if the config does not show them.
    pub recent: Vec<NamedMessage>,
    /// Whether the process died since the open cycle was opened.
    pub died: bool,
    /// If an activation has ended by a mistake of the program (it panicked, or a command of the store was wrong in itself) and no
    /// opening has counted that yet: the newest event that had come until then.
    pub panicked: Option<u64>,
    /// What the workspace is rendered from.
    pub facts: Facts,
    /// The layers that belong to the view: those of the open cycle; where workspaces stay, also those of earlier cycles.
    pub layers: Vec<Layer>,
    /// Whether the opening may overlap the model request: the store was closed cleanly, or all waiting events were
    /// accepted after this start.
    pub clean: bool,
    /// The cycle that somebody requested to cancel, if any.
    pub cancel: Option<CycleId>,
}

impl Activation {
    /// If this agent may have caused the last death of the process: how often the process had died during its work
    /// before. That is possible if the agent was awake or its events had failed before; events that only waited are
    /// not suspect.
    pub fn suspicion(&self) -> Option<u32> {
        let open = self.life.open.as_ref();
        let events = self.waiting.iter().map(|event| event.deaths);
        let deaths = events.chain(open.map(|open| open.deaths)).max().unwrap_or(0);
        let failed = self.waiting.iter().any(|event| event.attempts > 0);
        let suspect = deaths > 0 || failed || open.is_some();
        (suspect && !self.clean).then_some(deaths)
    }
}

/// The entries that the view shows.
#[derive(Clone, Debug)]
pub enum Window {
    /// The reader already has them: there was no commit since its `commit_n`.
    Unchanged,
    /// The entries.
    Loaded(Vec<Arc<Entry>>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_record_is_either_stored_with_the_open_cycle_or_in_one_row() {
        let mut open = OpenCycle::new(CycleId(uuid::Uuid::nil()), 1, Timestamp::UNIX_EPOCH);
        let mut rows: Vec<StepRecord> = Vec::new();
        for step in 0..3 * STEP_RECORDS_KEPT_MAX as u32 {
            open.steps.push(StepRecord { step, ..StepRecord::default() });
            rows.extend_from_slice(open.records_due());
            let kept: OpenCycle = serde_json::from_str(&serde_json::to_string(&open).unwrap()).unwrap();
            assert!((1..=STEP_RECORDS_KEPT_MAX).contains(&kept.steps.len()));
            assert_eq!([rows.clone(), kept.steps].concat(), open.steps);
        }
    }
}
