//! Calls that outlive their cycle: asynchronous ones, and those that timed out. Each runs until it ends or reaches
//! its limit, and its outcome becomes an event of its agent.
//!
//! The calls are durable in their rows; this module only knows which of them run here. After a crash the sweep
//! starts those again that nobody runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use agent::call::{CallRow, Outcome, OutcomeStatus, Recovery, Runner, head_and_tail, recover};
use agent::cycle::Span;
use agent::id::CallId;
use agent::limits;
use agent::port::{CallError, Finish, FinishedCall, StoreError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use crate::Ports;
use crate::failure;
use crate::node::Node;
use crate::tool_runner::{CallContext, OutwardCall};

/// The detached calls that run on this node. Dropping it aborts them.
pub(crate) struct DetachedCalls {
    ports: Ports,
    node: Node,
    running: Mutex<HashMap<CallId, RunningDetached>>,
    /// Limits how many run here at once.
    slots: Arc<Semaphore>,
    /// Limits how many wait here for workers and people at once.
    outside: Arc<Semaphore>,
    /// Notified whenever a call ends.
    ended: Notify,
}

struct RunningDetached {
    context: CallContext,
    row: CallRow,
    /// Normally dropped by the task itself at its end, when nothing is left to abort.
    _task: AbortOnDropHandle<()>,
}

impl DetachedCalls {
    /// No calls yet.
    pub(crate) fn new(ports: Ports, node: Node) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(limits::DETACHED_PER_NODE));
        let outside = Arc::new(Semaphore::new(ports.bounds.detached_outside));
        Arc::new(Self { ports, node, running: Mutex::default(), slots, outside, ended: Notify::new() })
    }

    /// Room for the call, if there is.
    pub(crate) fn room(&self, row: &CallRow) -> Option<OwnedSemaphorePermit> {
        let slots = match row.runner {
            Runner::Node => &self.slots,
            Runner::Worker | Runner::Person => &self.outside,
        };
        Arc::clone(slots).try_acquire_owned().ok()
    }

    /// Begins a call as soon as a slot is free. One that others run, and for which there is no room, is begun by a later sweep.
    /// One that runs already (its cycle was resumed) is left alone.
    pub(crate) fn start(self: &Arc<Self>, context: &CallContext, row: CallRow, step: tracing::Span) {
        let (slots, call_context, call) = (Arc::clone(&self.slots), context.clone(), row.clone());
        let limit = context.detached_timeout(&row);
        let room = match row.runner {
            Runner::Node => None,
            Runner::Worker | Runner::Person => {
                let Some(room) = self.room(&row) else { return };
                Some(room)
            }
        };
        self.run(context.clone(), row, async move {
            let slot = match room {
                Some(room) => Some(room),
                None => slots.acquire_owned().await.ok(),
            };
            let ended = bounded(OutwardCall::begin(&call_context, call, &step), limit).await;
            drop(slot);
            ended
        });
    }

    /// Lets a call run on that exceeded its time-out.
    pub(crate) fn adopt(self: &Arc<Self>, work: OutwardCall, slot: OwnedSemaphorePermit) {
        let (context, row) = (work.context.clone(), work.row.clone());
        context.publish_done(&row, OutcomeStatus::Pending, "", work.span());
        self.run(context, row, async move {
            let ended = bounded(work, Duration::from_millis(limits::LATE_MS)).await;
            drop(slot);
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
        let (this, call_context, call) = (Arc::downgrade(self), context.clone(), row.clone());
        let task = tokio::spawn(async move {
            let (outcome, span) = work.await;
            call_context.publish_done(&call, outcome.status, &outcome.text, span);
            deliver(&this, &call, outcome).await;
            if let Some(this) = this.upgrade() {
                let ended = this.lock().remove(&call.id);
                this.ended.notify_waiters();
                drop(this);
                drop(ended);
            }
        });
        running.insert(row.id.clone(), RunningDetached { context, row, _task: AbortOnDropHandle::new(task) });
    }

    /// Aborts a call that was answered from outside.
    pub(crate) fn drop_call(&self, call: &CallId) {
        let Some(gone) = self.lock().remove(call) else { return };
        let now = self.ports.clock.now();
        gone.context.publish_done(&gone.row, OutcomeStatus::Canceled, "", Span { at: now, ms: 0 });
        self.ended.notify_waiters();
    }

    /// Waits until no call runs here. Those that workers run go on beside the next process.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.lock().values().all(|call| call.row.runner == Runner::Worker) {
                return;
            }
            ended.await;
        }
    }

    /// Aborts all calls; the next start finds their rows.
    pub(crate) fn abort_all(&self) {
        self.lock().clear();
    }

    /// Starts detached calls after `after` that nobody runs, because their process is gone or a person has only now approved
    /// them. If there are more,
    /// returns the last one, to continue after it.
    pub(crate) async fn take_up(
        self: &Arc<Self>,
        after: Option<CallId>,
    ) -> Result<Option<CallId>, StoreError> {
        let found = self.ports.calls.detached(after, limits::DETACHED_BATCH).await?;
        let more = found.len() == limits::DETACHED_BATCH as usize;
        let last = found.last().map(|detached| detached.row.id.clone()).filter(|_| more);
        for detached in found {
            // A call that runs here is in `running` before its row is detached, and until after its row is closed.
            if self.lock().contains_key(&detached.row.id) {
                continue;
            }
            if detached.row.runner == Runner::Worker {
                // Only a worker runs it; its claim, if it has one, holds.
                let context = CallContext::resumed(&detached, &self.ports, &self.node);
                self.start(&context, detached.row, tracing::Span::none());
                continue;
            }
            let times = match self.ports.calls.take_up(detached.row.id.clone()).await {
                Ok(Some(times)) => times,
                Ok(None) | Err(CallError::Unknown(_)) => continue,
                Err(CallError::Store(error)) => return Err(error),
            };
            tracing::info!(agent = self.ports.live.name(detached.agent), call = %detached.row.id, times, "running a call without its cycle");
            let context = CallContext::resumed(&detached, &self.ports, &self.node);
            match recover(&detached.row, times) {
                Recovery::RunAgain => self.start(&context, detached.row, tracing::Span::none()),
                Recovery::Finish(outcome) => {
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

/// Waits for the end of a call, at most for `limit`.
async fn bounded(mut work: OutwardCall, limit: Duration) -> (Outcome, Span) {
    let clock = Arc::clone(work.context.clock());
    tokio::select! {
        biased;
        ended = work.finish() => ended,
        () = clock.sleep(limit) => {
            let outcome = match work.row.runner {
                // The store knows whether that is so.
                Runner::Worker => Outcome::not_claimed(limit.as_millis()),
                Runner::Node | Runner::Person => Outcome::given_up(work.row.effect, Runner::Node, limit.as_millis()),
            };
            (outcome, work.span())
        }
    }
}

/// Stores the outcome, unless the call has one already, and signals its agent. A call whose outcome cannot be stored
/// stays detached, and is resumed by the sweep.
async fn deliver(detached: &Weak<DetachedCalls>, row: &CallRow, mut outcome: Outcome) {
    outcome.text = head_and_tail(&outcome.text, limits::LATE_OUTCOME_MAX_BYTES);
    let mut attempt = 1;
    let if_claimed = (row.runner == Runner::Worker).then(Outcome::abandoned);
    loop {
        let Some(this) = detached.upgrade() else { return };
        let answer = FinishedCall {
            id: row.id.clone(),
            outcome: outcome.clone(),
            at: this.ports.clock.now(),
            claim: None,
            if_claimed: if_claimed.clone(),
        };
        let error = match this.ports.calls.finish(answer).await {
            Ok(Finish::Late(agent, notifications) | Finish::Awaited(agent, notifications)) => {
                this.node.notify(notifications);
                return this.node.recheck(agent);
            }
            Ok(Finish::Already | Finish::NotClaimed) | Err(CallError::Unknown(_)) => return,
            Err(CallError::Store(error)) => error,
        };
        // What is wrong with the store now may be right later: the outcome is kept until then.
        let later = match &error {
            StoreError::Full(_) | StoreError::Busy(_) | StoreError::Bug(_) => {
                Some(Duration::from_millis(limits::SWEEP_MS))
            }
            StoreError::Damaged(_) | StoreError::Closed | StoreError::Broken(_) => None,
        };
        let Some(pause) = failure::retry_store(&error, attempt, &*this.ports.ids).or(later) else {
            return tracing::error!(call = %row.id, %error, "cannot store the outcome of a call");
        };
        let sleep = this.ports.clock.sleep(pause);
        drop(this);
        sleep.await;
        attempt += 1;
    }
}
