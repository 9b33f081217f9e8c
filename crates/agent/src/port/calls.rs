//! Outcomes from outside the cycle: answers of people and late results. Each is a compare-and-set on the call row;
//! outcomes enter the consciousness only by `commit`.

use jiff::Timestamp;

use super::{BoxFuture, StoreError};
use crate::call::{CallRow, Outcome};
use crate::changes::Notifications;
use crate::id::{AgentId, CallId, RootId};

/// The result of answering a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Finish {
    /// Recorded. The agent waits for it and is due now.
    Awaited(AgentId, Notifications),
    /// Recorded as an event, since no cycle waits for it.
    Late(AgentId, Notifications),
    /// The call already had an outcome; nothing was written.
    Already,
}

/// An answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedCall {
    /// Its id.
    pub id: CallId,
    /// Its outcome.
    pub outcome: Outcome,
    /// When it ended.
    pub at: Timestamp,
}

/// A call that continues without its cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedCall {
    /// The agent that made it.
    pub agent: AgentId,
    /// Its row.
    pub row: CallRow,
    /// The causal root of its result.
    pub root: RootId,
    /// The hop of its result.
    pub hop: u32,
}

/// Why a call cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no such call.
    #[error("no call has the id `{0}`")]
    Unknown(CallId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Detached calls, and answers to calls.
pub trait Calls: Send + Sync {
    /// At most `limit` detached calls after `after`, in the order of their ids; found by index.
    fn detached(
        &self,
        after: Option<CallId>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<DetachedCall>, StoreError>>;
    /// Counts that a detached call is recovered because the process that ran it is gone. Returns how often it was
    /// recovered, or `None` if it is not detached. The count is durable before the call runs again.
    fn take_up(&self, call: CallId) -> BoxFuture<'_, Result<Option<u32>, CallError>>;
    /// Answers a call. Only the first answer counts.
    fn finish(&self, answer: FinishedCall) -> BoxFuture<'_, Result<Finish, CallError>>;
}
