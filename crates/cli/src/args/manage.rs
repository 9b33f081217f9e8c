//! The command line of commands that create and change things: agents, spaces, people.

use std::path::PathBuf;

use super::ContextArgs;
use agent::config::WakeOn;
use agent::entity::EntityKind;
use agent::id::GoalId;
use agent::limits;
use agent::memory::Importance;
use agent::port::RecallKind;
use clap::builder::{PossibleValuesParser as Names, TypedValueParser};
use clap::{Args, Subcommand};
use jiff::Span;

/// States by which a list of agents can be filtered.
const STATES: [&str; 6] = ["sleeping", "thinking", "processing", "paused", "suspended", "retired"];

/// `viv ps`, and the list of `viv agents`.
#[derive(Debug, Args)]
pub(crate) struct StateArgs {
    /// Only agents in this state
    #[arg(long, value_name = "STATE", value_parser = STATES)]
    pub(crate) state: Option<String>,
    /// Include retired agents
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<AgentsVerb>,
    #[command(flatten)]
    pub(crate) list: StateArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AlertArgs {
    /// Only those of this agent, by handle or id
    pub(crate) agent: Option<String>,
    /// Only those about this, such as `event_dead`
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Only those since a time or for so long, such as `2h`
    #[arg(long, value_name = "TIME|AGE")]
    pub(crate) since: Option<String>,
    /// Maximum number of alerts
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsVerb {
    /// List agents, as the command alone does
    #[command(alias = "ls")]
    List(StateArgs),
    /// Show an agent: its state, goals, memories
    Show {
        /// The agent, by handle or id [default: the only one]
        agent: Option<String>,
    },
    /// Show what an agent's model is sent: summary, entries, and tokens per layer
    Context(ContextArgs),
    /// Search all that an agent ever saw, wrote or remembers, and the messages of its spaces
    Recall(SearchArgs),
    /// Create an agent
    #[command(alias = "add")]
    Create(CreateArgs),
    /// Create an agent with the config of another one; history, inbox and spaces are not copied
    Clone {
        /// The agent to copy, by handle or id
        #[arg(value_name = "NAME|ID")]
        agent: String,
        /// Handle of the new agent
        #[arg(value_name = "NEW")]
        name: String,
        /// Copy its memories, too
        #[arg(long)]
        memories: bool,
    },
    /// Change an agent's config; used from its next cycle on
    Set {
        /// The agent, by handle or id
        agent: String,
        /// Such as `model=openai/gpt-5`, `limits.max_steps=5`, `instructions=@FILE`; an empty value
        /// goes back to the default
        #[arg(required = true, value_name = "KEY=VALUE")]
        values: Vec<String>,
    },
    /// Suspend an agent: its events wait, an open cycle pauses
    Suspend(OneAgent),
    /// Resume a suspended agent; one that is backing off retries at once
    Resume(OneAgent),
    /// Retire an agent for good; its history is kept, and its name can be used again
    Retire {
        /// The agent, by handle or id
        agent: String,
        /// Do not ask: this cannot be undone
        #[arg(long)]
        yes: bool,
    },
    /// Cancel the running cycle of an agent
    Cancel(OneAgent),
    /// List what operators should know of: the last alerts of all agents and of the server, newest first
    Alerts(AlertArgs),
    /// List the goals of an agent as a tree, with ids
    Goals {
        /// The agent, by handle or id [default: the only one]
        agent: Option<String>,
    },
    /// Set a goal; the agent sees it from its next cycle on
    SetGoal {
        /// The agent, by handle or id
        agent: String,
        /// What it is to reach
        #[arg(value_name = "TEXT")]
        description: String,
        /// From 1 to 10, the most important [default: 5]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=i64::from(limits::GOAL_PRIORITY_MAX)))]
        priority: Option<i32>,
        /// Id of the goal above it
        #[arg(long, value_name = "GOAL")]
        under: Option<GoalId>,
    },
    /// End a goal: it was reached
    EndGoal {
        /// The agent, by handle or id
        agent: String,
        /// Id of the goal
        goal: GoalId,
        /// It was given up
        #[arg(long)]
        abandoned: bool,
        /// Delete it, with the goals below it
        #[arg(long, conflicts_with = "abandoned")]
        delete: bool,
    },
    /// Take strangers' text out of what an agent's model reads
    ClearGuard {
        /// The agent, by handle or id
        agent: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Write an agent as lines of JSON: config, log, events, calls, memories and runs
    Export {
        /// The agent, by handle or id
        agent: String,
        /// File to write; never overwrites [default: standard output]
        file: Option<PathBuf>,
    },
    /// Import an agent from a file of `viv agents export`, all or nothing; the server must be stopped
    Import {
        /// A file written by `viv agents export`
        file: PathBuf,
        /// Its new handle [default: its old one]
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
        /// Believe all that the file says: you have written it yourself
        #[arg(long)]
        trusted: bool,
    },
}

/// One agent; required.
#[derive(Debug, Args)]
pub(crate) struct OneAgent {
    /// The agent, by handle or id
    pub(crate) agent: String,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its handle: a-z, 0-9, `_` and `-`, at most 40 characters
    pub(crate) name: String,
    /// Instructions for the model; `@FILE` reads them from a file
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    pub(crate) instructions: Option<String>,
    /// A file with the instructions; `-` reads standard input
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// One sentence for people and other agents
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Its model, as PROVIDER/MODEL [default: the server's]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Display name [default: the handle]
    #[arg(long, value_name = "TEXT")]
    pub(crate) display_name: Option<String>,
    /// A space that it joins at once, by handle or id
    #[arg(long, value_name = "SPACE")]
    pub(crate) space: Option<String>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct MemoriesArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<MemoriesVerb>,
    /// The agent, by handle or id [default: the only one]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// The agent, by handle or id
    pub(crate) agent: String,
    /// The words; the rarer, the better
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,
    /// Only texts since then: `90s`, `10m`, `2h`, `1d` ago, a date or a time such as `2026-11-21T14:03:05Z`
    #[arg(long, value_name = "WHEN")]
    pub(crate) from: Option<String>,
    /// Only texts before then; of a date, before its end
    #[arg(long, value_name = "WHEN")]
    pub(crate) to: Option<String>,
    /// Only messages of this space and texts of cycles about it, by handle or id
    #[arg(long, value_name = "SPACE")]
    pub(crate) space: Option<String>,
    /// Only what it was shown (inbox), wrote (assistant), got from calls (outcomes), remembers (memory), or messages
    #[arg(long, value_name = "KIND", value_parser = Names::new(RecallKind::ALL.map(RecallKind::as_str)).try_map(|name| name.parse::<RecallKind>()))]
    pub(crate) kind: Option<RecallKind>,
    /// Maximum number of excerpts [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=limits::RECALL_MAX.into()))]
    pub(crate) limit: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MemoriesVerb {
    /// List the memories by key, as the command alone does
    #[command(alias = "ls")]
    List {
        /// The agent, by handle or id [default: the only one]
        agent: Option<String>,
    },
    /// Set a memory; the agent sees it from its next cycle on
    Set {
        /// The agent, by handle or id
        agent: String,
        /// What it is about
        key: String,
        /// The note; `-` reads standard input; with `--pinned` or `--importance` it may be left out and stays
        #[arg(value_name = "TEXT", required_unless_present_any = ["pinned", "importance"])]
        value: Option<String>,
        /// Show it in every cycle, or with `--pinned=false` no longer
        #[arg(long, alias = "pin", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
        pinned: Option<bool>,
        /// Where there is no room for all, the more important ones are shown
        #[arg(long, value_name = "LEVEL", value_parser = Names::new(Importance::ALL.map(Importance::as_str)).try_map(|name| name.parse::<Importance>()))]
        importance: Option<Importance>,
    },
    /// Delete a memory
    #[command(alias = "rm")]
    Remove {
        /// The agent, by handle or id
        agent: String,
        /// Its key
        key: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SpacesArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<SpacesVerb>,
    /// Include closed spaces
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpacesVerb {
    /// List spaces, as the command alone does
    #[command(alias = "ls")]
    List {
        /// Include closed spaces
        #[arg(long)]
        all: bool,
    },
    /// Show a space
    Show {
        /// The space, by handle or id
        space: String,
    },
    /// Open a space
    Open(OpenSpaceArgs),
    /// Change a space: display name, description, which messages of agents wake others
    Set {
        /// The space, by handle or id
        space: String,
        /// `display_name`, `description` or `wake_on` (`all` or `mention`); an empty value goes back to
        /// the default
        #[arg(required = true, value_name = "KEY=VALUE")]
        values: Vec<String>,
    },
    /// Close a space: it accepts no more messages, and its name can be used again
    Close {
        /// The space, by handle or id
        space: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Open a closed space again, with its messages and members
    Reopen {
        /// The space, by handle or id
        space: String,
    },
    /// Add members, or change their role
    Add {
        /// The space, by handle or id
        space: String,
        /// People and agents, by handle or id
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<String>,
        /// Their role there, as free text
        #[arg(long, value_name = "TEXT")]
        role: Option<String>,
    },
    /// Remove members
    Remove {
        /// The space, by handle or id
        space: String,
        /// People and agents, by handle or id
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<String>,
    },
    /// List the members of a space
    Members {
        /// The space, by handle or id
        space: String,
    },
    /// Read the messages of a space
    Read(ReadArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OpenSpaceArgs {
    /// Its handle: a-z, 0-9, `_` and `-`, at most 40 characters
    pub(crate) name: String,
    /// First members, by handle or id, comma-separated
    #[arg(long, value_delimiter = ',', value_name = "MEMBER,…")]
    pub(crate) members: Vec<String>,
    /// Display name [default: the handle]
    #[arg(long, value_name = "TEXT")]
    pub(crate) display_name: Option<String>,
    /// What the space is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Which messages of agents wake the other agents there: all, or only those that name them
    /// [default: all]
    #[arg(long, value_name = "all|mention", value_parser = WakeOn::ALL.map(WakeOn::as_str))]
    pub(crate) wake_on: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// The space, by handle or id [default: the only one]
    pub(crate) space: Option<String>,
    /// Maximum number of messages; the newest are kept
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) limit: u32,
    /// Only messages before this number
    #[arg(long, value_name = "SEQ", conflicts_with = "after")]
    pub(crate) before: Option<u64>,
    /// Only messages after this number; the oldest are kept
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct EntitiesArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<EntitiesVerb>,
    #[command(flatten)]
    pub(crate) list: KindArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KindArgs {
    /// Only people, or only agents
    #[arg(long, value_name = "human|agent", value_parser = Names::new(["human", "agent"]).try_map(|name| name.parse::<EntityKind>()))]
    pub(crate) kind: Option<EntityKind>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EntitiesVerb {
    /// List people and agents, as the command alone does
    #[command(alias = "ls")]
    List(KindArgs),
    /// Show a person or an agent
    Show {
        /// The person or agent, by handle or id
        entity: String,
    },
    /// Add a person
    Add {
        /// A handle: a-z, 0-9, `_` and `-`, at most 40 characters
        name: String,
        /// Display name [default: the handle]
        #[arg(long, value_name = "TEXT")]
        display_name: Option<String>,
        /// The person's id in your own system
        #[arg(long, value_name = "ID")]
        external_id: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<KeysVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysVerb {
    /// Create a key; it is printed only once
    Add {
        /// What it may do: `admin`, `operator:read`, `person`, `service:NAME` or `worker:TOOL`
        scope: String,
        /// The person, by handle or id, of a key with the scope `person`
        #[arg(long, value_name = "NAME|ID")]
        entity: Option<String>,
        /// What the key is for
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
        /// For how long it is valid, such as `90d` [default: for ever]
        #[arg(long, value_name = "TIME", value_parser = time)]
        expires: Option<Span>,
    },
    /// List keys, also expired and revoked ones, the newest first, as the command alone does
    #[command(alias = "ls")]
    List,
    /// Create a key with the same scope in place of another, which expires after the overlap
    Rotate {
        /// The key to replace, by id
        id: String,
        /// For how long the old key stays valid, at most 30 days
        #[arg(long, value_name = "TIME", default_value = "24h", value_parser = time)]
        overlap: Span,
    },
    /// Revoke a key: it stops working at once
    Revoke {
        /// The key, by id
        id: String,
        /// Do not ask: this cannot be undone
        #[arg(long)]
        yes: bool,
    },
    /// Create a new admin key, printed only once; the old one stops working
    Admin {
        /// Required: the old key cannot be shown again, only replaced
        #[arg(long, required = true)]
        reset: bool,
    },
}

fn time(text: &str) -> Result<Span, String> {
    text.parse().map_err(|_| "wanted a time such as `24h` or `90d`".to_owned())
}
