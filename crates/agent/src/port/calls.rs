//! Outcomes that come from outside the cycle: people's answers, late outcomes.
//! Compare-and-set on the call row; outcomes enter the consciousness only by `commit`.

use jiff::Timestamp;

use super::{BoxFuture, StoreError};
use crate::call::{CallRow, Outcome};
use crate::changes::Notifications;
use crate::id::{AgentId, CallId, RootId};

/// What came of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Finish {
    /// Recorded; the agent that waits for it is due now.
    Awaited(AgentId, Notifications),
    /// Recorded as an event of its own, since the cycle does not wait any more.
    Late(AgentId, Notifications),
    /// It had an outcome already; nothing was written.
    Already,
}

/// An answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedCall {
    /// Which call.
    pub id: CallId,
    /// What came back.
    pub outcome: Outcome,
    /// When.
    pub at: Timestamp,
}

/// A call that goes on beyond its cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detached {
    /// Whose.
    pub agent: AgentId,
    /// Its row.
    pub row: CallRow,
    /// What its answer descends from.
    pub root: RootId,
    /// The hop that it carries.
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

/// Calls that go on beyond their cycle, and answers.
pub trait Calls: Send + Sync {
    /// Detached calls behind `after`, in the order of their ids, at most `limit`; found by index.
    fn detached(&self, after: Option<CallId>, limit: u32)
    -> BoxFuture<'_, Result<Vec<Detached>, StoreError>>;
    /// Counts that a detached call is taken up, since the process that ran it is gone; how often that was, or
    /// `None` where it is not detached (any more). Durable before anybody runs it again.
    fn take_up(&self, call: CallId) -> BoxFuture<'_, Result<Option<u32>, CallError>>;
    /// Answers a call, once; the first answer wins.
    fn finish(&self, answer: FinishedCall) -> BoxFuture<'_, Result<Finish, CallError>>;
}
