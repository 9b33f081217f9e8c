//! The JSON of agents, their events, runs and consciousness.

use agent::config::WakeOn;
use agent::entry::EntryKind;
use agent::event::{Envelope, EventData, EventKind, EventProgress, Trust};
use agent::id::{AgentId, CycleId, EventId, SpaceId};
use agent::life::{Goal, Standing};
use agent::memory::{Importance, Memory};
use agent::message::ModelMessage;
use agent::port::InboxRow;
use agent::run::{self, Ending, StepRecord};
use agent::update::AgentState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{MemberJson, MessageJson, PlanJson, UsageJson, names};

/// An agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Agent {
    /// Unique id, which is also the id of its entity.
    pub id: AgentId,
    /// Unique handle, `[a-z0-9_-]{1,40}`.
    pub handle: String,
    /// Name shown to people; free text.
    pub display_name: String,
    /// One-sentence description, taken from its config.
    pub description: String,
    /// What the agent is doing now.
    #[schema(value_type = names::AgentState)]
    pub state: AgentState,
    /// Why the agent sleeps although events may be waiting, or makes no progress: `retrying` after a failed call of
    /// its model, `summary` while a model writes the summary of its history. Left out if there is no special reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::SleepReason>)]
    pub reason: Option<String>,
    /// Tools whose calls run now, once for each call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running_tools: Vec<String>,
    /// The reason as text, possibly from the model provider. Left out if the state began before the server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether the agent may run: `active`, `suspended` or `retired`.
    #[schema(value_type = names::Standing)]
    pub standing: Standing,
    /// Model that the agent uses, as `provider/model`; `null` if neither its config nor the server names one.
    pub model: Option<String>,
    /// Whether its outward calls are guarded while it has read strangers' text: `strict`, `ask` or `off`.
    #[serde(default)]
    pub guard: String,
    /// Tools that its config names and that its model is not offered, because they would be more than the model accepts;
    /// left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_left_out: Vec<String>,
    /// What in its config names nothing at the moment, each as a sentence: tools that are gone, patterns that no tool matches,
    /// approvers that are nobody. Left out if there is nothing of the kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<String>,
    /// Current config with every key; left out if the list was requested with `brief`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub config: Value,
    /// Revision of the config; increases with every change.
    pub config_rev: u64,
    /// Id of the open cycle; left out if none is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<CycleId>,
    /// Number of events waiting in the inbox.
    pub waiting: u32,
    /// Number of events held back by the limit on agent-to-agent messages.
    pub held: u32,
    /// Number of cycles that processed at least one event.
    pub cycles: u64,
    /// Number of cycles that were skipped.
    pub skips: u64,
    /// Tokens used since the agent was created, including estimates for aborted generations.
    pub usage: UsageJson,
    /// Time before which the agent does not start on waiting events; left out if it may start now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Id of the space that the agent posts to by default; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_space: Option<SpaceId>,
    /// When the agent was created.
    pub created_at: Timestamp,
    /// Number of commits since the agent was created.
    pub commit_n: u64,
    /// Total cost of its runs in micro-dollars (1/1,000,000 USD); `null` if no run has a price.
    pub cost_micros: Option<u64>,
    /// Number of runs whose cost is unknown; `cost_micros` does not include them.
    #[serde(default)]
    pub unpriced: u64,
    /// The newest run; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRunJson>,
    /// When the next plan is due; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_plan_at: Option<Timestamp>,
    /// Why the agent is quarantined: which of its records cannot be read. A quarantined agent is suspended until it
    /// is resumed. Left out if it is not quarantined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// Events that failed too often and are not tried again until somebody retries them; left out if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_events: Option<DeadEventsJson>,
}

/// The dead events of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeadEvents)]
pub struct DeadEventsJson {
    /// Number of dead events.
    pub count: u32,
    /// Id of the one that arrived last.
    #[schema(value_type = String)]
    pub last_event: EventId,
    /// Why that one is dead.
    pub reason: String,
}

copied!(dead: agent::port::DeadEvents => DeadEventsJson { last_event: dead.last, ..dead => { count, reason } });

/// Summary of an agent's newest run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LastRun)]
pub struct LastRunJson {
    /// Id of the run, which is the id of its cycle.
    pub id: CycleId,
    /// How the run ended.
    #[schema(value_type = names::Ending)]
    pub ending: Ending,
    /// When it ended.
    pub ended_at: Timestamp,
}

copied!(last: agent::port::LastRun => LastRunJson { ..last => { id, ending, ended_at } });

/// The agent to create.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewAgent)]
pub struct NewAgentJson {
    /// Unique handle, `[a-z0-9_-]{1,40}`. Upper-case letters are converted to lower case.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,40}$", example = "ada")]
    pub handle: String,
    /// Name shown to people; free text, at most 200 bytes. Default: the handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub display_name: Option<String>,
    /// Config of the agent. Keys that are left out have their defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"instructions": "Answer in one sentence."}))]
    pub config: Option<Value>,
}

/// The changes to an agent. Fields that are left out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentChange {
    /// Name shown to people; free text, at most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, example = "Ada")]
    pub display_name: Option<String>,
    /// Config keys to change; objects are merged into the current ones. Takes effect in the agent's next cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Value>,
}

/// The cycle to cancel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Cancel only if this cycle is the open one. Default: cancel whichever cycle is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<CycleId>,
}

/// The cycle that is being canceled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Canceled {
    /// Id of the cycle. It ends at its next commit.
    pub cycle: CycleId,
}

/// The event to send to an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEvent {
    /// Name of the service that sends the event. 1 to 200 bytes, no control characters.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f]+$", example = "deploy")]
    pub service: String,
    /// Content of the event: any JSON, at most 256 KiB. Default: `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = json!({"ok": false}))]
    pub payload: Option<Value>,
    /// Whether the event may interrupt a running cycle.
    #[serde(default)]
    pub urgent: bool,
}

/// An accepted event. It is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventAccepted {
    /// Id of the event.
    pub id: EventId,
    /// `true` if the event was already accepted under the same `Idempotency-Key`.
    pub duplicate: bool,
}

/// An event in an agent's inbox, with its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LoggedEvent {
    /// Position in the agent's inbox; increases with every event.
    pub seq: u64,
    /// Id of the event, unique per agent.
    pub id: EventId,
    /// Kind of event.
    #[schema(value_type = names::EventKind)]
    pub kind: EventKind,
    /// Whether the event may interrupt a running cycle.
    pub urgent: bool,
    /// When the event happened.
    pub at: Timestamp,
    /// Origin of the event: on whose behalf it was sent (`principal`), through which `channel`, how far the agent
    /// may trust it (`trust`), the first event or message of the causal chain (`root`), and the number of agent
    /// messages since then (`hop`).
    #[schema(value_type = Object)]
    pub envelope: Envelope,
    /// Content of the event; `type` is its form.
    #[schema(value_type = Object)]
    pub data: EventData,
    /// State of the event.
    #[schema(value_type = names::EventState)]
    pub state: String,
    /// Why it was skipped, canceled or set aside as dead; left out if there is no reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Progress of the event. `taken`: the open cycle has taken it. `shown`: that cycle has shown it to the model.
    /// After the cycle's end: `addressed` if the cycle posted in the event's space or named the event as handled,
    /// else `read`. The other values are states.
    #[schema(value_type = names::EventProgress)]
    pub progress: EventProgress,
    /// Id of the cycle that has taken or processed the event; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<CycleId>,
    /// Ordinal of that cycle, which is the `ordinal` of its run; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u64>,
    /// Step of the cycle in which the model was shown the event; left out if it was not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// When a held event is released at the latest; left out if the event is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_at: Option<Timestamp>,
    /// Number of failed attempts so far; counted while the event waits.
    pub attempts: u32,
    /// Shortened text of the message that the event refers to.
    pub preview: String,
    /// Id of the earlier event that this event repeats; left out if it repeats none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cites: Option<EventId>,
}

copied!(row: InboxRow => LoggedEvent {
    reason: row.state.reason().map(str::to_owned),
    state: row.state.as_str(),
    ..row.event => { id, kind, urgent, at, envelope, data, cites }
    ..row => { seq, progress, cycle, ordinal, step, release_at, attempts, preview }
});

/// A run: the record of one cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Run)]
pub struct RunJson {
    /// Id of the run, which is the id of its cycle.
    pub id: CycleId,
    /// Id of the agent.
    pub agent: AgentId,
    /// Handle of the agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent_handle: String,
    /// Number of the run: 1 for the agent's first cycle that processed an event, and so on.
    pub ordinal: u64,
    /// Why the agent woke, as text.
    pub woke_for: String,
    /// Number of events that the cycle processed.
    pub events: u32,
    /// When the cycle opened.
    pub opened_at: Timestamp,
    /// When the cycle ended.
    pub ended_at: Timestamp,
    /// The steps of the cycle, in order.
    #[schema(value_type = Vec<Object>)]
    pub steps: Vec<StepRecord>,
    /// Tokens of all model calls as reported by the provider, including replies that were discarded.
    pub usage: UsageJson,
    /// Estimated tokens of aborted generations, which providers do not report. Included in `cost_micros`, not in
    /// `usage`.
    #[serde(default)]
    pub estimated: UsageJson,
    /// Cost in micro-dollars (1/1,000,000 USD); `null` if a price or the usage is unknown.
    pub cost_micros: Option<u64>,
    /// Model of the run, as `provider/model`.
    pub model: String,
    /// Revision of the agent's config during the run.
    pub config_rev: u64,
    /// How the cycle ended.
    #[schema(value_type = names::Ending)]
    pub ending: Ending,
    /// Details of the ending; `null` if there are none.
    pub reason: Option<String>,
    /// The agent's own summary of the cycle; `null` if it wrote none.
    pub summary: Option<String>,
}

impl RunJson {
    /// The run of the agent with this handle.
    pub fn of(run: run::Run, agent_handle: String) -> Self {
        Self { agent_handle, ..run.into() }
    }
}

// Without the handle of the agent.
copied!(run: run::Run => RunJson {
    estimated: run.estimated(),
    agent_handle: String::new(),
    ..run => {
        id, agent, ordinal, woke_for, events, opened_at, ended_at, steps, usage, cost_micros, model, config_rev,
        ending, reason, summary,
    }
});

/// An open cycle: what it has done so far. Its run is written when it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = OpenCycle)]
pub struct OpenCycleJson {
    /// Id of the cycle, which will be the id of its run.
    pub id: CycleId,
    /// Id of the agent.
    pub agent: AgentId,
    /// Handle of the agent.
    pub agent_handle: String,
    /// Number that its run will have.
    pub ordinal: u64,
    /// Why the agent woke, as text.
    pub woke_for: String,
    /// Number of events that the cycle has taken.
    pub events: u32,
    /// When the cycle opened.
    pub opened_at: Timestamp,
    /// When this was read.
    pub at: Timestamp,
    /// What the agent is doing now.
    #[schema(value_type = names::AgentState)]
    pub state: AgentState,
    /// Why it makes no progress, possibly from the model provider; left out if there is no special reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The steps that are decided, in order. A call without a `status` is open.
    #[schema(value_type = Vec<Object>)]
    pub steps: Vec<StepRecord>,
    /// Tokens so far, as reported by the provider.
    pub usage: UsageJson,
    /// Model of the agent, as `provider/model`; `null` if neither its config nor the server names one.
    pub model: Option<String>,
    /// Revision of the agent's config under which the cycle opened.
    pub config_rev: u64,
}

/// A run with the messages that it posted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunDetail {
    /// The run.
    #[serde(flatten)]
    pub run: RunJson,
    /// Messages that the cycle posted, in order.
    pub messages: Vec<MessageJson>,
}

/// An entry of an agent's consciousness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// Position in the log: 1, 2, 3 and so on.
    pub seq: u64,
    /// Id of the cycle that appended the entry.
    pub cycle: CycleId,
    /// Step of that cycle.
    pub step: u32,
    /// Kind of entry.
    #[schema(value_type = names::EntryKind)]
    pub kind: EntryKind,
    /// Content: a role and typed parts.
    #[schema(value_type = Object)]
    pub message: ModelMessage,
    /// Estimated size in tokens.
    pub tokens: u32,
    /// When the entry was appended.
    pub at: Timestamp,
    /// Whether the entry is in the view, which is sent to the model. Other entries are in the archive.
    pub in_view: bool,
}

impl LogEntry {
    /// The entry, in the view or not.
    pub fn of(entry: agent::entry::Entry, in_view: bool) -> Self {
        let agent::entry::Entry { seq, cycle, step, kind, message, tokens, at, .. } = entry;
        Self { seq, cycle, step, kind, message, tokens, at, in_view }
    }
}

/// What an agent knows in addition to its consciousness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Facts)]
pub struct FactsJson {
    /// Spaces that the agent is a member of: as many as its model is shown.
    pub spaces: Vec<SpaceOfAgent>,
    /// Number of further spaces, counted up to 1,000 spaces in total.
    #[serde(default)]
    pub more_spaces: usize,
    /// Memories of the agent: the pinned ones first, then by importance, then by last use.
    pub memories: Vec<MemoryJson>,
    /// Goals of the agent, highest priority first.
    #[schema(value_type = Vec<Object>)]
    pub goals: Vec<Goal>,
    /// Pending plans of the agent, the next one first.
    pub plans: Vec<PlanJson>,
}

/// A memory: a note that an agent keeps under a key and sees in every cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Memory)]
pub struct MemoryJson {
    /// What it is about.
    pub key: String,
    /// The note.
    pub value: String,
    /// How important it is: where there is no room for all, the more important ones are shown.
    #[schema(value_type = names::Importance)]
    pub importance: Importance,
    /// Whether it is shown in every cycle.
    pub pinned: bool,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// When it was last written, or found by the agent itself.
    pub used_at: Timestamp,
    /// The lowest trust of what its cycle had read; `operator` if an operator wrote it.
    #[schema(value_type = names::Trust)]
    pub trust: Trust,
}

copied!(memory: Memory => MemoryJson { ..memory => { key, value, importance, pinned, updated_at, used_at, trust } });

/// The value of a memory to set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryValue {
    /// The note, at most 8 KiB. Left out: as before; there must be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// How important it is. Left out: as before, for a new one `normal`.
    #[schema(value_type = Option<names::Importance>)]
    pub importance: Option<Importance>,
    /// Whether it is shown in every cycle: at most 64 memories, together 4 KiB. Left out: as before, for a new one not.
    pub pinned: Option<bool>,
    /// With `value`: how far it can be trusted, for the copy of another agent's memory. Left out: `operator`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Trust>)]
    pub trust: Option<Trust>,
}

/// A space of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceOfAgent {
    /// Id of the space.
    pub id: SpaceId,
    /// Unique handle of the space.
    pub handle: String,
    /// Name shown to people; free text.
    pub display_name: String,
    /// Which messages of agents wake the other agents in the space.
    #[schema(value_type = names::WakeOn)]
    pub wake_on: WakeOn,
    /// Members of the space: as many as the agent's model is shown.
    pub members: Vec<MemberJson>,
    /// Number of further members.
    #[serde(default)]
    pub more_members: usize,
}

impl From<agent::life::Facts> for FactsJson {
    fn from(facts: agent::life::Facts) -> Self {
        let agent::life::Facts { spaces, more_spaces, memories, goals, plans, .. } = facts;
        let spaces = spaces.into_iter().map(|facts| SpaceOfAgent {
            id: facts.space.id,
            handle: facts.space.name,
            display_name: facts.space.display_name,
            wake_on: facts.space.wake_on,
            members: facts.members.into_iter().map(MemberJson::from).collect(),
            more_members: facts.more_members,
        });
        let memories = memories.into_iter().map(MemoryJson::from).collect();
        let plans = plans.into_iter().map(PlanJson::from).collect();
        Self { spaces: spaces.collect(), more_spaces, memories, goals, plans }
    }
}
