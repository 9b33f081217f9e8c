//! Why a store cannot be opened.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "the data directory `{}` is in use by another viv; stop that one, or name another directory with `--data-dir`",
        dir.display()
    )]
    Locked {
        /// The data directory.
        dir: PathBuf,
    },
    /// It was made by a newer version.
    #[error(
        "the store in `{}` was written by a newer viv (it needs a reader of format {min_reader}, this one reads up to {ours}); run that version or a newer one",
        dir.display()
    )]
    Newer {
        /// The data directory.
        dir: PathBuf,
        /// What the store asks for.
        min_reader: i64,
        /// What this version is.
        ours: i64,
    },
    /// Its tables are of a version that this one does not know.
    #[error(
        "the store `{}` was written by a newer viv (its tables are of version {version}, this one knows {ours}); run that version or a newer one",
        file.display()
    )]
    NewerTables {
        /// The file.
        file: PathBuf,
        /// What they are.
        version: i64,
        /// What this version knows.
        ours: i64,
    },
    /// The file is no store of ours.
    #[error(
        "`{}` is not a store of viv: {why}; move it away, or name another directory with `--data-dir`",
        file.display()
    )]
    NotADatabase {
        /// The file.
        file: PathBuf,
        /// What was found.
        why: String,
    },
    /// The file is one, but cannot be read.
    #[error("the store `{}` is damaged: {why}; restore it from a copy", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What was found.
        why: String,
        /// Whether it was open for writing already, so that some of it may have been written.
        begun: bool,
    },
    /// The operating system refuses.
    #[error("the data directory `{}` cannot be used: {source}", dir.display())]
    Io {
        /// The data directory.
        dir: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// The SQLite inside is too old to be trusted.
    #[error("this build has SQLite {found}, but needs at least {SQLITE_MIN}; build it with the bundled one")]
    TooOld {
        /// Its version number.
        found: i32,
    },
}

/// What an error while opening means for the operator.
pub(crate) fn unreadable(file: &Path, error: &rusqlite::Error) -> OpenError {
    let (dir, file, why) = (file.parent().unwrap_or(file), file.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { file, why },
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked,
        ) => OpenError::Io { dir: dir.to_owned(), source: io::Error::other(why) },
        _ => OpenError::Corrupt { file, why, begun: false },
    }
}

/// The oldest SQLite whose write-ahead log is known to be sound under our use.
pub(crate) const SQLITE_MIN: i32 = 3_051_003;

/// The same once something may have been written.
pub(crate) fn begun(file: &Path, error: &rusqlite::Error) -> OpenError {
    match unreadable(file, error) {
        OpenError::Corrupt { file, why, .. } => OpenError::Corrupt { file, why, begun: true },
        other => other,
    }
}
