//! What a model is handed: the system layer, the tools, and the transcript with its volatile
//! layers in place. `agent` never sees bytes of any vendor.
//!
//! Within a cycle each prompt strictly extends the one before (invariant 7): nothing here edits or
//! removes what was sent, it only appends.

use std::sync::Arc;

use crate::entry::Entry;
use crate::id::CycleId;
use crate::tool::ToolSpec;

/// One element of the transcript, in the order it is sent.
#[derive(Clone, Debug)]
pub enum Item {
    /// An entry of the log (at the very end, the one that the next decision will append).
    Entry(Arc<Entry>),
    /// Something shown and not kept: the workspace, a summary. Sent with the user's role.
    Layer(Arc<str>),
}

/// Whether the model may, must or must not call tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It may.
    #[default]
    Auto,
    /// It must; used only where the vendor allows it.
    Required,
    /// It must not.
    None,
}

/// A complete request, apart from the vendor's form.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Identity, rules, instructions: stable bytes.
    pub system: Arc<str>,
    /// All tools of the agent, in a stable order; constant within a view.
    pub tools: Arc<[ToolSpec]>,
    /// The transcript, oldest first.
    pub items: Vec<Item>,
    /// Whether tools may be called.
    pub choice: ToolChoice,
    /// The cycle in progress; reasoning of earlier cycles is not sent unless the model demands it.
    pub cycle: CycleId,
    /// Reasoning of entries below this seq is never sent.
    pub reasoning_from: u64,
}
