//! Why a store could not be copied, put in place or judged.

use std::io;
use std::path::PathBuf;

use agent::port::StoreError;

use crate::sqlite::engine::open_error::OpenError;

/// Why a store could not be copied, put in place or judged.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// The file cannot be opened as a store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is nothing.
    #[error("there is no store at `{}`", file.display())]
    Missing {
        /// Where it was looked for.
        file: PathBuf,
    },
    /// Nobody is called that.
    #[error("no agent is called `{name}`")]
    NoAgent {
        /// What was asked for.
        name: String,
    },
    /// Its tables must be brought up to date before.
    #[error("the tables of `{}` are of version {version}, this viv writes out those of version {ours}", file.display())]
    Older {
        /// The store.
        file: PathBuf,
        /// What they are.
        version: i64,
        /// What this version knows.
        ours: i64,
    },
    /// Nothing is written over.
    #[error("`{}` is there already", file.display())]
    Exists {
        /// What is in the way.
        file: PathBuf,
    },
    /// A store is put into an empty directory only.
    #[error("the directory `{}` is not empty: `{what}` is in it", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// What is in it.
        what: String,
        /// Whether that is a store, which could be replaced.
        store: bool,
    },
    /// A copy was read back and is not as it should be.
    #[error("the copy of `{}` is damaged: {why}", file.display())]
    Unsound {
        /// What was copied.
        file: PathBuf,
        /// What was found.
        why: String,
    },
    /// Only files are read: whatever else has a name might never end, or never begin.
    #[error("cannot read `{}`: it is {what}, not a file", file.display())]
    NoFile {
        /// What was named.
        file: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The operating system refuses.
    #[error("cannot {doing} `{}`: {source}", file.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        file: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// The store cannot be read to its end.
    #[error(transparent)]
    Store(#[from] StoreError),
}
