//! Restores: a copy of a store becomes the store of a data directory. A store that was there is moved aside
//! and never removed.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::copy::copy;
use super::error::UpkeepError;
use super::files::sync_dir;
use super::partial::{self, Partial};
use super::read_only::ReadOnlyStore;
use crate::sqlite::engine::file::{FILE, LOCK, RESTORING, TEMP_FILE, lock_dir};
use crate::sqlite::index::file as index;
use crate::sqlite::verify::Verified;

/// The suffixes of the files that make up a store: the database, its log (without which it lacks commits), and the
/// log's index.
const PARTS: [&str; 3] = ["", "-wal", "-shm"];

/// A store that was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Where it is.
    pub file: PathBuf,
    /// Where the previous store is, if there was one.
    pub aside: Option<PathBuf>,
    /// The result of verifying it. Its flaws are those of the backup.
    pub verified: Verified,
}

/// Restores the backup `from` (or the store of another data directory) into `dir`, which is created, or must be
/// empty except for the files in `allowed`. With `aside`, a store that is there is moved into a folder of that
/// name. Checks everything before it changes anything.
pub fn restore(
    from: &Path,
    dir: &Path,
    allowed: &[&str],
    aside: Option<&str>,
) -> Result<Restored, UpkeepError> {
    let from = ReadOnlyStore::open(from)?;
    let dir = std::path::absolute(dir).map_err(|source| UpkeepError::Io {
        doing: "use",
        file: dir.to_owned(),
        source,
    })?;
    let file = dir.join(FILE);
    // A running server is reported before any other obstacle.
    let early = if file.exists() { Some(lock_dir(&dir)?) } else { None };
    check_vacant(&dir, allowed, aside.is_some())?;
    let _lock = match early {
        Some(lock) => lock,
        None => lock_dir(&dir)?,
    };
    for part in ["", "-wal", "-shm", "-journal"] {
        // A start that died has left it. If it cannot be removed, it does no harm.
        let _ = std::fs::remove_file(dir.join(format!("{TEMP_FILE}{part}")));
    }
    let partial = Partial::next_to(&file)?;
    let verified = copy(&from, &partial.file)?;
    // Check again: files may have appeared before the directory was locked.
    check_vacant(&dir, &[allowed, &[LOCK, &partial.name()]].concat(), aside.is_some())?;
    let aside = match aside {
        Some(name) => set_aside(&dir, name)?,
        None => None,
    };
    // The index is of the previous store; the next start builds a new one.
    index::remove(&dir).map_err(|source| UpkeepError::Io {
        doing: "remove",
        file: dir.join(index::INDEX),
        source,
    })?;
    partial.finish_replacing(&file)?;
    let mark = dir.join(RESTORING);
    match std::fs::remove_file(&mark) {
        Ok(()) => sync_dir(&file).map_err(|source| UpkeepError::Io { doing: "write", file: mark, source })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(UpkeepError::Io { doing: "remove", file: mark, source }),
    }
    Ok(Restored { file, aside, verified })
}

fn check_vacant(dir: &Path, allowed: &[&str], replace: bool) -> Result<(), UpkeepError> {
    let refused = |source| UpkeepError::Io { doing: "use", file: dir.to_owned(), source };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(refused(source)),
    };
    let mut other = None;
    for entry in entries {
        let what = entry.map_err(refused)?.file_name().to_string_lossy().into_owned();
        let store = PARTS.iter().any(|part| what == format!("{FILE}{part}")) || what == RESTORING;
        if store && !replace {
            return Err(UpkeepError::NotEmpty { dir: dir.to_owned(), what: FILE.to_owned(), store });
        }
        // Files that dead processes have left are removed once the directory is locked.
        let left = partial::final_name(&what) == Some(FILE) || what.starts_with(TEMP_FILE);
        if !store && !replace && !left && !index::is_part(&what) && !allowed.contains(&what.as_str()) {
            other = Some(what);
        }
    }
    match other {
        Some(what) => Err(UpkeepError::NotEmpty { dir: dir.to_owned(), what, store: false }),
        None => Ok(()),
    }
}

/// Creates a folder of that name, with a number appended if two are created within a second.
fn create_new_folder(dir: &Path, name: &str) -> Result<(PathBuf, String), UpkeepError> {
    const MOST: u32 = 1_000;
    let mut n = 1;
    loop {
        let name = if n == 1 { name.to_owned() } else { format!("{name}-{n}") };
        let aside = dir.join(&name);
        match std::fs::create_dir(&aside) {
            Ok(()) => return Ok((aside, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n < MOST => n += 1,
            Err(source) => return Err(UpkeepError::Io { doing: "create", file: aside, source }),
        }
    }
}

/// Moves the store that is there into a folder. It is complete there before any file is removed here. Until the new
/// store is in place, a mark keeps every process from using what is left: a file without its log lacks commits, and
/// a log must never be used with another file.
fn set_aside(dir: &Path, name: &str) -> Result<Option<PathBuf>, UpkeepError> {
    let parts: Vec<String> = PARTS.iter().map(|part| format!("{FILE}{part}")).collect();
    let parts: Vec<&String> = parts.iter().filter(|part| dir.join(part).exists()).collect();
    if parts.is_empty() {
        return Ok(None);
    }
    let (aside, name) = create_new_folder(dir, name)?;
    let io = |source| UpkeepError::Io { doing: "create", file: aside.clone(), source };
    let copied = parts.iter().try_for_each(|part| {
        let (here, there) = (dir.join(part), aside.join(part));
        // Not a hard link: that would change together with the original.
        std::fs::copy(&here, &there).and_then(|_| File::open(&there)?.sync_all())
    });
    copied.and_then(|()| sync_dir(&aside.join(FILE))).map_err(|source| {
        // An incomplete copy could be mistaken for the store, which is still in its place.
        let _ = std::fs::remove_dir_all(&aside);
        io(source)
    })?;
    let mark = dir.join(RESTORING);
    // If a restore is run again, the folder in the existing mark has the complete store.
    if !mark.exists() {
        let write = || {
            let mut file = File::create(&mark)?;
            file.write_all(name.as_bytes())?;
            file.sync_all()?;
            sync_dir(&mark)
        };
        write().map_err(|source| UpkeepError::Io { doing: "write", file: mark.clone(), source })?;
    }
    for part in parts.iter().rev() {
        std::fs::remove_file(dir.join(part)).map_err(io)?;
    }
    Ok(Some(aside))
}
