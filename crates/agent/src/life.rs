//! The state of one living agent as its rows tell it: what an activation reads.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::call::CallRow;
use crate::config::AgentConfig;
use crate::entity::{Entity, Member, Space};
use crate::entry::{Entry, View};
use crate::event::{Principal, Trust, Waiting};
use crate::id::{AgentId, CallId, CycleId, GoalId, PlanId, RootId, SpaceId};
use crate::limits::STEP_RECORDS_KEPT_MAX;
use crate::run::{StepRecord, Usage};

/// Whether the agent may run at all.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Standing {
    /// It may run.
    Active,
    /// Nothing opens, events keep waiting.
    Suspended,
    /// Over; history kept.
    Retired,
}

impl Standing {
    /// The name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Why an agent that has work does not do it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum IdleReason {
    /// The model's provider cannot serve it.
    Provider,
    /// Its own content failed; it tries again more carefully.
    Backoff,
    /// It waits for more before it wakes, as its config says.
    Debounce,
}

impl IdleReason {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The same in words, behind the agent's name.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Provider => "its model cannot be reached",
            Self::Backoff => "what it was sent failed",
            Self::Debounce => "it waits for more before it wakes",
        }
    }
}

/// Why an agent with work is idle, as people who wait for it see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleUntil {
    /// Why.
    pub reason: IdleReason,
    /// When it tries again.
    pub until: Timestamp,
}

/// The right to run one agent. `epoch` is the fencing token: a commit under an older one matches
/// no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Whose life.
    pub agent: AgentId,
    /// Raised by one at every opening.
    pub epoch: u64,
}

/// Someone whose event a cycle processes, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// Who.
    pub principal: Principal,
    /// In which space, if in one.
    pub space: Option<SpaceId>,
}

/// A volatile layer with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Stands right behind this entry.
    pub after: u64,
    /// What is sent.
    pub text: Arc<str>,
}

/// The open cycle as the life row keeps it; together with entries, call rows and layers it is all
/// that the machine is rebuilt from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenCycle {
    /// Identity.
    pub id: CycleId,
    /// Config revision it was opened under.
    pub config_rev: u64,
    /// When.
    pub opened_at: Timestamp,
    /// Inbox seqs of the taken events.
    pub taken: Vec<u64>,
    /// The step to think next, or whose calls are open.
    pub step: u32,
    /// How often that step failed by its content.
    pub attempts: u32,
    /// How often the process died during that step, while no model was being waited for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deaths: u32,
    /// Whether a model is being waited for; noted only where the process has died before, so that a death
    /// meanwhile blames nobody.
    #[serde(default, skip_serializing_if = "is_false")]
    pub asked: bool,
    /// Whether its first decision is committed.
    pub decided: bool,
    /// Everyone whose event it processes.
    pub requesters: Vec<Requester>,
    /// What its messages descend from.
    pub root: RootId,
    /// The hop its messages carry.
    pub hop: u32,
    /// Lowest trust of what it read.
    pub trust: Trust,
    /// In words, for the run.
    pub woke_for: String,
    /// Size of this cycle's entries, once each, and of everything generated.
    pub tokens: u64,
    /// Steps in a row whose calls all failed.
    pub mistakes: u32,
    /// Nudges given.
    pub nudges: u32,
    /// Whether a reply cut by the length limit was already continued.
    pub continued: bool,
    /// Whether `done` was called in the open step, with its summary.
    pub finishing: Option<Finishing>,
    /// Spaces it has spoken in since what came from there was last shown.
    pub addressed: Vec<SpaceId>,
    /// What each step did. With the cycle the store keeps the newest few, see [`OpenCycle::records_due`].
    #[serde(default, serialize_with = "newest")]
    pub steps: Vec<StepRecord>,
    /// Tokens as reported, those of discarded replies included.
    pub usage: Usage,
    /// Tokens of generations that were aborted, which nobody reports: estimated.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    pub estimated: Usage,
    /// What the step in progress has used in vain so far.
    #[serde(default, skip_serializing_if = "InVain::is_none")]
    pub vain: InVain,
    /// Whether only agents caused it, as far as is processed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_agents: bool,
    /// Events processed in addition to the taken ones: shown in the middle of the cycle.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub injected: u32,
    /// Generations aborted for news.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interrupts: u32,
    /// Events that the agent asked to see at the next step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub peek: u32,
    /// What the last preview has shown.
    #[serde(default, skip_serializing_if = "Glimpse::is_none")]
    pub previewed: Glimpse,
    /// Whose model answered last, where it was not the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Seqs of its events by the numbers under which they were listed, from 1 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<u64>,
    /// Hashes of the messages it has sent, each of text and space: the same message is not sent twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<String>,
    /// Whether an unsafe call of this cycle was held back for something urgent that is not shown yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held_back: bool,
    /// Whether a step failed that had been shown something new, or may have been: nothing more is shown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspect: bool,
    /// Milliseconds of its activations; what lies between them is not processed.
    #[serde(default)]
    pub awake_ms: u64,
    /// The activation that opened it or took it over, by the id that a cycle of its own would have had: tells
    /// an opening that is sent again from one of somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<CycleId>,
}

impl OpenCycle {
    /// A cycle at its first step that is about nothing yet.
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
            vain: InVain::default(),
            by_agents: false,
            injected: 0,
            interrupts: 0,
            peek: 0,
            previewed: Glimpse::default(),
            model: None,
            listed: Vec::new(),
            sent: Vec::new(),
            held_back: false,
            suspect: false,
            awake_ms: 0,
            opening: Some(id),
        }
    }

    /// Runs that get rows of their own with the decision that added the newest one: they change no more. A short
    /// cycle needs no rows, and what is kept with a long one does not grow.
    pub fn records_due(&self) -> &[StepRecord] {
        let (rows, kept) = parted(&self.steps);
        let due = if kept.len() == 1 { STEP_RECORDS_KEPT_MAX.min(rows.len()) } else { 0 };
        &rows[rows.len() - due..]
    }
}

/// What one step used of which nothing came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InVain {
    /// Generations that were aborted for news.
    pub interrupts: u32,
    /// Tokens of these and others that were dropped: estimated.
    pub aborted: Usage,
    /// Tokens of whole replies: as the provider reported them.
    pub discarded: Usage,
}

impl InVain {
    /// Whether there is nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What a preview has shown of the inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glimpse {
    /// The highest seq among its lines.
    pub newest: u64,
    /// How many events waited.
    pub count: u32,
}

impl Glimpse {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Runs that have rows of their own, and those that have not.
fn parted(steps: &[StepRecord]) -> (&[StepRecord], &[StepRecord]) {
    steps.split_at(steps.len().saturating_sub(1) / STEP_RECORDS_KEPT_MAX * STEP_RECORDS_KEPT_MAX)
}

fn newest<S: Serializer>(steps: &[StepRecord], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(parted(steps).1)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// That the cycle ends when the open step's calls are settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finishing {
    /// How.
    pub ending: crate::run::Ending,
    /// The agent's words to `done`.
    pub summary: Option<String>,
    /// Why, for the run.
    pub reason: Option<String>,
}

/// The life row: one per agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// Whose.
    pub agent: AgentId,
    /// The fencing token.
    pub epoch: u64,
    /// Commits of this life so far.
    pub commit_n: u64,
    /// Last entry of the log.
    pub head_seq: u64,
    /// Cycles in which something was processed.
    pub cycles: u64,
    /// Whether it may run.
    pub standing: Standing,
    /// Where `send_message` goes without a space.
    pub active_space: Option<SpaceId>,
    /// Failures of the surroundings in a row.
    pub failures: u32,
    /// Told in the next inbox entry, such as that work was cut off.
    pub notice: Option<String>,
    /// The open cycle.
    pub open: Option<OpenCycle>,
    /// Kept back until then (`inbox_head.hold_until`), whatever waits; only a cancel breaks in.
    pub not_before: Option<Timestamp>,
}

impl Life {
    /// Whether it may not run at `now`, whatever waits; only a cancel is let through.
    pub fn is_kept_back(&self, now: Timestamp) -> bool {
        self.standing != Standing::Active || self.not_before.is_some_and(|until| until > now)
    }
}

/// A note the agent keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What it is about.
    pub key: String,
    /// The note.
    pub value: String,
    /// When it was written last.
    pub updated_at: Timestamp,
}

/// A standing intention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// Identity.
    pub id: GoalId,
    /// The goal that this one serves.
    #[serde(rename = "parent_id")]
    pub parent: Option<GoalId>,
    /// What is wanted.
    pub description: String,
    /// Higher is first.
    pub priority: i32,
    /// `active`, `completed` or `abandoned`.
    pub status: GoalStatus,
}

/// How a goal stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum GoalStatus {
    /// Pursued.
    Active,
    /// Reached.
    Completed,
    /// Given up.
    Abandoned,
}

impl GoalStatus {
    /// The name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// When a plan fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Schedule {
    /// Once.
    At {
        /// When.
        at: Timestamp,
    },
    /// Again and again.
    Cron {
        /// Five fields.
        expression: String,
        /// IANA zone.
        zone: String,
    },
}

/// The agent's own alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Identity.
    pub id: PlanId,
    /// What it is called.
    pub name: String,
    /// What to do then.
    pub instruction: String,
    /// When.
    pub schedule: Schedule,
    /// The next slot; `None` once it is over.
    pub next_at: Option<Timestamp>,
}

/// A space as its member sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceFacts {
    /// The space.
    pub space: Space,
    /// Its members, this agent among them; of many the first that were made.
    pub members: Vec<Member>,
    /// Number of further members.
    pub more_members: usize,
}

/// What the workspace is rendered from and inward tools are checked against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Raised by whatever changes them.
    pub rev: u64,
    /// The spaces that the agent is a member of: the active one, then those in which something was said last.
    pub spaces: Vec<SpaceFacts>,
    /// Number of its further spaces, as far as they are counted ([`crate::limits::SPACES_COUNTED_MAX`]).
    pub more_spaces: usize,
    /// Its memories, most recent first.
    pub memories: Vec<Memory>,
    /// Its goals, highest priority first.
    pub goals: Vec<Goal>,
    /// Its pending plans, next first.
    pub plans: Vec<Plan>,
    /// Its calls that go on beyond their cycles, as of the activation.
    pub pending: Vec<PendingCall>,
}

/// A call whose answer will come as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// Which.
    pub id: CallId,
    /// The tool.
    pub tool: String,
}

impl Facts {
    /// The `rev` up to which nothing need be read again. None where more spaces are known than stand here: which
    /// of them do depends on what waits.
    pub fn known(&self) -> Option<u64> {
        (self.more_spaces == 0).then_some(self.rev)
    }

    /// A space of the agent by id.
    pub fn space(&self, id: SpaceId) -> Option<&SpaceFacts> {
        self.spaces.iter().find(|facts| facts.space.id == id)
    }

    /// Where the agent speaks when it names no space: the active one, or its only one.
    pub fn here(&self, active: Option<SpaceId>) -> Option<SpaceId> {
        let only = match self.spaces.as_slice() {
            [only] => Some(only.space.id),
            _ => None,
        };
        active.or(only)
    }

    /// A space of the agent by id, handle or display name (both case-insensitive). A display name
    /// that several of them have names none; nor does any where it has spaces that are not here, since it may
    /// be a handle of one of those.
    pub fn find_space(&self, text: &str) -> Option<&SpaceFacts> {
        let by_id = text.parse::<SpaceId>().ok().and_then(|id| self.space(id));
        let lower = text.trim().to_lowercase();
        by_id.or_else(|| self.spaces.iter().find(|facts| facts.space.name == lower)).or_else(|| {
            let mut named = self.spaces.iter().filter(|f| f.space.display_name.to_lowercase() == lower);
            named.next().filter(|_| named.next().is_none() && self.more_spaces == 0)
        })
    }
}

/// Everything that an activation reads, as of one moment.
#[derive(Clone, Debug)]
pub struct Activation {
    /// The life row.
    pub life: Life,
    /// The agent as its members know it.
    pub entity: Entity,
    /// Config revision in force: the pinned one where a cycle is open, else the newest.
    pub config_rev: u64,
    /// That config.
    pub config: Arc<AgentConfig>,
    /// The view.
    pub view: View,
    /// Entries that the view shows, oldest first.
    pub window: Window,
    /// Calls of the open cycle's step, in order.
    pub calls: Vec<CallRow>,
    /// What waits and is due, oldest first.
    pub waiting: Vec<Waiting>,
    /// Whether the process died since the open cycle was opened.
    pub died: bool,
    /// What the workspace is rendered from.
    pub facts: Facts,
    /// The open cycle's layers.
    pub layers: Vec<Layer>,
    /// Whether opening may overlap the model call: the store was closed cleanly, or all that waits
    /// was accepted since this start.
    pub clean: bool,
    /// The cycle that someone asked to cancel, if any.
    pub cancel: Option<CycleId>,
}

impl Activation {
    /// How often the process had died over this agent before, where it may be what the process died of last: it was
    /// awake then, or its events failed before. What only waited did nothing.
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
    /// The reader already has them: nothing was committed since its `commit_n`.
    Unchanged,
    /// All of them.
    Loaded(Vec<Arc<Entry>>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_receipt_of_an_open_cycle_is_kept_with_it_or_got_a_row_once() {
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
