//! Runs: why a cycle woke, what it cost, how it ended. Read-only facts, not a unit of scheduling.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::call::OutcomeStatus;
use crate::id::{AgentId, CycleId};

/// Why a cycle ended.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Ending {
    /// It had nothing more to do.
    Completed,
    /// None of it was its business; the log was not touched.
    Skipped,
    /// A bound of the cycle was reached.
    Exhausted,
    /// It was taken back.
    Canceled,
    /// It could not go on.
    Failed,
}

impl Ending {
    /// The name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Tokens as the provider reports them. `None` where it reported nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent, cached ones included.
    pub input: Option<u64>,
    /// Of these, read from the provider's cache.
    pub cached: Option<u64>,
    /// Tokens generated, reasoning included.
    pub output: Option<u64>,
    /// Of these, reasoning.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Whether nothing is known.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Adds another call's usage; unknown stays unknown only where both are.
    pub fn add(&mut self, other: &Self) {
        fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
            match (a, b) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
            }
        }
        self.input = sum(self.input, other.input);
        self.cached = sum(self.cached, other.cached);
        self.output = sum(self.output, other.output);
        self.reasoning = sum(self.reasoning, other.reasoning);
    }
}

/// What one call did, for the run. Times are unknown of what never ran, and of what ran in a
/// process that died.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The tool.
    pub tool: String,
    /// When it began, in milliseconds after the cycle opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// How long it ran, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// How it ended; none while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<OutcomeStatus>,
    /// What was repaired of its name or arguments before it was run, in words; the log keeps what the model
    /// wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired: Option<String>,
}

/// What one step did, for the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Which step.
    pub step: u32,
    /// Names of the tools it called.
    pub tools: Vec<String>,
    /// Tokens of its model call.
    pub usage: Usage,
    /// Time from the request to the end of the reply, in milliseconds.
    pub model_ms: u64,
    /// Attempts it took.
    pub attempts: u32,
    /// Events shown to it in addition to the cycle's own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub injected: u32,
    /// How long the oldest of the events that it was first shown had waited, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Generations of it that were aborted for news.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interrupts: u32,
    /// Tokens of generations that were aborted: estimated, since no provider tells.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    pub aborted: Usage,
    /// Tokens of whole replies of which nothing came, as the provider reported them.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    pub discarded: Usage,
    /// Entries of the log that are not sent to it any more, since there was no room for them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u32,
    /// Times that the view was cut to half for it, because the vendor found it too long.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u32,
    /// Whether the transcript was rebuilt for it, because the vendor refused it as invalid.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rebuilt: bool,
    /// The model that answered, where it was not the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When the last attempt was sent, in milliseconds after the cycle opened. Runs of earlier
    /// versions do not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// Time from that request to the first piece of the reply, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<u64>,
    /// Its calls, in order. Runs of earlier versions know only their tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl StepRecord {
    /// Tokens generated in a second, between the first piece of the reply and its end.
    pub fn tokens_per_second(&self) -> Option<f64> {
        speed(self.usage.output?, self.model_ms.checked_sub(self.first_ms?)?)
    }
}

impl Run {
    /// All generations that were aborted: not in `usage`, but in what the cycle cost.
    pub fn estimated(&self) -> Usage {
        let mut all = Usage::default();
        self.steps.iter().for_each(|step| all.add(&step.aborted));
        all
    }

    /// Tokens generated in a second, over all steps of which both are known.
    pub fn tokens_per_second(&self) -> Option<f64> {
        let known = self
            .steps
            .iter()
            .filter_map(|step| Some((step.usage.output?, step.model_ms.checked_sub(step.first_ms?)?)));
        let (tokens, ms) = known
            .fold((0u64, 0u64), |sum, step| (sum.0.saturating_add(step.0), sum.1.saturating_add(step.1)));
        speed(tokens, ms)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate, shown with a digit or two")]
fn speed(tokens: u64, ms: u64) -> Option<f64> {
    (tokens > 0 && ms > 0).then(|| tokens as f64 * 1_000.0 / ms as f64)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What a cycle took, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Steps.
    pub steps: u32,
    /// From its opening to its end, in milliseconds.
    pub ms: u64,
    /// Tokens of its model calls.
    pub usage: Usage,
    /// In micro-dollars; `None` where a price or a usage is unknown.
    pub cost_micros: Option<u64>,
}

impl Spent {
    /// What a run says that the cycle took.
    pub fn of(run: &Run) -> Self {
        let ms = run.ended_at.as_millisecond().saturating_sub(run.opened_at.as_millisecond());
        Self {
            steps: u32::try_from(run.steps.len()).unwrap_or(u32::MAX),
            ms: u64::try_from(ms).unwrap_or(0),
            usage: run.usage,
            cost_micros: run.cost_micros,
        }
    }
}

/// The run of one cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The cycle.
    pub id: CycleId,
    /// Whose.
    pub agent: AgentId,
    /// 1 for the first cycle in which something was processed, then counting.
    pub ordinal: u64,
    /// In words: `2 events: space_message from Husam in "Family", …`.
    pub woke_for: String,
    /// Events it processed.
    pub events: u32,
    /// When it opened.
    pub opened_at: Timestamp,
    /// When it came to rest.
    pub ended_at: Timestamp,
    /// What each step did.
    pub steps: Vec<StepRecord>,
    /// All model calls together, as the provider reported them.
    pub usage: Usage,
    /// In micro-dollars; `None` where a price or a usage is unknown.
    pub cost_micros: Option<u64>,
    /// The model, as `provider/name`.
    pub model: String,
    /// Revision of the config that it ran under.
    pub config_rev: u64,
    /// How it ended.
    pub ending: Ending,
    /// Why, where the ending does not say it all.
    pub reason: Option<String>,
    /// The agent's own words to `done`.
    pub summary: Option<String>,
}
