//! The command line of `viv show`.

use agent::id::CycleId;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Show {
    /// Show an agent: its state, goals, memories
    Agent {
        /// The agent, by handle or id [default: the only one]
        agent: Option<String>,
    },
    /// Show a run step by step: by its id, or an agent's newest run
    Run {
        /// A run's id or its beginning, or an agent for its newest run [default: the only agent]
        #[arg(value_name = "ID|AGENT")]
        run: Option<String>,
    },
    /// Show what the agent's model is sent: summary, entries, and tokens per layer
    Context {
        /// The agent, by handle or id [default: the only one]
        agent: Option<String>,
        /// Print only the layers, not the entries
        #[arg(long, conflicts_with = "at")]
        layers: bool,
        /// Print all entries of the history, also those that are not sent any more
        #[arg(long, conflicts_with_all = ["at", "layers"])]
        all: bool,
        /// Print what was sent in this run, by its id
        #[arg(long, value_name = "RUN")]
        at: Option<CycleId>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// Only runs of this agent, by handle or id [default: the newest of all]
    pub(crate) agent: Option<String>,
    /// Maximum number of runs
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) limit: u32,
}
