//! What commands cost the writer: rows written, steps of SQLite's virtual machine (reads count as well), and bytes
//! that a commit carries.
//!
//! | of any command | at most | because |
//! |---|---|---|
//! | steps | 1 000, and 100 for each row it writes | it finds its rows by index, however much else there is |
//! | rows | 200 | a batch is bounded, and each of its events has its rows |
//! | bytes | 32 KiB | the open cycle is carried whole, with the records of its steps; the log and the inbox are not |
//!
//! The limits are two to three times the observed values. A separate test asserts that no command gets more expensive
//! with a longer history. Must not know what commands are for.

use std::collections::BTreeMap;
use std::sync::Mutex;

use agent::changes::Changes;
use storage::sqlite::Sqlite;

/// Steps of a command that writes nothing.
const STEPS: u64 = 1_000;
/// Further steps for each row.
const STEPS_PER_ROW: u64 = 100;
const ROWS: u64 = 200;
const BYTES: u64 = 32 * 1024;

/// What one command cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) rows: u64,
    pub(crate) steps: u64,
    pub(crate) bytes: u64,
}

/// The highest cost of each kind of command in one world.
#[derive(Default)]
pub(crate) struct Costs(Mutex<BTreeMap<&'static str, Cost>>);

impl Cost {
    fn bounded(self, what: &str) -> Result<(), String> {
        let Self { rows, steps, bytes } = self;
        let fits = steps <= STEPS + STEPS_PER_ROW * rows && rows <= ROWS && bytes <= BYTES;
        if fits { Ok(()) } else { Err(format!("the command {what} is too expensive: {self:?}")) }
    }

    fn most(&mut self, other: Self) {
        self.rows = self.rows.max(other.rows);
        self.steps = self.steps.max(other.steps);
        self.bytes = self.bytes.max(other.bytes);
    }
}

impl Costs {
    /// Runs a command that carries that many bytes, and records its cost.
    pub(crate) fn take<T>(
        &self,
        sqlite: &Sqlite,
        what: &'static str,
        bytes: u64,
        work: impl FnOnce() -> T,
    ) -> (T, Result<(), String>) {
        let before = sqlite.stats();
        let done = work();
        let after = sqlite.stats();
        let cost = Cost { rows: after.rows - before.rows, steps: after.steps - before.steps, bytes };
        self.0.lock().unwrap().entry(what).or_default().most(cost);
        (done, cost.bounded(what))
    }

    /// The costs since the last call.
    pub(crate) fn drain(&self) -> BTreeMap<&'static str, Cost> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// About how many bytes a commit carries.
pub(crate) fn bytes(changes: &Changes) -> u64 {
    format!("{changes:?}").len() as u64
}

/// Merges the highest cost of each kind.
pub(crate) fn merge(into: &mut BTreeMap<&'static str, Cost>, from: &BTreeMap<&'static str, Cost>) {
    for (what, cost) in from {
        into.entry(what).or_default().most(*cost);
    }
}
