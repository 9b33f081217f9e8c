//! What stands between the living and their store: a wrapper that passes everything on, but for what a test
//! wants otherwise.

use std::sync::Arc;

use agent::changes::{Changes, CommitOutcome, News, Notifications};
use agent::id::AgentId;
use agent::life::{Activation, Lease};
use agent::port::{Accept, Accepted, BoxFuture, Due, RequestKey, Store, StoreError, Wakeup};
use jiff::Timestamp;

/// What a question of an activation is answered.
pub(crate) type Woken<'a> = BoxFuture<'a, Result<Option<Activation>, StoreError>>;
/// What came of a commit.
pub(crate) type Committed<'a> = BoxFuture<'a, Result<(CommitOutcome, Notifications), StoreError>>;

/// What a test wants otherwise.
pub(crate) trait Between: Send + Sync {
    /// An agent is woken; `read` is what the store answers.
    fn wake<'a>(&'a self, _: AgentId, read: Woken<'a>) -> Woken<'a> {
        read
    }

    /// A commit on its way to the store.
    fn commit<'a>(&'a self, store: &'a dyn Store, lease: Lease, changes: Changes) -> Committed<'a> {
        store.commit(lease, changes)
    }

    /// Plans and holds that are due are looked for.
    fn fires(&self) {}
}

/// A store behind something.
pub(crate) struct Behind<B> {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) by: B,
}

impl<B: Between> Store for Behind<B> {
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

    fn next_due(&self, now: Timestamp) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        self.inner.next_due(now)
    }

    fn wake(&self, agent: AgentId, now: Timestamp, known: Option<u64>) -> Woken<'_> {
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

    fn fire_due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Wakeup>, StoreError>> {
        self.by.fires();
        self.inner.fire_due(now, limit)
    }
}
