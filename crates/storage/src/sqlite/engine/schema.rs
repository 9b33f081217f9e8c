//! The schema of the store: its version, its migrations, and two numbers for later versions (`format`, in which
//! records are written, and `min_reader`, the oldest format whose readers understand them).

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension};

use crate::sqlite::engine::open_error::{OpenError, SQLITE_MIN, unreadable, unreadable_after_write};

/// Each migration runs once, in order. None is changed after a release.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_compaction.sql"),
    include_str!("migrations/0003_index_queue.sql"),
    include_str!("migrations/0004_trust.sql"),
    include_str!("migrations/0005_tools.sql"),
    include_str!("migrations/0006_layers.sql"),
    include_str!("migrations/0007_guard.sql"),
    include_str!("migrations/0008_requests.sql"),
    include_str!("migrations/0009_layers_and_answers.sql"),
    include_str!("migrations/0010_questions_and_targets.sql"),
    include_str!("migrations/0011_alerts.sql"),
];
/// The version of the tables that this program creates (`PRAGMA user_version`).
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;
/// The format that this program writes, and the highest `min_reader` that it can read.
pub(crate) const FORMAT: i64 = 1;
/// How long a connection waits for a lock of another one.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The page cache, in KiB, of the connection that writes.
pub(crate) const WRITER_CACHE: i64 = 16_384;
/// The page cache, in KiB, while a connection reads a whole file or table once: nobody needs those pages again.
pub(crate) const ONCE_CACHE: i64 = 512;
/// How many prepared statements one connection caches.
const STATEMENTS: usize = 256;
/// Marks a file as a store of Vivarium (`PRAGMA application_id`): "vivi".
const APPLICATION: i64 = 0x7669_7669;

pub(crate) fn open_memory() -> Result<Connection, OpenError> {
    check_library()?;
    let nowhere = Path::new(":memory:");
    let db = Connection::open_in_memory().map_err(|error| unreadable(nowhere, &error))?;
    prepare(&db, nowhere)?;
    Ok(db)
}

pub(crate) fn check_library() -> Result<(), OpenError> {
    let found = rusqlite::version_number();
    if found >= SQLITE_MIN { Ok(()) } else { Err(OpenError::TooOld { found }) }
}

/// Returns the version of the file's tables, 0 if it has none yet. Refuses a file that is not a store of
/// Vivarium, or that only a newer version can read.
pub(crate) fn identify(db: &Connection, file: &Path) -> Result<i64, OpenError> {
    let sql = |error: rusqlite::Error| unreadable(file, &error);
    let application: i64 = db.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(sql)?;
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sql)?;
    let tables: i64 =
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(sql)?;
    // A start that died early leaves a file without tables or a version.
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
        written: false,
    })?;
    if min_reader > FORMAT {
        let dir = file.parent().unwrap_or(file).to_owned();
        return Err(OpenError::Newer { dir, min_reader, ours: FORMAT });
    }
    if version > VERSION {
        return Err(OpenError::NewerTables { file: file.to_owned(), version, ours: VERSION });
    }
    // Builds before the first release wrote other tables under the same version.
    let unreleased = "SELECT count(*) FROM pragma_table_info('credential') WHERE name = 'scope'";
    if db.query_row(unreleased, [], |row| row.get::<_, i64>(0)).map_err(sql)? == 0 {
        let why =
            "a build before the first release wrote it; move it away and start with a new one".to_owned();
        return Err(OpenError::NotADatabase { file: file.to_owned(), why });
    }
    Ok(version)
}

/// Checks what the file is, and migrates it to the current version.
pub(crate) fn prepare(db: &Connection, file: &Path) -> Result<(), OpenError> {
    let sql = |error: rusqlite::Error| unreadable(file, &error);
    // A refused file must not change: closing it must not copy the log back.
    let leave = |refused| db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, refused).map_err(sql);
    leave(true)?;
    tune(db).map_err(sql)?;
    let version = identify(db, file)?;
    leave(false)?;
    pragmas(db).and_then(|()| migrate(db, version)).map_err(|error| unreadable_after_write(file, &error))
}

fn pragmas(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", if failpoint::on!("sync-normal") { "NORMAL" } else { "FULL" })?;
    // The writer copies the log back itself, after it has sent its answers. The log's file keeps its
    // size, so that a commit never waits for the file system to extend it.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.pragma_update(None, "journal_size_limit", -1)?;
    db.pragma_update(None, "temp_store", "MEMORY")
}

/// Bounds the page cache of a connection, in KiB.
pub(crate) fn cache(db: &Connection, kib: i64) -> rusqlite::Result<()> {
    db.pragma_update(None, "cache_size", -kib)
}

/// Settings of all connections, writable or not.
pub(crate) fn tune(db: &Connection) -> rusqlite::Result<()> {
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    // Query plans must not depend on bound values. Otherwise SQLite would prepare a statement that uses a
    // partial index again for every new value, which costs more than running it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.busy_timeout(BUSY_TIMEOUT)
}

/// Runs what is missing in one transaction: one sync, and a store is never left between two versions.
fn migrate(db: &Connection, version: i64) -> rusqlite::Result<()> {
    let missing = MIGRATIONS.get(usize::try_from(version).unwrap_or(0)..).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    db.execute_batch("BEGIN IMMEDIATE")?;
    for migration in missing {
        db.execute_batch(migration)?;
        failpoint::hit!("migrate");
    }
    db.pragma_update(None, "user_version", VERSION)?;
    db.pragma_update(None, "application_id", APPLICATION)?;
    for key in ["format", "min_reader"] {
        set_meta(db, key, FORMAT)?;
    }
    db.execute_batch("COMMIT")
}

pub(crate) fn meta(db: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    db.query_row("SELECT value FROM meta WHERE key = ?", [key], |row| row.get(0)).optional()
}

pub(crate) fn set_meta(db: &Connection, key: &str, value: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
    db.execute(sql, (key, value)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_of_another_program_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let other = Connection::open(dir.path().join("vivarium.db")).unwrap();
        other.execute_batch("CREATE TABLE theirs (x)").unwrap();
        drop(other);
        let error = crate::sqlite::engine::file::open_dir(dir.path()).err().unwrap();
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
        assert!(error.to_string().contains("some other program"), "{error}");
    }

    #[test]
    fn a_store_of_a_build_before_the_first_release_is_refused() {
        let db = open_memory().unwrap();
        db.execute_batch("ALTER TABLE credential RENAME COLUMN scope TO kind").unwrap();
        let refused = identify(&db, Path::new("old.db")).unwrap_err();
        assert!(refused.to_string().contains("before the first release"), "{refused}");
    }

    #[test]
    fn a_table_whose_rows_may_be_long_has_a_rowid() {
        let db = open_memory().unwrap();
        let sql = "SELECT t.name || '.' || c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c \
                   WHERE t.schema = 'main' AND t.wr = 1 AND c.type = 'TEXT' ORDER BY 1";
        let mut texts = db.prepare(sql).unwrap();
        let texts: Vec<String> =
            texts.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        // Names, kinds and keys, all of bounded length.
        let short = [
            "commits.kind",
            "credential.label",
            "credential.secret_hash",
            "credential.service",
            "member.role",
            "meta.key",
        ];
        assert_eq!(texts, short);
    }
}
