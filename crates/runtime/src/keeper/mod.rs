//! The keeper: one per node. Sees everything that can wake the node, and nothing else does.
//!
//! Nobody is spawned at start: work is found by index, and an agent that sleeps costs no task, no
//! connection and no memory (invariant 10). Signals are hints; the sweep finds what they missed.

mod alarms;
mod ended;
mod suspects;
mod sweep;
mod turns;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent::cycle::ActivationEnd;
use agent::id::{AgentId, CallId};
use agent::limits;
use agent::port::{Due, StoreError, Wakeup};
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::Ports;
use crate::activation::{Activated, NodeContext, Unwritten, live};
use crate::answered::Answered;
use crate::breaker::Breakers;
use crate::detached_calls::DetachedCalls;
use crate::health::Health;
use crate::node::{Node, Signal};
use crate::permits::Permits;
use crate::turn::{Turn, Watch};
use crate::waits::Wait;
use crate::warm::Warm;
use alarms::Alarms;
use turns::Turns;

/// Everything that can wake the node.
enum Event {
    Signal(Signal),
    Tick,
    /// The store takes commits again.
    StoreWorks,
    /// Somebody is called for a permit, or takes no place any more.
    Stirred,
    /// A suspect has shown that it was not the cause.
    Cleared(AgentId),
    Finished(AgentId, Result<Activated, Unwritten>),
    Broke(tokio::task::Id, JoinError),
    Stop,
}

/// What came of an activation: whose, and how it went.
type Finished = (AgentId, Result<Activated, Unwritten>);

struct Awake {
    task: AbortHandle,
    recheck: Arc<Notify>,
    /// A signal arrived meanwhile: look again when the activation ends.
    again: bool,
}

/// The running keeper of a node.
pub struct Keeper {
    node: Node,
    stopping: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// Starts the keeper of a node.
pub fn start(ports: Ports) -> Keeper {
    let (sender, signals) = mpsc::channel(limits::SIGNALS_MAX);
    let node = Node::new(sender, Arc::clone(&ports.live));
    let stopping = CancellationToken::new();
    let breakers = Breakers::new(Arc::clone(&ports.clock), Arc::clone(&ports.ids));
    let detached = DetachedCalls::new(ports.clone(), node.clone());
    let permits = Arc::new(Permits::new(ports.bounds.requests_per_provider));
    let node_context = Arc::new(NodeContext {
        ports,
        breakers,
        answered: Answered::default(),
        detached,
        node: node.clone(),
        warm: Warm::new(limits::WARM_MAX_BYTES),
        health: Arc::new(Health::default()),
        permits,
        stopping: stopping.clone(),
    });
    let (clear, cleared) = mpsc::channel(2 * limits::SUSPECTS_AT_ONCE);
    let keeping = Keeping {
        lead: node_context.ports.clock.lead(),
        node_context,
        signals,
        awake: HashMap::new(),
        tasks: JoinSet::new(),
        turns: Turns::default(),
        cleared,
        clear,
        found_to: None,
        alarms: Alarms::default(),
        next_sweep: 0,
        taken_up: None,
    };
    let task = tokio::spawn(keeping.run());
    Keeper { node, stopping, task }
}

impl Keeper {
    /// The handle for the API.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Stops: steps in progress are finished or parked within [`limits::DRAIN_MS`], then dropped; what
    /// was dropped resumes from its last commit at the next start.
    pub async fn stop(self) {
        self.stopping.cancel();
        // The keeper's task only ends by itself; a panic in it is a programmer's error that must
        // not keep the process from closing its store.
        let _ = self.task.await;
    }

    /// Ends at once, as a crash would: nothing is parked.
    pub fn kill(self) {
        self.task.abort();
    }
}

/// One activation. An agent of which a record cannot be read is quarantined and asks for nothing any more; all
/// others live on.
async fn lived(
    node_context: &NodeContext,
    turn: Turn,
    watch: Option<Watch>,
    recheck: &Notify,
) -> Result<Activated, Unwritten> {
    let agent = turn.agent;
    let why = match live(node_context, turn, watch, recheck).await {
        Err(Unwritten { error: StoreError::Damaged(why), .. }) => why,
        lived => return lived,
    };
    tracing::error!(%agent, why, "a record cannot be read: the agent is quarantined");
    node_context.ports.store.quarantine(agent, why.clone()).await?;
    node_context.ports.live.idle(agent, Some(why));
    Ok(Activated::Ended(ActivationEnd::Idle))
}

struct Keeping {
    node_context: Arc<NodeContext>,
    signals: mpsc::Receiver<Signal>,
    awake: HashMap<AgentId, Awake>,
    tasks: JoinSet<Finished>,
    /// Due, and not awake yet.
    turns: Turns,
    /// Who of the suspects has shown that it was not the cause.
    cleared: mpsc::Receiver<AgentId>,
    clear: mpsc::Sender<AgentId>,
    /// Behind whom the look for due work goes on; begins again where it is `None`.
    found_to: Option<Due>,
    alarms: Alarms,
    /// Monotonic time of the next look for due work.
    next_sweep: u64,
    /// How far the wall clock was ahead of the monotonic one at most, since it was set back last.
    lead: i64,
    /// Behind which call the next look for calls that nobody runs goes on.
    taken_up: Option<CallId>,
}

impl Keeping {
    async fn run(mut self) {
        loop {
            let event = self.next_event().await;
            self.look_at_clock();
            match event {
                Event::Signal(Signal::Due(waken)) => self.signalled(waken),
                Event::Signal(Signal::Look(agent)) => self.look(agent),
                Event::Signal(Signal::Resume(agent)) => {
                    self.node_context.breakers.grant(agent);
                    // A suspect goes on when its turn comes, which is now.
                    if self.turns.hurry(agent) { self.admit() } else { self.look(agent) }
                }
                Event::Signal(Signal::Over(call)) => self.node_context.detached.drop_call(&call),
                Event::Tick => self.tick().await,
                Event::StoreWorks => {
                    self.node_context.ports.live.store_refuses(None);
                    self.turns.store_works();
                    self.admit();
                }
                Event::Stirred => {
                    self.node_context.permits.called().into_iter().for_each(|agent| self.call(agent));
                    self.admit();
                }
                Event::Cleared(agent) => {
                    self.turns.cleared(agent);
                    self.admit();
                }
                Event::Finished(agent, result) => {
                    self.finished(agent, result);
                    self.refill().await;
                }
                Event::Broke(task, error) => {
                    self.broke(task, &error);
                    self.refill().await;
                }
                Event::Stop => return self.drain().await,
            }
        }
    }

    async fn next_event(&mut self) -> Event {
        let pause = self.pause();
        let stopping = self.node_context.stopping.clone();
        let sleep = self.node_context.ports.clock.sleep(pause);
        let node_context = Arc::clone(&self.node_context);
        tokio::select! {
            biased;
            () = stopping.cancelled() => Event::Stop,
            Some(ended) = self.tasks.join_next_with_id() => match ended {
                Ok((_, (agent, result))) => Event::Finished(agent, result),
                Err(error) => Event::Broke(error.id(), error),
            },
            () = node_context.health.works() => Event::StoreWorks,
            () = node_context.permits.stirred() => Event::Stirred,
            Some(agent) = self.cleared.recv() => Event::Cleared(agent),
            Some(signal) = self.signals.recv() => Event::Signal(signal),
            () = sleep => Event::Tick,
        }
    }

    /// Until the next alarm, turn or sweep.
    fn pause(&self) -> Duration {
        let next = [self.alarms.next(), self.turns.next_at()].into_iter().flatten().min();
        let next = next.map_or(self.next_sweep, |next| next.min(self.next_sweep));
        Duration::from_millis(next.saturating_sub(self.clock_ms()))
    }

    /// The clock that never jumps.
    fn clock_ms(&self) -> u64 {
        self.node_context.ports.clock.monotonic_ms()
    }

    /// Something was accepted for an agent. What is urgent breaks into the open cycle, whatever keeps
    /// the agent back otherwise.
    fn signalled(&mut self, waken: Wakeup) {
        failpoint::hit!("accept.signalled");
        let Wakeup { agent, at, urgent } = waken;
        match self.awake.get(&agent) {
            Some(awake) if urgent => awake.recheck.notify_one(),
            _ => {}
        }
        self.due(agent, at);
    }

    fn due(&mut self, agent: AgentId, at: Timestamp) {
        if self.turns.rests(agent, self.clock_ms()) || self.node_context.permits.waits(agent) {
            return;
        }
        match self.ahead(at) {
            0 => self.activate(agent),
            ahead => self.alarms.set(agent, self.clock_ms() + ahead),
        }
    }

    /// Milliseconds until then.
    fn ahead(&self, at: Timestamp) -> u64 {
        let now = self.node_context.ports.clock.now().as_millisecond();
        u64::try_from(at.as_millisecond() - now).unwrap_or(0)
    }

    /// Something about an agent changed: tell its activation, or see whether there is one to begin.
    fn look(&mut self, agent: AgentId) {
        match self.awake.get_mut(&agent) {
            Some(awake) => {
                awake.again = true;
                awake.recheck.notify_one();
            }
            None => {
                self.turns.reconsider(agent);
                self.activate(agent);
            }
        }
    }

    fn activate(&mut self, agent: AgentId) {
        if let Some(awake) = self.awake.get_mut(&agent) {
            awake.again = true;
            return;
        }
        self.turns.join(agent, self.clock_ms());
        self.admit();
        self.publish_queued(agent);
    }

    /// Whoever stands in line waits for a place, or for the store, as all do while it refuses.
    fn publish_queued(&self, agent: AgentId) {
        if self.turns.in_line(agent) {
            self.node_context.ports.live.wait(agent, Wait::Place(self.node_context.ports.bounds.awake));
        }
    }

    /// The agent has got what it waited for.
    fn call(&mut self, agent: AgentId) {
        match self.awake.get_mut(&agent) {
            Some(awake) => awake.again = true,
            None => self.turns.call(agent),
        }
    }

    /// Wakes those whose turn it is, as many as may be awake.
    fn admit(&mut self) {
        loop {
            let bound = self.node_context.ports.bounds.awake;
            let beside = self.turns.beside() + self.node_context.permits.inside().min(bound);
            let awake = self.awake.len().saturating_sub(beside);
            let turn = self.turns.next(self.clock_ms(), awake < bound);
            let Some(turn) = turn else { return };
            self.begin(turn);
        }
    }

    fn begin(&mut self, turn: Turn) {
        let (agent, recheck) = (turn.agent, Arc::new(Notify::new()));
        let (node_context, hear) = (Arc::clone(&self.node_context), Arc::clone(&recheck));
        let watch = turn.watched.then(|| Watch { agent, cleared: self.clear.clone() });
        let task = self.tasks.spawn(async move { (agent, lived(&node_context, turn, watch, &hear).await) });
        self.awake.insert(agent, Awake { task, recheck, again: false });
    }

    async fn drain(mut self) {
        let deadline = self.node_context.ports.clock.sleep(Duration::from_millis(limits::DRAIN_MS));
        // Who is done at the last moment is not late.
        tokio::select! {
            biased;
            () = async {
                while self.tasks.join_next().await.is_some() {}
                self.node_context.detached.idle().await;
            } => {}
            () = deadline => self.tasks.abort_all(),
        }
        self.node_context.detached.let_go();
    }
}
