//! One agent's turn to be activated. Must not know the order of turns.

use agent::cycle::ActivationEnd;
use agent::id::AgentId;
use agent::port::StoreError;
use tokio::sync::Notify;
use tokio::sync::mpsc;

/// One agent's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) agent: AgentId,
    /// Whether its cycle is opened before its model is called: its last request was paid in vain.
    pub(crate) careful: bool,
    /// Whether it may have crashed the process, and is watched until it has shown that it did not.
    pub(crate) watched: bool,
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

/// How an attempt to activate an agent went.
pub(crate) enum Activated {
    /// The activation ran; its agent is idle again.
    Ended(ActivationEnd),
    /// Its agent may have crashed the process, which had died `deaths` times before while it was awake. Nothing
    /// was done; it waits for its turn among the suspects.
    Suspect { deaths: u32 },
    /// Its provider has as many requests in flight as it may. Nothing was done; it is in that provider's queue.
    Full,
    /// It ended by a mistake of the program, which the store has noted.
    Panicked,
}

/// The store failed, and so the activation ended.
pub(crate) struct StoreFailure {
    pub(crate) error: StoreError,
    /// Whether its opening had been committed.
    pub(crate) opened: bool,
}

impl From<StoreError> for StoreFailure {
    fn from(error: StoreError) -> Self {
        Self { error, opened: false }
    }
}

/// What tells a running activation that something happened.
#[derive(Default)]
pub(crate) struct Wakes {
    /// Something changed: a cancel, a suspension, an urgent event.
    pub(crate) recheck: Notify,
    /// Any event was accepted for the agent.
    pub(crate) due: Notify,
}
