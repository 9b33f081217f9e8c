//! The consciousness: the append-only log of an agent's history, and the view, the part of it that is sent to the
//! model.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::Trust;
use crate::id::CycleId;
use crate::message::ModelMessage;
use crate::run::Usage;

names! {
    /// The kind of an entry. The first entry of a cycle is found by this column, never by matching text.
    pub enum EntryKind {
        /// The events that opened a cycle.
        Inbox,
        /// Events shown between steps.
        Injection,
        /// What the model generated.
        Assistant,
        /// The outcomes of one step's calls, in call order.
        Outcomes,
        /// A notice of the runtime to the agent: a nudge, "broken off", "canceled".
        Notice,
    }
}

/// One element of the consciousness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Position in the log: 1, 2, 3 … without gaps, forever.
    pub seq: u64,
    /// The cycle that appended it.
    pub cycle: CycleId,
    /// The step of that cycle.
    pub step: u32,
    /// Its kind.
    pub kind: EntryKind,
    /// The content.
    pub message: ModelMessage,
    /// Size under the reference estimator.
    pub tokens: u32,
    /// When it was appended.
    pub at: Timestamp,
    /// The lowest trust of the events or outcomes in it; of what the model wrote, the lowest that its cycle had read by
    /// then. [`Trust::Outside`] in rows of earlier versions, which did not note it.
    #[serde(default)]
    pub trust: Trust,
}

/// The part of the log that is sent to the model: a summary, selected ranges, and everything from `tail` on. A view
/// is a row of its own; it does not change the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// 0 for the whole log; each new view row of the agent adds one.
    pub rev: u64,
    /// Text that replaces what is left out.
    pub summary: Option<String>,
    /// Inclusive ranges of entry seqs kept before the tail, ascending and disjoint.
    pub ranges: Vec<(u64, u64)>,
    /// First entry of the part that is sent without gaps.
    pub tail: u64,
    /// Reasoning of entries below this seq is never sent again (its prefix has changed).
    pub reasoning_from: u64,
    /// The first revision whose layers are sent: the later ones left out nothing but reasoning and native blocks.
    #[serde(default)]
    pub layers_from: u64,
    /// Native blocks of entries below this seq are never sent again, because a vendor refused them.
    #[serde(default)]
    pub native_from: u64,
    /// How the summary came about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// The lowest trust of all that the summary replaces; it means nothing if there is none. [`Trust::Outside`] in rows of
    /// earlier versions.
    #[serde(default)]
    pub trust: Trust,
}

impl View {
    /// The view that shows the whole log.
    pub fn whole() -> Self {
        Self {
            rev: 0,
            summary: None,
            ranges: Vec::new(),
            tail: 1,
            reasoning_from: 1,
            layers_from: 0,
            native_from: 1,
            compaction: None,
            trust: Trust::Operator,
        }
    }

    /// Whether the view shows the entry.
    pub fn shows(&self, seq: u64) -> bool {
        seq >= self.tail || self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&seq))
    }
}

names! {
    /// How a summary was written, if one was.
    pub enum SummaryMethod {
        /// By a model.
        Model,
        /// By rule: a line per cycle.
        Digest,
        /// Not at all: the entries are left out without a summary.
        Cut,
    }
}

/// The record of a compaction: what a view leaves out, and how its summary came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Its number: 1 for the agent's first.
    pub round: u64,
    /// The first and the last cycle of which entries are left out, counted from 1; of a summary those that it replaces.
    pub cycles: (u64, u64),
    /// The last of these cycles. The next compaction may leave out more of it.
    pub last: CycleId,
    /// How the summary was written.
    pub method: SummaryMethod,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the model used, refused attempts included.
    #[serde(default)]
    pub usage: Usage,
    /// Why the model's last answer was not used, or why there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whose answers could not be used lately; `None` after a usable one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<UnusableSummaries>,
    /// Tokens of the entries and the summary that the view before showed.
    pub tokens_before: u64,
    /// Tokens of those that this one shows.
    pub tokens_after: u64,
    /// Entries that it summarizes and the view before showed.
    pub entries: u64,
}

/// Compactions in a row without a usable answer of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusableSummaries {
    /// The model.
    pub model: String,
    /// How many, those before which it was not asked included.
    pub rounds: u32,
}

impl Compaction {
    /// A digest was used because an event waits.
    pub const NEW_WORK: &str = "new work came";
    /// A digest was used because an event is being processed.
    pub const NO_TIME: &str = "no time before the first step";
    /// A digest was used because a request failed.
    pub const TOO_LONG: &str = "the provider refused a request as too long";

    /// Why the model that was to write the summary failed; `None` if it did not, or had no time.
    pub fn failure(&self) -> Option<&str> {
        let refused = self.refused.as_deref();
        refused.filter(|why| ![Self::NEW_WORK, Self::NO_TIME, Self::TOO_LONG].contains(why))
    }

    /// Its line for operators.
    pub fn line(&self) -> String {
        let Self { round, tokens_before, tokens_after, entries, .. } = self;
        let done = if self.method == SummaryMethod::Cut { "left out" } else { "summarized" };
        format!(
            "[Compaction] Round {round}: {tokens_before} → {tokens_after} tokens ({entries} messages {done})"
        )
    }
}
