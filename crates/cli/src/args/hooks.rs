//! The command line of `viv hooks`.

use agent::port::HookKind;
use clap::builder::{PossibleValuesParser as Names, TypedValueParser};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct HooksArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<HooksVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HooksVerb {
    /// List the hooks, as the command alone does
    #[command(alias = "ls")]
    List,
    /// Declare a hook, or change one: a service outside can send events through it from then on
    Add(AddHookArgs),
    /// Show a hook
    Show {
        /// The hook
        hook: String,
    },
    /// Remove a hook and its log
    #[command(alias = "rm")]
    Remove {
        /// The hook
        hook: String,
    },
    /// Try a hook: send it a delivery as its service would sign it, with a secret of this machine
    Send(SendHookArgs),
    /// List the last deliveries of a hook, newest first
    Log {
        /// The hook
        hook: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddHookArgs {
    /// Its name, and the last part of its address: `/v1/hooks/NAME`
    pub(crate) name: String,
    /// What verifies a delivery: the signature of a service, a secret in a header, or a key of this server
    #[arg(long, value_parser = Names::new(["standard", "github", "stripe", "slack", "shared_secret", "key"])
          .try_map(|name| name.parse::<HookKind>()))]
    pub(crate) kind: HookKind,
    /// The agents that get its events, by handle or id
    #[arg(long, required = true, value_delimiter = ',', value_name = "AGENT,…")]
    pub(crate) to: Vec<String>,
    /// Names of secrets as `viv secrets` lists them; any of them verifies a delivery
    #[arg(long = "secret", value_delimiter = ',', value_name = "NAME,…")]
    pub(crate) secrets: Vec<String>,
    /// With `--kind shared_secret`: the header with the secret [default: x-webhook-secret]
    #[arg(long, value_name = "NAME")]
    pub(crate) header: Option<String>,
    /// A template of what agents read, over `body` and `headers` [default: {{ body }}]
    #[arg(long, value_name = "TEMPLATE", alias = "event")]
    pub(crate) template: Option<String>,
    /// An expression over `body` and `headers`: a delivery with which it is not true wakes nobody
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) only_if: Option<String>,
    /// An expression over `body` and `headers`: if it is true, the event may interrupt a running cycle
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) urgent: Option<String>,
    /// Answer for what the template takes of a delivery: it takes single fields, and numbers and short lines in them are no text
    /// of strangers
    #[arg(long, requires = "template")]
    pub(crate) trusted: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SendHookArgs {
    /// The hook
    pub(crate) hook: String,
    /// The body, as JSON; `-` reads standard input [default: a small one]
    #[arg(value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// Id of the delivery; the same id again is a duplicate [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
}
