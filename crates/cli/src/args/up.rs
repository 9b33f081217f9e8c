//! The command line of commands that start a server or call its model.

use clap::{Args, ValueEnum};
use serde::Serialize;

/// The server's default model. Each option is a setting, and is serialized under its name.
#[derive(Clone, Debug, Default, Args, Serialize)]
pub(crate) struct ModelArgs {
    /// The model: `demo` or PROVIDER/MODEL, such as `openai/gpt-5` or `ollama/qwen3`
    #[arg(long, value_name = "MODEL")]
    #[serde(rename = "model.name")]
    pub(crate) model: Option<String>,
    /// Address of the model's API, up to and without `/chat/completions`, `/responses` or `/messages`
    ///
    /// `openai/…` uses the Responses API at OpenAI's own address and chat completions at any other;
    /// `openai-responses/…` and `openai-chat/…` choose one of the two at any address.
    #[arg(long, value_name = "URL")]
    #[serde(rename = "model.base_url")]
    pub(crate) base_url: Option<String>,
    /// How tools are offered to the model [default: depends on the provider]
    #[arg(long, value_name = "MODE")]
    #[serde(rename = "model.tool_mode")]
    pub(crate) tool_mode: Option<ToolModeArg>,
    /// Context window of the model in tokens [default: known per model]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1024..))]
    #[serde(rename = "model.context_window")]
    pub(crate) context_window: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum ToolModeArg {
    /// Native tool calls of the API
    Native,
    /// A JSON schema for the reply, for small local models
    JsonSchema,
}

/// `viv up`. Options that are settings are serialized under their names.
#[derive(Debug, Default, Args, Serialize)]
pub(crate) struct UpArgs {
    /// Address to listen on; port 0 picks a free port [default: 127.0.0.1:7878]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Allow a listen address that other machines can reach (plain HTTP: put TLS in front of it)
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Another host name that clients may use for this server
    #[arg(long, value_name = "NAME")]
    #[serde(rename = "hosts")]
    pub(crate) host: Vec<String>,
    /// Folder of agent files [default: ./agents, if it exists]
    #[arg(long, value_name = "DIR")]
    #[serde(rename = "agents_dir")]
    pub(crate) agents: Option<String>,
    /// Folder of tool files [default: ./tools, if it exists]
    #[arg(long, value_name = "DIR")]
    #[serde(rename = "tools_dir")]
    pub(crate) tools: Option<String>,
    /// Retire agents whose files are gone
    #[arg(long)]
    #[serde(skip)]
    pub(crate) prune: bool,
    /// With --prune: do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Start in the background and return when it is ready: see `viv logs` and `viv stop`
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Is the process in the background
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Follow the log until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Number of lines to begin with; the newest are kept
    #[arg(long, short = 'n', default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) lines: u32,
}
