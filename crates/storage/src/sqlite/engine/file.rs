//! The data directory and the file in it: created, locked, and refused if it is not ours.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::sqlite::engine::log;
use crate::sqlite::engine::open_error::{OpenError, unreadable};
use crate::sqlite::engine::schema::{check_library, ready};

/// The store's file in its data directory.
pub(crate) const FILE: &str = "vivarium.db";

/// The name of the lock file of the directory.
pub(crate) const LOCK: &str = "lock";

/// The store's file before it has its name.
pub(crate) const BEGUN: &str = "vivarium.db.begun";

/// The name of a file that stands in a data directory while a restore changes it.
pub(crate) const RESTORING: &str = "restore-unfinished";

/// A store that is open for writing.
pub(crate) struct Opened {
    pub(crate) db: Connection,
    pub(crate) file: PathBuf,
    pub(crate) lock: File,
    /// Frames of its log that were lost before.
    pub(crate) lost: u64,
}

pub(crate) fn open_dir(dir: &Path) -> Result<Opened, OpenError> {
    check_library()?;
    let lock = lock_dir(dir)?;
    whole(dir)?;
    #[cfg(feature = "failpoints")]
    crate::sqlite::engine::disk::prepare(dir);
    let file = dir.join(FILE);
    make(&file)?;
    let lost = log::lost(&log::of(&file)).map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(&file, flags).map_err(|error| unreadable(&file, &error))?;
    ready(&db, &file)?;
    Ok(Opened { db, file, lock, lost })
}

/// Refuses a directory in which a restore was cut short: what is there may be a store without its log.
pub(crate) fn whole(dir: &Path) -> Result<(), OpenError> {
    let mark = dir.join(RESTORING);
    match std::fs::read_to_string(&mark) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(OpenError::Io { dir: dir.to_owned(), source }),
        Ok(aside) => {
            let why = format!(
                "a restore was cut short here; the store that was here is whole in `{}`: run the restore again \
                 with `--replace`, or move those files back and remove `{RESTORING}`",
                aside.trim()
            );
            Err(OpenError::NotADatabase { file: dir.join(FILE), why })
        }
    }
}

/// Makes the file where there is none, under another name first: so that one of no bytes is never ours, but
/// what is left of a store, and nobody begins a new life over it.
pub(crate) fn make(file: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { dir: file.parent().unwrap_or(file).to_owned(), source };
    match std::fs::metadata(file) {
        Ok(found) if !found.is_file() => {
            let why = format!("it is {}, not a file", kind(&found));
            return Err(OpenError::NotADatabase { file: file.to_owned(), why });
        }
        Ok(found) if found.len() == 0 => {
            let why = "it is empty, as no start leaves it".to_owned();
            return Err(OpenError::NotADatabase { file: file.to_owned(), why });
        }
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(io(source)),
    }
    if log::of(file).exists() {
        let why = "it is gone, and its log `vivarium.db-wal` is still there".to_owned();
        return Err(OpenError::NotADatabase { file: file.to_owned(), why });
    }
    let begun = file.with_file_name(BEGUN);
    match std::fs::remove_file(&begun) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let made = Connection::open(&begun).and_then(|db| db.pragma_update(None, "journal_mode", "WAL"));
    made.map_err(|error| unreadable(&begun, &error))?;
    std::fs::rename(&begun, file).map_err(io)
}

/// What a thing with a name is, if not a file.
pub(crate) fn kind(found: &Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = found.file_type();
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_block_device() || kind.is_char_device() {
            return "a device";
        }
    }
    if found.is_dir() { "a folder" } else { "something else" }
}

/// Makes the directory where it is not, and takes it for this process until the file is dropped.
pub(crate) fn lock_dir(dir: &Path) -> Result<File, OpenError> {
    let io = |source| OpenError::Io { dir: dir.to_owned(), source };
    make_private(dir).map_err(io)?;
    let lock = File::options().create(true).truncate(false).write(true).open(dir.join(LOCK)).map_err(io)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

#[cfg(unix)]
fn make_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let made: Vec<&Path> = dir.ancestors().take_while(missing).collect();
    // Parents are made as usual; only the directory with everyone's words is ours alone.
    if let Some(parent) = dir.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        made => made?,
    }
    // SQLite syncs the names of its files; those of the folders above them are ours to sync, or all
    // that was promised in the first seconds could go with the power. Some file systems cannot.
    for parent in made.iter().filter_map(|made| made.parent()) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let _ = File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)
}
