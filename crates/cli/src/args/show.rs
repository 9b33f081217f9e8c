//! The command line of what shows.

use clap::{Args, Subcommand};

/// `viv show`.
#[derive(Debug, Subcommand)]
pub(crate) enum Show {
    /// Who an agent is, what it does and knows
    Agent(AgentArg),
    /// One run as a waterfall of its steps: by its id, or an agent's newest
    Run(RunArg),
    /// What an agent was sent, newest first, and what became of it
    Inbox(InboxArg),
    /// What an agent's model is sent: its consciousness, and tokens per layer
    Mind(MindArg),
}

/// An agent, or the only one.
#[derive(Debug, Args)]
pub(crate) struct AgentArg {
    /// The agent, by handle or id [default: the only one]
    #[arg(value_name = "NAME|ID")]
    pub(crate) agent: Option<String>,
}

/// A mind.
#[derive(Debug, Args)]
pub(crate) struct MindArg {
    /// The agent, by handle or id [default: the only one]
    #[arg(value_name = "NAME|ID")]
    pub(crate) agent: Option<String>,
    /// Only the layers, not the entries
    #[arg(long)]
    pub(crate) layers: bool,
}

/// A run.
#[derive(Debug, Args)]
pub(crate) struct RunArg {
    /// The run's id, or an agent whose newest run is meant [default: the only agent]
    #[arg(value_name = "ID|AGENT")]
    pub(crate) run: Option<String>,
}

/// An inbox.
#[derive(Debug, Args)]
pub(crate) struct InboxArg {
    /// The agent, by handle or id [default: the only one]
    #[arg(value_name = "NAME|ID")]
    pub(crate) agent: Option<String>,
    /// Only events in this state: waiting, held, lived, skipped, canceled, dead or dropped
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    /// Events to show at most
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}
