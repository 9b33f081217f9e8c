//! One process: a node on its own executor, which can be halted, dropped at any point where it waits, or stopped
//! gracefully.
//!
//! Must not know why.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use runtime::node::Node;
use runtime::{Keeper, Ports};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::disk::{Disk, Port};
use crate::environment::{Environment, Liveness};
use crate::random_model::{RandomModels, Sent};
use crate::toolkit::Toolkit;

/// Set when the executor has nothing to do.
#[derive(Default)]
struct Idle {
    parked: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

pub(crate) struct Process {
    pub(crate) liveness: Arc<Liveness>,
    executor: Runtime,
    idle: Arc<Idle>,
    keeper: Option<Keeper>,
    node: Node,
    /// Halted from outside: it does nothing, and does not notice.
    pub(crate) halted: bool,
    stopping: Option<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(
        env: &Arc<Environment>,
        disk: &Arc<Disk>,
        sent: &Arc<Sent>,
        liveness: Arc<Liveness>,
    ) -> Self {
        let idle = Arc::new(Idle::default());
        let on_park = Arc::clone(&idle);
        let executor = tokio::runtime::Builder::new_current_thread()
            .on_thread_park(move || {
                on_park.parked.store(true, Ordering::SeqCst);
                if let Some(waker) = on_park.waker.lock().unwrap().take() {
                    waker.wake();
                }
            })
            .build()
            .unwrap();
        let port = || Port { env: Arc::clone(env), disk: Arc::clone(disk), liveness: Arc::clone(&liveness) };
        let models =
            RandomModels { env: Arc::clone(env), liveness: Arc::clone(&liveness), sent: Arc::clone(sent) };
        let (toolbox, clock) = (Arc::new(Toolkit::new(env, &liveness)), Arc::new(env.clock.clone()));
        let ports = Ports::new(Arc::new(disk.sqlite()), Arc::new(models), toolbox, clock, env.ids.clone());
        let ports =
            Ports { store: Arc::new(port()), calls: Arc::new(port()), lookup: Arc::new(port()), ..ports };
        let ports = Ports { bounds: env.faults.bounds(), ..ports };
        let keeper = {
            let _inside = executor.enter();
            runtime::start(ports)
        };
        let node = keeper.node().clone();
        Self { liveness, executor, idle, keeper: Some(keeper), node, halted: false, stopping: None }
    }

    /// Runs until it has nothing to do.
    pub(crate) fn run(&self) {
        let idle = &self.idle;
        idle.parked.store(false, Ordering::SeqCst);
        self.executor.block_on(poll_fn(|context| {
            if idle.parked.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            *idle.waker.lock().unwrap() = Some(context.waker().clone());
            Poll::Pending
        }));
    }

    /// The handle of its API.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Begins to stop gracefully.
    pub(crate) fn stop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            self.stopping = Some(self.executor.spawn(keeper.stop()));
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Whether it has stopped gracefully.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopping.as_ref().is_some_and(JoinHandle::is_finished)
    }
}
