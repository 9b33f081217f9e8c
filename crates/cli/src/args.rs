//! The command line, all of it. Names here are what scripts rely on; nothing is done here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A runtime for living agents.
#[derive(Debug, Parser)]
#[command(name = "viv", version, disable_help_subcommand = true)]
#[command(after_help = "First time? Run `viv up`, and in a second terminal `viv chat`.\n\n\
    Environment: VIV_URL and VIV_KEY name a server and its key; without them the credential file\n\
    of the data directory is used. VIV_LOG filters the server's log (default `warn`).\n\n\
    Exit codes: 0 done or answered, 1 failed, 2 usage, 3 refused, 4 not found, 5 unreachable,\n\
    6 time-out, 7 no reply.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Where everything is kept; clients find the server's address and key there
    #[arg(long, global = true, env = "VIV_DATA_DIR", default_value = "./.viv", value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Print JSON, also for errors
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    Up(UpArgs),
    /// Talk in a space, line by line
    Chat(ChatArgs),
    /// Say one thing, and wait for the answer if you like
    Say(SayArgs),
    /// List agents and what they do
    Ps,
    /// Show an agent, a run, an inbox or a mind
    #[command(subcommand)]
    Show(Show),
    /// Check data, server, key, model and machine
    Doctor(ModelArgs),
    /// Print the version
    Version,
}

/// Which model is the server's default.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ModelArgs {
    /// The model: `rehearsal` or PROVIDER/MODEL, such as `openai/gpt-5` or `ollama/qwen3`
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Address of the model's API, up to and without `/chat/completions` or `/messages`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// How tools are offered to the model [default: the provider's]
    #[arg(long, value_name = "MODE")]
    pub(crate) tool_mode: Option<ToolModeArg>,
    /// The model's context window in tokens [default: what is known of the model]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1024..))]
    pub(crate) context_window: Option<u32>,
}

/// How tools are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolModeArg {
    /// By the API's own tool calls
    Native,
    /// As a schema of the reply, for small local models
    #[value(name = "json_schema")]
    JsonSchema,
}

/// `viv up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:7878", value_name = "ADDR")]
    pub(crate) listen: String,
    /// Listen also where other machines can connect (plain HTTP: put TLS in front of it)
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// A name or address that clients may use for this server, besides the one listened on
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// `viv chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The space, by handle or id [default: the only one]
    #[arg(long, value_name = "SPACE")]
    pub(crate) space: Option<String>,
    /// The agent to talk with, by handle or id; chooses the space that you share
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Who speaks, by handle or id (admin keys only) [default: you]
    #[arg(long = "as", value_name = "ENTITY")]
    pub(crate) sender: Option<String>,
    /// Messages to show at the start
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=200))]
    pub(crate) history: u32,
    /// Seconds to wait for each answer where input is not a terminal
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

/// `viv say`.
#[derive(Debug, Args)]
pub(crate) struct SayArgs {
    /// What to say; several words are one text, `-` reads standard input
    #[arg(required = true, value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Wait until the cycle that lived the message ends, and print what it said
    #[arg(long)]
    pub(crate) wait: bool,
    /// The agent whose cycle is waited for, by handle or id [default: the only one]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// The space, by handle or id [default: the only one]
    #[arg(long, value_name = "SPACE")]
    pub(crate) space: Option<String>,
    /// Who speaks, by handle or id (admin keys only) [default: you]
    #[arg(long = "as", value_name = "ENTITY")]
    pub(crate) sender: Option<String>,
    /// Seconds to wait
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

/// `viv show`.
#[derive(Debug, Subcommand)]
pub(crate) enum Show {
    /// Who an agent is, what it does and knows
    Agent(AgentArg),
    /// One run, step by step: by its id, or an agent's newest
    Run(RunArg),
    /// What an agent was sent, newest first, and what became of it
    Inbox(InboxArg),
    /// An agent's consciousness, entry by entry
    Mind(AgentArg),
}

/// An agent, or the only one.
#[derive(Debug, Args)]
pub(crate) struct AgentArg {
    /// The agent, by handle or id [default: the only one]
    #[arg(value_name = "NAME|ID")]
    pub(crate) agent: Option<String>,
}

/// A run.
#[derive(Debug, Args)]
pub(crate) struct RunArg {
    /// The run's id, or an agent whose newest run is meant [default: the only agent]
    #[arg(value_name = "ID|AGENT")]
    pub(crate) run: Option<String>,
}

/// An inbox.
#[derive(Debug, Args)]
pub(crate) struct InboxArg {
    /// The agent, by handle or id [default: the only one]
    #[arg(value_name = "NAME|ID")]
    pub(crate) agent: Option<String>,
    /// Only events in this state: waiting, held, lived, skipped, canceled, dead or dropped
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    /// Events to show at most
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).unwrap()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_names_that_scripts_rely_on_are_kept() {
        let cli = parse(
            "viv up --data-dir d --listen 127.0.0.1:0 --model rehearsal --base-url http://h/v1 \
             --tool-mode json_schema --context-window 8192 --json",
        );
        assert!(cli.global.json);
        let Command::Up(up) = cli.command else { panic!("not up") };
        assert_eq!(up.model.tool_mode, Some(ToolModeArg::JsonSchema));
        let Command::Say(say) = parse("viv say --wait --json --timeout 5 hello there").command else {
            panic!("not say")
        };
        assert_eq!((say.wait, say.timeout, say.text.join(" ")), (true, 5, "hello there".to_owned()));
        let Command::Show(Show::Mind(mind)) = parse("viv show mind --json").command else {
            panic!("not mind")
        };
        assert_eq!(mind.agent, None);
    }
}
