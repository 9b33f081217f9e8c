//! One agent's turn to be activated. Must not know the order of turns.

use agent::id::AgentId;
use tokio::sync::mpsc;

/// One agent's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) agent: AgentId,
    /// Whether its cycle is opened before its model is called: its last request was paid in vain.
    pub(crate) careful: bool,
    /// Whether it may have crashed the process, and is watched until it has shown that it did not.
    pub(crate) watched: bool,
    /// Whether its last activation panicked.
    pub(crate) panicked: bool,
}

/// Held by a suspect. Dropped once it has shown that it is not the cause; the drop notifies the keeper.
pub(crate) struct Watch {
    pub(crate) agent: AgentId,
    pub(crate) cleared: mpsc::Sender<AgentId>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // If the channel is full, the keeper treats the suspect as a slow one.
        let _ = self.cleared.try_send(self.agent);
    }
}
