//! The agent's config: every key, its type, default and bound. Revisions are append-only and pinned when a cycle
//! opens, so an edit takes effect at the next cycle.
//!
//! An unknown key is an error that names the nearest known one.

mod keys;
mod names;
mod policy;
mod read;

use serde::{Deserialize, Serialize};

use crate::guard::GuardMode;
use crate::limits;
use crate::plan::{HeartbeatTerms, PlanTerms};

pub use keys::{Bound, ConfigKey, KEYS, TakesEffect, ValueKind};
pub use policy::{Awareness, Gate, Gates, Route, Triage, Urgency, WantedChoice};
pub use read::{BadConfig, nearest};

/// What an agent is and how it works. All keys are optional. The agent's `name` is not here: it is the handle of
/// its entity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// One sentence for people and other agents.
    pub description: String,
    /// Who the agent is and what it does, for the model. At most 256 KiB.
    pub instructions: String,
    /// Exchanges that the model is shown before its history, as its own earlier replies; at most 32.
    pub examples: Vec<Example>,
    /// The agent's model, as `provider/model` or a name that the server knows; `null` is the server's default.
    pub model: Option<String>,
    /// Models to call, in this order, when the provider of the one before cannot serve.
    pub fallback: Vec<String>,
    /// Other models for some steps.
    pub routing: Vec<Route>,
    /// Names of the tools that the agent may use; `null` means only the prebuilt ones.
    pub tools: Option<Vec<String>>,
    /// What the agent notices during a cycle.
    pub awareness: Awareness,
    /// Which events are urgent.
    pub urgency: Urgency,
    /// Which tools may be called in which steps.
    pub gates: Gates,
    /// Whether a call that cannot be repeated is held back if its requester has sent an urgent event.
    pub barrier: bool,
    /// Which outward calls need a person, or are refused, while strangers' text is in what the model reads.
    pub guard: GuardMode,
    /// Names and patterns of outward tools whose calls run only after a person has approved them.
    pub approve: Vec<String>,
    /// Handles of the only people who may approve its calls, apart from operators; none: all people of the space.
    pub approvers: Vec<String>,
    /// What is decided without a model call.
    pub triage: Triage,
    /// What the model is shown in addition to the inbox.
    pub workspace: Workspace,
    /// How much of its history the model is shown.
    pub history: HistoryLimit,
    /// Limits of its cycles.
    pub limits: Limits,
    /// Time-outs of its model calls.
    pub model_timeouts: ModelTimeouts,
    /// What becomes of text without a call.
    pub reply: ReplyMode,
    /// When a cycle ends, in addition to its natural end.
    pub stop: Stop,
    /// Milliseconds to wait for more events before an activation, 0 to 60 000.
    pub debounce: u64,
    /// Which agents' messages wake the agent.
    pub wake_on: WakeOn,
    /// Agent-to-agent messages per causal root before further ones are held, 1 to 1 000.
    pub hop_limit: u32,
    /// Plans that the agent has as long as they are here; at most 100.
    pub plans: Vec<PlanTerms>,
    /// When the agent is woken to look around; `None` is never.
    pub heartbeat: Option<HeartbeatTerms>,
    /// Whether the agent is retired after its first cycle.
    pub ephemeral: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            description: String::new(),
            instructions: String::new(),
            examples: Vec::new(),
            model: None,
            fallback: Vec::new(),
            routing: Vec::new(),
            tools: None,
            awareness: Awareness::default(),
            urgency: Urgency::default(),
            gates: Gates::default(),
            barrier: true,
            guard: GuardMode::default(),
            approve: Vec::new(),
            approvers: Vec::new(),
            triage: Triage::default(),
            workspace: Workspace::default(),
            history: HistoryLimit::default(),
            limits: Limits::default(),
            model_timeouts: ModelTimeouts::default(),
            reply: ReplyMode::default(),
            stop: Stop::default(),
            debounce: 0,
            wake_on: WakeOn::default(),
            hop_limit: limits::HOP_LIMIT,
            plans: Vec::new(),
            heartbeat: None,
            ephemeral: false,
        }
    }
}

names! {
    /// Which agents' messages wake an agent. Messages of people always do.
    #[derive(Default)]
    pub enum WakeOn {
        /// All of them.
        #[default]
        All,
        /// Only those that name it; the others are settled as skipped.
        Mention,
    }
}

names! {
    /// What becomes of the text of a reply without calls.
    #[derive(Default)]
    pub enum ReplyMode {
        /// It is private, unless the cycle owes one person an answer: then the model is told how to post, and if it writes
        /// text without a call again, that text is posted.
        #[default]
        Auto,
        /// It is private: only tools post.
        Tool,
        /// It is the answer: it is posted at once to the people who opened the cycle, if all of them wrote in one space. For
        /// models that are too small to call tools.
        Text,
    }
}

/// An exchange that is shown to the model as if it had happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// What a person writes.
    pub message: String,
    /// What the agent answers.
    pub reply: String,
}

/// What the model is shown in each cycle in addition to the inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workspace {
    /// The parts that are shown; none for a model that is confused by them.
    pub show: Vec<WorkspacePart>,
    /// What becomes of it after the cycle.
    pub placement: Placement,
}

impl Default for Workspace {
    fn default() -> Self {
        Self { show: WorkspacePart::ALL.to_vec(), placement: Placement::default() }
    }
}

names! {
    /// What becomes of a workspace after its cycle.
    #[derive(Default)]
    pub enum Placement {
        /// It vanishes; each cycle is shown the whole of it.
        Fresh,
        /// It is sent as long as the view stands, and later cycles are shown what has changed.
        #[default]
        Append,
    }
}

/// How much of an agent's history the model is shown, in addition to what its context window allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryLimit {
    /// Entries, 2 to 400; beyond it the oldest cycles are left out until half of it remains.
    pub max_entries: u32,
    /// Who writes the summary of what is left out.
    pub summary: SummaryBy,
    /// The model that writes it; `null` is the agent's own.
    pub summary_model: Option<String>,
}

impl Default for HistoryLimit {
    fn default() -> Self {
        let (summary, summary_model) = (SummaryBy::default(), None);
        Self { max_entries: limits::VIEW_ENTRIES_MAX as u32, summary, summary_model }
    }
}

names! {
    /// Who writes the summary of the history that is not shown any more.
    #[derive(Default)]
    pub enum SummaryBy {
        /// A model, between two cycles or when a step needs it; where it fails, the rules.
        #[default]
        Model,
        /// The rules: a line per cycle.
        Digest,
        /// Nobody: what is left out is only in the archive.
        Off,
    }
}

names! {
    /// A part of the workspace, in the order in which they are shown.
    #[derive(PartialOrd, Ord)]
    pub enum WorkspacePart {
        /// The time.
        Clock,
        /// The agent's spaces and their members.
        Spaces,
        /// Its goals.
        Goals,
        /// Its memories.
        Memories,
        /// Its plans.
        Plans,
        /// Calls whose outcomes are awaited.
        Calls,
        /// Earlier messages of the spaces of its events that it was not shown.
        Messages,
    }
}

/// Limits of a cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Steps of one cycle, 1 to 1 000.
    pub max_steps: u32,
    /// Tokens of one cycle as they are paid: sent and generated in each step, cached ones at their share of the price; from 1 000.
    pub token_budget: u64,
    /// Milliseconds that one cycle may be awake, from 1 000.
    pub wall_clock: u64,
    /// Consecutive steps whose calls all failed, after which a cycle ends; 1 to 100.
    pub consecutive_mistake_limit: u32,
    /// Failed attempts after which an event is dead or a cycle fails, 1 to 100.
    pub max_attempts: u32,
    /// Retries of a model call within one activation, 0 to 20.
    pub model_retries: u32,
    /// Events that one activation takes, 1 to 1 000.
    pub events_per_cycle: u32,
    /// Maximum number of waiting events, 10 to 1 000 000.
    pub inbox_max: u32,
    /// Milliseconds that a cycle waits for a person's answer before it goes on without it, if nothing else wants it; up to a week.
    pub pause: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: limits::MAX_STEPS,
            token_budget: limits::TOKEN_BUDGET,
            wall_clock: limits::WALL_CLOCK_MS,
            consecutive_mistake_limit: limits::MISTAKE_LIMIT,
            max_attempts: limits::MAX_ATTEMPTS,
            model_retries: limits::MODEL_RETRIES,
            events_per_cycle: limits::EVENTS_PER_CYCLE,
            inbox_max: limits::INBOX_MAX,
            pause: limits::PAUSE_MS,
        }
    }
}

/// Time-outs of a model call, in milliseconds, 1 to 3 600 000 each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelTimeouts {
    /// Until the connection is established.
    pub connect: u64,
    /// Until the first byte of the answer.
    pub first_byte: u64,
    /// Silence between two bytes.
    pub idle: u64,
    /// The whole generation.
    pub total: u64,
}

impl Default for ModelTimeouts {
    fn default() -> Self {
        Self {
            connect: limits::MODEL_CONNECT_MS,
            first_byte: limits::MODEL_FIRST_BYTE_MS,
            idle: limits::MODEL_IDLE_MS,
            total: limits::MODEL_TOTAL_MS,
        }
    }
}

/// When a cycle ends, in addition to `done` and its natural end (a reply without calls).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// When a message was posted to every space that an event came from.
    pub all_addressed: bool,
    /// When one of these tools was called.
    pub on_tools: Vec<String>,
    /// A reply without calls does not end the cycle: a nudge follows, at most twice.
    pub require_tool: bool,
}
