//! The command line of projects: files that define the agents and the server's settings.

use clap::{Args, Subcommand};

use super::UpArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting in effect; takes the flags of `viv up`
    Show {
        /// Show where each value comes from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        up: Box<UpArgs>,
    },
    /// Check what `viv up` would refuse, without starting it
    Check {
        #[command(flatten)]
        up: Box<UpArgs>,
    },
    /// List all keys with type, default and meaning
    Keys {
        /// Keys of an agent file instead of vivarium.toml
        #[arg(long)]
        agent: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    /// The agent, by handle or id
    pub(crate) agent: String,
    /// Name of the service, such as `deploy`
    pub(crate) service: String,
    /// Payload, as JSON; `-`, or a pipe without JSON here, reads standard input
    #[arg(value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// Show it to the agent at its next step, even in a running cycle
    #[arg(long)]
    pub(crate) urgent: bool,
    /// Idempotency key: sent twice with one key, it is accepted once
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}
