//! Calls that go on beyond their cycle: asynchronous ones, and those that timed out. Each runs until it
//! ends or has taken longer than even that may, and its answer becomes an event of its agent.
//!
//! What goes on is durable in the call rows; this is only who runs it now. After a crash the sweep takes
//! up what nobody runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use agent::call::{CallRow, Outcome, OutcomeStatus, TakenUp, taken_up};
use agent::cycle::Span;
use agent::id::CallId;
use agent::limits;
use agent::port::{CallError, Finish, FinishedCall, StoreError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use crate::Ports;
use crate::failure;
use crate::node::Node;
use crate::tool_runner::{CallContext, Work};

/// Who runs what on this node. Dropping it gives everything up.
pub(crate) struct DetachedCalls {
    ports: Ports,
    node: Node,
    running: Mutex<HashMap<CallId, RunningDetached>>,
    /// So many may be at work at once.
    places: Arc<Semaphore>,
    /// Rung whenever a call is over.
    over: Notify,
}

struct RunningDetached {
    context: CallContext,
    row: CallRow,
    /// Dropped last, by the task itself: that gives up nothing any more.
    _task: AbortOnDropHandle<()>,
}

impl DetachedCalls {
    /// Nothing goes on.
    pub(crate) fn new(ports: Ports, node: Node) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(limits::DETACHED_PER_NODE));
        Arc::new(Self { ports, node, running: Mutex::default(), places, over: Notify::new() })
    }

    /// Room for one more, if there is any.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Begins a call that nobody waits for, as soon as there is room. One that is at work already (its cycle
    /// was taken up again) is left alone.
    pub(crate) fn start(self: &Arc<Self>, context: &CallContext, row: CallRow, step: tracing::Span) {
        let (places, there, call) = (Arc::clone(&self.places), context.clone(), row.clone());
        let most = context.most(&row);
        self.run(context.clone(), row, async move {
            let place = places.acquire_owned().await;
            let ended = bounded(Work::begin(&there, call, &step), most).await;
            drop(place);
            ended
        });
    }

    /// Keeps a call at work that has taken longer than its cycle waits.
    pub(crate) fn adopt(self: &Arc<Self>, work: Work, place: OwnedSemaphorePermit) {
        let (context, row) = (work.context.clone(), work.row.clone());
        context.publish_done(&row, OutcomeStatus::Pending, "", work.span());
        self.run(context, row, async move {
            let ended = bounded(work, Duration::from_millis(limits::LATE_MS)).await;
            drop(place);
            ended
        });
    }

    fn run(
        self: &Arc<Self>,
        context: CallContext,
        row: CallRow,
        work: impl Future<Output = (Outcome, Span)> + Send + 'static,
    ) {
        let mut running = self.lock();
        if running.contains_key(&row.id) {
            return;
        }
        let (me, there, call) = (Arc::downgrade(self), context.clone(), row.clone());
        let task = tokio::spawn(async move {
            let (outcome, span) = work.await;
            there.publish_done(&call, outcome.status, &outcome.text, span);
            deliver(&me, &call, outcome).await;
            if let Some(me) = me.upgrade() {
                let ended = me.lock().remove(&call.id);
                me.over.notify_waiters();
                drop(me);
                drop(ended);
            }
        });
        running.insert(row.id.clone(), RunningDetached { context, row, _task: AbortOnDropHandle::new(task) });
    }

    /// Somebody else has answered the call: it need not run any more.
    pub(crate) fn drop_call(&self, call: &CallId) {
        let Some(gone) = self.lock().remove(call) else { return };
        let now = self.ports.clock.now();
        gone.context.publish_done(&gone.row, OutcomeStatus::Canceled, "", Span { at: now, ms: 0 });
        self.over.notify_waiters();
    }

    /// Waits until nothing goes on.
    pub(crate) async fn idle(&self) {
        loop {
            let over = self.over.notified();
            tokio::pin!(over);
            over.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            over.await;
        }
    }

    /// Gives everything up; the rows tell the next start.
    pub(crate) fn let_go(&self) {
        self.lock().clear();
    }

    /// Takes up detached calls behind `after` that nobody runs, since whoever ran them is gone. Where there
    /// are more, behind which to go on.
    pub(crate) async fn take_up(
        self: &Arc<Self>,
        after: Option<CallId>,
    ) -> Result<Option<CallId>, StoreError> {
        let found = self.ports.calls.detached(after, limits::DETACHED_BATCH).await?;
        let more = found.len() == limits::DETACHED_BATCH as usize;
        let last = found.last().map(|detached| detached.row.id.clone()).filter(|_| more);
        for detached in found {
            // What runs here was known here before its row said so, until after its row said it was over.
            if self.lock().contains_key(&detached.row.id) {
                continue;
            }
            let times = match self.ports.calls.take_up(detached.row.id.clone()).await {
                Ok(Some(times)) => times,
                Ok(None) | Err(CallError::Unknown(_)) => continue,
                Err(CallError::Store(error)) => return Err(error),
            };
            tracing::info!(agent = %detached.agent, call = %detached.row.id, times, "a call that nobody runs is taken up");
            let context = CallContext::again(&detached, &self.ports);
            match taken_up(&detached.row, times) {
                TakenUp::Again => self.start(&context, detached.row, tracing::Span::none()),
                TakenUp::Over(outcome) => {
                    let span = Span { at: self.ports.clock.now(), ms: 0 };
                    self.run(context, detached.row, async move { (outcome, span) });
                }
            }
        }
        Ok(last)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, RunningDetached>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the end of a call, but not for ever.
async fn bounded(mut work: Work, most: Duration) -> (Outcome, Span) {
    let clock = Arc::clone(work.context.clock());
    tokio::select! {
        biased;
        ended = work.ended() => ended,
        () = clock.sleep(most) => (Outcome::given_up(work.row.effect, most.as_millis()), work.span()),
    }
}

/// Writes the answer down, where nobody was first, and tells of it. What cannot be written stays detached,
/// and is taken up again.
async fn deliver(detached: &Weak<DetachedCalls>, row: &CallRow, outcome: Outcome) {
    let mut attempt = 1;
    loop {
        let Some(me) = detached.upgrade() else { return };
        let answer = FinishedCall { id: row.id.clone(), outcome: outcome.clone(), at: me.ports.clock.now() };
        let error = match me.ports.calls.finish(answer).await {
            Ok(Finish::Late(agent, echo) | Finish::Awaited(agent, echo)) => {
                me.node.notify(echo);
                return me.node.look(agent);
            }
            Ok(Finish::Already) | Err(CallError::Unknown(_)) => return,
            Err(CallError::Store(error)) => error,
        };
        let pause = match &error {
            // Known once, an answer is not forgotten because there is no room for it just now.
            StoreError::Full(_) => Some(Duration::from_millis(limits::SWEEP_MS)),
            error => failure::retry_store(error, attempt, &*me.ports.ids),
        };
        let Some(pause) = pause else {
            return tracing::error!(call = %row.id, %error, "the answer of a call could not be written");
        };
        let sleep = me.ports.clock.sleep(pause);
        drop(me);
        sleep.await;
        attempt += 1;
    }
}
