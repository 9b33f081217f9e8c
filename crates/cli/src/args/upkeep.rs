//! The command line of what keeps a house safe: copies of its store, and a look at all of it.

use std::path::PathBuf;

use clap::Args;

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
