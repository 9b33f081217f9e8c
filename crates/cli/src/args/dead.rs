//! The command line of single events: dead events, and canceling events that wait.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DeadArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<DeadVerb>,
    /// Only events of this agent, by handle or id [default: all agents]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadVerb {
    /// Show one in full: its content, its source, why it failed
    Show(OneEvent),
    /// Retry events: a dead one waits again, a processed or skipped one is sent as a new event
    Retry(Events),
    /// Drop dead events; their rows stay in the inbox
    Drop(Events),
}

#[derive(Debug, Args)]
pub(crate) struct OneEvent {
    /// The event, by id or by its SEQ in the inbox
    pub(crate) event: String,
    /// Its agent, by handle or id [default: the only agent that has it]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Canceled {
    /// Events, by id or by their SEQ in the inbox; calls, by id
    #[arg(required = true, value_name = "EVENT|CALL")]
    pub(crate) wanted: Vec<String>,
    /// The agent, by handle or id [default: the only agent that has it]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Events {
    /// The events, by id or by their SEQ in the inbox
    #[arg(required = true, value_name = "EVENT")]
    pub(crate) events: Vec<String>,
    /// Its agent, by handle or id [default: the only agent that has it]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}
