//! The tables of the store: their version, migrations, and the two stamps that later versions need (`format` of
//! what is written, `min_reader` that understands it).

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension};

use crate::sqlite::engine::log;
use crate::sqlite::engine::open_error::{OpenError, SQLITE_MIN, begun, unreadable};

/// Numbered, run once, in order, never changed after a release.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_first.sql")];
/// The version of the tables that this one makes (`PRAGMA user_version`).
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;
/// The format that this version writes, and the newest `min_reader` that it is.
pub(crate) const FORMAT: i64 = 1;
/// How long a connection waits for another one.
pub(crate) const BUSY: Duration = Duration::from_secs(5);
/// Statements that one connection keeps prepared.
const STATEMENTS: usize = 256;
/// Says that a file is a store of ours (`PRAGMA application_id`): "vivi".
const APPLICATION: i64 = 0x7669_7669;

pub(crate) fn open_memory() -> Result<Connection, OpenError> {
    check_library()?;
    let nowhere = Path::new(":memory:");
    let db = Connection::open_in_memory().map_err(|error| unreadable(nowhere, &error))?;
    ready(&db, nowhere)?;
    Ok(db)
}

pub(crate) fn check_library() -> Result<(), OpenError> {
    let found = rusqlite::version_number();
    if found >= SQLITE_MIN { Ok(()) } else { Err(OpenError::TooOld { found }) }
}

/// What the file is: the version of its tables, 0 where it has none yet; refused where it is no store
/// of ours, or one that only a newer version understands.
pub(crate) fn identify(db: &Connection, file: &Path) -> Result<i64, OpenError> {
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
fn not_truncated(db: &Connection, file: &Path) -> Result<(), OpenError> {
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

/// Checks what the file is, and brings it up to date.
pub(crate) fn ready(db: &Connection, file: &Path) -> Result<(), OpenError> {
    let sql = |error: rusqlite::Error| unreadable(file, &error);
    // What is refused stays as it is: closing it must not copy the log back.
    let leave = |refused| db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, refused).map_err(sql);
    leave(true)?;
    tune(db).map_err(sql)?;
    let version = identify(db, file)?;
    if version > 0 {
        not_truncated(db, file)?;
    }
    leave(false)?;
    pragmas(db).and_then(|()| migrate(db, version)).map_err(|error| begun(file, &error))
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
pub(crate) fn tune(db: &Connection) -> rusqlite::Result<()> {
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
    fn a_file_of_another_program_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let other = Connection::open(dir.path().join("vivarium.db")).unwrap();
        other.execute_batch("CREATE TABLE theirs (x)").unwrap();
        drop(other);
        let error = crate::sqlite::engine::file::open_dir(dir.path()).err().unwrap();
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
        assert!(error.to_string().contains("some other program"), "{error}");
    }

    #[test]
    fn a_table_whose_rows_may_be_long_has_a_rowid() {
        let db = open_memory().unwrap();
        let sql = "SELECT t.name || '.' || c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c \
                   WHERE t.schema = 'main' AND t.wr = 1 AND c.type = 'TEXT' ORDER BY 1";
        let mut texts = db.prepare(sql).unwrap();
        let texts: Vec<String> =
            texts.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        // Names, kinds and keys, of bounded length.
        let short = [
            "commits.kind",
            "credential.label",
            "credential.secret_hash",
            "member.role",
            "meta.key",
            "request.body_hash",
            "request.key",
        ];
        assert_eq!(texts, short);
    }
}
