//! `make bench`: what a living agent adds to the disk, the loopback and the model, each figure
//! against a floor that is measured in the same run, on the same machine and file system.
//!
//! Prints a table and writes `target/bench.json`, a list of `{metric, value, unit, floor, ratio,
//! goal, met}` with a `note` on how it was measured. Names of groups (`wake`, `accepts`, `cycles`,
//! `steps`, `history`, `stream`, `crowd`, `weight`, `interrupt`, `process`, `fair` and `density` and their
//! parts) as arguments measure only those and write nothing.
//!
//! One module per group; `house` puts a server together as `viv up` does, `watched` and `stub`
//! notice when something passes them, `measure` and `machine` hold clocks and the disk's own speed.

mod accepts;
mod crowd;
mod cycles;
mod density;
mod fair;
mod floor;
mod history;
mod instant;
mod interrupt;
mod machine;
mod measure;
mod process;
mod report;
mod server;
mod steps;
mod stream;
mod stub;
mod talk;
mod wake;
mod watched;
mod weight;
mod writer;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::machine::Machine;
use crate::report::Metric;

type Group = (&'static str, fn(&Bench) -> Result<Vec<Metric>>);

/// What is measured, in the order of the table.
const GROUPS: [Group; 19] = [
    ("wake", wake::measure),
    ("accepts", accepts::measure),
    ("cycles", cycles::measure),
    ("steps", steps::measure),
    ("history", history::measure),
    ("stream", stream::measure),
    ("crowd", crowd::measure),
    ("weight", weight::measure),
    ("interrupt", interrupt::measure),
    ("process", process::measure),
    ("fair.writer", writer::measure),
    ("fair.store_failure", fair::store_failure::measure),
    ("fair.after_crash", fair::after_crash::measure),
    ("fair.silent_provider", fair::silent_provider::measure),
    ("density.years", density::years::measure),
    ("density.hibernated", density::hibernated::measure),
    ("density.neighbour", density::neighbour::measure),
    ("density.accepts", density::accepts::measure),
    ("density.sleepers", density::sleepers::measure),
];

/// What every group may use.
struct Bench {
    /// Cargo's target directory: scratch data, the report.
    target: PathBuf,
}

impl Bench {
    /// An empty directory on the file system that is measured, gone with its handle.
    fn scratch(&self) -> Result<tempfile::TempDir> {
        tempfile::Builder::new().prefix("bench-").tempdir_in(&self.target).context("no scratch directory")
    }
}

fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.first().is_some_and(|first| first == process::FLOOR_ARGUMENT) {
        return process::be_the_floor();
    }
    if let Some((_, rest)) = wanted.split_first().filter(|(first, _)| *first == crowd::CROWD_ARGUMENT) {
        return crowd::be_the_crowd(rest);
    }
    if let Some(unknown) = wanted.iter().find(|name| GROUPS.iter().all(|(known, _)| !names(name, known))) {
        let known: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
        bail!("wanted groups among `{}`, got `{unknown}`", known.join("`, `"));
    }
    let bench = Bench { target: target_dir() };
    std::fs::create_dir_all(&bench.target).context("the target directory cannot be made")?;
    let mut metrics = Vec::new();
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|wanted| names(wanted, name)) {
            report::progress(name);
            metrics.extend(measure(&bench).with_context(|| format!("`{name}` could not be measured"))?);
        }
    }
    let machine = Machine::look(&bench)?;
    report::print(&metrics, &machine);
    if wanted.is_empty() {
        report::write(&metrics, &bench.target.join("bench.json"))?;
    }
    Ok(())
}

/// Whether a word names a group, or all of that kind (`density`).
fn names(word: &str, group: &str) -> bool {
    group.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).with_file_name("target"),
    }
}
