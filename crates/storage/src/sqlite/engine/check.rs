//! A quick check of a store's file: whether every page of every table can be read and belongs where it is. Table by table, so that no
//! single read keeps the write-ahead log from being reused for long.

use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

use crate::sqlite::engine::schema::{ONCE_CACHE, cache};

/// Steps of SQLite between two looks at the clock.
const STEPS: i32 = 10_000;

/// What a check of the file has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Nothing.
    Sound,
    /// A damage: the first one.
    Damaged(String),
    /// It was not finished within the time.
    Unfinished,
}

/// Checks the file for at most `within`, and no longer once `stop` says so.
pub(crate) fn check(
    db: &mut Connection,
    within: Duration,
    stop: impl Fn() -> bool + Send + 'static,
) -> rusqlite::Result<Checked> {
    cache(db, ONCE_CACHE)?;
    let began = Instant::now();
    db.progress_handler(STEPS, Some(move || stop() || began.elapsed() >= within))?;
    let found = tables(db);
    db.progress_handler(0, None::<fn() -> bool>)?;
    match found {
        Ok(Some(damage)) => Ok(Checked::Damaged(damage)),
        Ok(None) => Ok(Checked::Sound),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Ok(Checked::Unfinished),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Ok(Checked::Damaged(error.to_string()))
            }
            _ => Err(error),
        },
    }
}

fn tables(db: &Connection) -> rusqlite::Result<Option<String>> {
    let mut names = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
    let names: Vec<String> = names.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for table in names {
        let sql = format!("PRAGMA quick_check(\"{}\")", table.replace('"', "\"\""));
        let found: String = db.query_row(&sql, [], |row| row.get(0))?;
        if found != "ok" {
            // SQLite says at which page, over several lines.
            let found = found.lines().collect::<Vec<_>>().join("; ");
            return Ok(Some(format!("the table `{table}`: {found}")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;
    use crate::sqlite::engine::schema;

    const FOREVER: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_page_that_is_not_what_it_was_is_found_wherever_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("vivarium.db");
        let mut db = Connection::open(&file).unwrap();
        schema::prepare(&db, &file).unwrap();
        db.execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
             INSERT INTO alert (kind, text, at) SELECT 'k', printf('%0200d', i), i FROM n; PRAGMA wal_checkpoint(TRUNCATE)",
        )
        .unwrap();
        assert_eq!(check(&mut db, FOREVER, || false).unwrap(), Checked::Sound);
        assert_eq!(check(&mut db, Duration::ZERO, || false).unwrap(), Checked::Unfinished);
        assert_eq!(check(&mut db, FOREVER, || true).unwrap(), Checked::Unfinished);
        let size: i64 = db.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
        let root = |name: &str| -> i64 {
            db.query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?", [name], |row| row.get(0))
                .unwrap()
        };
        let names = ["alert", "alert_of", "entity", "message"];
        let pages = names.map(|name| u64::try_from((root(name) - 1) * size).unwrap());
        drop(db);
        let whole = std::fs::read(&file).unwrap();
        for (name, page) in names.into_iter().zip(pages) {
            let mut torn = std::fs::File::options().write(true).open(&file).unwrap();
            torn.seek(SeekFrom::Start(page)).unwrap();
            torn.write_all(&vec![0xA5; usize::try_from(size).unwrap()]).unwrap();
            let mut fresh = Connection::open(&file).unwrap();
            let found = check(&mut fresh, FOREVER, || false).unwrap();
            assert!(matches!(&found, Checked::Damaged(_)), "{name}: {found:?}");
            drop(fresh);
            std::fs::write(&file, &whole).unwrap();
        }
    }
}
