//! The command line of single events: dead letters, and taking back what waits.

use clap::{Args, Subcommand};

/// `viv dead`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DeadArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<DeadVerb>,
    /// Only those of this agent, by handle or id [default: of all]
    #[arg(value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}

/// What can be done with a dead letter.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadVerb {
    /// Show one in full: what it says, where it comes from, why it was given up
    Show(OneEvent),
    /// Send events again: a dead one waits again, a lived or skipped one is sent as a new event
    Retry(Events),
    /// Give dead events up for good; their rows stay in the inbox
    Drop(Events),
}

/// An event.
#[derive(Debug, Args)]
pub(crate) struct OneEvent {
    /// The event, by id or by its SEQ in the inbox
    #[arg(value_name = "EVENT")]
    pub(crate) event: String,
    /// Whose, by handle or id [default: the only agent that was sent it]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}

/// Events or calls to take back.
#[derive(Debug, Args)]
pub(crate) struct Canceled {
    /// Events, by id or by their SEQ in the inbox; calls, by id
    #[arg(required = true, value_name = "EVENT|CALL")]
    pub(crate) wanted: Vec<String>,
    /// Whose, by handle or id [default: the only agent that has it]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}

/// Events of one agent.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// The events, by id or by their SEQ in the inbox
    #[arg(required = true, value_name = "EVENT")]
    pub(crate) events: Vec<String>,
    /// Whose, by handle or id [default: the only agent that was sent it]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}
