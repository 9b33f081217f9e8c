//! What all parts of one simulated world share: its time, its dice, its trace, and the violations found so far.
//!
//! Must not know nodes or models, nor the content of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use agent::id::{AgentId, CallId};
use agent::port::{Clock as _, StoreError};
use scenario::clock::{SimClock, SimIds};
use storage::sqlite::Sqlite;

use crate::bystander_waits::BystanderWaits;
use crate::command_cost::Costs;
use crate::dice::{Dice, Faults, Trace, show};
use crate::request_audit::RequestAudit;

/// What a tool did to the outside world under one call id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// Calls that began.
    pub(crate) begun: u64,
    /// Whether a repeat has no second effect.
    pub(crate) repeatable: bool,
}

pub(crate) struct Environment {
    pub(crate) clock: SimClock,
    pub(crate) ids: Arc<SimIds>,
    pub(crate) dice: Dice,
    pub(crate) faults: Faults,
    /// Checks that each model request is justified.
    pub(crate) audit: RequestAudit,
    /// Checks how long the bystander waits.
    pub(crate) waits: BystanderWaits,
    /// What store commands cost.
    pub(crate) costs: Costs,
    /// Nothing fails, and models always reply the same.
    pub(crate) steady: bool,
    pub(crate) bystander: OnceLock<AgentId>,
    /// No more faults.
    faults_ended: AtomicBool,
    /// Until when the store refuses everything.
    closed: AtomicU64,
    trace: Mutex<Trace>,
    violations: Mutex<Vec<String>>,
    pub(crate) effects: Mutex<BTreeMap<CallId, Effect>>,
    /// Dead letters that an operator sent again: they come after newer messages.
    pub(crate) again: Mutex<BTreeSet<String>>,
}

impl Environment {
    pub(crate) fn steady() -> Arc<Self> {
        let world = Self { faults: Faults::default(), steady: true, ..Self::of(0, false) };
        Arc::new(world)
    }

    pub(crate) fn new(seed: u64, loud: bool) -> Arc<Self> {
        Arc::new(Self::of(seed, loud))
    }

    fn of(seed: u64, loud: bool) -> Self {
        let clock = SimClock::new("2026-11-21T14:00:00Z".parse().unwrap());
        let dice = Dice::new(seed);
        let faults = Faults::of(&dice);
        Self {
            ids: Arc::new(SimIds::new(seed, clock.clone())),
            clock,
            dice,
            faults,
            audit: RequestAudit::default(),
            waits: BystanderWaits::default(),
            costs: Costs::default(),
            steady: false,
            bystander: OnceLock::new(),
            faults_ended: AtomicBool::new(false),
            closed: AtomicU64::new(0),
            trace: Mutex::new(Trace::new(loud)),
            violations: Mutex::default(),
            effects: Mutex::default(),
            again: Mutex::default(),
        }
    }

    /// From now on nothing fails any more.
    pub(crate) fn end_faults(&self) {
        self.faults_ended.store(true, Ordering::SeqCst);
        self.note("faults ended", "");
    }

    pub(crate) fn faults_ended(&self) -> bool {
        self.faults_ended.load(Ordering::SeqCst)
    }

    /// Whether a fault occurs now.
    pub(crate) fn fault(&self, fault: impl Fn(&Faults) -> u64) -> bool {
        !self.faults_ended() && self.dice.chance(fault(&self.faults))
    }

    /// Until then the store refuses every command.
    pub(crate) fn close_store_until(&self, at: u64) {
        self.closed.fetch_max(at, Ordering::SeqCst);
        self.note("closed", &format!("until {at}"));
    }

    /// Whether the store refuses every command now.
    pub(crate) fn is_closed(&self) -> bool {
        !self.faults_ended() && self.ms() < self.closed.load(Ordering::SeqCst)
    }

    /// Why the store refuses a command, if it does.
    pub(crate) fn refusal(&self) -> Option<StoreError> {
        if self.fault(|faults| faults.busy) {
            self.note("busy", "");
            self.waits.refused();
            return Some(StoreError::Busy("on purpose".into()));
        }
        if self.is_closed() || self.fault(|faults| faults.full) {
            self.note("full", "");
            self.waits.refused();
            return Some(StoreError::Full("on purpose".into()));
        }
        None
    }

    /// A delay before or after a read, if that fault occurs.
    pub(crate) async fn maybe_delay(&self, node: u64) {
        if self.fault(|faults| faults.slow_reads) {
            let _slow = Slow::of(self, node);
            self.clock.sleep(Duration::from_millis(self.dice.between(1, 2_000))).await;
        }
    }

    /// Milliseconds since the world began.
    pub(crate) fn ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// Records what happened in the trace.
    pub(crate) fn note(&self, what: &'static str, how: &str) {
        let mut trace = self.trace.lock().unwrap();
        *trace.counts.entry(what).or_default() += 1;
        let line = format!("{:>9} {what} {how}", self.clock.monotonic_ms());
        trace.line(&line);
    }

    /// Prints a detail if the world is loud; not part of the trace.
    pub(crate) fn print_if_loud(&self, what: impl FnOnce() -> String) {
        if self.trace(|trace| trace.loud) {
            show(&format!("          {}", what()));
        }
    }

    /// Whether a signal for the agent arrives.
    pub(crate) fn signal_arrives(&self, agent: AgentId) -> bool {
        self.is_bystander(agent) || !self.fault(|faults| faults.lost_signals)
    }

    /// Whether the agent is the bystander, which no fault is aimed at.
    pub(crate) fn is_bystander(&self, agent: AgentId) -> bool {
        self.bystander.get() == Some(&agent)
    }

    /// Runs a write command that carries that many bytes, and checks its cost.
    pub(crate) fn command<T>(
        &self,
        sqlite: &Sqlite,
        what: &'static str,
        bytes: u64,
        work: impl FnOnce() -> T,
    ) -> T {
        let (done, bounded) = self.costs.take(sqlite, what, bytes, work);
        if let Err(why) = bounded {
            self.violation(format!("cost: at {} {why}", self.ms()));
        }
        done
    }

    /// Records a violation.
    pub(crate) fn violation(&self, what: String) {
        self.note("WRONG", &what);
        self.violations.lock().unwrap().push(what);
    }

    /// Records a violation unless `holds`.
    pub(crate) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violation(what());
        }
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.violations.lock().unwrap().clone()
    }

    pub(crate) fn trace<T>(&self, read: impl FnOnce(&Trace) -> T) -> T {
        read(&self.trace.lock().unwrap())
    }
}

/// A slow read.
struct Slow<'a>(&'a Environment, u64);

impl<'a> Slow<'a> {
    fn of(env: &'a Environment, node: u64) -> Self {
        env.waits.slow(node, 1);
        Self(env, node)
    }
}

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        self.0.waits.slow(self.1, -1);
    }
}

/// Whether one process is alive. Once it is dead, nothing that it does reaches the world: every interaction waits
/// forever, until its tasks are dropped.
pub(crate) struct Liveness {
    pub(crate) node: u64,
    dead: AtomicBool,
    /// Interactions with the world until it dies.
    fuse: AtomicI64,
}

impl Liveness {
    /// Dies at the interaction of that number; `None`: never by itself.
    pub(crate) fn new(node: u64, fuse: Option<u64>) -> Arc<Self> {
        let fuse = fuse.map_or(i64::MAX, |fuse| i64::try_from(fuse).unwrap_or(i64::MAX));
        Arc::new(Self { node, dead: AtomicBool::new(false), fuse: AtomicI64::new(fuse) })
    }

    pub(crate) fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// It no longer dies by itself.
    pub(crate) fn spare(&self) {
        self.fuse.store(i64::MAX, Ordering::SeqCst);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// An interaction with the world.
    pub(crate) async fn touch(&self) {
        if self.fuse.fetch_sub(1, Ordering::SeqCst) <= 0 {
            self.kill();
        }
        if self.is_dead() {
            std::future::pending().await
        }
    }
}
