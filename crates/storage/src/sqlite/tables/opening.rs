//! Openings of a store: each is counted, and recorded before anything else is written. It also shortens waits that
//! began before it and would last too long.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::engine::file::{Opened, open_dir};
use crate::sqlite::engine::open_error::{OpenError, unreadable_after_write};
use crate::sqlite::engine::schema::{ONCE_CACHE, WRITER_CACHE, cache, meta, set_meta};
use crate::sqlite::engine::writer::FirstWrite;
use crate::sqlite::tables::waits;

/// One opening of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// The number of this opening.
    pub(crate) boot: i64,
    /// Whether the store was closed cleanly before; true for the first opening.
    pub(crate) clean: bool,
    /// Whether it is recorded in the store. If the disk is full it is not: the store can be read then, and the
    /// opening must be recorded before the first write.
    pub(crate) recorded: bool,
    /// When it happened; `None` if agents do not run during it.
    pub(crate) at: Option<Timestamp>,
}

impl Opening {
    /// The write that must happen before any other, if the opening is not recorded yet.
    pub(crate) fn first_write(self) -> Option<FirstWrite> {
        let Self { boot, recorded, at, .. } = self;
        (!recorded).then(|| -> FirstWrite { Box::new(move |db| record(db, boot, at)) })
    }
}

/// Opens the store of a directory. With a time, agents may run during this opening.
pub(crate) fn open(dir: &Path, now: Option<Timestamp>) -> Result<(Opened, Opening), OpenError> {
    let opened = open_dir(dir)?;
    // The waits of all agents are read once, and must not stay in memory.
    let opening = cache(&opened.db, ONCE_CACHE)
        .and_then(|()| begin(&opened.db, now))
        .and_then(|opening| cache(&opened.db, WRITER_CACHE).map(|()| opening))
        .map_err(|error| unreadable_after_write(&opened.file, &error))?;
    Ok((opened, opening))
}

/// Begins a new opening, and records it unless the disk is full.
pub(crate) fn begin(db: &Connection, at: Option<Timestamp>) -> rusqlite::Result<Opening> {
    let boot = meta(db, "boot")?.unwrap_or(0) + 1;
    let clean = boot == 1 || meta(db, "clean")? == Some(1);
    match record(db, boot, at) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
            Ok(Opening { boot, clean, recorded: false, at })
        }
        recorded => recorded.map(|()| Opening { boot, clean, recorded: true, at }),
    }
}

/// Records an opening, and shortens waits that would last too long.
pub(crate) fn record(db: &Connection, boot: i64, at: Option<Timestamp>) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let write = || {
        set_meta(db, "boot", boot)?;
        set_meta(db, "clean", 0)?;
        at.map_or(Ok(()), |at| waits::begin(db, at))?;
        failpoint::hit!("boot");
        db.execute_batch("COMMIT")
    };
    let recorded = write();
    if recorded.is_err() && !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    recorded
}

/// The last command of a store that is closed cleanly.
pub(crate) fn mark_clean(db: &Connection) -> Outcome<()> {
    set_meta(db, "clean", 1)?;
    failpoint::hit!("shutdown");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::ports::tests::{empty, fill};

    #[test]
    fn an_opening_is_recorded_only_if_the_disk_has_room() {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), None).unwrap().0.db;
        fill(&db);
        assert_eq!(begin(&db, None).unwrap(), Opening { boot: 2, clean: false, recorded: false, at: None });
        assert!(meta(&db, "boot").unwrap() == Some(1) && db.is_autocommit());
        empty(&db);
        assert_eq!(begin(&db, None).unwrap(), Opening { boot: 2, clean: false, recorded: true, at: None });
    }

    #[test]
    fn the_second_opening_is_clean_only_after_a_clean_close() {
        let dir = tempfile::tempdir().unwrap();
        let (first, opening) = open(dir.path(), None).unwrap();
        assert_eq!(opening, Opening { boot: 1, clean: true, recorded: true, at: None });
        drop(first);
        let (second, opening) = open(dir.path(), None).unwrap();
        assert_eq!(opening, Opening { boot: 2, clean: false, recorded: true, at: None });
        mark_clean(&second.db).unwrap();
        drop(second);
        assert!(open(dir.path(), None).unwrap().1.clean);
    }
}
