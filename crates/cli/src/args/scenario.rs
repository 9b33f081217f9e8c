//! The command line of scenarios.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ModelArgs;

/// More runs than this are a benchmark, not a scenario.
const REPEAT_MAX: i64 = 1_000;
/// Runs of an agent that fit into a file that a person reads.
const CYCLES_MAX: i64 = 100;

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioVerb {
    /// Run scenario tests
    ///
    /// Without --model the agents use scripted replies and a simulated clock: hours pass in no time, and
    /// every run is the same. With --model that model replies for all agents in real time and the scripts
    /// are ignored; idle pauses are cut short.
    Run(ScenarioRunArgs),
    /// Check scenario files without running them
    Check(ScenarioFiles),
    /// Turn what an agent of a running server did into a scenario
    Record(RecordArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ScenarioFiles {
    /// Scenario files, or directories with `*.yaml` files in them [default: the project's `scenarios`]
    #[arg(value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ScenarioRunArgs {
    #[command(flatten)]
    pub(crate) files: ScenarioFiles,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Run each scenario this many times; only a real model may reply differently
    #[arg(long, default_value_t = 1, value_name = "N", requires = "model",
        value_parser = clap::value_parser!(u32).range(1..=REPEAT_MAX))]
    pub(crate) repeat: u32,
    /// Share of runs that must pass
    #[arg(long, default_value = "100%", value_name = "PERCENT", value_parser = percent)]
    pub(crate) at_least: u8,
    /// Time limit of one run, in seconds
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
    /// Print the transcript of every run, not only of failed ones
    #[arg(long)]
    pub(crate) transcript: bool,
    /// Print the runs of every agent as `viv runs show` draws them
    #[arg(long)]
    pub(crate) runs: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The agent, by handle or id [default: the only one]
    pub(crate) agent: Option<String>,
    /// How many of its newest cycles to record
    #[arg(long, default_value_t = 10, value_name = "N", conflicts_with = "run",
        value_parser = clap::value_parser!(u32).range(1..=CYCLES_MAX))]
    pub(crate) cycles: u32,
    /// Only this run, by its id
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// File to write; must not exist [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Parses `80%` or `80`.
fn percent(text: &str) -> Result<u8, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<u8>();
    number.ok().filter(|n| *n <= 100).ok_or_else(|| "wanted a percentage such as `80%`".to_owned())
}
