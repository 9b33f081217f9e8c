//! The command line of restore, export and import.

use std::path::PathBuf;

use clap::{Args, Subcommand};

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

#[derive(Debug, Subcommand)]
pub(crate) enum IndexVerb {
    /// Delete the index and build a new one; the server must be stopped
    Rebuild,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExportWhat {
    /// Write one agent as lines of JSON: config, log, events, calls, memories and runs
    Agent {
        /// The agent, by handle or id
        agent: String,
        /// File to write; never overwrites [default: standard output]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportWhat {
    /// Import an agent from a file of `viv export agent`, all or nothing; the server must be stopped
    Agent {
        /// A file written by `viv export agent`
        file: PathBuf,
        /// Its new handle [default: its old one]
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
    },
}
