//! The durable truth of the living. Verbs of the domain, each atomic.
//!
//! Contract (each sentence is a named test in `testkit::contract`, run on every backend):
//! - `accept` is durable when it returns, wakes nobody twice for one event id, and writes a message
//!   and the events it causes together or not at all.
//! - `commit` writes all of its changes or none; under an epoch that is not the life row's it is
//!   `Lost`; repeated with the same `expect` after it was done it answers as the first time.
//! - an event is in exactly one state; `waiting` holds it only while it waits.

use jiff::Timestamp;

use super::{BoxFuture, Denial};
pub use crate::changes::Wakeup;
use crate::changes::{Changes, CommitOutcome, News, Notifications};
use crate::event::Event;
use crate::id::{AgentId, CredentialId};
use crate::life::{Activation, Lease};
use crate::space::{Message, NewMessage};

/// Idempotency of a request (`Idempotency-Key`), kept for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// Whose key.
    pub credential: CredentialId,
    /// The client's key.
    pub key: String,
    /// Hash of the request, so that another body under the same key is found out.
    pub body_hash: String,
}

/// What is to be accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Accept {
    /// A message and the events it causes.
    Message(NewMessage),
    /// One event for one agent.
    Event(AgentId, Event),
}

/// What came of an accept.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// It is durable now.
    Fresh {
        /// The message as stored, for [`Accept::Message`].
        message: Option<Message>,
        /// Agents that have something to do; signal them.
        wake: Vec<Wakeup>,
    },
    /// It was accepted before; nothing was written, nobody is woken.
    Duplicate {
        /// The message as stored then, for [`Accept::Message`].
        message: Option<Message>,
    },
    /// The idempotency key was used for another body.
    Conflict,
    /// It may not be accepted; nothing was written.
    Denied(Denial),
}

/// An agent with something due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Which.
    pub agent: AgentId,
    /// Since, or from when.
    pub at: Timestamp,
}

/// What went wrong with the store, by what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Try again: busy, or the queue is full.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// Stop accepting until there is room.
    #[error("the store has no room: {0}")]
    Full(String),
    /// This record cannot be read; leave the agent alone, tell the operator.
    #[error("a record is damaged: {0}")]
    Damaged(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The process must end and recover: an fsync failed, the file is gone.
    #[error("the store is broken: {0}")]
    Broken(String),
}

/// The durable state of agents. A command may carry a time that the store's clock has not reached, because that clock
/// was set back: its waits then count from now and keep their length.
pub trait Store: Send + Sync {
    /// Accepts a message or an event. `request` makes it idempotent by the client's key.
    fn accept(
        &self,
        what: Accept,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<Accepted, StoreError>>;

    /// Agents with something due at `now`, most overdue first, at most `limit`; found by index. `after`
    /// is the last one of the look before, where this one goes on behind it: who is due can be looked
    /// through in pages, so that those who stay due hide nobody.
    fn due(
        &self,
        now: Timestamp,
        after: Option<Due>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<Due>, StoreError>>;

    /// The earliest time after `now` at which anything becomes due.
    fn next_due(&self, now: Timestamp) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>>;

    /// Reads everything that an activation needs, as of one moment; writes nothing. `known` is the
    /// `commit_n` up to which the caller still holds the window. `None` where there is no such agent.
    fn wake(
        &self,
        agent: AgentId,
        now: Timestamp,
        known: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<Activation>, StoreError>>;

    /// The one write path of a life. With [`crate::changes::CommitKind::Open`] the lease's epoch is
    /// the one that the commit makes (the life row must stand at one less); else it must be the life
    /// row's.
    fn commit(
        &self,
        lease: Lease,
        changes: Changes,
    ) -> BoxFuture<'_, Result<(CommitOutcome, Notifications), StoreError>>;

    /// What the world did meanwhile, with what is behind it; `None` where the lease is lost. The facts are left
    /// out where they are still those of `known_facts` ([`crate::life::Facts::known`]).
    fn glance(
        &self,
        lease: Lease,
        known_facts: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<News>, StoreError>>;

    /// Sets an agent apart of which a record cannot be read: it is suspended, with the reason, until an
    /// operator resumes it. Its events keep waiting, all other agents continue.
    fn quarantine(&self, agent: AgentId, why: String) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Turns due plans into events and lets go what was held long enough, at most `limit` together, and fewer
    /// where that would keep others from the store; what is left is due at once. Returns whom to signal.
    fn fire_due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Wakeup>, StoreError>>;
}
