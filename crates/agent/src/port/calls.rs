//! Outcomes from outside the cycle: answers of people and late results. Each is a compare-and-set on the call row;
//! outcomes enter the consciousness only by `commit`.

use jiff::Timestamp;

use super::{BoxFuture, StoreError};
use crate::call::{CallRow, Outcome};
use crate::changes::Notifications;
use crate::id::{AgentId, CallId, ClaimId, RootId};

/// The result of answering a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Finish {
    /// Recorded. The agent waits for it and is due now.
    Awaited(AgentId, Notifications),
    /// Recorded as an event, since no cycle waits for it.
    Late(AgentId, Notifications),
    /// The call already had an outcome; nothing was written.
    Already,
    /// Another worker has claimed the call since, or the claim is of another call; nothing was written.
    NotClaimed,
}

/// What claiming a call for a worker did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It is the worker's; how often it was claimed, this time included.
    Given(u32),
    /// Nothing was written: it is over, it is not for workers, or its agent may not begin a call now.
    Refused,
    /// Nothing was written: before it began, its requester sent an urgent event, which the agent must read first.
    HeldBack,
    /// Nothing was written: before it began, the rule by which it needed no approval was deleted, or its time was over.
    RuleOver,
}

/// Whether a call that the server runs may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Nothing is known against it.
    Free,
    /// Its requester has sent an urgent event, which the agent must read first.
    HeldBack,
    /// The rule by which it needed no approval was deleted, or its time is over.
    RuleOver,
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
    /// The claim under which a worker ran it; `None` if the answer is not a worker's.
    pub claim: Option<ClaimId>,
    /// The outcome instead, if a worker has the call: whoever gives it up may not know of a claim that has just been made.
    pub if_claimed: Option<Outcome>,
}

/// A call of a worker tool, with the agent that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCall {
    /// The agent.
    pub agent: AgentId,
    /// Its row.
    pub row: CallRow,
    /// How often it was claimed.
    pub times: u32,
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
    /// Gives an open call of a worker tool to a worker, in place of the one that had it. The claim is durable before the
    /// worker hears of it. A call of an open cycle that has not begun is refused if the agent is suspended or the cycle
    /// is canceled, and an unsafe one is held back if `barrier` and its requester has sent an urgent event. None begins by a rule
    /// that does not hold any more.
    fn claim(&self, call: CallId, claim: ClaimId, barrier: bool)
    -> BoxFuture<'_, Result<Claimed, CallError>>;
    /// Whether a call that the server runs may begin now, by what [`Calls::claim`] asks of rules and, with `barrier`, of urgent
    /// events.
    fn may_begin(&self, call: CallId, barrier: bool) -> BoxFuture<'_, Result<Beginning, StoreError>>;
    /// The open call whose newest claim this is.
    fn claimed(&self, claim: ClaimId) -> BoxFuture<'_, Result<Option<WorkerCall>, StoreError>>;
    /// The call with that id, if workers run it.
    fn worker_call(&self, call: CallId) -> BoxFuture<'_, Result<Option<WorkerCall>, StoreError>>;
    /// Answers a call. Only the first answer counts, but for one thing: if all that is known is that a worker had the call,
    /// what that worker says later becomes an event.
    fn finish(&self, answer: FinishedCall) -> BoxFuture<'_, Result<Finish, CallError>>;
}
