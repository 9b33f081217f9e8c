//! A store and models that record when calls pass them, for the stages of an activation. The store can also
//! hold back opening commits, to prove that no request waits for them, and refuse commits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use agent::changes::{Changes, CommitKind, CommitOutcome, News, Notifications};
use agent::id::AgentId;
use agent::life::{Activation, Lease};
use agent::port::{
    Accept, Accepted, BoxFuture, BoxStream, Due, DueFired, Model, ModelError, ModelInfo, ModelRequest,
    Models, NextDue, Piece, RequestKey, Store, StoreError, Wakeup,
};
use jiff::Timestamp;
use storage::sqlite::Sqlite;
use tokio::sync::watch;

use crate::measure::process_cpu_us;

/// A recorded point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The measurement began.
    Began,
    /// An accept was requested.
    AcceptAsked,
    /// The accept is durable.
    Accepted,
    /// Reading an activation was requested.
    WakeAsked,
    /// The activation was read.
    Woken,
    /// The model was asked.
    Asked,
    /// The request was encoded.
    Encoded,
    /// A commit of this kind is done.
    Committed(CommitKind),
    /// The request arrived at the model.
    Arrived,
}

/// When a point was passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// The point.
    pub(crate) point: Point,
    /// The time.
    pub(crate) at: Instant,
    /// CPU time of the process so far, in microseconds. Reading it is a system call, which would disturb the
    /// timing of a wake, so it is read only at commits.
    pub(crate) cpu_us: Option<f64>,
}

/// The recorded marks, in order.
#[derive(Default)]
pub(crate) struct Marks(Mutex<Vec<Mark>>);

impl Marks {
    /// The marks since the last call.
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

/// The recording store.
pub(crate) struct Watched {
    inner: Sqlite,
    marks: Arc<Marks>,
    /// Whether opening commits wait.
    held: watch::Sender<bool>,
    /// Whether commits are refused.
    refuses: AtomicBool,
    /// When due plans were fired, and the agents that this made due.
    fired: Mutex<Vec<(Timestamp, Vec<Wakeup>)>>,
}

impl Watched {
    /// Watches `inner`.
    pub(crate) fn new(inner: Sqlite, marks: Arc<Marks>) -> Self {
        Self {
            inner,
            marks,
            held: watch::Sender::new(false),
            refuses: AtomicBool::new(false),
            fired: Mutex::default(),
        }
    }

    /// Holds back opening commits, or lets them continue.
    pub(crate) fn hold_openings(&self, hold: bool) {
        self.held.send_replace(hold);
    }

    /// When due plans were fired since the last call, and the agents that this made due.
    pub(crate) fn take_fired(&self) -> Vec<(Timestamp, Vec<Wakeup>)> {
        std::mem::take(&mut self.fired())
    }

    fn fired(&self) -> MutexGuard<'_, Vec<(Timestamp, Vec<Wakeup>)>> {
        self.fired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses every commit, as on a full disk, or accepts them again.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.refuses.store(refuse, Ordering::SeqCst);
    }
}

/// The recording models.
pub(crate) struct WatchedModels {
    /// The models themselves.
    pub(crate) inner: Arc<dyn Models>,
    /// The recorded marks.
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

    fn next_due(&self, now: Timestamp) -> BoxFuture<'_, Result<NextDue, StoreError>> {
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
                // The sender exists as long as this store, so the wait ends only when the value changes.
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

    fn panicked(&self, agent: AgentId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.panicked(agent)
    }

    fn fire_due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<DueFired, StoreError>> {
        Box::pin(async move {
            let fired = self.inner.fire_due(now, limit).await?;
            self.fired().push((Timestamp::now(), fired.wake.clone()));
            Ok(fired)
        })
    }
}
