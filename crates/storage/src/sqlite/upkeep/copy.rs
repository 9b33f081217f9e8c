//! Verifies whole stores, and copies them.

use std::fs::File;
use std::io;
use std::path::Path;

use agent::port::StoreError;

use super::error::UpkeepError;
use super::read_only::ReadOnlyStore;
use crate::sqlite::verify::{FILE, Flaw, Verified, check_store};

/// The record name under which a flaw of the write-ahead log is reported.
const LOG: &str = "log";

/// Verifies the store in a data directory, or a backup file. A server may be running. Writes nothing.
pub fn verify(place: &Path) -> Result<Verified, UpkeepError> {
    let store = ReadOnlyStore::open(place)?;
    let mut found = check_store(&store.db, store.version, true).map_err(StoreError::from)?;
    let lost = store.lost_frames();
    if lost > 0 {
        let what = format!("{lost} frames come after a damaged one: their content is lost");
        found.flaws.insert(0, Flaw { agent: None, table: FILE, id: LOG.to_owned(), what });
    }
    Ok(found)
}

/// Copies `from` as of one moment into `to`, which must be an empty file, and verifies the copy. Flaws of
/// records are returned; a file that is not a valid database is an error.
pub(super) fn copy(from: &ReadOnlyStore, to: &Path) -> Result<Verified, UpkeepError> {
    let io = |doing, source| UpkeepError::Io { doing, file: to.to_owned(), source };
    let path = to.to_str().ok_or_else(|| io("write", io::Error::other("its name is not UTF-8")))?;
    from.db.execute("VACUUM INTO ?", [path]).map_err(|error| from.failed(to, &error))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(|source| io("write", source))?;
    let copied = ReadOnlyStore::open(to)?;
    let verified = check_store(&copied.db, copied.version, false).map_err(StoreError::from)?;
    match verified.flaws.iter().find(|flaw| flaw.table == FILE) {
        Some(flaw) => Err(UpkeepError::Unsound { file: from.file.clone(), why: flaw.what.clone() }),
        None => Ok(verified),
    }
}
