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

/// What a value is compared with. The kind says which values are impossible: a measurement that yields one has measured something
/// else, and fails the run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Floor {
    /// The bare part of the same work: the value contains it, so it is not smaller.
    Bound(f64),
    /// The bare work as a rate: the value does the same and more, so it is not faster.
    Ceiling(f64),
    /// The same work in a case that is not harder.
    Twin(f64),
    /// Something else that is only compared.
    Named(f64),
    /// The same, and the value is what is left after a subtraction: it may be nothing.
    Residue(f64),
}

/// By how much two measurements of one thing may differ.
const NOISE: f64 = 0.1;
/// By how much the easier of two cases may come out as the more expensive one.
const TWIN_NOISE: f64 = 0.3;

impl Floor {
    fn value(self) -> f64 {
        match self {
            Self::Bound(floor)
            | Self::Ceiling(floor)
            | Self::Twin(floor)
            | Self::Named(floor)
            | Self::Residue(floor) => floor,
        }
    }

    /// Why this value cannot be, if it cannot.
    fn flaw(self, value: f64) -> Option<String> {
        let (floor, ratio) = (self.value(), value / self.value());
        if !value.is_finite() || !floor.is_finite() {
            return Some("nothing was measured".to_owned());
        }
        if matches!(self, Self::Residue(_)) {
            return None;
        }
        if value <= 0.0 || floor <= 0.0 {
            let which = if value <= 0.0 { "value" } else { "floor" };
            return Some(format!("a {which} of {} costs nothing", short(value.min(floor))));
        }
        match self {
            Self::Bound(_) if ratio < 1.0 - NOISE => {
                Some(format!("{} of its floor, which is a part of it", short(ratio)))
            }
            Self::Ceiling(_) if ratio > 1.0 + NOISE => {
                Some(format!("{} times as fast as a part of the same work alone", short(ratio)))
            }
            Self::Twin(_) if ratio < 1.0 - TWIN_NOISE => {
                Some(format!("{} of what a case costs that is not harder", short(ratio)))
            }
            _ => None,
        }
    }
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
    /// Why the value cannot be. A run with such a value fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flaw: Option<String>,
}

impl Metric {
    /// A measured metric.
    pub(crate) fn new(
        metric: &'static str,
        (value, unit): (f64, &'static str),
        floor: Floor,
        goal: Goal,
        note: String,
    ) -> Self {
        let (flaw, floor) = (floor.flaw(value), floor.value());
        let ratio = value / floor;
        let (met, goal) = match goal {
            Goal::ValueAtMost(most) => (value <= most, format!("value <= {}", short(most))),
            Goal::ValueBelow(bound) => (value < bound, format!("value < {}", short(bound))),
            Goal::ValueAtLeast(least) => (value >= least, format!("value >= {}", short(least))),
            Goal::ValueIs(this) => (value == this, format!("value = {this}")),
            Goal::RatioAtMost(most) => (ratio <= most, format!("ratio <= {most}")),
            Goal::RatioAtLeast(least) => (ratio >= least, format!("ratio >= {least}")),
        };
        let met = met && flaw.is_none();
        Self {
            metric,
            value: round(value),
            unit,
            floor: round(floor),
            ratio: round(ratio),
            goal,
            met,
            note,
            flaw,
        }
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
        let met = match (&line.flaw, line.met) {
            (Some(_), _) => "CANNOT BE",
            (None, true) => "yes",
            (None, false) => "NO",
        };
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

/// What makes this run fail: values that cannot be.
pub(crate) fn flaws(metrics: &[Metric]) -> Vec<String> {
    let flaw = |line: &Metric| Some(format!("`{}` cannot be: {}", line.metric, line.flaw.as_ref()?));
    metrics.iter().filter_map(flaw).collect()
}

/// Writes the report.
pub(crate) fn write(metrics: &[Metric], file: &Path) -> Result<()> {
    let mut text = serde_json::to_string_pretty(metrics).context("the report cannot be encoded as JSON")?;
    text.push('\n');
    std::fs::write(file, text).with_context(|| format!("`{}` cannot be written", file.display()))?;
    written(file);
    Ok(())
}

/// Says that a file was written.
pub(crate) fn written(file: &Path) {
    println!("written: {}", file.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(value: f64, floor: Floor) -> Metric {
        Metric::new("core.some", (value, "us"), floor, Goal::RatioAtMost(4.0), String::new())
    }

    /// All of these met their goals once.
    #[test]
    fn a_value_that_cannot_be_fails_the_run_and_meets_no_goal() {
        for (value, floor) in [
            (0.0, Floor::Named(161.0)),
            (-177.0, Floor::Bound(161.0)),
            (15.0, Floor::Twin(100.0)),
            (9.0, Floor::Named(0.0)),
            (9.0, Floor::Named(-1.0)),
            (f64::NAN, Floor::Named(1.0)),
            (f64::NAN, Floor::Residue(1.0)),
            (1.0, Floor::Bound(f64::INFINITY)),
            (80.0, Floor::Bound(100.0)),
            (120.0, Floor::Ceiling(100.0)),
        ] {
            let metric = metric(value, floor);
            assert!(metric.flaw.is_some() && !metric.met, "{value} {floor:?}");
            assert_eq!(flaws(&[metric]).len(), 1);
        }
    }

    #[test]
    fn what_can_be_is_judged_by_its_goal() {
        for (value, floor) in [
            (1.0, Floor::Bound(1.0)),
            (95.0, Floor::Bound(100.0)),
            (80.0, Floor::Twin(100.0)),
            (101.0, Floor::Ceiling(100.0)),
            (3.0, Floor::Ceiling(100.0)),
            (0.1, Floor::Named(100.0)),
            (-0.1, Floor::Residue(100.0)),
        ] {
            let metric = metric(value, floor);
            assert!(metric.flaw.is_none() && metric.met, "{value} {floor:?}: {:?}", metric.flaw);
        }
        assert!(!metric(900.0, Floor::Bound(100.0)).met);
        assert_eq!(flaws(&[metric(900.0, Floor::Bound(100.0))]), [""; 0]);
    }
}
