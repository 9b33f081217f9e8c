//! Whole stores: judged where they are, and copied.

use std::fs::File;
use std::io;
use std::path::Path;

use agent::port::StoreError;

use super::beside::Beside;
use super::error::UpkeepError;
use crate::sqlite::verify::{FILE, Flaw, Verified, judge};

/// What a flaw of the log beside the file is told under.
const LOG: &str = "log";

/// Judges the store in a data directory, or a backup's file: beside a running server as well as without one.
/// Writes nothing.
pub fn verify(place: &Path) -> Result<Verified, UpkeepError> {
    let beside = Beside::open(place)?;
    let mut found = judge(&beside.db, beside.version, true).map_err(StoreError::from)?;
    let lost = beside.lost_frames();
    if lost > 0 {
        let what = format!("{lost} frames stand behind a damaged one: what they held is lost");
        found.flaws.insert(0, Flaw { agent: None, table: FILE, id: LOG.to_owned(), what });
    }
    Ok(found)
}

/// Copies all that `from` holds as of one moment into `to`, which must be an empty file, and reads the
/// copy back: what is wrong with records is told, a file that is no whole database is an error.
pub(super) fn copy(from: &Beside, to: &Path) -> Result<Verified, UpkeepError> {
    let io = |doing, source| UpkeepError::Io { doing, file: to.to_owned(), source };
    let path = to.to_str().ok_or_else(|| io("write", io::Error::other("its name is not UTF-8")))?;
    from.db.execute("VACUUM INTO ?", [path]).map_err(|error| from.failed(to, &error))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(|source| io("write", source))?;
    let copied = Beside::open(to)?;
    let verified = judge(&copied.db, copied.version, false).map_err(StoreError::from)?;
    match verified.flaws.iter().find(|flaw| flaw.table == FILE) {
        Some(flaw) => Err(UpkeepError::Unsound { file: from.file.clone(), why: flaw.what.clone() }),
        None => Ok(verified),
    }
}
