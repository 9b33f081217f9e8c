//! One agent's turn to be woken. It must not know whose turn comes when.

use agent::id::AgentId;
use tokio::sync::mpsc;

/// One agent's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Whose.
    pub(crate) agent: AgentId,
    /// Whether its cycle is to be opened before it thinks: what it asked for the last time was in vain.
    pub(crate) careful: bool,
    /// Whether it may have been the death of the process, and is watched until it has shown that it was not.
    pub(crate) watched: bool,
    /// Whether its last activation panicked.
    pub(crate) panicked: bool,
}

/// Held by a suspect; dropped once it has shown that it was not the cause, which the keeper is told.
pub(crate) struct Watch {
    pub(crate) agent: AgentId,
    pub(crate) cleared: mpsc::Sender<AgentId>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Where there is no room the keeper waits no longer than for a suspect that is slow.
        let _ = self.cleared.try_send(self.agent);
    }
}
