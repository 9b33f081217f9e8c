//! The command line of restore, export and import.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `viv restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A file written by `viv backup`, or the data directory of a stopped server
    pub(crate) backup: PathBuf,
    /// Replace an existing store, which is kept in a folder beside it
    #[arg(long)]
    pub(crate) replace: bool,
    /// With --replace: do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `viv export`.
#[derive(Debug, Subcommand)]
pub(crate) enum ExportWhat {
    /// Write one agent as lines of JSON: config, log, events, calls, memories and runs
    Agent(ExportArgs),
}

/// `viv export agent`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The agent, by handle or id
    pub(crate) agent: String,
    /// File to write; never overwrites [default: standard output]
    pub(crate) file: Option<PathBuf>,
}

/// `viv import`.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportWhat {
    /// Import an agent from a file of `viv export agent`, all or nothing; the server must be stopped
    Agent(ImportArgs),
}

/// `viv import agent`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A file written by `viv export agent`
    pub(crate) file: PathBuf,
    /// Its new handle [default: its old one]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
}
