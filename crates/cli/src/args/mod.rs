//! The whole command line. Scripts rely on the names here. This module only defines; it does nothing.

mod approvals;
mod events;
mod help;
mod hooks;
mod live;
mod manage;
mod models;
mod plans;
mod project;
mod renamed;
mod scenario;
mod show;
mod talk;
mod targets;
mod tools;
mod up;
mod upkeep;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use approvals::{AnswerArgs, ApprovalsArgs, ApprovalsList, ApprovalsVerb};
pub(crate) use events::{Canceled, Events, EventsArgs, EventsVerb, InboxArg, OneEvent};
pub(crate) use help::{WELCOME, command, read};
pub(crate) use hooks::{AddHookArgs, HooksArgs, HooksVerb, SendHookArgs};
pub(crate) use live::{SortArg, TopArgs, WatchArgs};
pub(crate) use manage::{
    AgentsArgs, AgentsVerb, AlertArgs, CreateArgs, EntitiesArgs, EntitiesVerb, KeysArgs, KeysVerb, KindArgs,
    MemoriesArgs, MemoriesVerb, OpenSpaceArgs, ReadArgs, SearchArgs, SpacesArgs, SpacesVerb, StateArgs,
};
pub(crate) use models::{ModelsArgs, ModelsVerb, TryArgs};
pub(crate) use plans::{AddPlanArgs, PlansArgs, PlansVerb};
pub(crate) use project::{ConfigCommand, EventArgs};
pub(crate) use renamed::renamed;
pub(crate) use scenario::{RecordArgs, ScenarioFiles, ScenarioRunArgs, ScenarioVerb};
pub(crate) use show::{ContextArgs, RunsArgs, RunsList, RunsVerb};
pub(crate) use talk::{ChatArgs, SayArgs};
pub(crate) use targets::{AddTargetArgs, TargetsArgs, TargetsVerb};
pub(crate) use tools::{
    ImportArgs, McpAddArgs, McpArgs, McpVerb, SecretsArgs, SecretsVerb, ToolsArgs, ToolsVerb,
};
pub(crate) use up::{LogsArgs, ModelArgs, ToolModeArg, UpArgs};
pub(crate) use upkeep::{RestoreArgs, VerifyArgs};

/// A runtime for living agents.
#[derive(Debug, Parser)]
#[command(name = "viv", version, disable_help_subcommand = true)]
#[command(
    after_help = "First time? Run `viv up`, and in a second terminal `viv chat`. Agents of your own: `viv init`.\n\n\
    Environment: VIV_URL and VIV_KEY name a server and its key; without them the credential file\n\
    of the data directory is used. Settings: see `viv config keys`.\n\n\
    Exit codes: 0 done or answered, 1 failed, 2 usage, 3 refused, 4 not found, 5 unreachable,\n\
    6 time-out, 7 no reply."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Global {
    /// Data directory; commands find the server's address and key there
    /// [env: VIV_DATA_DIR] [default: .viv of the project: here, or the nearest above]
    #[arg(long, global = true, help_heading = "Global options", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Settings file of the server [env: VIV_CONFIG] [default: vivarium.toml here, or the
    /// nearest above]
    #[arg(long, global = true, help_heading = "Global options", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON, also for errors
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Print only results and errors, no notes and no progress
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server and apply the agent files
    Up(UpArgs),
    /// Stop the server of this data directory
    Stop,
    /// Print the log of a server that runs in the background
    Logs(LogsArgs),
    /// Write a commented project: settings, two agents and a first scenario
    Init {
        /// Directory to write to; created if missing
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Show and check the server's settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Chat in a space
    Chat(ChatArgs),
    /// Post one message, and optionally wait for the reply
    Say(SayArgs),
    /// List agents and their state
    Ps(StateArgs),
    /// List the newest runs: what each was asked, and what came back; show one
    Runs(RunsArgs),
    /// List agents as `viv ps` does; create, copy or change one, search its archive, show what its model is sent
    Agents(AgentsArgs),
    /// List, set or delete what an agent remembers
    Memories(MemoriesArgs),
    /// List, set or delete plans: when an agent is woken, and what it does then
    Plans(PlansArgs),
    /// List, show and answer calls that wait for people; list and delete rules
    Approvals(ApprovalsArgs),
    /// List the tools that agents can have; declare, show, try or remove one
    Tools(ToolsArgs),
    /// List the MCP servers; add, ask or approve one
    Mcp(McpArgs),
    /// List the hooks, through which services outside send events; add, show, try or remove one
    Hooks(HooksArgs),
    /// List the targets, which are told what happens; add or remove one, send dead deliveries again
    Targets(TargetsArgs),
    /// List, set or remove secrets of tools, hooks and targets, on the machine of the server
    Secrets(SecretsArgs),
    /// List events of an agent; show, send, retry, drop or cancel one
    Events(EventsArgs),
    /// List spaces; open, close, reopen or read one, add or remove members
    Spaces(SpacesArgs),
    /// List people and agents; add a person
    Entities(EntitiesArgs),
    /// List keys; create, rotate or revoke one; replace a lost admin key
    Keys(KeysArgs),
    /// Follow a space, an agent or everything as a live log
    Watch(WatchArgs),
    /// Show all agents live: state, inbox, cost
    Top(TopArgs),
    /// Run, check or record scenario tests
    #[command(subcommand)]
    Scenario(ScenarioVerb),
    /// Check the data, server, key, model and machine
    Doctor(ModelArgs),
    /// Copy the store into one file; the server may be running
    Backup {
        /// File to write, or a folder (the file is named by the time); never overwrites
        #[arg(value_name = "FILE|DIR")]
        to: PathBuf,
    },
    /// Restore a backup into a data directory
    Restore(RestoreArgs),
    /// Check the whole store and list every flaw
    Verify(VerifyArgs),
    /// List the models that can be reached, or test one
    Models(ModelsArgs),
    /// Print completions for a shell
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page, or write all of them
    #[command(hide = true)]
    Man {
        /// Write one page per command into this directory instead
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Print the version
    #[command(hide = true)]
    Version,
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
    fn the_names_that_scripts_rely_on_parse() {
        let cli = parse(
            "viv up --data-dir d --listen 127.0.0.1:0 --model demo --base-url http://h/v1 \
             --tool-mode json_schema --context-window 8192 --json",
        );
        assert!(cli.global.json);
        let Command::Up(up) = cli.command else { panic!("not up") };
        assert_eq!(up.model.tool_mode, Some(ToolModeArg::JsonSchema));
        let Command::Say(say) = parse("viv say --wait --json --timeout 5 hello there").command else {
            panic!("not say")
        };
        assert_eq!((say.wait, say.timeout, say.text.join(" ")), (true, 5, "hello there".to_owned()));
        let Command::Agents(agents) = parse("viv agents context --json").command else {
            panic!("not agents")
        };
        let Some(AgentsVerb::Context(context)) = agents.verb else { panic!("not context") };
        assert_eq!(context.agent, None);
        let Command::Agents(agents) = parse("viv agents --json create bob --model x/y").command else {
            panic!("not agents")
        };
        let Some(AgentsVerb::Create(create)) = agents.verb else { panic!("not create") };
        assert_eq!((create.name.as_str(), create.model.as_deref()), ("bob", Some("x/y")));
    }
}
