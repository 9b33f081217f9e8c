//! The command line of restore and verify.

use std::path::PathBuf;

use clap::Args;

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

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A file written by `viv backup`, or another data directory [default: the data directory]
    pub(crate) backup: Option<PathBuf>,
    /// Delete the index that `viv agents recall` and agents search, and build a new one; the server must be stopped
    #[arg(long, conflicts_with = "backup")]
    pub(crate) rebuild_index: bool,
}
