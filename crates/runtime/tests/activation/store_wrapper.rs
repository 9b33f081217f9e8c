//! A store wrapper: passes everything on, except for what a test changes.

use std::sync::Arc;

use agent::changes::{Changes, CommitOutcome, News, Notifications};
use agent::id::AgentId;
use agent::life::{Activation, Lease};
use agent::port::{Accept, Accepted, BoxFuture, Due, DueFired, NextDue, RequestKey, Store, StoreError};
use jiff::Timestamp;

/// The result of reading an agent for an activation.
pub(crate) type WakeRead<'a> = BoxFuture<'a, Result<Option<Activation>, StoreError>>;
/// The result of a commit.
pub(crate) type Committed<'a> = BoxFuture<'a, Result<(CommitOutcome, Notifications), StoreError>>;

/// What a test changes.
pub(crate) trait Intercept: Send + Sync {
    /// An agent is activated; `read` is the answer of the store.
    fn wake<'a>(&'a self, _: AgentId, read: WakeRead<'a>) -> WakeRead<'a> {
        read
    }

    /// A commit is submitted.
    fn commit<'a>(&'a self, store: &'a dyn Store, lease: Lease, changes: Changes) -> Committed<'a> {
        store.commit(lease, changes)
    }

    /// A sweep looks for due plans.
    fn sweeps(&self) {}
}

/// A store behind an interceptor.
pub(crate) struct Wrapped<B> {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) by: B,
}

impl<B: Intercept> Store for Wrapped<B> {
    fn accept(
        &self,
        what: Accept,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<Accepted, StoreError>> {
        self.inner.accept(what, request)
    }

    fn due(
        &self,
        now: Timestamp,
        after: Option<Due>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        self.inner.due(now, after, limit)
    }

    fn next_due(&self, now: Timestamp) -> BoxFuture<'_, Result<NextDue, StoreError>> {
        self.inner.next_due(now)
    }

    fn wake(&self, agent: AgentId, now: Timestamp, known: Option<u64>) -> WakeRead<'_> {
        self.by.wake(agent, self.inner.wake(agent, now, known))
    }

    fn commit(&self, lease: Lease, changes: Changes) -> Committed<'_> {
        self.by.commit(&*self.inner, lease, changes)
    }

    fn glance(
        &self,
        lease: Lease,
        known_facts: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<News>, StoreError>> {
        self.inner.glance(lease, known_facts)
    }

    fn quarantine(&self, agent: AgentId, why: String) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.quarantine(agent, why)
    }

    fn panicked(&self, agent: AgentId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.panicked(agent)
    }

    fn fire_due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<DueFired, StoreError>> {
        self.by.sweeps();
        self.inner.fire_due(now, limit)
    }
}
