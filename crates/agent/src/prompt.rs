//! The request to a model: the system layer, the tools, and the transcript with its volatile layers in place. This
//! crate never sees a vendor's bytes.
//!
//! Within a cycle each prompt strictly extends the one before (invariant 7): nothing here edits or removes what was
//! sent, it only appends.

use std::sync::Arc;

use crate::entry::Entry;
use crate::id::CycleId;
use crate::tool::ToolSpec;

/// One element of the transcript.
#[derive(Clone, Debug)]
pub enum Item {
    /// An entry of the log. The last one may be the entry that the next decision will append.
    Entry(Arc<Entry>),
    /// Text that is shown and not kept in the log: the workspace, a summary. Sent with the user's role.
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

/// A complete request, independent of the vendor's format.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Identity, rules and instructions; the bytes do not change.
    pub system: Arc<str>,
    /// All tools of the agent, in a stable order; constant within a view.
    pub tools: Arc<[ToolSpec]>,
    /// The transcript, oldest first.
    pub items: Vec<Item>,
    /// Whether tools may be called.
    pub choice: ToolChoice,
    /// The cycle in progress; reasoning of earlier cycles is not sent unless the model requires it.
    pub cycle: CycleId,
    /// Reasoning of entries below this seq is never sent.
    pub reasoning_from: u64,
    /// Its tokens by the estimate; 0 if nobody counted them.
    pub tokens: u64,
}
