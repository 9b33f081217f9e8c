//! The command line of what looks at models.

use clap::{Args, Subcommand};

use super::ToolModeArg;

/// `viv models`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ModelsArgs {
    /// What to do with one instead of listing them
    #[command(subcommand)]
    pub(crate) verb: Option<ModelsVerb>,
    /// List what is known of all well-known models, without asking anyone
    #[arg(long)]
    pub(crate) all: bool,
    /// Only this provider, with all its models
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
}

/// What can be done with a model.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsVerb {
    /// Find out whether a model and its server are good enough for agents
    Try(TryArgs),
}

/// `viv models try`.
#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// The model, as PROVIDER/MODEL; of a PROVIDER alone its first
    #[arg(value_name = "MODEL")]
    pub(crate) model: String,
    /// Address of the model's API, up to and without `/chat/completions` or `/messages`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Try only this way to offer tools [default: every way that the provider knows]
    #[arg(long, value_name = "MODE")]
    pub(crate) tool_mode: Option<ToolModeArg>,
    /// Seconds to wait for one whole answer; for its first word half of it, or 30 where that is more
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) timeout: u64,
}
