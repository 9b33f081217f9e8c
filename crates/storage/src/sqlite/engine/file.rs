//! The data directory and the store's file in it: creates, locks and opens them, and refuses a file that is
//! not a store.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::sqlite::engine::log;
use crate::sqlite::engine::open_error::{OpenError, unreadable};
use crate::sqlite::engine::schema::{check_library, prepare};

/// The store's file in its data directory.
pub(crate) const FILE: &str = "vivarium.db";

/// The lock file in the data directory.
pub(crate) const LOCK: &str = "lock";

/// The name of the store's file while it is being created.
pub(crate) const TEMP_FILE: &str = "vivarium.db.begun";

/// A file with this name is in the data directory while a restore changes it.
pub(crate) const RESTORING: &str = "restore-unfinished";

/// A store that is open for writing.
pub(crate) struct Opened {
    pub(crate) db: Connection,
    pub(crate) file: PathBuf,
    pub(crate) lock: File,
    /// Frames of its log that were found lost when it was opened.
    pub(crate) lost_frames: u64,
}

pub(crate) fn open_dir(dir: &Path) -> Result<Opened, OpenError> {
    check_library()?;
    let lock = lock_dir(dir)?;
    refuse_unfinished_restore(dir)?;
    #[cfg(feature = "failpoints")]
    crate::sqlite::engine::disk::prepare(dir);
    let file = dir.join(FILE);
    create_if_missing(&file)?;
    let lost_frames = log::lost_frames(&log::path_of(&file))
        .map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(&file, flags).map_err(|error| unreadable(&file, &error))?;
    prepare(&db, &file)?;
    Ok(Opened { db, file, lock, lost_frames })
}

/// Refuses a directory in which a restore was interrupted: the file may be a store without its log.
pub(crate) fn refuse_unfinished_restore(dir: &Path) -> Result<(), OpenError> {
    let mark = dir.join(RESTORING);
    match std::fs::read_to_string(&mark) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(OpenError::Io { dir: dir.to_owned(), source }),
        Ok(aside) => {
            let why = format!(
                "a restore was interrupted here; the previous store is complete in `{}`: run the restore again \
                 with `--replace`, or move those files back and remove `{RESTORING}`",
                aside.trim()
            );
            Err(OpenError::NotADatabase { file: dir.join(FILE), why })
        }
    }
}

/// Creates the file if there is none. It is created under another name first, so that an empty file can only be
/// the remains of a damaged store; such a file is refused and not used for a new store.
pub(crate) fn create_if_missing(file: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { dir: file.parent().unwrap_or(file).to_owned(), source };
    match std::fs::metadata(file) {
        Ok(found) if !found.is_file() => {
            let why = format!("it is {}, not a file", kind(&found));
            return Err(OpenError::NotADatabase { file: file.to_owned(), why });
        }
        Ok(found) if found.len() == 0 => {
            let why = "it is empty, and `viv` never leaves an empty store".to_owned();
            return Err(OpenError::NotADatabase { file: file.to_owned(), why });
        }
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(io(source)),
    }
    if log::path_of(file).exists() {
        let why = "it is missing, but its log `vivarium.db-wal` is still there".to_owned();
        return Err(OpenError::NotADatabase { file: file.to_owned(), why });
    }
    let temp = file.with_file_name(TEMP_FILE);
    match std::fs::remove_file(&temp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    // Only its owner may read it, wherever it is. SQLite gives its log the same mode.
    let mut private = File::options();
    private.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut private, 0o600);
    private.open(&temp).map_err(io)?;
    let created = Connection::open(&temp).and_then(|db| db.pragma_update(None, "journal_mode", "WAL"));
    created.map_err(|error| unreadable(&temp, &error))?;
    std::fs::rename(&temp, file).map_err(io)
}

/// Names the kind of a directory entry that is not a regular file.
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

/// Creates the directory if it is missing, and locks it for this process until the returned file is dropped.
pub(crate) fn lock_dir(dir: &Path) -> Result<File, OpenError> {
    let io = |source| OpenError::Io { dir: dir.to_owned(), source };
    create_private_dir(dir).map_err(io)?;
    let lock = File::options().create(true).truncate(false).write(true).open(dir.join(LOCK)).map_err(io)?;
    match lock.try_lock() {
        // A server writes its process id into it: one that a crash has left must not be taken for the holder's.
        Ok(()) => lock.set_len(0).map(|()| lock).map_err(io),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

#[cfg(unix)]
fn create_private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing_dirs: Vec<&Path> = dir.ancestors().take_while(missing).collect();
    // Parents get the default mode; only the data directory, which holds messages, is private.
    if let Some(parent) = dir.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        created => created?,
    }
    // SQLite syncs the names of its files, but not those of new folders above them. Without this a loss of
    // power could lose acknowledged data. Some file systems cannot sync a folder: that is ignored.
    for parent in missing_dirs.iter().filter_map(|dir| dir.parent()) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let _ = File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(())
}

#[cfg(not(unix))]
fn create_private_dir(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)
}
