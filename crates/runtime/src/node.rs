//! The handle through which the API uses a running node.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::changes::Notifications;
use agent::id::{AgentId, CallId};
use agent::port::Wakeup;
use agent::update::{Topic, Update};
use tokio::sync::{Notify, mpsc};

use crate::live::Live;

/// A hint to the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Something became due for the agent.
    Due(Wakeup),
    /// Something about the agent changed (cancel, suspend): look again now.
    Look(AgentId),
    /// An operator resumed the agent: it retries now, whatever it is idle for.
    Resume(AgentId),
    /// The call was answered from outside: the task that runs it can stop.
    Over(CallId),
}

/// A cheap handle on a running node. Signals are hints: losing one costs time, never truth.
#[derive(Clone)]
pub struct Node {
    signals: mpsc::Sender<Signal>,
    live: Arc<Live>,
    requests: Arc<Requests>,
}

/// Which agents may begin no request to a model, and which have one under way.
#[derive(Default)]
struct Requests {
    state: Mutex<Begun>,
    /// A request was answered or dropped.
    changed: Notify,
}

#[derive(Default)]
struct Begun {
    /// Agents that were suspended while they may be awake.
    suspended: HashSet<AgentId>,
    /// Agents with a request under way that nothing has come back of yet.
    unanswered: HashSet<AgentId>,
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, Begun> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that nothing has come back of. Dropped with the first piece of the answer, or with the request.
pub(crate) struct Unanswered {
    requests: Arc<Requests>,
    agent: AgentId,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.requests.lock().unanswered.remove(&self.agent);
        self.requests.changed.notify_waiters();
    }
}

impl Node {
    /// A handle whose signals go to `signals`.
    pub fn new(signals: mpsc::Sender<Signal>, live: Arc<Live>) -> Self {
        Self { signals, live, requests: Arc::default() }
    }

    /// Tells the keeper whom an accept made due. Never waits.
    pub fn signal(&self, wake: &[Wakeup]) {
        if failpoint::on!("signals-lost") {
            return;
        }
        for waken in wake {
            // A full channel means that the keeper is busy; its sweep finds the work by index.
            let _ = self.signals.try_send(Signal::Due(*waken));
        }
    }

    /// Tells the keeper that an operator wants the agent to try now, also where nobody asks its provider for
    /// a while. Never waits.
    pub fn resume(&self, agent: AgentId) {
        self.over(agent);
        self.reconsider(agent);
    }

    /// Tells the keeper that what kept the agent from its work may be mended: it tries now, where it may live.
    /// Never waits.
    pub fn reconsider(&self, agent: AgentId) {
        if !failpoint::on!("signals-lost") {
            let _ = self.signals.try_send(Signal::Resume(agent));
        }
    }

    /// The agent was suspended or retired, durably: no request to a model begins for it until it is resumed, and
    /// one that nothing has come back of is dropped. Never waits; [`Node::asks_nothing`] does.
    pub fn suspend(&self, agent: AgentId) {
        self.requests.lock().suspended.insert(agent);
        self.look(agent);
    }

    /// Waits until no request is under way for the agent that nothing has come back of.
    pub async fn asks_nothing(&self, agent: AgentId) {
        loop {
            let changed = self.requests.changed.notified();
            tokio::pin!(changed);
            // Registered before the look: a change right behind it is not missed.
            changed.as_mut().enable();
            if !self.requests.lock().unanswered.contains(&agent) {
                return;
            }
            changed.await;
        }
    }

    /// Notes that a request begins for the agent, which is awake; `None` where none may.
    pub(crate) fn begin(&self, agent: AgentId) -> Option<Unanswered> {
        let mut state = self.requests.lock();
        if state.suspended.contains(&agent) {
            return None;
        }
        state.unanswered.insert(agent);
        Some(Unanswered { requests: Arc::clone(&self.requests), agent })
    }

    /// Whether the agent was suspended and nothing has come back of what it asks, if it asks.
    pub(crate) fn is_to_be_dropped(&self, agent: AgentId, asks: bool) -> bool {
        let state = self.requests.lock();
        state.suspended.contains(&agent) && (!asks || state.unanswered.contains(&agent))
    }

    /// The agent is no longer awake: the next activation reads its state for itself.
    pub(crate) fn over(&self, agent: AgentId) {
        self.requests.lock().suspended.remove(&agent);
    }

    /// Tells the keeper to look at an agent again (cancel). Never waits.
    pub fn look(&self, agent: AgentId) {
        if !failpoint::on!("signals-lost") {
            let _ = self.signals.try_send(Signal::Look(agent));
        }
    }

    /// Tells what a call that was answered from outside caused: watchers, whoever has something to do now,
    /// and whoever still runs it. Never waits.
    pub fn answered(&self, agent: AgentId, call: CallId, echo: Notifications) {
        self.notify(echo);
        let _ = self.signals.try_send(Signal::Over(call));
        self.look(agent);
    }

    /// Tells watchers and sleepers what an answer caused.
    pub(crate) fn notify(&self, echo: Notifications) {
        for message in echo.messages {
            let space = Topic::Space(message.space);
            self.live.bus().publish(&[space], Arc::new(Update::Message { message }));
        }
        self.signal(&echo.wake);
    }

    /// What is happening on this node.
    pub fn live(&self) -> &Live {
        &self.live
    }
}
