//! The command line of projects: files that say which agents live, and how the server is set up.

use clap::{Args, Subcommand};

use super::UpArgs;

/// `viv init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to write it; made if it is not there
    #[arg(default_value = ".", value_name = "DIR")]
    pub(crate) dir: std::path::PathBuf,
}

/// `viv config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting as it holds; takes the flags of `viv up`
    Show {
        /// Say where each value comes from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        up: Box<UpArgs>,
    },
    /// Say what `viv up` would refuse, without starting anything
    Check {
        #[command(flatten)]
        up: Box<UpArgs>,
    },
    /// List all keys with type, default and meaning
    Keys(KeysArgs),
}

/// `viv config keys`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct KeysArgs {
    /// Those of an agent file instead of those of vivarium.toml
    #[arg(long)]
    pub(crate) agent: bool,
    /// As a table in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// `viv event`.
#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    /// The agent, by handle or id
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,
    /// What reports, such as `deploy`
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,
    /// What it reports, as JSON
    #[arg(value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// Tell it in the middle of what it does
    #[arg(long)]
    pub(crate) urgent: bool,
    /// Sent twice under one key, it is lived once
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}
