//! Consciousness: the append-only log of an agent's history, and the view of it that is sent.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::CycleId;
use crate::message::ModelMessage;

/// What an entry is in the life of its agent. A cycle's beginning is this column, never found by
/// matching text.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EntryKind {
    /// The events that a cycle began with.
    Inbox,
    /// Events shown between steps.
    Injection,
    /// What the model generated.
    Assistant,
    /// The outcomes of one step's calls, in call order.
    Outcomes,
    /// A word of the runtime to the agent: a nudge, "broken off", "canceled".
    Notice,
}

impl EntryKind {
    /// The name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One element of the consciousness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Place in the log: 1, 2, 3 … without gaps, for ever.
    pub seq: u64,
    /// The cycle that appended it.
    pub cycle: CycleId,
    /// The step of that cycle.
    pub step: u32,
    /// What it is.
    pub kind: EntryKind,
    /// The content.
    pub message: ModelMessage,
    /// Size under the reference estimator.
    pub tokens: u32,
    /// When it was appended.
    pub at: Timestamp,
}

/// What of the log is sent to the model: a summary, chosen ranges, and everything from `tail` on.
/// A view is a row of its own; the log is untouched by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// 0 for the whole log, then one more for each view row of the agent.
    pub rev: u64,
    /// Text standing for what is left out.
    pub summary: Option<String>,
    /// Inclusive ranges of entry seqs kept before the tail, ascending and disjoint.
    pub ranges: Vec<(u64, u64)>,
    /// First entry of the unbroken rest.
    pub tail: u64,
    /// Reasoning of entries below this seq is never sent again (its prefix has changed).
    pub reasoning_from: u64,
    /// Vendors' own blocks of entries below this seq are never sent again: a vendor has refused them.
    #[serde(default)]
    pub native_from: u64,
}

impl View {
    /// The view of an agent that never was compacted.
    pub fn whole() -> Self {
        Self { rev: 0, summary: None, ranges: Vec::new(), tail: 1, reasoning_from: 1, native_from: 1 }
    }

    /// Whether the view shows the entry.
    pub fn shows(&self, seq: u64) -> bool {
        seq >= self.tail || self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&seq))
    }
}
