//! The openings of a store: each is counted, and noted before anything else is written. What was accepted
//! before one waits no longer than it must.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::engine::file::{Opened, open_dir};
use crate::sqlite::engine::open_error::{OpenError, begun};
use crate::sqlite::engine::schema::{meta, set_meta};
use crate::sqlite::engine::writer::Note;
use crate::sqlite::tables::waits;

/// One opening of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Counts the openings.
    pub(crate) boot: i64,
    /// Whether the one before ended well; the first one always begins clean.
    pub(crate) clean: bool,
    /// Whether it is noted. It is not where the disk is full: then the store can be read, and whoever writes
    /// must note it before.
    pub(crate) noted: bool,
    /// When, if agents start to run with it.
    pub(crate) at: Option<Timestamp>,
}

impl Opening {
    /// What is to be noted before anything is written.
    pub(crate) fn unnoted(self) -> Option<Note> {
        let Self { boot, noted, at, .. } = self;
        (!noted).then(|| -> Note { Box::new(move |db| note(db, boot, at)) })
    }
}

/// Opens the store of a directory; with a time, agents start to run with it.
pub(crate) fn open(dir: &Path, now: Option<Timestamp>) -> Result<(Opened, Opening), OpenError> {
    let opened = open_dir(dir)?;
    let opening = begin(&opened.db, now).map_err(|error| begun(&opened.file, &error))?;
    Ok((opened, opening))
}

/// Another opening begins, and is noted where there is room.
pub(crate) fn begin(db: &Connection, at: Option<Timestamp>) -> rusqlite::Result<Opening> {
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
pub(crate) fn note(db: &Connection, boot: i64, at: Option<Timestamp>) -> rusqlite::Result<()> {
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
    fn an_opening_is_noted_only_where_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), None).unwrap().0.db;
        fill(&db);
        assert_eq!(begin(&db, None).unwrap(), Opening { boot: 2, clean: false, noted: false, at: None });
        assert!(meta(&db, "boot").unwrap() == Some(1) && db.is_autocommit());
        empty(&db);
        assert_eq!(begin(&db, None).unwrap(), Opening { boot: 2, clean: false, noted: true, at: None });
    }

    #[test]
    fn the_second_opening_is_clean_only_after_a_peaceful_end() {
        let dir = tempfile::tempdir().unwrap();
        let (first, opening) = open(dir.path(), None).unwrap();
        assert_eq!(opening, Opening { boot: 1, clean: true, noted: true, at: None });
        drop(first);
        let (second, opening) = open(dir.path(), None).unwrap();
        assert_eq!(opening, Opening { boot: 2, clean: false, noted: true, at: None });
        mark_clean(&second.db).unwrap();
        drop(second);
        assert!(open(dir.path(), None).unwrap().1.clean);
    }
}
