//! One agent's turn to be woken. It must not know whose turn comes when.

use agent::id::AgentId;

/// One agent's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Whose.
    pub(crate) agent: AgentId,
    /// Whether its cycle is to be opened before it thinks: what it asked for the last time was in vain.
    pub(crate) careful: bool,
    /// Whether it may have been the death of the process, and lives while no other suspect does.
    pub(crate) alone: bool,
    /// Whether its last activation panicked.
    pub(crate) panicked: bool,
}
