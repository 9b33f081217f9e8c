//! Why a store cannot be opened.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the directory open.
    #[error("the data directory `{}` is in use by another viv", dir.display())]
    Locked {
        /// The data directory.
        dir: PathBuf,
    },
    /// The store was written by a newer version.
    #[error(
        "the store in `{}` needs a reader of format {min_reader}, this `viv` reads up to {ours}",
        dir.display()
    )]
    Newer {
        /// The data directory.
        dir: PathBuf,
        /// The format that the store requires of its reader.
        min_reader: i64,
        /// The newest format that this version reads.
        ours: i64,
    },
    /// The version of its tables is newer than this program knows.
    #[error(
        "the store `{}` has schema version {version}, this `viv` supports up to {ours}",
        file.display()
    )]
    NewerTables {
        /// The file.
        file: PathBuf,
        /// The version of its tables.
        version: i64,
        /// The newest version that this program knows.
        ours: i64,
    },
    /// The file is not a store of Vivarium.
    #[error("`{}` is not a store of Vivarium: {why}", file.display())]
    NotADatabase {
        /// The file.
        file: PathBuf,
        /// What was found.
        why: String,
    },
    /// The file is a store, but cannot be read.
    #[error("the store `{}` is damaged: {why}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What was found.
        why: String,
        /// Whether something may have been written to it already.
        written: bool,
    },
    /// The operating system returned an error.
    #[error("cannot use the data directory `{}`: {source}", dir.display())]
    Io {
        /// The data directory.
        dir: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The SQLite library in this build is too old.
    #[error("this build has SQLite {found}, but needs at least {SQLITE_MIN}; build it with the bundled one")]
    TooOld {
        /// The version number of the library.
        found: i32,
    },
}

/// Converts an SQLite error during opening into an error for the operator.
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
        _ => OpenError::Corrupt { file, why, written: false },
    }
}

/// The oldest version of SQLite whose write-ahead log is known to work reliably in this use.
pub(crate) const SQLITE_MIN: i32 = 3_051_003;

/// Like [`unreadable`], once something may have been written.
pub(crate) fn unreadable_after_write(file: &Path, error: &rusqlite::Error) -> OpenError {
    match unreadable(file, error) {
        OpenError::Corrupt { file, why, .. } => OpenError::Corrupt { file, why, written: true },
        other => other,
    }
}
