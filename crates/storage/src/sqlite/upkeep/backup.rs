//! A copy of the whole store as of one moment, in one file, while a server keeps using it.

use std::io;
use std::path::{Path, PathBuf};

use super::beside::Beside;
use super::copy::copy;
use super::error::UpkeepError;
use super::partial::Partial;
use crate::sqlite::verify::Verified;

/// A backup that was written and read back.
#[derive(Clone, Debug)]
pub struct Backup {
    /// Where it is.
    pub file: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// What was found in it: flaws are those of the store.
    pub verified: Verified,
}

/// Copies the store of `dir` to `to`, or into that folder under `name`. Holds every event that was
/// accepted before. Nothing is written over, and nothing half-written stays.
pub fn backup(dir: &Path, to: &Path, name: &str) -> Result<Backup, UpkeepError> {
    let from = Beside::open(dir)?;
    let target = if to.is_dir() { to.join(name) } else { to.to_owned() };
    let io = |doing, source| UpkeepError::Io { doing, file: target.clone(), source };
    // SQLite must take it for a path whatever it begins with.
    let target = std::path::absolute(&target).map_err(|source| io("write", source))?;
    match std::fs::symlink_metadata(&target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(io("write", source)),
        Ok(_) => return Err(UpkeepError::Exists { file: target }),
    }
    let partial = Partial::beside(&target)?;
    let verified = copy(&from, &partial.file)?;
    let bytes = std::fs::metadata(&partial.file).map_err(|source| io("read", source))?.len();
    partial.keep(&target)?;
    Ok(Backup { file: target, bytes, verified })
}
