//! A copy of a store put in place as the store of a data directory. What was there is moved aside and
//! never removed.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::beside::Beside;
use super::copy::copy;
use super::error::UpkeepError;
use super::files::sync_dir;
use super::partial::{self, Partial};
use crate::sqlite::engine::file::{BEGUN, FILE, LOCK, RESTORING, lock_dir};
use crate::sqlite::verify::Verified;

/// What belongs to the store's file: its log, without which it is another one, and its index.
const PARTS: [&str; 3] = ["", "-wal", "-shm"];

/// A store that was put in place.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Where it is.
    pub file: PathBuf,
    /// Where the store is that was there before.
    pub aside: Option<PathBuf>,
    /// What was found in it: flaws are those of the copy.
    pub verified: Verified,
}

/// Puts the backup `from` (or the store of another data directory) into `dir`, which is made, or is
/// empty but for files that `may` be there. With `aside` a store that is there is moved into a folder of
/// that name. Checks everything before it changes anything.
pub fn restore(from: &Path, dir: &Path, may: &[&str], aside: Option<&str>) -> Result<Restored, UpkeepError> {
    let from = Beside::open(from)?;
    let dir = std::path::absolute(dir).map_err(|source| UpkeepError::Io {
        doing: "use",
        file: dir.to_owned(),
        source,
    })?;
    let file = dir.join(FILE);
    // Whoever has it is named before anything else that stands in the way.
    let early = if file.exists() { Some(lock_dir(&dir)?) } else { None };
    vacant(&dir, may, aside.is_some())?;
    let _lock = match early {
        Some(lock) => lock,
        None => lock_dir(&dir)?,
    };
    for part in ["", "-wal", "-shm", "-journal"] {
        // A start that died before the file had its name; where it stays it is in nobody's way.
        let _ = std::fs::remove_file(dir.join(format!("{BEGUN}{part}")));
    }
    let partial = Partial::beside(&file)?;
    let verified = copy(&from, &partial.file)?;
    // Nobody may have come between the look and the lock.
    vacant(&dir, &[may, &[LOCK, &partial.name()]].concat(), aside.is_some())?;
    let aside = match aside {
        Some(name) => set_aside(&dir, name)?,
        None => None,
    };
    partial.put(&file)?;
    let mark = dir.join(RESTORING);
    match std::fs::remove_file(&mark) {
        Ok(()) => sync_dir(&file).map_err(|source| UpkeepError::Io { doing: "write", file: mark, source })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(UpkeepError::Io { doing: "remove", file: mark, source }),
    }
    Ok(Restored { file, aside, verified })
}

fn vacant(dir: &Path, may: &[&str], replace: bool) -> Result<(), UpkeepError> {
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
        // What the dead have left is removed once the directory is ours.
        let left = partial::of(&what) == Some(FILE) || what.starts_with(BEGUN);
        if !store && !replace && !left && !may.contains(&what.as_str()) {
            other = Some(what);
        }
    }
    match other {
        Some(what) => Err(UpkeepError::NotEmpty { dir: dir.to_owned(), what, store: false }),
        None => Ok(()),
    }
}

/// A folder of that name, or of one with a number behind it where two are made within a second.
fn folder_of_its_own(dir: &Path, name: &str) -> Result<(PathBuf, String), UpkeepError> {
    const MOST: u32 = 1_000;
    let mut n = 1;
    loop {
        let name = if n == 1 { name.to_owned() } else { format!("{name}-{n}") };
        let aside = dir.join(&name);
        match std::fs::create_dir(&aside) {
            Ok(()) => return Ok((aside, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n < MOST => n += 1,
            Err(source) => return Err(UpkeepError::Io { doing: "make", file: aside, source }),
        }
    }
}

/// Moves the store that is there into a folder. It is whole there before anything is taken away here, and
/// until another is in its place a mark keeps everybody from what is left: a file without its log is another
/// store, and a log must never meet another file.
fn set_aside(dir: &Path, name: &str) -> Result<Option<PathBuf>, UpkeepError> {
    let parts: Vec<String> = PARTS.iter().map(|part| format!("{FILE}{part}")).collect();
    let parts: Vec<&String> = parts.iter().filter(|part| dir.join(part).exists()).collect();
    if parts.is_empty() {
        return Ok(None);
    }
    let (aside, name) = folder_of_its_own(dir, name)?;
    let io = |source| UpkeepError::Io { doing: "make", file: aside.clone(), source };
    let copied = parts.iter().try_for_each(|part| {
        let (here, there) = (dir.join(part), aside.join(part));
        // A second name of the same file would change with it, were it lived on.
        std::fs::copy(&here, &there).and_then(|_| File::open(&there)?.sync_all())
    });
    copied.and_then(|()| sync_dir(&aside.join(FILE))).map_err(|source| {
        // Half a copy would only be taken for the store, which is still where it was.
        let _ = std::fs::remove_dir_all(&aside);
        io(source)
    })?;
    let mark = dir.join(RESTORING);
    // The first that was set aside is the whole one, where a restore is run again.
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
