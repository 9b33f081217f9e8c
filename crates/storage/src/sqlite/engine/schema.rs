//! Opening the store: lock, file, version, migrations, and the two stamps that later versions need
//! (`format` of what is written, `min_reader` that understands it).

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::engine::log;
use crate::sqlite::tables::waits;

/// Numbered, run once, in order, never changed after a release.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_first.sql")];
/// The version of the tables that this one makes (`PRAGMA user_version`).
pub(in crate::sqlite) const VERSION: i64 = MIGRATIONS.len() as i64;
/// The store's file in its data directory.
pub(in crate::sqlite) const FILE: &str = "vivarium.db";
/// The name of the file that whoever has the directory holds locked.
pub(in crate::sqlite) const LOCK: &str = "lock";
/// The format that this version writes, and the newest `min_reader` that it is.
pub(in crate::sqlite) const FORMAT: i64 = 1;
/// The oldest SQLite whose write-ahead log is known to be sound under our use.
const SQLITE_MIN: i32 = 3_051_003;
/// How long a connection waits for another one.
pub(in crate::sqlite) const BUSY: Duration = Duration::from_secs(5);
/// Statements that one connection keeps prepared.
const STATEMENTS: usize = 256;
/// Says that a file is a store of ours (`PRAGMA application_id`): "vivi".
const APPLICATION: i64 = 0x7669_7669;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "the data directory `{}` is in use by another viv; stop that one, or name another directory with `--data-dir`",
        dir.display()
    )]
    Locked {
        /// The data directory.
        dir: PathBuf,
    },
    /// It was made by a newer version.
    #[error(
        "the store in `{}` was made by a newer viv (it needs a reader of format {min_reader}, this one reads up to {ours}); run that version or a newer one",
        dir.display()
    )]
    Newer {
        /// The data directory.
        dir: PathBuf,
        /// What the store asks for.
        min_reader: i64,
        /// What this version is.
        ours: i64,
    },
    /// Its tables are of a version that this one does not know.
    #[error(
        "the store `{}` was made by a newer viv (its tables are of version {version}, this one knows {ours}); run that version or a newer one",
        file.display()
    )]
    NewerTables {
        /// The file.
        file: PathBuf,
        /// What they are.
        version: i64,
        /// What this version knows.
        ours: i64,
    },
    /// The file is no store of ours.
    #[error(
        "`{}` is not a store of viv: {why}; move it away, or name another directory with `--data-dir`",
        file.display()
    )]
    NotADatabase {
        /// The file.
        file: PathBuf,
        /// What was found.
        why: String,
    },
    /// The file is one, but cannot be read.
    #[error("the store `{}` is damaged: {why}; restore it from a copy", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What was found.
        why: String,
        /// Whether it was open for writing already, so that some of it may have been written.
        begun: bool,
    },
    /// The operating system refuses.
    #[error("the data directory `{}` cannot be used: {source}", dir.display())]
    Io {
        /// The data directory.
        dir: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// The SQLite inside is too old to be trusted.
    #[error("this build has SQLite {found}, but needs at least {SQLITE_MIN}; build it with the bundled one")]
    TooOld {
        /// Its version number.
        found: i32,
    },
}

/// A store that is open for writing.
pub(in crate::sqlite) struct Opened {
    pub(in crate::sqlite) db: Connection,
    pub(in crate::sqlite) file: PathBuf,
    pub(in crate::sqlite) lock: File,
    pub(in crate::sqlite) opening: Opening,
    /// Frames of its log that were lost before.
    pub(in crate::sqlite) lost: u64,
}

/// One opening of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sqlite) struct Opening {
    /// Counts the openings.
    pub(in crate::sqlite) boot: i64,
    /// Whether the one before ended well; the first one always begins clean.
    pub(in crate::sqlite) clean: bool,
    /// Whether it is noted. It is not where the disk is full: then the store can be read, and whoever writes
    /// must note it before.
    pub(in crate::sqlite) noted: bool,
    /// When, where agents begin to live with it.
    pub(in crate::sqlite) at: Option<Timestamp>,
}

pub(in crate::sqlite) fn open_dir(dir: &Path, now: Option<Timestamp>) -> Result<Opened, OpenError> {
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
    let opening = ready(&db, &file, now)?;
    Ok(Opened { db, file, lock, opening, lost })
}

/// The store's file before it has its name.
pub(in crate::sqlite) const BEGUN: &str = "vivarium.db.begun";
/// The name of a file that stands in a data directory while a restore changes it.
pub(in crate::sqlite) const RESTORING: &str = "restore-unfinished";

/// Refuses a directory in which a restore was cut short: what is there may be a store without its log.
pub(in crate::sqlite) fn whole(dir: &Path) -> Result<(), OpenError> {
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
fn make(file: &Path) -> Result<(), OpenError> {
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
pub(in crate::sqlite) fn kind(found: &Metadata) -> &'static str {
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
pub(in crate::sqlite) fn lock_dir(dir: &Path) -> Result<File, OpenError> {
    let io = |source| OpenError::Io { dir: dir.to_owned(), source };
    make_private(dir).map_err(io)?;
    let lock = File::options().create(true).truncate(false).write(true).open(dir.join(LOCK)).map_err(io)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

pub(in crate::sqlite) fn open_memory() -> Result<Connection, OpenError> {
    check_library()?;
    let nowhere = Path::new(":memory:");
    let db = Connection::open_in_memory().map_err(|error| unreadable(nowhere, &error))?;
    ready(&db, nowhere, None)?;
    Ok(db)
}

fn check_library() -> Result<(), OpenError> {
    let found = rusqlite::version_number();
    if found >= SQLITE_MIN { Ok(()) } else { Err(OpenError::TooOld { found }) }
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

/// What an error while opening means for whoever starts the server.
pub(in crate::sqlite) fn unreadable(file: &Path, error: &rusqlite::Error) -> OpenError {
    let (dir, file, why) = (file.parent().unwrap_or(file), file.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { file, why },
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked,
        ) => OpenError::Io { dir: dir.to_owned(), source: io::Error::other(why) },
        _ => OpenError::Corrupt { file, why, begun: false },
    }
}

/// What the file is: the version of its tables, 0 where it has none yet; refused where it is no store
/// of ours, or one that only a newer version understands.
pub(in crate::sqlite) fn identify(db: &Connection, file: &Path) -> Result<i64, OpenError> {
    let sql = |error: rusqlite::Error| unreadable(file, &error);
    let application: i64 = db.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(sql)?;
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sql)?;
    let tables: i64 =
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(sql)?;
    // What a start leaves that died early says nothing of itself.
    if tables == 0 && [0, APPLICATION].contains(&application) && version == 0 {
        return Ok(0);
    }
    if tables == 0 || application != APPLICATION {
        let why = "it is a database of some other program".to_owned();
        return Err(OpenError::NotADatabase { file: file.to_owned(), why });
    }
    let min_reader = meta(db, "min_reader").map_err(sql)?.ok_or_else(|| OpenError::Corrupt {
        file: file.to_owned(),
        why: "its format is not stated".into(),
        begun: false,
    })?;
    if min_reader > FORMAT {
        let dir = file.parent().unwrap_or(file).to_owned();
        return Err(OpenError::Newer { dir, min_reader, ours: FORMAT });
    }
    if version > VERSION {
        return Err(OpenError::NewerTables { file: file.to_owned(), version, ours: VERSION });
    }
    Ok(version)
}

/// Refuses a file that lacks pages which its log cannot have: no log has more of them than frames. Where there
/// is no log SQLite refuses it by itself.
fn uncut(db: &Connection, file: &Path) -> Result<(), OpenError> {
    let sql = |error: rusqlite::Error| unreadable(file, &error);
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, u32>(0)).map(u64::from);
    let (pages, size) = (number("page_count").map_err(sql)?, number("page_size").map_err(sql)?);
    let length = |file: &Path| std::fs::metadata(file).map_or(0, |found| found.len());
    let (there, logged) = (length(file) / size, length(&log::of(file)) / size);
    if there + logged >= pages {
        return Ok(());
    }
    let why = format!("it is cut off: it has {there} of its {pages} pages, and its log at most {logged}");
    Err(OpenError::Corrupt { file: file.to_owned(), why, begun: false })
}

/// Checks what the file is, brings it up to date and notes that it is in use.
pub(in crate::sqlite) fn ready(
    db: &Connection,
    file: &Path,
    now: Option<Timestamp>,
) -> Result<Opening, OpenError> {
    let sql = |error: rusqlite::Error| unreadable(file, &error);
    // What is refused stays as it is: closing it must not copy the log back.
    let leave = |refused| db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, refused).map_err(sql);
    leave(true)?;
    tune(db).map_err(sql)?;
    let version = identify(db, file)?;
    if version > 0 {
        uncut(db, file)?;
    }
    leave(false)?;
    let written = || {
        pragmas(db)?;
        migrate(db, version)?;
        begin(db, now)
    };
    written().map_err(|error| match sql(error) {
        OpenError::Corrupt { file, why, .. } => OpenError::Corrupt { file, why, begun: true },
        other => other,
    })
}

fn pragmas(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", if failpoint::on!("sync-normal") { "NORMAL" } else { "FULL" })?;
    // The writer itself copies the log back, after its answers are out; the log's file keeps its
    // size, so that a commit never waits for the file system to make it longer.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.pragma_update(None, "journal_size_limit", -1)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update(None, "cache_size", -16_384)
}

/// What the writer's connection and those that only read have in common.
pub(in crate::sqlite) fn tune(db: &Connection) -> rusqlite::Result<()> {
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    // No plan may depend on the values bound to it: else partial indexes make SQLite prepare a
    // statement again for every other value, which costs more than running it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.busy_timeout(BUSY)
}

fn migrate(db: &Connection, version: i64) -> rusqlite::Result<()> {
    let done = usize::try_from(version).unwrap_or(0);
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(done) {
        db.execute_batch("BEGIN IMMEDIATE")?;
        db.execute_batch(migration)?;
        db.pragma_update(None, "user_version", index as i64 + 1)?;
        db.pragma_update(None, "application_id", APPLICATION)?;
        for key in ["format", "min_reader"] {
            set_meta(db, key, FORMAT)?;
        }
        failpoint::hit!("migrate");
        db.execute_batch("COMMIT")?;
    }
    Ok(())
}

/// Another opening begins, and is noted where there is room.
pub(in crate::sqlite) fn begin(db: &Connection, at: Option<Timestamp>) -> rusqlite::Result<Opening> {
    let boot = meta(db, "boot")?.unwrap_or(0) + 1;
    let clean = boot == 1 || meta(db, "clean")? == Some(1);
    match note(db, boot, at) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
            Ok(Opening { boot, clean, noted: false, at })
        }
        noted => noted.map(|()| Opening { boot, clean, noted: true, at }),
    }
}

/// Notes an opening, and all that changes with one.
pub(in crate::sqlite) fn note(db: &Connection, boot: i64, at: Option<Timestamp>) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let write = || {
        set_meta(db, "boot", boot)?;
        set_meta(db, "clean", 0)?;
        at.map_or(Ok(()), |at| waits::begin(db, at))?;
        failpoint::hit!("boot");
        db.execute_batch("COMMIT")
    };
    let noted = write();
    if noted.is_err() && !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    noted
}

/// The last command of a store that is closed in peace.
pub(in crate::sqlite) fn mark_clean(db: &Connection) -> Outcome<()> {
    set_meta(db, "clean", 1)?;
    failpoint::hit!("shutdown");
    Ok(())
}

pub(in crate::sqlite) fn meta(db: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    db.query_row("SELECT value FROM meta WHERE key = ?", [key], |row| row.get(0)).optional()
}

pub(in crate::sqlite) fn set_meta(db: &Connection, key: &str, value: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
    db.execute(sql, (key, value)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::tests::{empty, fill};

    #[test]
    fn a_file_of_another_program_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let other = Connection::open(dir.path().join("vivarium.db")).unwrap();
        other.execute_batch("CREATE TABLE theirs (x)").unwrap();
        drop(other);
        let error = open_dir(dir.path(), None).err().unwrap();
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
        assert!(error.to_string().contains("some other program"), "{error}");
    }

    #[test]
    fn an_opening_is_noted_only_where_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let db = open_dir(dir.path(), None).unwrap().db;
        fill(&db);
        assert_eq!(begin(&db, None).unwrap(), Opening { boot: 2, clean: false, noted: false, at: None });
        assert!(meta(&db, "boot").unwrap() == Some(1) && db.is_autocommit());
        empty(&db);
        assert_eq!(begin(&db, None).unwrap(), Opening { boot: 2, clean: false, noted: true, at: None });
    }

    #[test]
    fn the_second_opening_is_clean_only_after_a_peaceful_end() {
        let dir = tempfile::tempdir().unwrap();
        let first = open_dir(dir.path(), None).unwrap();
        assert_eq!(first.opening, Opening { boot: 1, clean: true, noted: true, at: None });
        drop(first);
        let second = open_dir(dir.path(), None).unwrap();
        assert_eq!(second.opening, Opening { boot: 2, clean: false, noted: true, at: None });
        mark_clean(&second.db).unwrap();
        drop(second);
        assert!(open_dir(dir.path(), None).unwrap().opening.clean);
    }
}
