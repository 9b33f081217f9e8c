//! The command line of `viv targets`.

use clap::{ArgGroup, Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct TargetsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<TargetsVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TargetsVerb {
    /// List the targets, as the command alone does
    #[command(alias = "ls")]
    List,
    /// Show a target
    Show {
        /// The target
        target: String,
    },
    /// Add a target, or change one; one that was switched off is on again
    Add(AddTargetArgs),
    /// Remove a target and what waits for it
    #[command(alias = "rm")]
    Remove {
        /// The target
        target: String,
    },
    /// List the deliveries to a target that were given up
    Dead {
        /// The target
        target: String,
    },
    /// Send deliveries again that were given up, before everything that happened later
    Retry {
        /// The target
        target: String,
        /// The delivery, as `viv targets dead` lists it [default: all of them]
        delivery: Option<String>,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("of").required(true))]
pub(crate) struct AddTargetArgs {
    /// Its name
    pub(crate) name: String,
    /// Its address
    pub(crate) url: String,
    /// Told of messages in this space, by handle or id
    #[arg(long, value_name = "SPACE", group = "of")]
    pub(crate) space: Option<String>,
    /// Told of this agent, by handle or id
    #[arg(long, value_name = "AGENT", group = "of")]
    pub(crate) agent: Option<String>,
    /// What it is told: `message`, `cycle.ended`, `alert`, `approval.wanted`
    #[arg(long, value_delimiter = ',', value_name = "KIND,…", default_value = "message")]
    pub(crate) on: Vec<String>,
    /// An expression over `type`, `timestamp` and `data`: what happens is sent only if it is true
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) only_if: Option<String>,
    /// What is sent in place of the news: JSON whose texts are templates over `type`, `timestamp` and `data`
    #[arg(long, value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// Names of secrets as `viv secrets` lists them; each of them signs
    #[arg(long = "secret", value_delimiter = ',', value_name = "NAME,…", required = true)]
    pub(crate) secrets: Vec<String>,
    /// An address inside that it may have, such as `127.0.0.1:8000`
    #[arg(long, value_name = "TARGET")]
    pub(crate) allow: Vec<String>,
}
