//! Why a store could not be backed up, restored, verified, exported or imported.

use std::io;
use std::path::PathBuf;

use agent::port::StoreError;

use crate::sqlite::engine::open_error::OpenError;

/// Why a store could not be backed up, restored, verified, exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// The file cannot be opened as a store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no file.
    #[error("there is no store at `{}`", file.display())]
    Missing {
        /// Where it was looked for.
        file: PathBuf,
    },
    /// No agent has this name.
    #[error("no agent is called `{name}`")]
    NoAgent {
        /// The name that was given.
        name: String,
    },
    /// Its tables must be migrated first.
    #[error("the tables of `{}` are of version {version}, this viv exports version {ours}", file.display())]
    Older {
        /// The store.
        file: PathBuf,
        /// The version of its tables.
        version: i64,
        /// The version that this program can export.
        ours: i64,
    },
    /// The target exists, and nothing is overwritten.
    #[error("`{}` already exists and is not overwritten", file.display())]
    Exists {
        /// The target.
        file: PathBuf,
    },
    /// A store is restored only into an empty directory.
    #[error("the directory `{}` is not empty: `{what}` is in it", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// A file that is in it.
        what: String,
        /// Whether that file is a store, which could be replaced.
        store: bool,
    },
    /// The copy is damaged.
    #[error("the store `{}` is damaged: {why}; nothing was written", file.display())]
    Unsound {
        /// The file that was copied.
        file: PathBuf,
        /// What was found.
        why: String,
    },
    /// It is not a regular file: reading a pipe or a device might never end.
    #[error("cannot read `{}`: it is {what}, not a file", file.display())]
    NoFile {
        /// The path that was given.
        file: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The operating system returned an error.
    #[error("cannot {doing} `{}`: {source}", file.display())]
    Io {
        /// What was attempted, as a verb.
        doing: &'static str,
        /// The file.
        file: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The store cannot be read completely.
    #[error("cannot read the whole store: {0}")]
    Store(#[from] StoreError),
}
