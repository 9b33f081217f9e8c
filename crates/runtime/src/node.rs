//! The handle through which the API uses a running node.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::changes::Notifications;
use agent::id::{AgentId, CallId};
use agent::port::Wakeup;
use agent::update::{Topic, Update};
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc};

use crate::live::Live;

/// A hint to the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Something became due for the agent.
    Due(Wakeup),
    /// Something about the agent changed (cancel, suspend): check it again now.
    Recheck(AgentId),
    /// An operator resumed the agent: it retries now, even if it is backing off.
    Resume(AgentId),
    /// The call was answered from outside: the task that runs it can stop.
    Answered(CallId),
    /// A plan was set that fires at this time.
    Planned(Timestamp),
    /// A person has approved a call: if its cycle went on, it runs without it.
    Granted,
}

/// A cheap handle on a running node. Signals are hints: a lost one costs time, never correctness.
#[derive(Clone)]
pub struct Node {
    signals: mpsc::Sender<Signal>,
    live: Arc<Live>,
    requests: Arc<Requests>,
}

/// Which agents may send no request to a model, and which have one pending.
#[derive(Default)]
struct Requests {
    state: Mutex<RequestState>,
    /// A request was answered or dropped.
    changed: Notify,
}

#[derive(Default)]
struct RequestState {
    /// Agents that were suspended and may still be awake.
    suspended: HashSet<AgentId>,
    /// Agents with a request of whose answer nothing has arrived yet.
    pending: HashSet<AgentId>,
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, RequestState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request of whose answer nothing has arrived. Dropped with the first piece of the answer, or with the request.
pub(crate) struct PendingRequest {
    requests: Arc<Requests>,
    agent: AgentId,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.requests.lock().pending.remove(&self.agent);
        self.requests.changed.notify_waiters();
    }
}

impl Node {
    /// A handle whose signals go to `signals`.
    pub fn new(signals: mpsc::Sender<Signal>, live: Arc<Live>) -> Self {
        Self { signals, live, requests: Arc::default() }
    }

    /// Signals the keeper which agents an accept made due. Never waits.
    pub fn signal(&self, wake: &[Wakeup]) {
        if failpoint::on!("signals-lost") {
            return;
        }
        for wakeup in wake {
            // A full channel means that the keeper is busy; its sweep finds the work by index.
            let _ = self.signals.try_send(Signal::Due(*wakeup));
        }
    }

    /// Signals the keeper that a plan was set, with its next slot. Never waits.
    pub fn planned(&self, at: Option<Timestamp>) {
        if let Some(at) = at.filter(|_| !failpoint::on!("signals-lost")) {
            let _ = self.signals.try_send(Signal::Planned(at));
        }
    }

    /// Signals the keeper that an operator wants the agent to try now, even if its provider's breaker is open.
    /// Never waits.
    pub fn resume(&self, agent: AgentId) {
        self.activation_ended(agent);
        self.retry(agent);
    }

    /// Signals the keeper that the agent's problem may be fixed: it tries now, unless it is suspended or retired.
    /// Never waits.
    pub fn retry(&self, agent: AgentId) {
        if !failpoint::on!("signals-lost") {
            let _ = self.signals.try_send(Signal::Resume(agent));
        }
    }

    /// The agent was suspended or retired, durably: no request to a model begins for it until it is resumed, and
    /// a pending one is dropped. Never waits; [`Node::no_pending_request`] does.
    pub fn suspend(&self, agent: AgentId) {
        self.requests.lock().suspended.insert(agent);
        self.recheck(agent);
    }

    /// Waits until the agent has no pending request: none of whose answer nothing has arrived.
    pub async fn no_pending_request(&self, agent: AgentId) {
        loop {
            let changed = self.requests.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that no change is missed.
            changed.as_mut().enable();
            if !self.requests.lock().pending.contains(&agent) {
                return;
            }
            changed.await;
        }
    }

    /// Registers that a request begins for the agent, which is awake; `None` if none may.
    pub(crate) fn begin(&self, agent: AgentId) -> Option<PendingRequest> {
        let mut state = self.requests.lock();
        if state.suspended.contains(&agent) {
            return None;
        }
        state.pending.insert(agent);
        Some(PendingRequest { requests: Arc::clone(&self.requests), agent })
    }

    /// Whether the agent's work must be dropped: it was suspended and, if the work `asks` a model, nothing of the
    /// answer has arrived.
    pub(crate) fn must_drop_request(&self, agent: AgentId, asks: bool) -> bool {
        let state = self.requests.lock();
        state.suspended.contains(&agent) && (!asks || state.pending.contains(&agent))
    }

    /// The agent is no longer awake: the next activation reads its state for itself.
    pub(crate) fn activation_ended(&self, agent: AgentId) {
        self.requests.lock().suspended.remove(&agent);
    }

    /// Signals the keeper to check an agent again (cancel). Never waits.
    pub fn recheck(&self, agent: AgentId) {
        if !failpoint::on!("signals-lost") {
            let _ = self.signals.try_send(Signal::Recheck(agent));
        }
    }

    /// A call was answered from outside: notifies watchers, the agents that became due, and the task that still
    /// runs the call. Never waits.
    pub fn answered(&self, agent: AgentId, call: CallId, notifications: Notifications) {
        self.notify(notifications);
        let _ = self.signals.try_send(Signal::Answered(call));
        self.recheck(agent);
    }

    /// A person has approved a call: notifies watchers, its agent, and whoever runs calls without their cycle. Never waits.
    pub fn granted(&self, agent: AgentId, notifications: Notifications) {
        self.notify(notifications);
        self.recheck(agent);
        if !failpoint::on!("signals-lost") {
            let _ = self.signals.try_send(Signal::Granted);
        }
    }

    /// Signals the agents that an answer made due, and publishes what it caused to watchers.
    pub fn notify(&self, notifications: Notifications) {
        // First, because nobody waits for the rest.
        self.signal(&notifications.wake);
        for message in notifications.messages {
            let space = Topic::Space(message.space);
            self.live.bus().publish(&[space], Arc::new(Update::Message { message }));
        }
    }

    /// What is happening on this node.
    pub fn live(&self) -> &Live {
        &self.live
    }
}
