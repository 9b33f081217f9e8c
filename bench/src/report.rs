//! The printed table and the JSON report.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program prints a table")]

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::machine::Machine;
use crate::measure::short;

/// The goal of a metric.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// `value` at most this.
    ValueAtMost(f64),
    /// `value` below this.
    ValueBelow(f64),
    /// `value` at least this.
    ValueAtLeast(f64),
    /// `value` exactly this.
    ValueIs(f64),
    /// `ratio` at most this.
    RatioAtMost(f64),
    /// `ratio` at least this.
    RatioAtLeast(f64),
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(crate) struct Metric {
    /// Its name. Scripts depend on it.
    pub(crate) metric: &'static str,
    /// The measured value.
    pub(crate) value: f64,
    /// The unit of the value.
    pub(crate) unit: &'static str,
    /// The floor: what the machine or the bare library takes for the same work, measured in the same run.
    pub(crate) floor: f64,
    /// `value` divided by `floor`.
    pub(crate) ratio: f64,
    /// The goal as text.
    pub(crate) goal: String,
    /// Whether the goal is met.
    pub(crate) met: bool,
    /// How it was measured, its spread, and its parts.
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

/// Rounds to four decimal places; more are noise.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Prints the group that is being measured.
pub(crate) fn progress(group: &str) {
    eprintln!("measuring {group} …");
}

/// Prints a table of a group, as Markdown.
pub(crate) fn table(lines: &[String]) {
    println!("\n{}\n", lines.join("\n"));
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
    let mut text = serde_json::to_string_pretty(metrics).context("the report cannot be encoded as JSON")?;
    text.push('\n');
    std::fs::write(file, text).with_context(|| format!("`{}` cannot be written", file.display()))?;
    println!("written: {}", file.display());
    Ok(())
}
