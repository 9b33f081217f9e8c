//! The command line of `viv runs`, and of what an agent is sent and finds.

use agent::id::CycleId;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<RunsVerb>,
    #[command(flatten)]
    pub(crate) list: RunsList,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsVerb {
    /// List the newest runs, as the command alone does
    #[command(alias = "ls")]
    List(RunsList),
    /// Show a run step by step: by its id, or an agent's newest run
    Show {
        /// A run's id or its beginning, or an agent for its newest run [default: the only agent]
        #[arg(value_name = "ID|AGENT")]
        run: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunsList {
    /// Only runs of this agent, by handle or id [default: the newest of all]
    pub(crate) agent: Option<String>,
    /// Maximum number of runs
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ContextArgs {
    /// The agent, by handle or id [default: the only one]
    pub(crate) agent: Option<String>,
    /// Print only the layers, not the entries
    #[arg(long, conflicts_with = "at")]
    pub(crate) layers: bool,
    /// Print all entries of the history, also those that are not sent any more
    #[arg(long, conflicts_with_all = ["at", "layers"])]
    pub(crate) all: bool,
    /// Print what was sent in this run, by its id
    #[arg(long, value_name = "RUN")]
    pub(crate) at: Option<CycleId>,
}
