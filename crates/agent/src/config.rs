//! The agent's config: every key, its type, default and bound. Revisions are
//! append-only and pinned at a cycle's opening, so an edit takes effect at the next cycle.
//!
//! Only keys that do something are known; an unknown one is an error that names the nearest.

mod keys;
mod names;
mod policy;
mod read;

use serde::{Deserialize, Serialize};

use crate::limits;

pub use keys::{Bound, ConfigKey, KEYS, TakesEffect, ValueKind};
pub use policy::{Awareness, Gate, Gates, Route, Triage, Urgency, WantedChoice};
pub use read::{BadConfig, nearest};

/// What an agent is and how it works. All keys are optional but `name`, which is the entity's
/// handle and is kept there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// One sentence for people and other agents.
    pub description: String,
    /// Who the agent is and what it does, for the model. At most 256 KiB.
    pub instructions: String,
    /// Which model thinks, as `provider/model` or a name that the server knows; `null` is the
    /// server's default.
    pub model: Option<String>,
    /// Models that are asked, in this order, where the provider of the one before cannot serve.
    pub fallback: Vec<String>,
    /// Other models for some steps.
    pub routing: Vec<Route>,
    /// Names of the tools it may use; `null` is the prebuilt ones and nothing else.
    pub tools: Option<Vec<String>>,
    /// What it notices in the middle of a cycle.
    pub awareness: Awareness,
    /// What is urgent.
    pub urgency: Urgency,
    /// Which tools may be called in which steps.
    pub gates: Gates,
    /// Whether a call that cannot be repeated waits where its requester has said something urgent.
    pub barrier: bool,
    /// What is decided before a model is asked.
    pub triage: Triage,
    /// Bounds of its cycles.
    pub limits: Limits,
    /// Time-outs of its model calls.
    pub model_timeouts: ModelTimeouts,
    /// When a cycle ends, apart from its natural end.
    pub stop: Stop,
    /// Milliseconds to wait for more before activation, 0 to 60 000.
    pub debounce: u64,
    /// Which agents' messages wake it.
    pub wake_on: WakeOn,
    /// Agent-to-agent messages per causal root before they are held, 1 to 1 000.
    pub hop_limit: u32,
    /// Retired at its first rest.
    pub ephemeral: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            description: String::new(),
            instructions: String::new(),
            model: None,
            fallback: Vec::new(),
            routing: Vec::new(),
            tools: None,
            awareness: Awareness::default(),
            urgency: Urgency::default(),
            gates: Gates::default(),
            barrier: true,
            triage: Triage::default(),
            limits: Limits::default(),
            model_timeouts: ModelTimeouts::default(),
            stop: Stop::default(),
            debounce: 0,
            wake_on: WakeOn::default(),
            hop_limit: limits::HOP_LIMIT,
            ephemeral: false,
        }
    }
}

/// Which agents' messages wake an agent. People's always do.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WakeOn {
    /// All of them.
    #[default]
    All,
    /// Only those that name it; the others are settled as skipped.
    Mention,
}

impl WakeOn {
    /// The name used in configs and JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Every rule, as it is written.
    pub const NAMES: [&str; 2] = ["all", "mention"];
}

/// Bounds of a cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Steps of one cycle, 1 to 1 000.
    pub max_steps: u32,
    /// Tokens of one cycle: its entries once each and all that is generated; from 1 000.
    pub token_budget: u64,
    /// Milliseconds awake that one cycle may take, from 1 000.
    pub wall_clock: u64,
    /// Steps in a row whose calls all failed, 1 to 100.
    pub consecutive_mistake_limit: u32,
    /// Attempts that content may fail before it is given up, 1 to 100.
    pub max_attempts: u32,
    /// Retries of a model call within one activation, 0 to 20.
    pub model_retries: u32,
    /// Events that one activation takes, 1 to 1 000.
    pub events_per_cycle: u32,
    /// Events that may wait, 10 to 1 000 000.
    pub inbox_max: u32,
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
        }
    }
}

/// Time-outs of a model call, in milliseconds, 1 to 3 600 000 each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelTimeouts {
    /// Until the connection stands.
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

/// When a cycle ends, apart from its natural end (no calls) and `done`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// A message was sent to every space that an event came from.
    pub all_addressed: bool,
    /// One of these tools was called.
    pub on_tools: Vec<String>,
    /// A bare text does not end the cycle: a nudge follows, at most twice.
    pub require_tool: bool,
}
