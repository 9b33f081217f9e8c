//! The command line of commands about models.

use clap::{Args, Subcommand};

use super::ToolModeArg;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ModelsArgs {
    /// What to do with one instead of listing them
    #[command(subcommand)]
    pub(crate) verb: Option<ModelsVerb>,
    /// List all models of this provider
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsVerb {
    /// Test whether a model and its server are good enough for agents
    Try(TryArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// The model, as PROVIDER/MODEL; PROVIDER alone means its first model
    pub(crate) model: String,
    /// Address of the model's API, up to and without `/chat/completions` or `/messages`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Test only this way of offering tools [default: every way that the provider supports]
    #[arg(long, value_name = "MODE")]
    pub(crate) tool_mode: Option<ToolModeArg>,
    /// Seconds to wait for a whole reply; for its first token half of that, at least 30
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) timeout: u64,
}
