//! What commands cost the writer: rows that they write, steps of SQLite's machine that they take (reading counts as
//! well), and bytes of what a commit carries.
//!
//! | of any command | at most | because |
//! |---|---|---|
//! | steps | 1 000, and 100 for each row it writes | it looks for what it writes by index, whatever else there is |
//! | rows | 200 | a batch is bounded, and each event of it has its rows |
//! | bytes | 32 KiB | what is open is carried whole, with the runs of its steps; the log and the inbox are not |
//!
//! The bounds are twice to three times what is seen. That nothing gets dearer with what was processed before is asserted
//! apart, in a life that repeats itself. This module must not know what commands are for.

use std::collections::BTreeMap;
use std::sync::Mutex;

use agent::changes::Changes;
use storage::sqlite::Sqlite;

/// Steps of a command that writes nothing.
const STEPS: u64 = 1_000;
/// And for each row.
const STEPS_PER_ROW: u64 = 100;
const ROWS: u64 = 200;
const BYTES: u64 = 32 * 1024;

/// What one command took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Toll {
    pub(crate) rows: u64,
    pub(crate) steps: u64,
    pub(crate) bytes: u64,
}

/// The most that commands of each kind took in one world.
#[derive(Default)]
pub(crate) struct Tolls(Mutex<BTreeMap<&'static str, Toll>>);

impl Toll {
    fn bounded(self, what: &str) -> Result<(), String> {
        let Self { rows, steps, bytes } = self;
        let fits = steps <= STEPS + STEPS_PER_ROW * rows && rows <= ROWS && bytes <= BYTES;
        if fits { Ok(()) } else { Err(format!("the writer's {what} is too dear: {self:?}")) }
    }

    fn most(&mut self, other: Self) {
        self.rows = self.rows.max(other.rows);
        self.steps = self.steps.max(other.steps);
        self.bytes = self.bytes.max(other.bytes);
    }
}

impl Tolls {
    /// Does a command that carries so many bytes, and keeps what it took.
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
        let toll = Toll { rows: after.rows - before.rows, steps: after.steps - before.steps, bytes };
        self.0.lock().unwrap().entry(what).or_default().most(toll);
        (done, toll.bounded(what))
    }

    /// All of them since they were asked for last.
    pub(crate) fn drain(&self) -> BTreeMap<&'static str, Toll> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// About how much a commit hands to the writer.
pub(crate) fn bytes(changes: &Changes) -> u64 {
    format!("{changes:?}").len() as u64
}

/// The most of both, kind by kind.
pub(crate) fn merge(into: &mut BTreeMap<&'static str, Toll>, from: &BTreeMap<&'static str, Toll>) {
    for (what, toll) in from {
        into.entry(what).or_default().most(*toll);
    }
}
