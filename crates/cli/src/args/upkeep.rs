//! The command line of what keeps a house safe: copies of its store, a look at all of it, and single
//! agents as files.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `viv backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write, or a folder in which it is named by the time; nothing is written over
    #[arg(value_name = "FILE|DIR")]
    pub(crate) to: PathBuf,
}

/// `viv restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A file that `viv backup` wrote, or the data directory of a server that is gone
    #[arg(value_name = "BACKUP")]
    pub(crate) backup: PathBuf,
    /// Take the place of a store that is there; it is kept in a folder beside
    #[arg(long)]
    pub(crate) replace: bool,
}

/// `viv verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A file that `viv backup` wrote, or another data directory [default: the data directory]
    #[arg(value_name = "BACKUP")]
    pub(crate) backup: Option<PathBuf>,
}

/// `viv export`.
#[derive(Debug, Subcommand)]
pub(crate) enum ExportWhat {
    /// Write one agent as lines of JSON: config, log, events, calls, notes and receipts
    Agent(ExportArgs),
}

/// `viv export agent`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The agent, by handle or id
    #[arg(value_name = "NAME|ID")]
    pub(crate) agent: String,
    /// The file to write; nothing is written over [default: standard output]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// `viv import`.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportWhat {
    /// Take an agent in that `viv export agent` wrote, all of it or nothing; no server may run
    Agent(ImportArgs),
}

/// `viv import agent`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A file that `viv export agent` wrote
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Its handle here [default: the one that it had]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
}
