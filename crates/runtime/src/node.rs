//! The handle that doors hold on a running node.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::changes::Echo;
use agent::id::{AgentId, CallId};
use agent::port::Waken;
use agent::update::{Topic, Update};
use tokio::sync::mpsc;

use crate::live::Live;

/// A hint to the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Something became due for the agent.
    Due(Waken),
    /// Something about the agent changed (cancel, suspend): look again now.
    Look(AgentId),
    /// An operator's word: whatever the agent rests for is to be tried now.
    Resume(AgentId),
    /// The call was answered from outside: whoever runs it need not go on.
    Over(CallId),
}

/// A cheap handle on a running node. Signals are hints: losing one costs time, never truth.
#[derive(Clone)]
pub struct Node {
    signals: mpsc::Sender<Signal>,
    live: Arc<Live>,
    /// Agents that were suspended while they may be awake: no request is made for them any more.
    suspended: Arc<Mutex<HashSet<AgentId>>>,
}

impl Node {
    /// A handle whose signals go to `signals`.
    pub fn new(signals: mpsc::Sender<Signal>, live: Arc<Live>) -> Self {
        Self { signals, live, suspended: Arc::default() }
    }

    /// Tells the keeper whom an accept made due. Never waits.
    pub fn signal(&self, wake: &[Waken]) {
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

    /// The agent was suspended or retired, durably. Once this returns no request to a model begins for it,
    /// until it is resumed. Never waits.
    pub fn suspend(&self, agent: AgentId) {
        self.suspended().insert(agent);
        self.look(agent);
    }

    /// Whether no request may begin for the agent, which is awake.
    pub(crate) fn is_suspended(&self, agent: AgentId) -> bool {
        self.suspended().contains(&agent)
    }

    /// The agent is not awake any more: whoever wakes it next reads for itself how it stands.
    pub(crate) fn over(&self, agent: AgentId) {
        self.suspended().remove(&agent);
    }

    /// Tells the keeper to look at an agent again (cancel). Never waits.
    pub fn look(&self, agent: AgentId) {
        if !failpoint::on!("signals-lost") {
            let _ = self.signals.try_send(Signal::Look(agent));
        }
    }

    /// Tells what a call that was answered from outside caused: watchers, whoever has something to do now,
    /// and whoever still runs it. Never waits.
    pub fn answered(&self, agent: AgentId, call: CallId, echo: Echo) {
        self.tell(echo);
        let _ = self.signals.try_send(Signal::Over(call));
        self.look(agent);
    }

    /// Tells watchers and sleepers what an answer caused.
    pub(crate) fn tell(&self, echo: Echo) {
        for message in echo.said {
            let space = Topic::Space(message.space);
            self.live.bus().publish(&[space], Arc::new(Update::Message { message }));
        }
        self.signal(&echo.wake);
    }

    fn suspended(&self) -> MutexGuard<'_, HashSet<AgentId>> {
        self.suspended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is live on this node.
    pub fn live(&self) -> &Live {
        &self.live
    }
}
