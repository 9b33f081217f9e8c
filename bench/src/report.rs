//! The table, and the file that machines read.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a table is what this program is for")]

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::machine::Machine;
use crate::measure::short;

/// Whether a goal is met from below or from above.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// `value` at most this.
    ValueAtMost(f64),
    /// `value` below this.
    ValueBelow(f64),
    /// `value` at least this.
    ValueAtLeast(f64),
    /// `value` this very number.
    ValueIs(f64),
    /// `ratio` at most this.
    RatioAtMost(f64),
    /// `ratio` at least this.
    RatioAtLeast(f64),
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(crate) struct Metric {
    /// Its name, which scripts rely on.
    pub(crate) metric: &'static str,
    /// What was measured.
    pub(crate) value: f64,
    /// In what.
    pub(crate) unit: &'static str,
    /// The same without us: what the machine or the bare library does, in this very run.
    pub(crate) floor: f64,
    /// `value` by `floor`.
    pub(crate) ratio: f64,
    /// What it should be, in words.
    pub(crate) goal: String,
    /// Whether it is.
    pub(crate) met: bool,
    /// How it was measured, its spread, and where it goes.
    pub(crate) note: String,
}

impl Metric {
    /// A measured metric.
    pub(crate) fn new(
        metric: &'static str,
        (value, unit): (f64, &'static str),
        floor: f64,
        goal: Goal,
        note: String,
    ) -> Self {
        let ratio = value / floor;
        let (met, goal) = match goal {
            Goal::ValueAtMost(most) => (value <= most, format!("value <= {}", short(most))),
            Goal::ValueBelow(bound) => (value < bound, format!("value < {}", short(bound))),
            Goal::ValueAtLeast(least) => (value >= least, format!("value >= {}", short(least))),
            Goal::ValueIs(this) => (value == this, format!("value = {this}")),
            Goal::RatioAtMost(most) => (ratio <= most, format!("ratio <= {most}")),
            Goal::RatioAtLeast(least) => (ratio >= least, format!("ratio >= {least}")),
        };
        Self { metric, value: round(value), unit, floor: round(floor), ratio: round(ratio), goal, met, note }
    }
}

/// Four digits behind the point: more is noise.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Says what is being measured.
pub(crate) fn progress(group: &str) {
    eprintln!("measuring {group} …");
}

/// Prints the table, the notes and the machine.
pub(crate) fn print(metrics: &[Metric], machine: &Machine) {
    println!();
    println!(
        "{:<26} {:>9} {:<8} {:>9} {:>8}  {:<16} met",
        "metric", "value", "unit", "floor", "ratio", "goal"
    );
    for line in metrics {
        let (value, floor, ratio) = (short(line.value), short(line.floor), short(line.ratio));
        let met = if line.met { "yes" } else { "NO" };
        println!(
            "{:<26} {value:>9} {:<8} {floor:>9} {ratio:>8}  {:<16} {met}",
            line.metric, line.unit, line.goal
        );
    }
    println!();
    for line in metrics {
        println!("{}: {}", line.metric, line.note);
    }
    println!("machine: {}", machine.line());
}

/// Writes the report.
pub(crate) fn write(metrics: &[Metric], file: &Path) -> Result<()> {
    let mut text = serde_json::to_string_pretty(metrics).context("the report is no JSON")?;
    text.push('\n');
    std::fs::write(file, text).with_context(|| format!("`{}` cannot be written", file.display()))?;
    println!("written: {}", file.display());
    Ok(())
}
