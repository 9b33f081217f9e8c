//! The durable state of agents. Its methods are operations of the domain, each atomic.
//!
//! Contract (each sentence is a named test in `testkit::contract`, run on every backend):
//! - `accept` is durable when it returns. It wakes no agent twice for one event id. It writes a message and the events
//!   that it causes together, or nothing.
//! - `commit` writes all of its changes or none. With an epoch that is not the life row's it returns `Lost`. Repeated
//!   with the same `expect` after it succeeded, it returns the same result.
//! - An event is in exactly one state; `waiting` holds it only while it waits.

use std::time::Duration;

use jiff::Timestamp;

use super::{BoxFuture, Denial};
pub use crate::changes::Wakeup;
use crate::changes::{Changes, CommitOutcome, News, Notifications};
use crate::event::Event;
use crate::id::{AgentId, PlanId};
use crate::life::{Activation, Lease};
use crate::limits;
use crate::space::{Message, NewMessage};

/// What became of plans and held events that were due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueFired {
    /// The agents to signal.
    pub wake: Vec<Wakeup>,
    /// The plans that have dropped slots because these were too late.
    pub late: Vec<LatePlan>,
    /// The wall clock was set back, and the stored times of some agents are not shifted yet: the next call goes on with it.
    pub shifting: bool,
}

/// A plan that has dropped slots because these were too late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatePlan {
    /// Whose it is.
    pub agent: AgentId,
    /// Which.
    pub plan: PlanId,
    /// Its name.
    pub name: String,
    /// The first slot that was dropped.
    pub slot: Timestamp,
}

/// Idempotency of a request (`Idempotency-Key`), kept for [`limits::REQUEST_KEY_MS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// Whose request it is: all keys of one principal share it, so that a key that replaces another one (at each start
    /// of a server, for instance) recognizes its requests.
    pub principal: String,
    /// The client's key.
    pub key: String,
    /// Hash of the request, to detect another one under the same key.
    pub body_hash: String,
    /// When it arrived.
    pub at: Timestamp,
}

impl RequestKey {
    /// What was noted before this time is forgotten: the key is new again.
    pub fn kept_since(&self) -> Timestamp {
        let kept = Duration::from_millis(limits::REQUEST_KEY_MS);
        self.at.checked_sub(kept).unwrap_or(Timestamp::MIN)
    }
}

/// What to accept.
#[derive(Clone, Debug, PartialEq)]
pub enum Accept {
    /// A message and the events it causes.
    Message(NewMessage),
    /// One event for one agent.
    Event(AgentId, Event),
}

/// The result of an accept.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// It is durable now.
    Fresh {
        /// The message as stored, for [`Accept::Message`].
        message: Option<Message>,
        /// Agents that have work; the caller signals them.
        wake: Vec<Wakeup>,
        /// What became of the question that the message answers, if it answers one; the caller publishes it after the message.
        answered: Notifications,
    },
    /// It was accepted before. Nothing was written, and no agent is woken.
    Duplicate {
        /// The message as stored the first time, for [`Accept::Message`].
        message: Option<Message>,
    },
    /// The idempotency key was used for another body.
    Conflict,
    /// It was denied; nothing was written.
    Denied(Denial),
}

/// When something becomes due the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextDue {
    /// An agent has something to look at.
    pub agent: Option<Timestamp>,
    /// A plan becomes an event, or a held event is released.
    pub firing: Option<Timestamp>,
}

impl NextDue {
    /// The earlier of both.
    pub fn first(self) -> Option<Timestamp> {
        [self.agent, self.firing].into_iter().flatten().min()
    }
}

/// An agent with something due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The agent.
    pub agent: AgentId,
    /// Since when, or from when on.
    pub at: Timestamp,
}

/// A failure of the store. The variants follow from what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store is busy, or its queue is full: try again.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// The store has no room: stop accepting until it has.
    #[error("the store has no room: {0}")]
    Full(String),
    /// A record cannot be read: quarantine the agent and inform the operator.
    #[error("a record is damaged: {0}")]
    Damaged(String),
    /// The command itself is wrong, and nothing was written: a panic, a broken constraint, a statement that SQL refuses.
    /// No record is to blame: the agent backs off, as after a panic of its activation.
    #[error("a command of the store failed by a mistake in it: {0}")]
    Bug(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The process must end and recover: an fsync failed, or the file is gone.
    #[error("the store is broken: {0}")]
    Broken(String),
}

/// The durable state of agents. A command may carry a time that is later than the store's clock, because that clock
/// was set back. Its waits then start now and keep their length.
pub trait Store: Send + Sync {
    /// Accepts a message or an event. `request` makes it idempotent by the client's key.
    fn accept(
        &self,
        what: Accept,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<Accepted, StoreError>>;

    /// At most `limit` agents with something due at `now`, most overdue first; found by index. To read the next page,
    /// `after` is the last agent of the page before. With pages, agents that stay due do not hide the others.
    fn due(
        &self,
        now: Timestamp,
        after: Option<Due>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<Due>, StoreError>>;

    /// When something becomes due after `now`.
    fn next_due(&self, now: Timestamp) -> BoxFuture<'_, Result<NextDue, StoreError>>;

    /// Reads everything that an activation needs, as of one moment, and writes nothing. `known` is the `commit_n` of
    /// the window that the caller still holds. `None` if there is no such agent.
    fn wake(
        &self,
        agent: AgentId,
        now: Timestamp,
        known: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<Activation>, StoreError>>;

    /// The only way to write a cycle's changes. With [`crate::changes::CommitKind::Open`] the commit sets the lease's
    /// epoch, and the life row must have the epoch before it. Otherwise both epochs must be equal.
    fn commit(
        &self,
        lease: Lease,
        changes: Changes,
    ) -> BoxFuture<'_, Result<(CommitOutcome, Notifications), StoreError>>;

    /// What happened in the meantime: the glance and its details; `None` if the lease is lost. The facts are left out
    /// if they are still those of `known_facts` ([`crate::life::Facts::known`]).
    fn glance(
        &self,
        lease: Lease,
        known_facts: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<News>, StoreError>>;

    /// Quarantines an agent of which a record cannot be read: it is suspended, with the reason, until an operator
    /// resumes it. Its events keep waiting; all other agents continue.
    fn quarantine(&self, agent: AgentId, why: String) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The agent's activation has ended by a mistake of the program: it panicked, or it met [`StoreError::Bug`]. What is noted lasts
    /// until an opening has counted it, in whichever process. The cycle runs no longer: if the process dies now, that is no second
    /// failure.
    fn panicked(&self, agent: AgentId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Turns due plans into events and releases events that were held long enough: at most `limit` in all, and fewer
    /// if that would block other users of the store. The rest stays due. After the wall clock was set back it also shifts the
    /// stored times of a few agents; until then these wait too long, and none too short. A command about one shifts it first.
    fn fire_due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<DueFired, StoreError>>;
}
