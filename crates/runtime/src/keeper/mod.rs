//! The keeper: one per node. It alone starts activations: on signals, on alarms and by sweeps.
//!
//! Nothing is spawned per agent at start: the store finds due work by index, and a sleeping agent costs no task, no
//! connection and no memory (invariant 10). Signals are hints; the sweep finds what they missed.

mod alarms;
mod ended;
mod suspects;
mod sweep;
mod turns;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use agent::cycle::ActivationEnd;
use agent::id::{AgentId, CallId};
use agent::limits;
use agent::port::{Due, StoreError, Wakeup};
use futures_util::FutureExt;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::Ports;
use crate::activation::{Activated, NodeContext, StoreFailure, Wakes, activate};
use crate::answered::Answered;
use crate::breaker::Breakers;
use crate::calibration::Calibration;
use crate::detached_calls::DetachedCalls;
use crate::failure;
use crate::health::Health;
use crate::left_out::LeftOut;
use crate::node::{Node, Signal};
use crate::permits::Permits;
use crate::turn::{Turn, Watch};
use crate::waits::Wait;
use crate::warm::Warm;
use alarms::Alarms;
use turns::Turns;

/// Everything that the keeper reacts to.
enum Event {
    Signal(Signal),
    Tick,
    /// The store accepts commits again.
    StoreRecovered,
    /// A queued agent got a permit, or an awake one waits for one.
    PermitsChanged,
    /// A suspect has shown that it is not the cause.
    Cleared(AgentId),
    Finished(AgentId, Result<Activated, StoreFailure>),
    Panicked(tokio::task::Id, JoinError),
    Stop,
}

/// The agent of an activation, and how it went.
type Finished = (AgentId, Result<Activated, StoreFailure>);

struct Awake {
    task: AbortHandle,
    wakes: Arc<Wakes>,
    /// A signal arrived meanwhile: activate it again when this activation ends.
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
        calibration: Calibration::default(),
        answered: Answered::default(),
        left_out: LeftOut::default(),
        detached,
        unstored: Arc::default(),
        node: node.clone(),
        warm: Warm::new(limits::WARM_MAX_BYTES),
        health: Arc::new(Health::default()),
        permits,
        stopping: stopping.clone(),
    });
    let (clear, cleared) = mpsc::channel(2 * limits::SUSPECTS_AT_ONCE);
    let keeper = KeeperLoop {
        clock_lead: node_context.ports.clock.lead(),
        node_context,
        signals,
        awake: HashMap::new(),
        tasks: JoinSet::new(),
        turns: Turns::default(),
        cleared,
        clear,
        due_cursor: None,
        alarms: Alarms::default(),
        next_sweep: 0,
        next_firing: None,
        detached_cursor: None,
    };
    let task = tokio::spawn(keeper.run());
    Keeper { node, stopping, task }
}

impl Keeper {
    /// The handle for the API.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Stops: steps in progress are finished or parked within [`limits::DRAIN_MS`], then dropped. A dropped cycle
    /// resumes from its last commit at the next start.
    pub async fn stop(self) {
        self.stopping.cancel();
        // A panic in the keeper's task is a bug, but must not keep the process from closing its store.
        let _ = self.task.await;
    }

    /// Ends at once, as in a crash: nothing is parked.
    pub fn kill(self) {
        self.task.abort();
    }
}

/// Runs one activation. A mistake of the program ends it, never the node: it is noted in the store, and the cycle resumes from
/// its last commit, as often as its attempts allow. An agent with an unreadable record is quarantined; all others continue.
async fn activate_or_set_aside(
    node_context: &NodeContext,
    turn: Turn,
    watch: Option<Watch>,
    wakes: &Wakes,
) -> Result<Activated, StoreFailure> {
    let (agent, ports) = (turn.agent, &node_context.ports);
    match AssertUnwindSafe(activate(node_context, turn, watch, wakes)).catch_unwind().await {
        Ok(Err(StoreFailure { error: StoreError::Damaged(why), .. })) => {
            let agent_name = ports.live.name(agent);
            tracing::error!(agent = agent_name, why, "cannot read a record of the agent: it is quarantined");
            ports.store.quarantine(agent, why.clone()).await?;
            ports.live.idle(agent, Some(why));
            return Ok(Activated::Ended(ActivationEnd::Idle));
        }
        Ok(Err(StoreFailure { error: error @ StoreError::Bug(_), .. })) => {
            tracing::error!(agent = ports.live.name(agent), %error, "a command of the store failed: the activation ended");
        }
        Ok(result) => return result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let why = text.or_else(|| panic.downcast_ref::<&str>().copied());
            tracing::error!(agent = ports.live.name(agent), why, "an activation panicked");
            ports.live.reset_drafts(agent);
            ports.live.idle(agent, Some("its activation panicked".into()));
        }
    }
    note_panic(ports, agent).await;
    Ok(Activated::Panicked)
}

/// Notes durably that an activation has ended by a mistake of the program.
async fn note_panic(ports: &Ports, agent: AgentId) {
    let mut attempt = 1;
    while let Err(error) = ports.store.panicked(agent).await {
        let Some(pause) = failure::retry_store(&error, attempt, &*ports.ids) else {
            let agent = ports.live.name(agent);
            return tracing::error!(agent, %error, "cannot note that an activation panicked: it counts for no event");
        };
        ports.clock.sleep(pause).await;
        attempt += 1;
    }
}

struct KeeperLoop {
    node_context: Arc<NodeContext>,
    signals: mpsc::Receiver<Signal>,
    awake: HashMap<AgentId, Awake>,
    tasks: JoinSet<Finished>,
    /// Agents that are due and not awake yet.
    turns: Turns,
    /// Suspects that have shown that they are not the cause.
    cleared: mpsc::Receiver<AgentId>,
    clear: mpsc::Sender<AgentId>,
    /// The last due agent of the page before; the next page begins after it, or anew if `None`.
    due_cursor: Option<Due>,
    alarms: Alarms,
    /// Monotonic time of the next sweep.
    next_sweep: u64,
    /// Monotonic time at which plans fire before it.
    next_firing: Option<u64>,
    /// The most that the wall clock was ahead of the monotonic one since it was last set back.
    clock_lead: i64,
    /// The last call of the page before, in the search for detached calls that nobody runs.
    detached_cursor: Option<CallId>,
}

impl KeeperLoop {
    async fn run(mut self) {
        loop {
            let event = self.next_event().await;
            self.check_clock();
            match event {
                Event::Signal(Signal::Due(wakeup)) => self.signalled(wakeup),
                Event::Signal(Signal::Recheck(agent)) => self.recheck(agent),
                Event::Signal(Signal::Resume(agent)) => {
                    self.node_context.breakers.grant(agent);
                    // A suspect runs when its turn comes, which is now.
                    if self.turns.resume(agent) { self.admit() } else { self.recheck(agent) }
                }
                Event::Signal(Signal::Answered(call)) => self.node_context.detached.drop_call(&call),
                Event::Signal(Signal::Planned(at)) => self.fire_at(at),
                Event::Signal(Signal::Granted) => self.next_sweep = self.clock_ms(),
                Event::Tick => self.tick().await,
                Event::StoreRecovered => {
                    self.node_context.ports.live.store_refuses(None);
                    self.turns.store_recovered();
                    self.admit();
                }
                Event::PermitsChanged => {
                    self.node_context
                        .permits
                        .granted()
                        .into_iter()
                        .for_each(|agent| self.permit_granted(agent));
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
                Event::Panicked(task, error) => {
                    self.panicked(task, &error);
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
                Err(error) => Event::Panicked(error.id(), error),
            },
            () = node_context.health.recovered() => Event::StoreRecovered,
            () = node_context.permits.changed() => Event::PermitsChanged,
            Some(agent) = self.cleared.recv() => Event::Cleared(agent),
            Some(signal) = self.signals.recv() => Event::Signal(signal),
            () = sleep => Event::Tick,
        }
    }

    /// The time until the next alarm, turn or sweep.
    fn pause(&self) -> Duration {
        let next = [self.alarms.next(), self.turns.next_at(), self.next_firing].into_iter().flatten().min();
        let next = next.map_or(self.next_sweep, |next| next.min(self.next_sweep));
        Duration::from_millis(next.saturating_sub(self.clock_ms()))
    }

    /// The monotonic clock.
    fn clock_ms(&self) -> u64 {
        self.node_context.ports.clock.monotonic_ms()
    }

    /// An event was accepted for an agent. An urgent one interrupts the open cycle, even if the agent is backing
    /// off.
    fn signalled(&mut self, wakeup: Wakeup) {
        failpoint::hit!("accept.signalled");
        let Wakeup { agent, at, urgent } = wakeup;
        if let Some(awake) = self.awake.get(&agent) {
            awake.wakes.due.notify_one();
            if urgent {
                awake.wakes.recheck.notify_one();
            }
        }
        self.due(agent, at);
    }

    fn due(&mut self, agent: AgentId, at: Timestamp) {
        if self.turns.is_backing_off(agent, self.clock_ms()) || self.node_context.permits.is_queued(agent) {
            return;
        }
        match self.ahead(at) {
            0 => self.enqueue(agent),
            ahead => self.alarms.set(agent, self.clock_ms() + ahead),
        }
    }

    /// Milliseconds until that time; 0 if it has passed.
    fn ahead(&self, at: Timestamp) -> u64 {
        let now = self.node_context.ports.clock.now().as_millisecond();
        u64::try_from(at.as_millisecond() - now).unwrap_or(0)
    }

    /// Something about an agent changed: notifies its activation, or queues a new one.
    fn recheck(&mut self, agent: AgentId) {
        match self.awake.get_mut(&agent) {
            Some(awake) => {
                awake.again = true;
                awake.wakes.recheck.notify_one();
            }
            None => {
                self.turns.forget_suspect(agent);
                self.enqueue(agent);
            }
        }
    }

    /// Queues the agent for an activation; if it is awake, for another one afterwards.
    fn enqueue(&mut self, agent: AgentId) {
        if let Some(awake) = self.awake.get_mut(&agent) {
            awake.again = true;
            return;
        }
        self.turns.enqueue(agent, self.clock_ms());
        self.admit();
        self.publish_queued(agent);
    }

    /// A queued agent waits for a free slot; while the store refuses commits, for the store.
    fn publish_queued(&self, agent: AgentId) {
        if self.turns.is_queued(agent) {
            self.node_context.ports.live.begin_wait(agent, Wait::Slot(self.node_context.ports.bounds.awake));
        }
    }

    /// The agent got the permit that it waited for.
    fn permit_granted(&mut self, agent: AgentId) {
        match self.awake.get_mut(&agent) {
            Some(awake) => awake.again = true,
            None => self.turns.permit_granted(agent),
        }
    }

    /// Activates the next agents, as many as may be awake.
    fn admit(&mut self) {
        loop {
            let bound = self.node_context.ports.bounds.awake;
            let uncounted = self.turns.watched() + self.node_context.permits.waiting_awake().min(bound);
            let awake = self.awake.len().saturating_sub(uncounted);
            let turn = self.turns.next(self.clock_ms(), awake < bound);
            let Some(turn) = turn else { return };
            self.begin(turn);
        }
    }

    fn begin(&mut self, turn: Turn) {
        let (agent, wakes) = (turn.agent, Arc::new(Wakes::default()));
        let (node_context, notified) = (Arc::clone(&self.node_context), Arc::clone(&wakes));
        let watch = turn.watched.then(|| Watch { agent, cleared: self.clear.clone() });
        let task = self.tasks.spawn(async move {
            (agent, activate_or_set_aside(&node_context, turn, watch, &notified).await)
        });
        self.awake.insert(agent, Awake { task, wakes, again: false });
    }

    async fn drain(mut self) {
        let deadline = self.node_context.ports.clock.sleep(Duration::from_millis(limits::DRAIN_MS));
        // `biased`: work that ends at the deadline is still in time.
        tokio::select! {
            biased;
            () = async {
                while self.tasks.join_next().await.is_some() {}
                self.node_context.detached.idle().await;
            } => {}
            () = deadline => self.tasks.abort_all(),
        }
        self.node_context.detached.abort_all();
    }
}
