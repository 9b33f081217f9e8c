//! The queue of the search index: which agents have something new to read. It is written in the same commit as the
//! change itself. Must not know how the index works.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::SyncSender;

use agent::changes::Changes;
use agent::event::EventState;
use agent::limits;
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::rows::{all, first, int, ms, run, time_at, to_json};
use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::engine::mutex::lock;

/// So many rows are kept longer than needed, so that not every commit deletes some.
const TRIMMED_FROM: i64 = 64;
/// So many rows are deleted at once, at most.
const TRIMMED_AT_ONCE: i64 = 256;

/// Between the writer and the thread that feeds the index.
#[derive(Default)]
pub(crate) struct Signal {
    wake: Mutex<Option<SyncSender<()>>>,
    /// The last row that was indexed.
    indexed: AtomicI64,
}

impl Signal {
    /// Wakes this listener from now on.
    pub(crate) fn listen(&self, wake: Option<SyncSender<()>>) {
        *lock(&self.wake) = wake;
    }

    /// Something was committed. A listener that is awake already finds it.
    pub(crate) fn wake(&self) {
        if let Some(wake) = &*lock(&self.wake) {
            let _ = wake.try_send(());
        }
    }

    /// The index has read everything up to this row.
    pub(crate) fn indexed_to(&self, n: i64) {
        self.indexed.store(n, Ordering::Relaxed);
    }

    /// The last row that the index has read.
    pub(crate) fn indexed(&self) -> i64 {
        self.indexed.load(Ordering::Relaxed)
    }
}

/// Notes what a commit appends and processes.
pub(crate) fn note_commit(db: &Connection, signal: &Signal, agent: i64, changes: &Changes) -> Outcome<()> {
    let processed = |state: &EventState| matches!(state, EventState::Processed { .. });
    let events: Vec<u64> = changes
        .settle
        .iter()
        .filter(|settled| processed(&settled.state))
        .map(|settled| settled.seq)
        .collect();
    if changes.entries.is_empty() && events.is_empty() {
        return Ok(());
    }
    let events = if events.is_empty() { None } else { Some(to_json(&events)?) };
    let sql = "INSERT INTO index_queue (agent, at, events) VALUES (?, ?, ?)";
    run(db, sql, params![agent, ms(changes.at), events])?;
    trim(db, signal)
}

/// Notes that a message was posted.
pub(crate) fn note_message(db: &Connection, space: i64, at: i64) -> Outcome<()> {
    run(db, "INSERT INTO index_queue (space, at) VALUES (?, ?)", [space, at]).map(drop)
}

/// Notes a memory that was set or deleted.
pub(crate) fn note_memory(db: &Connection, agent: i64, at: Timestamp, key: &str) -> Outcome<()> {
    run(db, "INSERT INTO index_queue (agent, at, key) VALUES (?, ?, ?)", params![agent, ms(at), key])
        .map(drop)
}

/// Deletes some of the oldest rows, except those that the index has not read or may lose in a crash; but an index that
/// is never written does not let the queue grow for ever.
fn trim(db: &Connection, signal: &Signal) -> Outcome<()> {
    let read = signal.indexed() - int(limits::INDEX_QUEUE_KEPT);
    let upto = read.max(db.last_insert_rowid() - int(limits::INDEX_QUEUE_MAX));
    let oldest = first(db, "SELECT min(n) FROM index_queue", [], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
    match oldest.flatten() {
        Some(oldest) if oldest + TRIMMED_FROM <= upto => {
            let sql = "DELETE FROM index_queue WHERE n <= ?";
            run(db, sql, [upto.min(oldest + TRIMMED_AT_ONCE)]).map(drop)
        }
        _ => Ok(()),
    }
}

/// One row of the queue.
pub(crate) struct Queued {
    pub(crate) n: i64,
    /// Whose log or memories changed.
    pub(crate) agent: Option<i64>,
    /// Where a message was posted.
    pub(crate) space: Option<i64>,
    pub(crate) events: Option<String>,
    pub(crate) key: Option<String>,
}

/// The rows after `n`, oldest first.
pub(crate) fn after(db: &Connection, n: i64, limit: u32) -> Outcome<Vec<Queued>> {
    let sql = "SELECT n, agent, space, events, key FROM index_queue WHERE n > ? ORDER BY n LIMIT ?";
    all(db, sql, params![n, limit], |row| {
        let (agent, space) = (row.get(1)?, row.get(2)?);
        Ok(Queued { n: row.get(0)?, agent, space, events: row.get(3)?, key: row.get(4)? })
    })
}

/// The oldest and the newest row; `None` if nothing was ever queued.
pub(crate) fn ends(db: &Connection) -> Outcome<Option<(i64, i64)>> {
    let ends = "SELECT min(n), max(n) FROM index_queue";
    let found =
        first(db, ends, [], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?)))?;
    Ok(found.and_then(|(oldest, newest)| oldest.zip(newest)))
}

/// When the first row after `n` was written.
pub(crate) fn waits_since(db: &Connection, n: i64) -> Outcome<Option<Timestamp>> {
    let sql = "SELECT at FROM index_queue WHERE n > ? ORDER BY n LIMIT 1";
    first(db, sql, [n], |row| time_at(row, 0))
}

#[cfg(test)]
mod tests {
    use agent::changes::CommitKind;
    use agent::id::CycleId;
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::engine::schema;

    #[test]
    fn the_queue_of_an_index_that_is_never_written_is_bounded() {
        let db = schema::open_memory().unwrap();
        let max = int(limits::INDEX_QUEUE_MAX);
        let add = "INSERT INTO index_queue (n, agent, at) VALUES (?1, 1, 0), (?2, 1, 0)";
        db.execute(add, [1, max + 1_000]).unwrap();
        let (cycle, at) = (CycleId(Uuid::nil()), Timestamp::UNIX_EPOCH);
        let mut changes = Changes::new(CommitKind::Close, cycle, 0, 0, at);
        changes.settle =
            vec![agent::changes::Settlement { seq: 1, state: EventState::Processed { cycle, step: 0 } }];
        note_commit(&db, &Signal::default(), 1, &changes).unwrap();
        assert_eq!(ends(&db).unwrap(), Some((max + 1_000, max + 1_001)), "the old row is gone");
    }
}
