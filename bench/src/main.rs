//! `make bench`: measures the overhead of an agent over the disk, the loopback and the model. Each figure
//! is compared with a floor that is measured in the same run, on the same machine and file system.
//!
//! Prints a table and writes `target/bench.json`, a list of `{metric, value, unit, floor, ratio,
//! goal, met}` with a `note` on how it was measured, and the tables of `docs/performance.md`. A group that cannot be measured and
//! a value that cannot be make it fail at its end, and then the page stays as it is. With names of groups (`wake`, `accepts`, `cycles`,
//! `steps`, `history`, `stream`, `crowd`, `weight`, `interrupt`, `process`, `fair`, `density`, `mind`, `tools` and `alarms`
//! and their parts) as arguments it measures only those and writes no file.
//!
//! Each group has a module. `server` builds a server as `viv up` does; `watched` and `stub` record when
//! requests pass them; `measure` and `machine` hold the clocks and measure the disk.

#![allow(clippy::disallowed_methods, reason = "tests start programs as they need")]

mod accepts;
mod alarms;
mod crowd;
mod cycles;
mod density;
mod fair;
mod floor;
mod history;
mod idle_watchers;
mod instant;
mod interrupt;
mod machine;
mod measure;
mod mind;
mod page;
mod process;
mod report;
mod server;
mod steps;
mod stream;
mod stub;
mod talk;
mod tool_calls;
mod wake;
mod watched;
mod weight;
mod writer;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::machine::Machine;
use crate::report::Metric;

type Group = (&'static str, fn(&Bench) -> Result<Vec<Metric>>);

/// The groups, in the order of the table.
const GROUPS: [Group; 34] = [
    ("wake", wake::measure),
    ("accepts", accepts::measure),
    ("cycles", cycles::measure),
    ("steps", steps::measure),
    ("history", history::measure),
    ("stream", stream::measure),
    ("stream.idle_watchers", idle_watchers::measure),
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
    ("mind.request", mind::request::measure),
    ("mind.step", mind::step::measure),
    ("mind.life", mind::life::measure),
    ("mind.lives", mind::lives::measure),
    ("mind.recall", mind::recall::measure),
    ("mind.tailer", mind::tailer::measure),
    ("tools.http", tool_calls::http::measure),
    ("tools.many", tool_calls::many::measure),
    ("tools.claim", tool_calls::claim::measure),
    ("alarms.hook", alarms::hook::measure),
    ("alarms.late", alarms::late::measure),
    ("alarms.plans", alarms::plans::measure),
    ("alarms.paused", alarms::paused::measure),
    ("alarms.answer", alarms::answer::measure),
];

/// The context of all groups.
struct Bench {
    /// Cargo's target directory, for scratch data and the report.
    target: PathBuf,
}

impl Bench {
    /// An empty directory on the measured file system; it is deleted when the handle is dropped.
    fn scratch(&self) -> Result<tempfile::TempDir> {
        tempfile::Builder::new().prefix("bench-").tempdir_in(&self.target).context("no scratch directory")
    }
}

fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.first().is_some_and(|first| first == process::FLOOR_ARGUMENT) {
        return process::run_floor();
    }
    if let Some((_, rest)) = wanted.split_first().filter(|(first, _)| *first == crowd::CROWD_ARGUMENT) {
        return crowd::run_subscribers(rest);
    }
    if let Some(unknown) = wanted.iter().find(|name| GROUPS.iter().all(|(known, _)| !names(name, known))) {
        let known: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
        bail!("wanted groups among `{}`, got `{unknown}`", known.join("`, `"));
    }
    let bench = Bench { target: target_dir() };
    std::fs::create_dir_all(&bench.target).context("the target directory cannot be created")?;
    let (mut metrics, mut failed) = (Vec::new(), Vec::new());
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|wanted| names(wanted, name)) {
            report::progress(name);
            // The other groups are measured nevertheless: a whole run takes minutes.
            match measure(&bench) {
                Ok(measured) => metrics.extend(measured),
                Err(error) => failed.push(format!("`{name}` could not be measured: {error:#}")),
            }
        }
    }
    let machine = Machine::inspect(&bench)?;
    report::print(&metrics, &machine);
    failed.extend(report::flaws(&metrics));
    if wanted.is_empty() {
        report::write(&metrics, &bench.target.join("bench.json"))?;
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    if wanted.is_empty() {
        report::written(&page::write(&metrics, &machine)?);
    }
    Ok(())
}

/// Whether an argument names the group, or a family of groups (`density`).
fn names(word: &str, group: &str) -> bool {
    group.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).with_file_name("target"),
    }
}
