//! One process: a node on an executor of its own, which can be halted, dropped at any point where it
//! waits, or stopped in good order.
//!
//! This module must not know why.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use runtime::node::Node;
use runtime::{Keeper, Ports};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::disk::{Disk, Port};
use crate::mind::{Minds, Sent};
use crate::nature::{Nature, Pulse};
use crate::toolkit::Toolkit;

/// Told by the executor that it has nothing to do.
#[derive(Default)]
struct Idle {
    parked: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

pub(crate) struct Process {
    pub(crate) pulse: Arc<Pulse>,
    executor: Runtime,
    idle: Arc<Idle>,
    keeper: Option<Keeper>,
    node: Node,
    /// Sent to sleep from outside: it does nothing, and knows nothing of it.
    pub(crate) halted: bool,
    stopping: Option<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(nature: &Arc<Nature>, disk: &Arc<Disk>, sent: &Arc<Sent>, pulse: Arc<Pulse>) -> Self {
        let idle = Arc::new(Idle::default());
        let told = Arc::clone(&idle);
        let executor = tokio::runtime::Builder::new_current_thread()
            .on_thread_park(move || {
                told.parked.store(true, Ordering::SeqCst);
                if let Some(waker) = told.waker.lock().unwrap().take() {
                    waker.wake();
                }
            })
            .build()
            .unwrap();
        let port = || Port { nature: Arc::clone(nature), disk: Arc::clone(disk), pulse: Arc::clone(&pulse) };
        let minds = Minds { nature: Arc::clone(nature), pulse: Arc::clone(&pulse), sent: Arc::clone(sent) };
        let (toolbox, clock) = (Arc::new(Toolkit::new(nature, &pulse)), Arc::new(nature.clock.clone()));
        let doors = Ports::new(Arc::new(disk.sqlite()), Arc::new(minds), toolbox, clock, nature.ids.clone());
        let ports =
            Ports { store: Arc::new(port()), calls: Arc::new(port()), lookup: Arc::new(port()), ..doors };
        let ports = Ports { bounds: nature.faults.bounds(), ..ports };
        let keeper = {
            let _inside = executor.enter();
            runtime::start(ports)
        };
        let node = keeper.node().clone();
        Self { pulse, executor, idle, keeper: Some(keeper), node, halted: false, stopping: None }
    }

    /// Does whatever can be done now.
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

    /// The handle that its doors hold.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Begins to stop in good order.
    pub(crate) fn stop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            self.stopping = Some(self.executor.spawn(keeper.stop()));
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Whether it has stopped in good order.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopping.as_ref().is_some_and(JoinHandle::is_finished)
    }
}
