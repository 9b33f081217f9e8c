//! A store and models that notice when something passes them: the stages of an activation, and the
//! openings held back to prove that no request waits for them. They change nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use agent::changes::{Changes, CommitKind, CommitOutcome, News, Notifications};
use agent::id::AgentId;
use agent::life::{Activation, Lease};
use agent::port::{
    Accept, Accepted, BoxFuture, BoxStream, Due, Model, ModelError, ModelInfo, ModelRequest, Models, Piece,
    RequestKey, Store, StoreError, Wakeup,
};
use jiff::Timestamp;
use storage::sqlite::Sqlite;
use tokio::sync::watch;

use crate::measure::process_cpu_us;

/// What passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Whoever measures began.
    Began,
    /// An accept is asked for.
    AcceptAsked,
    /// It is durable.
    Accepted,
    /// An activation is to be read.
    WakeAsked,
    /// It is read.
    Woken,
    /// The model is asked.
    Asked,
    /// The request is encoded.
    Encoded,
    /// A commit of that kind is done.
    Committed(CommitKind),
    /// The request arrived at the model.
    Arrived,
}

/// When it passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// What.
    pub(crate) point: Point,
    /// When.
    pub(crate) at: Instant,
    /// CPU time of the process so far, in microseconds. Reading it is a system call, so it is known
    /// only of commits: a wake is timed to the microsecond.
    pub(crate) cpu_us: Option<f64>,
}

/// What passed, in order.
#[derive(Default)]
pub(crate) struct Marks(Mutex<Vec<Mark>>);

impl Marks {
    /// What passed since the last time.
    pub(crate) fn take(&self) -> Vec<Mark> {
        std::mem::take(&mut self.all())
    }

    fn add(&self, point: Point) {
        let cpu_us = matches!(point, Point::Committed(_)).then(process_cpu_us);
        let mark = Mark { point, at: Instant::now(), cpu_us };
        self.all().push(mark);
    }

    fn all(&self) -> MutexGuard<'_, Vec<Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store in between.
pub(crate) struct Watched {
    inner: Sqlite,
    marks: Arc<Marks>,
    /// Whether openings wait.
    held: watch::Sender<bool>,
    /// Whether commits are refused.
    refuses: AtomicBool,
}

impl Watched {
    /// Watches `inner`.
    pub(crate) fn new(inner: Sqlite, marks: Arc<Marks>) -> Self {
        Self { inner, marks, held: watch::Sender::new(false), refuses: AtomicBool::new(false) }
    }

    /// Whether openings wait from now on; those that wait go on when they may.
    pub(crate) fn hold_openings(&self, hold: bool) {
        self.held.send_replace(hold);
    }

    /// Whether every commit is refused from now on, as on a full disk.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.refuses.store(refuse, Ordering::SeqCst);
    }
}

/// The models in between.
pub(crate) struct WatchedModels {
    /// The models themselves.
    pub(crate) inner: Arc<dyn Models>,
    /// Where it is noted.
    pub(crate) marks: Arc<Marks>,
}

impl Models for WatchedModels {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let inner = self.inner.model(name)?;
        Ok(Arc::new(WatchedModel { inner, marks: Arc::clone(&self.marks) }))
    }
}

struct WatchedModel {
    inner: Arc<dyn Model>,
    marks: Arc<Marks>,
}

impl Model for WatchedModel {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        self.marks.add(Point::Asked);
        let stream = self.inner.stream(request);
        self.marks.add(Point::Encoded);
        stream
    }
}

impl Store for Watched {
    fn accept(
        &self,
        what: Accept,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<Accepted, StoreError>> {
        Box::pin(async move {
            self.marks.add(Point::AcceptAsked);
            let accepted = self.inner.accept(what, request).await;
            self.marks.add(Point::Accepted);
            accepted
        })
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

    fn wake(
        &self,
        agent: AgentId,
        now: Timestamp,
        known: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<Activation>, StoreError>> {
        Box::pin(async move {
            self.marks.add(Point::WakeAsked);
            let activation = self.inner.wake(agent, now, known).await;
            self.marks.add(Point::Woken);
            activation
        })
    }

    fn commit(
        &self,
        lease: Lease,
        changes: Changes,
    ) -> BoxFuture<'_, Result<(CommitOutcome, Notifications), StoreError>> {
        Box::pin(async move {
            if self.refuses.load(Ordering::SeqCst) {
                return Err(StoreError::Full("on purpose".to_owned()));
            }
            let kind = changes.kind;
            if kind == CommitKind::Open {
                // The sender lives as long as this store: the wait ends by the value alone.
                let _ = self.held.subscribe().wait_for(|held| !held).await;
            }
            let outcome = self.inner.commit(lease, changes).await;
            self.marks.add(Point::Committed(kind));
            outcome
        })
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
        self.inner.fire_due(now, limit)
    }
}
