//! Agents, their events, runs and consciousness.

use agent::config::WakeOn;
use agent::entry::EntryKind;
use agent::event::{Envelope, EventData, EventKind, EventProgress, EventState};
use agent::id::{AgentId, CycleId, EventId, SpaceId};
use agent::life::{Goal, Memory, Plan, Standing};
use agent::message::ModelMessage;
use agent::port::InboxRow;
use agent::run::{self, Ending, StepRecord};
use agent::update::AgentState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{MemberJson, MessageJson, UsageJson, names};

/// An agent as operators see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Agent {
    /// Identity, and its entity's.
    #[schema(value_type = Uuid)]
    pub id: AgentId,
    /// Unique handle.
    pub name: String,
    /// Free text for people.
    pub display_name: String,
    /// One sentence, from its config.
    pub description: String,
    /// What it does now.
    #[schema(value_type = names::AgentState)]
    pub state: AgentState,
    /// Why it sleeps although something may wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::SleepReason>)]
    pub reason: Option<String>,
    /// The reason in words, possibly the vendor's. Known if it began after the server's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether it may live.
    #[schema(value_type = names::Standing)]
    pub standing: Standing,
    /// Its model, as `provider/model`; `null` if the server has none.
    pub model: Option<String>,
    /// Its newest config, every key; left out of a brief list.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub config: Value,
    /// Revision of that config.
    pub config_rev: u64,
    /// Its open cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub cycle: Option<CycleId>,
    /// Events that wait.
    pub waiting: u32,
    /// Events held by the bound on agent-to-agent messages.
    pub held: u32,
    /// Cycles in which something was processed.
    pub cycles: u64,
    /// Cycles that were skipped.
    pub skips: u64,
    /// Tokens of all its life, with what is estimated of aborted generations.
    pub usage: UsageJson,
    /// Until when it is not at what waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub not_before: Option<Timestamp>,
    /// Where it would speak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub active_space: Option<SpaceId>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Commits of its life.
    pub commit_n: u64,
    /// What its runs cost together, in micro-dollars; `null` where no run has a price.
    #[serde(default)]
    pub cost_micros: Option<u64>,
    /// Runs whose cost is unknown, and not in `cost_micros`.
    #[serde(default)]
    pub unpriced: u64,
    /// Its newest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastRunJson>,
    /// When its next plan fires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_plan: Option<Timestamp>,
    /// Why it was quarantined: a record of its own cannot be read. It is suspended until it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// The newest run of an agent, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LastRun)]
pub struct LastRunJson {
    /// The run, which is its cycle's id.
    #[schema(value_type = Uuid)]
    pub id: CycleId,
    /// How it ended.
    #[schema(value_type = names::Ending)]
    pub ending: Ending,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub ended_at: Timestamp,
}

impl From<agent::port::LastRun> for LastRunJson {
    fn from(last: agent::port::LastRun) -> Self {
        let agent::port::LastRun { id, ending, ended_at } = last;
        Self { id, ending, ended_at }
    }
}

/// An agent to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewAgent)]
pub struct NewAgentJson {
    /// Handle, `[a-z0-9_-]{1,40}`; upper case is lowered.
    pub name: String,
    /// Free text for people; the handle where left out. At most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Its config; keys left out have their defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Value>,
}

/// A change of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentChange {
    /// Free text for people. At most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Keys of its config that change; objects merge. Live at its next cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Value>,
}

/// Which cycle is to be canceled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Only this one; else whichever is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub cycle: Option<CycleId>,
}

/// What is being canceled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Canceled {
    /// The cycle. It ends at its next commit.
    #[schema(value_type = Uuid)]
    pub cycle: CycleId,
}

/// An event to be sent to an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEvent {
    /// Name of the service that calls. 1 to 200 bytes.
    pub service: String,
    /// What it sends. At most 256 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Whether it may break into a running cycle.
    #[serde(default)]
    pub urgent: bool,
}

/// That an event is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventAccepted {
    /// Its id.
    #[schema(value_type = String)]
    pub event_id: EventId,
    /// Whether it was accepted before under the same `Idempotency-Key`.
    pub duplicate: bool,
}

/// A row of an agent's ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LoggedEvent {
    /// Place in the agent's inbox.
    pub seq: u64,
    /// Identity, unique per agent.
    #[schema(value_type = String)]
    pub id: EventId,
    /// What happened.
    #[schema(value_type = names::EventKind)]
    pub kind: EventKind,
    /// Whether it may break into a running cycle.
    pub urgent: bool,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Where it comes from: principal, channel, trust, root, hop.
    #[schema(value_type = Object)]
    pub envelope: Envelope,
    /// Its content, by `type`.
    #[schema(value_type = Object)]
    pub data: EventData,
    /// What became of it, by `state`.
    #[schema(value_type = Object)]
    pub state: EventState,
    /// How far it has come: `taken` by the open cycle, `shown` in it, and in the end `addressed` where the cycle
    /// spoke in the event's space or named it as dealt with, else `read`; the other stages are states.
    #[schema(value_type = names::EventProgress)]
    pub progress: EventProgress,
    /// The cycle that has taken or processed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub cycle: Option<CycleId>,
    /// That cycle's ordinal: the one that its run has, or will have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u64>,
    /// The step that shows or has shown it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// When time alone lets it go; only while it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub release_at: Option<Timestamp>,
    /// Failed attempts; only while it waits.
    pub attempts: u32,
    /// Text of the message it refers to, shortened.
    pub preview: String,
    /// The event that was sent again by this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub cites: Option<EventId>,
}

impl From<InboxRow> for LoggedEvent {
    fn from(row: InboxRow) -> Self {
        let agent::event::Event { id, kind, urgent, at, envelope, data, cites } = row.event;
        let InboxRow { seq, state, progress, cycle, ordinal, step, release_at, attempts, preview, .. } = row;
        Self {
            seq,
            id,
            kind,
            urgent,
            at,
            envelope,
            data,
            state,
            progress,
            cycle,
            ordinal,
            step,
            release_at,
            attempts,
            preview,
            cites,
        }
    }
}

/// The run of one cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Run)]
pub struct RunJson {
    /// The cycle.
    #[schema(value_type = Uuid)]
    pub id: CycleId,
    /// Whose.
    #[schema(value_type = Uuid)]
    pub agent: AgentId,
    /// 1 for the first cycle in which something was processed, then counting.
    pub ordinal: u64,
    /// Why it woke, in words.
    pub woke_for: String,
    /// Events it processed.
    pub events: u32,
    /// When it opened.
    #[schema(value_type = String, format = DateTime)]
    pub opened_at: Timestamp,
    /// When it came to rest.
    #[schema(value_type = String, format = DateTime)]
    pub ended_at: Timestamp,
    /// What each step did.
    #[schema(value_type = Vec<Object>)]
    pub steps: Vec<StepRecord>,
    /// All model calls together as the provider reported them, replies of which nothing came included.
    pub usage: UsageJson,
    /// Generations that were aborted, which no provider reports: estimated. Not in `usage`, but in `cost_micros`.
    #[serde(default)]
    pub estimated: UsageJson,
    /// In micro-dollars; `null` where a price or a usage is unknown.
    pub cost_micros: Option<u64>,
    /// The model, as `provider/model`.
    pub model: String,
    /// Revision of the config that it ran under.
    pub config_rev: u64,
    /// How it ended.
    #[schema(value_type = names::Ending)]
    pub ending: Ending,
    /// Why, where the ending does not say it all.
    pub reason: Option<String>,
    /// The agent's own words at the end.
    pub summary: Option<String>,
}

impl From<run::Run> for RunJson {
    fn from(run: run::Run) -> Self {
        let estimated = run.estimated().into();
        let run::Run { id, agent, ordinal, woke_for, events, opened_at, ended_at, steps, usage, .. } = run;
        let run::Run { cost_micros, model, config_rev, ending, reason, summary, .. } = run;
        Self {
            id,
            agent,
            ordinal,
            woke_for,
            events,
            opened_at,
            ended_at,
            steps,
            usage: usage.into(),
            estimated,
            cost_micros,
            model,
            config_rev,
            ending,
            reason,
            summary,
        }
    }
}

/// A run with the messages it sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunDetail {
    /// The run.
    #[serde(flatten)]
    pub run: RunJson,
    /// Messages that the cycle sent, in order.
    pub messages: Vec<MessageJson>,
}

/// A part of an agent's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Consciousness {
    /// Whose.
    #[schema(value_type = Uuid)]
    pub agent: AgentId,
    /// Entries, oldest first.
    pub entries: Vec<LogEntry>,
    /// Tokens of these entries together.
    pub total_tokens: u64,
    /// `after` of the next part; `null` where this is the last.
    pub next: Option<u64>,
}

/// One element of an agent's consciousness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// Place in the log.
    pub seq: u64,
    /// The cycle that appended it.
    #[schema(value_type = Uuid)]
    pub cycle: CycleId,
    /// The step of that cycle.
    pub step: u32,
    /// What it is.
    #[schema(value_type = names::EntryKind)]
    pub kind: EntryKind,
    /// The content: role and typed parts.
    #[schema(value_type = Object)]
    pub message: ModelMessage,
    /// Size under the reference estimator.
    pub tokens: u32,
    /// When it was appended.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Whether the agent still sees it; else it is in the archive.
    pub in_view: bool,
}

/// What an agent knows apart from its log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Facts)]
pub struct FactsJson {
    /// Spaces that it is a member of, as many as it is shown.
    pub spaces: Vec<SpaceOfAgent>,
    /// How many more it is in, counted up to 1 000 in all.
    #[serde(default)]
    pub more_spaces: usize,
    /// Its memories, most recent first.
    #[schema(value_type = Vec<Object>)]
    pub memories: Vec<Memory>,
    /// Its goals, highest priority first.
    #[schema(value_type = Vec<Object>)]
    pub goals: Vec<Goal>,
    /// Its pending plans, next first.
    #[schema(value_type = Vec<Object>)]
    pub plans: Vec<Plan>,
}

/// A space as its member sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceOfAgent {
    /// Identity.
    #[schema(value_type = Uuid)]
    pub id: SpaceId,
    /// Handle.
    pub name: String,
    /// Free text for people.
    pub display_name: String,
    /// Which messages of agents wake the other agents there.
    #[schema(value_type = names::WakeOn)]
    pub wake_on: WakeOn,
    /// Its members, as many as the agent is shown.
    pub members: Vec<MemberJson>,
    /// How many more there are.
    #[serde(default)]
    pub more_members: usize,
}

impl From<agent::life::Facts> for FactsJson {
    fn from(facts: agent::life::Facts) -> Self {
        let agent::life::Facts { spaces, more_spaces, memories, goals, plans, .. } = facts;
        let spaces = spaces.into_iter().map(|facts| SpaceOfAgent {
            id: facts.space.id,
            name: facts.space.name,
            display_name: facts.space.display_name,
            wake_on: facts.space.wake_on,
            members: facts.members.into_iter().map(MemberJson::from).collect(),
            more_members: facts.more_members,
        });
        Self { spaces: spaces.collect(), more_spaces, memories, goals, plans }
    }
}
