//! The index's file: opens it, or says why it must be built anew, and deletes it. Must not know what is in the tables.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::sqlite::engine::room::require_room;
use crate::sqlite::engine::schema;

/// The index's file in the data directory.
pub(crate) const INDEX: &str = "index.db";

/// The version of its tables and of the words in them. Another version is built anew.
pub(crate) const VERSION: i64 = 2;

/// Marks a file as an index of Vivarium (`PRAGMA application_id`): "vivx".
const APPLICATION: i64 = 0x7669_7678;

/// The page cache of the connection that writes it, in KiB.
const CACHE: i64 = 8_192;

const TABLES: &str = include_str!("tables.sql");

/// What the index must agree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreState {
    /// The number of the store.
    pub(crate) id: i64,
    /// The oldest and the newest row of its queue.
    pub(crate) queue: Option<(i64, i64)>,
    /// Whether the store was closed cleanly before.
    pub(crate) clean: bool,
}

/// Opens the index in `dir` if it belongs to the store as it is; else says why not.
pub(crate) fn open(dir: &Path, store: StoreState) -> Result<Connection, String> {
    let file = dir.join(INDEX);
    if !file.exists() {
        return Err("it is missing".into());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    require_room(&file).map_err(|error| format!("it cannot be read: {error}"))?;
    let opened = Connection::open_with_flags(&file, flags).and_then(|db| {
        let why = flaw(&db, &file, store)?;
        Ok((db, why))
    });
    match opened {
        Ok((db, None)) => Ok(db),
        Ok((_, Some(why))) => Err(why),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

fn flaw(db: &Connection, file: &Path, store: StoreState) -> rusqlite::Result<Option<String>> {
    tune(db)?;
    let pragma = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    if application != APPLICATION || version != VERSION {
        return Ok(Some(format!("it is of version {version}, and this program writes {VERSION}")));
    }
    let length = |file: &Path| std::fs::metadata(file).map_or(0, |found| found.len());
    let log = file.with_file_name(format!("{INDEX}-wal"));
    let size = u64::try_from(pragma("page_size")?).unwrap_or(1).max(1);
    let pages = u64::try_from(pragma("page_count")?).unwrap_or(0);
    if length(file) / size + length(&log) / size < pages {
        return Ok(Some("it is truncated".into()));
    }
    if meta(db, "store")? != Some(store.id) {
        return Ok(Some("it is of another store".into()));
    }
    let read = meta(db, "n")?.unwrap_or(0);
    let (oldest, newest) = store.queue.unwrap_or((1, 0));
    if read > newest || read + 1 < oldest {
        return Ok(Some("the store was changed without it".into()));
    }
    if !store.clean {
        schema::cache(db, schema::ONCE_CACHE)?;
        let check: String = db.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        schema::cache(db, CACHE)?;
        if check != "ok" {
            return Ok(Some(format!("it is damaged: {check}")));
        }
    }
    Ok(None)
}

/// Creates an empty index for the store in `dir`, in place of one that is there.
pub(crate) fn create(dir: &Path, store: StoreState) -> rusqlite::Result<Connection> {
    let file = dir.join(INDEX);
    let failed = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    // What is there is worth more than nothing.
    require_room(&file).map_err(failed)?;
    remove(dir).map_err(failed)?;
    // Only its owner may read it, as the store.
    let mut private = std::fs::File::options();
    private.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut private, 0o600);
    private.open(&file).map_err(failed)?;
    let db = Connection::open(&file)?;
    // Nothing is in it yet: an index that loses its beginning is damaged or cut off, and is built anew.
    db.pragma_update(None, "synchronous", "OFF")?;
    tune(&db)?;
    fill(&db, store)?;
    Ok(db)
}

/// An empty index in memory.
pub(crate) fn create_in_memory(store: StoreState) -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    schema::tune(&db)?;
    fill(&db, store)?;
    Ok(db)
}

fn fill(db: &Connection, store: StoreState) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    db.execute_batch(TABLES)?;
    db.pragma_update(None, "application_id", APPLICATION)?;
    db.pragma_update(None, "user_version", VERSION)?;
    set_meta(db, "store", store.id)?;
    set_meta(db, "built", 0)?;
    // What is queued now is in the store, too, and is read from there.
    set_meta(db, "n", store.queue.map_or(0, |(_, newest)| newest))?;
    db.execute_batch("COMMIT")
}

fn tune(db: &Connection) -> rusqlite::Result<()> {
    schema::tune(db)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // Its last writes may be lost with the power: they are read from the store again.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    schema::cache(db, CACHE)
}

/// Deletes the index in `dir`, if there is one.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    for file in files(dir) {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn files(dir: &Path) -> [PathBuf; 4] {
    ["-wal", "-shm", "-journal", ""].map(|part| dir.join(format!("{INDEX}{part}")))
}

/// Whether a file of a data directory is part of the index.
pub(crate) fn is_part(name: &str) -> bool {
    files(Path::new("")).iter().any(|file| file == Path::new(name))
}

pub(crate) fn meta(db: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    schema::meta(db, key)
}

pub(crate) fn set_meta(db: &Connection, key: &str, value: i64) -> rusqlite::Result<()> {
    schema::set_meta(db, key, value)
}
