//! The command line of commands that send messages.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The space, by handle or id [default: the only one]
    #[arg(long, value_name = "SPACE")]
    pub(crate) space: Option<String>,
    /// The agent to talk to, by handle or id; picks the space you share
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// The sender, by handle or id (admin keys only) [default: owner]
    #[arg(long = "as", value_name = "ENTITY")]
    pub(crate) sender: Option<String>,
    /// Number of earlier messages to show
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=200))]
    pub(crate) history: u32,
    /// Seconds to wait for each reply if input is not a terminal
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

#[derive(Debug, Args)]
pub(crate) struct SayArgs {
    /// The message; several words are one text, `-` reads standard input
    #[arg(required = true, value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Wait until the cycle that processed the message ends, and print its messages
    #[arg(long)]
    pub(crate) wait: bool,
    /// The agent to wait for, by handle or id [default: the only one]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// The space, by handle or id [default: the only one]
    #[arg(long, value_name = "SPACE")]
    pub(crate) space: Option<String>,
    /// The sender, by handle or id (admin keys only) [default: owner]
    #[arg(long = "as", value_name = "ENTITY")]
    pub(crate) sender: Option<String>,
    /// Seconds to wait
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}
