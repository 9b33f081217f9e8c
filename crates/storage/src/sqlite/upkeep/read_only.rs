//! Opens a store's file for reading only, whether or not a server has it open.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::UpkeepError;
use super::files::check_regular_file;
use crate::sqlite::engine::fault::classify;
use crate::sqlite::engine::file::{self, FILE, LOCK};
use crate::sqlite::engine::log;
use crate::sqlite::engine::open_error::{OpenError, unreadable};
use crate::sqlite::engine::room::require_room;
use crate::sqlite::engine::schema::{self, identify};

/// A store that is open for reading only.
pub(super) struct ReadOnlyStore {
    pub(super) db: Connection,
    pub(super) file: PathBuf,
    /// The version of its tables.
    pub(super) version: i64,
}

impl ReadOnlyStore {
    /// Opens the store of a data directory, or a store file.
    pub(super) fn open(place: &Path) -> Result<Self, UpkeepError> {
        let file = if place.is_dir() {
            file::refuse_unfinished_restore(place)?;
            place.join(FILE)
        } else {
            place.to_owned()
        };
        check_regular_file(&file)?;
        let db = connect(&file)?;
        schema::tune(&db).map_err(|error| unreadable(&file, &error))?;
        let version = identify(&db, &file)?;
        if version == 0 {
            let why = "it is empty".to_owned();
            return Err(OpenError::NotADatabase { file, why }.into());
        }
        Ok(Self { db, file, version })
    }

    /// Lost frames of its log; 0 if a server has the store open, because it may be writing a frame.
    pub(super) fn lost_frames(&self) -> u64 {
        let lock = File::open(self.file.with_file_name(LOCK));
        let held = lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)));
        // If the log cannot be read, reading the store reports that.
        if held { 0 } else { log::read(&log::path_of(&self.file)).map_or(0, |found| found.lost_frames) }
    }

    /// Converts an SQLite error during a copy: a full disk at the target, or damage in the store.
    pub(super) fn failed(&self, to: &Path, error: &rusqlite::Error) -> UpkeepError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                UpkeepError::Open(unreadable(&self.file, error))
            }
            Some(ErrorCode::DiskFull) => {
                let source = io::Error::from(io::ErrorKind::StorageFull);
                UpkeepError::Io { doing: "write", file: to.to_owned(), source }
            }
            _ => UpkeepError::Store(classify(error)),
        }
    }
}

fn connect(file: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let dir = || file.parent().unwrap_or(file).to_owned();
    require_room(file).map_err(|source| OpenError::Io { dir: dir(), source })?;
    let open = || {
        let db = Connection::open_with_flags(file, flags)?;
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(db)
    };
    match open() {
        Err(error) if cannot_share(&error) && !log::path_of(file).exists() => {
            // The folder is not writable, so no process can be writing to the store.
            immutable(file, flags)
        }
        other => other,
    }
    .map_err(|error| unreadable(file, &error))
}

/// Whether the files with which readers and a writer coordinate could not be created.
fn cannot_share(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn immutable(file: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let escaped: String = file
        .to_string_lossy()
        .chars()
        .map(|c| match c {
            '%' | '?' | '#' => format!("%{:02X}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags | OpenFlags::SQLITE_OPEN_URI)
}
