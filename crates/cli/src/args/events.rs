//! The command line of events: what agents are sent, and single events of an inbox.

use clap::{Args, Subcommand};

use super::EventArgs;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<EventsVerb>,
    #[command(flatten)]
    pub(crate) list: InboxArg,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventsVerb {
    /// List an agent's events, newest first, with their states; with `--state dead` those of all agents
    List(InboxArg),
    /// Show one in full: its content, its source, and why it failed
    Show(OneEvent),
    /// Send an event to an agent, as a service would
    Send(EventArgs),
    /// Retry events: a dead one waits again, a processed or skipped one is sent as a new event
    Retry(Events),
    /// Drop dead events; their rows stay in the inbox
    Drop(Events),
    /// Cancel waiting events or unanswered calls; to cancel a running cycle use `viv agents cancel`
    Cancel(Canceled),
}

#[derive(Debug, Args)]
pub(crate) struct InboxArg {
    /// The agent, by handle or id [default: the only one]
    pub(crate) agent: Option<String>,
    /// Only events in this state: waiting, held, processed, skipped, canceled, dead or dropped
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    /// Maximum number of events
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
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
