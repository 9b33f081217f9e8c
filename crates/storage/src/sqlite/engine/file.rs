//! The data directory and the store's file in it: creates, locks and opens them, and refuses a file that is
//! not a store.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::sqlite::engine::log::{self, Logged};
use crate::sqlite::engine::open_error::{OpenError, unreadable};
use crate::sqlite::engine::room::{require_room, reserve_room};
use crate::sqlite::engine::schema::{check_library, prepare};

/// The store's file in its data directory.
pub(crate) const FILE: &str = "vivarium.db";

/// The head of a store's file, and how it begins.
const HEAD: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The byte of a file that SQLite locks.
const LOCK_BYTE: u64 = 1 << 30;

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
    /// The file itself, locked, and the index of its log, with its room. Closed after all connections: closing them drops the
    /// locks of those.
    pub(crate) held: Vec<File>,
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
    let mut held = hold(dir, &file)?;
    let io = |source| OpenError::Io { dir: dir.to_owned(), source };
    let logged = log::read(&log::path_of(&file)).map_err(io)?;
    refuse_cut_off(&file, &logged)?;
    require_room(&file).map_err(io)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(&file, flags).map_err(|error| unreadable(&file, &error))?;
    prepare(&db, &file)?;
    held.extend(reserve_room(&file));
    Ok(Opened { db, file, lock, held, lost_frames: logged.lost_frames })
}

/// Locks the store itself, for the case that somebody removes the lock file beside it. SQLite's own locks are of another kind.
#[cfg(unix)]
fn hold(dir: &Path, file: &Path) -> Result<Vec<File>, OpenError> {
    let io = |source| OpenError::Io { dir: dir.to_owned(), source };
    let store = File::open(file).map_err(io)?;
    match store.try_lock() {
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned() }),
        // A file system without locks: the lock file is all there is.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(vec![store]),
    }
}

#[cfg(not(unix))]
fn hold(_: &Path, _: &Path) -> Result<Vec<File>, OpenError> {
    Ok(Vec::new())
}

/// Refuses a store of which pages are missing that its log does not have either, before anything opens it for writing.
fn refuse_cut_off(file: &Path, logged: &Logged) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { dir: file.parent().unwrap_or(file).to_owned(), source };
    let mut head = [0; HEAD];
    let mut store = File::open(file).map_err(io)?;
    let length = store.metadata().map_err(io)?.len();
    // SQLite refuses a file without a head.
    if store.read_exact(&mut head).is_err() || !head.starts_with(MAGIC) {
        return Ok(());
    }
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let size = match u64::from(number(14) & 0xffff) {
        1 => 65_536,
        size => size.max(1),
    };
    let there = u32::try_from(length / size).unwrap_or(u32::MAX);
    let stated = (number(24) == number(92)).then(|| number(28));
    let Some(pages) = logged.store_pages.or(stated) else { return Ok(()) };
    // SQLite never uses the page in which it locks the file.
    let locks = u32::try_from(LOCK_BYTE / size + 1).unwrap_or(0);
    let lacks = |page: &u32| *page != locks && !logged.pages.contains(page);
    let missing = (there.saturating_add(1)..=pages).filter(lacks).count();
    if missing == 0 {
        return Ok(());
    }
    let why = format!(
        "it is truncated: it has {there} of {pages} pages, and {missing} of the others are not in its log either; \
         nothing was changed"
    );
    Err(OpenError::Corrupt { file: file.to_owned(), why, written: false })
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
    require_room(&temp).map_err(io)?;
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

#[cfg(test)]
mod tests {
    use rusqlite::wal::CheckpointMode;

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::sqlite::engine::room::LOG_INDEX_BYTES;

    /// A killed store of some pages, of which the newest are only in its log.
    fn killed(dir: &Path) -> PathBuf {
        let opened = open_dir(dir).unwrap();
        let write = |many: u32| {
            (0..many).for_each(|n| {
                let sql = "INSERT INTO meta (key, value) VALUES (?1 || hex(randomblob(2000)), 1)";
                opened.db.execute(sql, [n]).unwrap();
            });
        };
        write(100);
        opened.db.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE).unwrap();
        write(20);
        let copy = dir.join("killed");
        std::fs::create_dir(&copy).unwrap();
        for name in [FILE, "vivarium.db-wal"] {
            std::fs::copy(dir.join(name), copy.join(name)).unwrap();
        }
        copy
    }

    fn cut(file: &Path, length: u64) {
        File::options().write(true).open(file).unwrap().set_len(length).unwrap();
    }

    #[test]
    fn a_store_that_was_cut_off_beside_its_log_is_refused_unchanged_at_any_length() {
        let dir = tempfile::tempdir().unwrap();
        let copy = killed(dir.path());
        let (file, log) = (copy.join(FILE), copy.join("vivarium.db-wal"));
        let (whole, wal) = (std::fs::read(&file).unwrap(), std::fs::read(&log).unwrap());
        let length = whole.len() as u64;
        for left in [100, 4_096, length / 4, length / 2, length - 4_096, length - 1] {
            for log_too in [true, false] {
                std::fs::write(&file, &whole).unwrap();
                std::fs::write(&log, if log_too { &wal[..] } else { &[] }).unwrap();
                cut(&file, left);
                let before = std::fs::read(&file).unwrap();
                let refused = open_dir(&copy).err().expect("it is refused").to_string();
                assert!(refused.contains("truncated") || !log_too, "{left} bytes: {refused}");
                assert_eq!(std::fs::read(&file).unwrap(), before, "{left} bytes");
                assert_eq!(
                    std::fs::read(&log).unwrap(),
                    if log_too { &wal[..] } else { &[] },
                    "{left} bytes"
                );
            }
        }
    }

    #[test]
    fn a_killed_store_whose_log_has_all_that_its_file_lacks_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let copy = killed(dir.path());
        let rows = |db: &Connection| {
            db.query_row("SELECT count(*) FROM meta WHERE length(key) > 1000", [], |row| row.get(0))
        };
        let opened = open_dir(&copy).unwrap();
        assert_eq!(rows(&opened.db), Ok(120));
        drop(opened);
        // A copy of the log into the file was interrupted.
        let again = dir.path().join("again");
        std::fs::create_dir(&again).unwrap();
        let opened = open_dir(&again).unwrap();
        for n in 0..50 {
            opened
                .db
                .execute("INSERT INTO meta (key, value) VALUES (?1 || hex(randomblob(2000)), 1)", [n])
                .unwrap();
        }
        for left in [4_096, 40_960] {
            let torn = dir.path().join(format!("torn-{left}"));
            std::fs::create_dir(&torn).unwrap();
            for name in [FILE, "vivarium.db-wal"] {
                std::fs::copy(again.join(name), torn.join(name)).unwrap();
            }
            if std::fs::metadata(torn.join(FILE)).unwrap().len() > left {
                cut(&torn.join(FILE), left);
            }
            assert_eq!(rows(&open_dir(&torn).unwrap().db), Ok(50));
        }
    }

    #[test]
    fn without_its_lock_file_a_store_that_is_in_use_is_still_locked() {
        let dir = tempfile::tempdir().unwrap();
        let opened = open_dir(dir.path()).unwrap();
        std::fs::remove_file(dir.path().join(LOCK)).unwrap();
        assert!(matches!(open_dir(dir.path()), Err(OpenError::Locked { .. })));
        drop(opened);
        assert!(open_dir(dir.path()).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_index_of_the_log_has_its_room_before_it_is_used() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let opened = open_dir(dir.path()).unwrap();
        let index = std::fs::metadata(dir.path().join("vivarium.db-shm")).unwrap();
        assert!(index.len() >= LOG_INDEX_BYTES && index.blocks() * 512 >= LOG_INDEX_BYTES, "{index:?}");
        // Another connection of the process neither takes the room away nor loses its locks.
        let other = Connection::open(&opened.file).unwrap();
        other.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
        assert!(opened.db.execute_batch("CREATE TABLE t (x)").is_ok());
        other.execute_batch("COMMIT").unwrap();
        assert!(std::fs::metadata(dir.path().join("vivarium.db-shm")).unwrap().len() >= LOG_INDEX_BYTES);
    }
}
