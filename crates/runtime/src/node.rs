//! The handle that doors hold on a running node.

use std::sync::Arc;

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
}

impl Node {
    /// A handle whose signals go to `signals`.
    pub fn new(signals: mpsc::Sender<Signal>, live: Arc<Live>) -> Self {
        Self { signals, live }
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
        if !failpoint::on!("signals-lost") {
            let _ = self.signals.try_send(Signal::Resume(agent));
        }
    }

    /// Tells the keeper to look at an agent again (cancel, suspend). Never waits.
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

    /// What is live on this node.
    pub fn live(&self) -> &Live {
        &self.live
    }
}
