//! StoreFigures for metrics: each found by index or counted over what is small.

use std::path::Path;

use agent::life::IdleReason;
use agent::port::{StoreFigures, Totals};
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::engine::log;
use crate::sqlite::index::file::INDEX;
use crate::sqlite::tables::rows::{code_of, first, u64_at};

/// All but the totals, which are given.
pub(super) fn figures(db: &Connection, totals: Totals) -> Outcome<StoreFigures> {
    let sql = "SELECT (SELECT count(*) FROM agent WHERE standing = 1), (SELECT count(*) FROM agent WHERE standing = 2), \
               (SELECT count(*) FROM agent WHERE damage IS NOT NULL), \
               (SELECT count(*) FROM life l JOIN inbox_head h ON h.agent = l.agent \
                WHERE l.open_cycle IS NOT NULL AND h.idle_reason = ?), \
               (SELECT count(*) FROM event WHERE state = 1), \
               (SELECT count(*) FROM call WHERE ask_at IS NOT NULL), \
               (SELECT count(*) FROM call WHERE state = 'detached' AND ask_at IS NULL)";
    let person = code_of(&IdleReason::ALL, &IdleReason::Person);
    let found = first(db, sql, params![person], |row| {
        Ok(StoreFigures {
            suspended: u64_at(row, 0)?,
            retired: u64_at(row, 1)?,
            quarantined: u64_at(row, 2)?,
            paused: u64_at(row, 3)?,
            held: u64_at(row, 4)?,
            asked: u64_at(row, 5)?,
            detached: u64_at(row, 6)?,
            ..StoreFigures::default()
        })
    })?;
    let file = db.path().filter(|path| !path.is_empty()).map(Path::new);
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let of = |path: Option<&Path>| path.map_or(0, bytes);
    Ok(StoreFigures {
        totals,
        store_bytes: of(file),
        wal_bytes: of(file.map(log::path_of).as_deref()),
        index_bytes: of(file.map(|file| file.with_file_name(INDEX)).as_deref()),
        ..found.unwrap_or_default()
    })
}
