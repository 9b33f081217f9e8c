//! Backups: a copy of the whole store as of one moment, in one file, while a server may be using it.

use std::io;
use std::path::{Path, PathBuf};

use super::copy::copy;
use super::error::UpkeepError;
use super::partial::Partial;
use super::read_only::ReadOnlyStore;
use crate::sqlite::verify::Verified;

/// A backup that was written and read back.
#[derive(Clone, Debug)]
pub struct Backup {
    /// Where it is.
    pub file: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// The result of verifying it. Its flaws are those of the store.
    pub verified: Verified,
}

/// Copies the store of `dir` to the file `to`, or into the folder `to` under `name`. The copy has every event
/// that was accepted before. Never overwrites a file, and never leaves an incomplete one.
pub fn backup(dir: &Path, to: &Path, name: &str) -> Result<Backup, UpkeepError> {
    let from = ReadOnlyStore::open(dir)?;
    let target = if to.is_dir() { to.join(name) } else { to.to_owned() };
    let io = |doing, source| UpkeepError::Io { doing, file: target.clone(), source };
    // An absolute path, so that SQLite takes it for a path whatever its name is.
    let target = std::path::absolute(&target).map_err(|source| io("write", source))?;
    match std::fs::symlink_metadata(&target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(io("write", source)),
        Ok(_) => return Err(UpkeepError::Exists { file: target }),
    }
    let partial = Partial::next_to(&target)?;
    let verified = copy(&from, &partial.file)?;
    let bytes = std::fs::metadata(&partial.file).map_err(|source| io("read", source))?.len();
    partial.finish_new(&target)?;
    Ok(Backup { file: target, bytes, verified })
}
