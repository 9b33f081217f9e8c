//! The command line of commands that follow a running server.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  viv watch home\n  viv watch ada --since 10m\n  viv watch --lines -n 50 --no-follow\n\n\
    A handle that both a space and an agent have is written `space:NAME` or `agent:NAME`.\n\
    Ctrl-C ends it. It continues after a restart of the server and reports it."
)]
pub(crate) struct WatchArgs {
    /// A space or an agent, by handle or id [default: everything; the only space for a member's key]
    #[arg(value_name = "SPACE|AGENT")]
    pub(crate) subjects: Vec<String>,
    /// Follow all spaces and agents
    #[arg(long, conflicts_with = "subjects")]
    pub(crate) all: bool,
    /// Number of past lines to show
    #[arg(long, short = 'n', default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=200))]
    pub(crate) history: u32,
    /// Show the past since then, at most 200 lines: `90s`, `10m`, `2h`, `1d` or a time such as
    /// `2026-11-21T14:03:05Z`
    #[arg(long, value_name = "WHEN", conflicts_with = "history")]
    pub(crate) since: Option<String>,
    /// Also show the model's private text (one agent only)
    #[arg(long, requires = "subjects")]
    pub(crate) thoughts: bool,
    /// One line for each message and each cycle that ended; of several agents, if they are named
    #[arg(long, conflicts_with = "thoughts")]
    pub(crate) lines: bool,
    /// With --lines: print the past, then exit
    #[arg(long, requires = "lines")]
    pub(crate) no_follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  viv top --sort cost\n\n\
    Keys: Up/Down choose, Enter opens, o sorts, / filters, c cancels the cycle,\n\
    s suspends or resumes, ? lists the keys, q quits. If output is not a terminal, one table is printed.")]
pub(crate) struct TopArgs {
    /// Print one table, then exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Sort order
    #[arg(long, default_value = "state", value_name = "COLUMN")]
    pub(crate) sort: SortArg,
    /// Only agents whose name, state or model contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) filter: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortArg {
    /// Working agents first, then agents with waiting events
    #[default]
    State,
    /// By handle
    Name,
    /// Most waiting events
    Waiting,
    /// Most tokens
    Tokens,
    /// Most expensive
    Cost,
    /// Most recently active
    Last,
}
