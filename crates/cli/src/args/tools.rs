//! The command line of tools and of secrets.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tools::connector::AllowedTarget;

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<ToolsVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsVerb {
    /// List the tools that agents can have, as the command alone does
    #[command(alias = "ls")]
    List,
    /// Declare tools, or change declared ones; agents that list them use them from their next cycle on
    Add {
        /// Files that declare one tool each, in TOML or JSON
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Show a tool and its declaration
    Show {
        /// The tool
        tool: String,
    },
    /// Call a declared tool once; what it does is really done
    Try {
        /// The tool
        tool: String,
        /// Its arguments, as JSON; `-` reads standard input
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
    },
    /// Remove a declared tool
    #[command(alias = "rm")]
    Remove {
        /// The tool
        tool: String,
    },
    /// Declare operations of an OpenAPI document as tools
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The document (OpenAPI 3, JSON)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Ids of the operations, comma-separated
    #[arg(long, required = true, value_delimiter = ',', value_name = "ID,…")]
    pub(crate) only: Vec<String>,
    /// Address of the API, instead of the one in the document
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Address inside that the tools may reach, such as `127.0.0.1:8080` or `10.0.0.0/8`
    #[arg(long, value_name = "TARGET", value_parser = allowed_target)]
    pub(crate) allow: Vec<String>,
    /// Write a file for each tool into this folder, instead of declaring them at the server
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
}

fn allowed_target(text: &str) -> Result<String, String> {
    text.parse::<AllowedTarget>().map(|_| text.to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct SecretsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<SecretsVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsVerb {
    /// List the names of the secrets, as the command alone does
    #[command(alias = "ls")]
    List,
    /// Set a secret; its value is read from standard input
    Set {
        /// Its name, as declarations of tools write it, `{{ secret("NAME") }}`, and hooks name it
        name: String,
    },
    /// Remove a secret
    #[command(alias = "rm")]
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<McpVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpVerb {
    /// List the MCP servers with their approved tools, as the command alone does
    #[command(alias = "ls")]
    List,
    /// Ask a new MCP server for its tools, write it into the settings, and approve its tools on a server that runs
    Add(McpAddArgs),
    /// Let the running server read the MCP servers in its settings again
    Reload,
    /// Remove an MCP server from the settings, with its approved tools
    #[command(alias = "rm")]
    Remove {
        /// Its name in the settings
        server: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Ask an MCP server what it offers now
    Try {
        /// Its name in the settings
        server: String,
    },
    /// Approve what an MCP server offers now
    Approve {
        /// Its name in the settings
        server: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct McpAddArgs {
    /// Its name: a-z, 0-9 and `-`, at most 32 characters
    pub(crate) name: String,
    /// Its address, for a server that is reached by streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// A variable of its process, or with --url a header; a value may be `{{ secret("NAME") }}`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// What its tools do with what an agent knows [default: all three]
    #[arg(long, value_delimiter = ',', value_name = "LABEL,…", value_parser = ["private", "exfiltrates", "outside", "none"])]
    pub(crate) labels: Option<Vec<String>>,
    /// What repeating a call of its tools does [default: unsafe]
    #[arg(long, value_name = "EFFECT", value_parser = ["read_only", "idempotent", "unsafe"])]
    pub(crate) effect: Option<String>,
    /// Which of its tools there are, by name or with `*` [default: all]
    #[arg(long, value_delimiter = ',', value_name = "TOOL,…")]
    pub(crate) tools: Option<Vec<String>>,
    /// With --url: a target inside that it may reach, such as `127.0.0.1:8000`
    #[arg(long, value_name = "TARGET")]
    pub(crate) allow: Vec<String>,
    /// A file or folder that its process may change beside its home
    #[arg(long, value_name = "PATH", conflicts_with = "url")]
    pub(crate) write: Vec<String>,
    /// Write the exact version of the package that `npx` or `uvx` runs into its command
    #[arg(long, conflicts_with = "url")]
    pub(crate) pin: bool,
    /// Approve its tools without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// The program and its arguments, behind `--`
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url")]
    pub(crate) command: Vec<String>,
}
