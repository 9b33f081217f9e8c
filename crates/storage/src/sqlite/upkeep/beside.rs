//! A store's file, opened only to read, whether a server has it or nobody does.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::UpkeepError;
use super::files::regular;
use crate::sqlite::engine::fault::classify;
use crate::sqlite::engine::file::{self, FILE, LOCK};
use crate::sqlite::engine::log;
use crate::sqlite::engine::open_error::{OpenError, unreadable};
use crate::sqlite::engine::schema::{self, identify};

/// An open store that is only read.
pub(super) struct Beside {
    pub(super) db: Connection,
    pub(super) file: PathBuf,
    /// The version of its tables.
    pub(super) version: i64,
}

impl Beside {
    /// Opens the store of a data directory, or a file by its name.
    pub(super) fn open(place: &Path) -> Result<Self, UpkeepError> {
        let file = if place.is_dir() {
            file::whole(place)?;
            place.join(FILE)
        } else {
            place.to_owned()
        };
        regular(&file)?;
        let db = connect(&file)?;
        schema::tune(&db).map_err(|error| unreadable(&file, &error))?;
        let version = identify(&db, &file)?;
        if version == 0 {
            let why = "it is empty".to_owned();
            return Err(OpenError::NotADatabase { file, why }.into());
        }
        Ok(Self { db, file, version })
    }

    /// Frames of its log that are lost; none is found where a server has the store, which may be writing one.
    pub(super) fn lost_frames(&self) -> u64 {
        let lock = File::open(self.file.with_file_name(LOCK));
        let held = lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)));
        // What cannot be read on is told by whoever reads the store.
        if held { 0 } else { log::lost(&log::of(&self.file)).unwrap_or(0) }
    }

    /// What an error while copying means: the disk of the copy, or damage in the store.
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
    let open = || {
        let db = Connection::open_with_flags(file, flags)?;
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(db)
    };
    match open() {
        Err(error) if cannot_share(&error) && !log::of(file).exists() => {
            // Nobody can write where this file lies, so nobody has to be heeded.
            immutable(file, flags)
        }
        other => other,
    }
    .map_err(|error| unreadable(file, &error))
}

/// Whether the files through which readers and a writer heed each other could not be made.
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
