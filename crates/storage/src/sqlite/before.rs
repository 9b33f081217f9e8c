//! A look at a store with a log beside it before it is opened for writing: opening it would copy the log back,
//! and what is then refused would not be what was there. Reads only.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::schema::{OpenError, identify, tune, unreadable};

/// Bytes of the log's header, and of the header of each page in it.
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The byte that no page may hold, since locks are set on it.
const LOCK_BYTE: u64 = 0x4000_0000;

/// Refuses a store that is none of ours, is newer, or lacks pages that neither its file nor its log has.
pub(super) fn look(file: &Path) -> Result<(), OpenError> {
    let log = file.with_extension("db-wal");
    match std::fs::metadata(&log) {
        Ok(found) if found.is_file() && found.len() > 0 => {}
        // What is refused without a log is refused before anything is written.
        _ => return Ok(()),
    }
    let sql = |error: rusqlite::Error| unreadable(file, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = match Connection::open_with_flags(file, flags).and_then(|db| tune(&db).map(|()| db)) {
        Ok(db) => db,
        Err(_) => return Ok(()),
    };
    match identify(&db, file) {
        // Where even a reader cannot be, the opening to write says why.
        Err(OpenError::Io { .. }) => return Ok(()),
        known => known?,
    };
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, u32>(0)).map(u64::from);
    let (pages, size) = (number("page_count").map_err(sql)?, number("page_size").map_err(sql)?);
    let there = std::fs::metadata(file).map_or(0, |found| found.len()) / size.max(1);
    if there >= pages {
        return Ok(());
    }
    let logged = logged(&log, size).unwrap_or_default();
    let lock = LOCK_BYTE / size.max(1) + 1;
    let missing = (there + 1..=pages).filter(|page| *page != lock && !logged.contains(page)).count();
    if missing == 0 || sound(&db).map_err(sql)? {
        return Ok(());
    }
    let why = format!("it is cut off: {missing} of its {pages} pages are neither in it nor in its log");
    Err(OpenError::Corrupt { file: file.to_owned(), why, begun: false })
}

/// Whether SQLite finds nothing wrong either.
fn sound(db: &Connection) -> rusqlite::Result<bool> {
    let found: rusqlite::Result<String> = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
    match found {
        Ok(found) => Ok(found == "ok"),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The pages that stand in the log, up to the first frame of an earlier use of it.
fn logged(log: &Path, size: u64) -> io::Result<HashSet<u64>> {
    let mut log = BufReader::new(File::open(log)?);
    let mut header = [0; LOG_HEADER];
    log.read_exact(&mut header)?;
    let (mut pages, mut frame) = (HashSet::new(), [0; FRAME_HEADER]);
    loop {
        match log.read_exact(&mut frame) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(pages),
            read => read?,
        }
        // Both begin with what SQLite writes anew whenever it uses the log from its start again.
        if frame[8..16] != header[16..24] {
            return Ok(pages);
        }
        pages.insert(u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]).into());
        log.seek_relative(i64::try_from(size).unwrap_or(i64::MAX))?;
    }
}
