//! What all parts of one simulated world share: its time, its dice, what it writes down, and what was
//! found wrong while it went on.
//!
//! This module must not know nodes or models, nor what is in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use agent::id::{AgentId, CallId};
use agent::port::{Clock as _, StoreError};
use scenario::clock::{SimClock, SimIds};
use storage::sqlite::Sqlite;

use crate::bill::Bill;
use crate::dice::{Dice, Faults, Trace, show};
use crate::patience::Patience;
use crate::toll::Tolls;

/// What tools did to the outside world under one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// Calls that began.
    pub(crate) begun: u64,
    /// Whether a repeat has no second effect.
    pub(crate) repeatable: bool,
}

pub(crate) struct Nature {
    pub(crate) clock: SimClock,
    pub(crate) ids: Arc<SimIds>,
    pub(crate) dice: Dice,
    pub(crate) faults: Faults,
    /// Who may ask a model, and for what.
    pub(crate) bill: Bill,
    /// How long the bystander waits.
    pub(crate) patience: Patience,
    /// What commands cost.
    pub(crate) tolls: Tolls,
    /// Nothing goes wrong, and models always say the same.
    pub(crate) steady: bool,
    pub(crate) bystander: OnceLock<AgentId>,
    /// Nothing goes wrong any more.
    calm: AtomicBool,
    shut: AtomicU64,
    trace: Mutex<Trace>,
    wrong: Mutex<Vec<String>>,
    pub(crate) effects: Mutex<BTreeMap<CallId, Effect>>,
    /// Dead letters that an operator sent again: they come behind what was said meanwhile.
    pub(crate) again: Mutex<BTreeSet<String>>,
}

impl Nature {
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
            bill: Bill::default(),
            patience: Patience::default(),
            tolls: Tolls::default(),
            steady: false,
            bystander: OnceLock::new(),
            calm: AtomicBool::new(false),
            shut: AtomicU64::new(0),
            trace: Mutex::new(Trace::new(loud)),
            wrong: Mutex::default(),
            effects: Mutex::default(),
            again: Mutex::default(),
        }
    }

    /// From now on nothing goes wrong any more.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::SeqCst);
        self.note("calm", "");
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// Whether one of the faults strikes.
    pub(crate) fn strikes(&self, fault: impl Fn(&Faults) -> u64) -> bool {
        !self.is_calm() && self.dice.chance(fault(&self.faults))
    }

    /// Until then the store takes nothing, from nobody.
    pub(crate) fn shut_until(&self, at: u64) {
        self.shut.fetch_max(at, Ordering::SeqCst);
        self.note("shut", &format!("until {at}"));
    }

    /// Whether the store takes nothing just now.
    pub(crate) fn is_shut(&self) -> bool {
        !self.is_calm() && self.ms() < self.shut.load(Ordering::SeqCst)
    }

    /// Why the store does not even look at a command, where it does not.
    pub(crate) fn refusal(&self) -> Option<StoreError> {
        if self.strikes(|faults| faults.busy) {
            self.note("busy", "");
            self.patience.refused();
            return Some(StoreError::Busy("on purpose".into()));
        }
        if self.is_shut() || self.strikes(|faults| faults.full) {
            self.note("full", "");
            self.patience.refused();
            return Some(StoreError::Full("on purpose".into()));
        }
        None
    }

    /// A wait of a part of the world, where it is slow.
    pub(crate) async fn dawdle(&self, node: u64) {
        if self.strikes(|faults| faults.slow_reads) {
            let _slow = Slow::of(self, node);
            self.clock.sleep(Duration::from_millis(self.dice.between(1, 2_000))).await;
        }
    }

    /// Milliseconds since the world began.
    pub(crate) fn ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// Writes down what happened.
    pub(crate) fn note(&self, what: &'static str, how: &str) {
        let mut trace = self.trace.lock().unwrap();
        *trace.counts.entry(what).or_default() += 1;
        let line = format!("{:>9} {what} {how}", self.clock.monotonic_ms());
        trace.line(&line);
    }

    /// Tells whoever looks at one world; no part of what happened.
    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if self.trace(|trace| trace.loud) {
            show(&format!("          {}", what()));
        }
    }

    /// Whether a signal reaches the agent's node.
    pub(crate) fn hears(&self, agent: AgentId) -> bool {
        self.spares(agent) || !self.strikes(|faults| faults.deaf)
    }

    /// Whether nothing bad is aimed at the agent.
    pub(crate) fn spares(&self, agent: AgentId) -> bool {
        self.bystander.get() == Some(&agent)
    }

    /// Does a command of the writer that carries so many bytes; it must not cost too much.
    pub(crate) fn command<T>(
        &self,
        sqlite: &Sqlite,
        what: &'static str,
        bytes: u64,
        work: impl FnOnce() -> T,
    ) -> T {
        let (done, bounded) = self.tolls.take(sqlite, what, bytes, work);
        if let Err(why) = bounded {
            self.wrong(format!("cost: at {} {why}", self.ms()));
        }
        done
    }

    /// Writes down what may never happen.
    pub(crate) fn wrong(&self, what: String) {
        self.note("WRONG", &what);
        self.wrong.lock().unwrap().push(what);
    }

    pub(crate) fn hold(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong(what());
        }
    }

    pub(crate) fn found(&self) -> Vec<String> {
        self.wrong.lock().unwrap().clone()
    }

    pub(crate) fn trace<T>(&self, read: impl FnOnce(&Trace) -> T) -> T {
        read(&self.trace.lock().unwrap())
    }
}

/// A question that the store is slow to answer.
struct Slow<'a>(&'a Nature, u64);

impl<'a> Slow<'a> {
    fn of(nature: &'a Nature, node: u64) -> Self {
        nature.patience.slow(node, 1);
        Self(nature, node)
    }
}

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        self.0.patience.slow(self.1, -1);
    }
}

/// The life of one process. Once it is dead nothing that it does reaches the world any more: every touch
/// waits for ever, until its tasks are dropped.
pub(crate) struct Pulse {
    pub(crate) node: u64,
    dead: AtomicBool,
    fuse: AtomicI64,
}

impl Pulse {
    /// One that dies at that touch of the world; never by itself where there is none.
    pub(crate) fn new(node: u64, fuse: Option<u64>) -> Arc<Self> {
        let fuse = fuse.map_or(i64::MAX, |fuse| i64::try_from(fuse).unwrap_or(i64::MAX));
        Arc::new(Self { node, dead: AtomicBool::new(false), fuse: AtomicI64::new(fuse) })
    }

    pub(crate) fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// It does not die by itself any more.
    pub(crate) fn spare(&self) {
        self.fuse.store(i64::MAX, Ordering::SeqCst);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// A touch of the world.
    pub(crate) async fn beat(&self) {
        if self.fuse.fetch_sub(1, Ordering::SeqCst) <= 0 {
            self.kill();
        }
        if self.is_dead() {
            std::future::pending().await
        }
    }
}
