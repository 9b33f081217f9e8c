//! The one writer: drains whatever waits into one transaction, each command in a savepoint of its
//! own, and completes the commands only once the commit is on disk. Group commit without a timer:
//! while one group is being synced the next one gathers.
//!
//! This module must not know what a command does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use agent::limits;
use agent::port::StoreError;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{oneshot, watch};

use super::fault::{Fault, Outcome, again, classify};

/// Frames of the write-ahead log above which it is copied back into the database, so that its file
/// is used again from the start.
const CHECKPOINT_FRAMES: i64 = 2_000;

/// Figures of the writer since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that wrote something: fsyncs on the path of a command.
    pub groups: u64,
    /// Commands, those that wrote nothing included.
    pub commands: u64,
    /// Copies of the write-ahead log into the database, off the path of any command.
    pub checkpoints: u64,
    /// Pages written to the write-ahead log.
    pub pages: u64,
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    groups: AtomicU64,
    commands: AtomicU64,
    checkpoints: AtomicU64,
    pages: AtomicU64,
    /// How long the write-ahead log was when it was written to last.
    end: AtomicI64,
    /// Frames in the write-ahead log after the last commit.
    frames: AtomicI64,
}

impl Counters {
    pub(super) fn stats(&self) -> Stats {
        Stats {
            groups: self.groups.load(Ordering::Relaxed),
            commands: self.commands.load(Ordering::Relaxed),
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
            pages: self.pages.load(Ordering::Relaxed),
        }
    }

    /// What the write-ahead log tells after each commit that wrote to it.
    pub(super) fn wrote(&self, frames: i64) {
        let end = self.end.swap(frames, Ordering::Relaxed);
        // A log that is shorter than it was is used again from its start.
        let new = if frames > end { frames - end } else { frames };
        self.pages.fetch_add(new.unsigned_abs(), Ordering::Relaxed);
        self.frames.store(frames, Ordering::Relaxed);
    }
}

/// One command, whatever it does.
pub(super) trait Work: Send {
    /// Does it; whether what it wrote is to be kept.
    fn run(&mut self, db: &Connection) -> bool;
    /// The store's error that it ended with, if it did.
    fn error(&self) -> Option<StoreError>;
    /// Answers: as it ended, or with the error of the group.
    fn finish(self: Box<Self>, group: Result<(), StoreError>);
}

/// A command and who waits for it.
struct Command<T, F> {
    work: Option<F>,
    outcome: Option<Outcome<T>>,
    reply: oneshot::Sender<Outcome<T>>,
}

/// A command from a closure, and its answer to come.
pub(super) fn command<T, F>(work: F) -> (Box<dyn Work>, oneshot::Receiver<Outcome<T>>)
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Command { work: Some(work), outcome: None, reply }), answer)
}

impl<T, F> Work for Command<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
{
    fn run(&mut self, db: &Connection) -> bool {
        let Some(work) = self.work.take() else { return false };
        let outcome = catch_unwind(AssertUnwindSafe(|| work(db))).unwrap_or_else(|_| {
            let text = "a command panicked; nothing of it was written";
            Err(Fault::Store(StoreError::Damaged(text.into())))
        });
        let keep = outcome.is_ok();
        self.outcome = Some(outcome);
        keep
    }

    fn error(&self) -> Option<StoreError> {
        match self.outcome.as_ref()? {
            Err(Fault::Sql(error)) => Some(classify(error)),
            Err(Fault::Store(error)) => Some(again(error)),
            _ => None,
        }
    }

    fn finish(self: Box<Self>, group: Result<(), StoreError>) {
        let outcome = match group {
            Ok(()) => self.outcome.unwrap_or(Err(Fault::Store(StoreError::Closed))),
            Err(error) => Err(Fault::Store(error)),
        };
        // Whoever asked may be gone; what was written stays.
        let _ = self.reply.send(outcome);
    }
}

/// Runs one group and answers its commands. The error is that of the group, once they know it.
pub(super) fn serve(
    db: &Connection,
    counters: &Counters,
    mut group: Vec<Box<dyn Work>>,
) -> Result<(), StoreError> {
    let before = db.total_changes();
    let result = transact(db, &mut group);
    counters.commands.fetch_add(group.len() as u64, Ordering::Relaxed);
    if result.is_ok() && db.total_changes() != before {
        counters.groups.fetch_add(1, Ordering::Relaxed);
        failpoint::hit!("group.committed");
    }
    for work in group {
        work.finish(result.as_ref().copied().map_err(again));
    }
    result
}

fn transact(db: &Connection, group: &mut [Box<dyn Work>]) -> Result<(), StoreError> {
    let done = step(db, "BEGIN IMMEDIATE").and_then(|()| match group {
        [only] => alone(db, only.as_mut()),
        group => {
            for work in group {
                each(db, work.as_mut())?;
            }
            failpoint::hit!("group.before_commit");
            step(db, "COMMIT")
        }
    });
    if done.is_err() && !db.is_autocommit() {
        // Nothing of a group that failed may stay; if even this fails the file is not ours to mend.
        step(db, "ROLLBACK")?;
    }
    done
}

/// A command without company needs no savepoint: the transaction is its own. For a savepoint SQLite
/// would copy every page before it is changed, on the path of a waking.
fn alone(db: &Connection, work: &mut dyn Work) -> Result<(), StoreError> {
    let keep = work.run(db);
    still_open(db, work)?;
    step(db, if keep { "COMMIT" } else { "ROLLBACK" })
}

/// SQLite takes a whole transaction back by itself (disk full, IO error): then no command happened.
fn still_open(db: &Connection, work: &dyn Work) -> Result<(), StoreError> {
    if db.is_autocommit() {
        return Err(work.error().unwrap_or_else(|| StoreError::Broken("a transaction was lost".into())));
    }
    Ok(())
}

fn each(db: &Connection, work: &mut dyn Work) -> Result<(), StoreError> {
    step(db, "SAVEPOINT command")?;
    let keep = work.run(db);
    still_open(db, work)?;
    if !keep {
        step(db, "ROLLBACK TO command")?;
    }
    step(db, "RELEASE command")
}

fn step(db: &Connection, sql: &str) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| classify(&error))?;
    statement.raw_execute().map(drop).map_err(|error| match error.sqlite_error_code() {
        // A commit that fails for any reason but room leaves open what is on disk: end the process.
        Some(ErrorCode::DiskFull) | None => classify(&error),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => classify(&error),
        Some(_) => StoreError::Broken(error.to_string()),
    })
}

/// The writer thread: until every sender is gone.
pub(super) fn write_all(
    db: &Connection,
    counters: &Arc<Counters>,
    queue: &Receiver<Box<dyn Work>>,
    tell_broken: &watch::Sender<Option<String>>,
) {
    let mut broken: Option<StoreError> = None;
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        group.extend(queue.try_iter().take(limits::GROUP_MAX - 1));
        if let Some(error) = &broken {
            group.into_iter().for_each(|work| work.finish(Err(again(error))));
            continue;
        }
        if let Err(error @ StoreError::Broken(_)) = serve(db, counters, group) {
            tell_broken.send_replace(Some(error.to_string()));
            broken = Some(error);
        }
        let bound = if failpoint::on!("small-log") { CHECKPOINT_FRAMES / 40 } else { CHECKPOINT_FRAMES };
        if broken.is_none() && counters.frames.load(Ordering::Relaxed) >= bound {
            broken = checkpoint(db, counters);
            broken.iter().for_each(|error| drop(tell_broken.send_replace(Some(error.to_string()))));
        }
    }
    if broken.is_none() {
        checkpoint(db, counters);
        // Stopped in order, the file alone is the store: a log that is kept could rot, and roll it back. Where
        // a reader is in the way the log stays, as after a kill.
        let _ = db.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
    }
}

/// Copies the log back, after the answers are out. A reader in the way and a full disk only delay it;
/// the error is one after which nobody knows what is on disk.
fn checkpoint(db: &Connection, counters: &Counters) -> Option<StoreError> {
    failpoint::hit!("checkpoint.before");
    match db.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE) {
        Ok(_) => {
            counters.frames.store(0, Ordering::Relaxed);
            counters.checkpoints.fetch_add(1, Ordering::Relaxed);
            failpoint::hit!("checkpoint.done");
            None
        }
        Err(error) => Some(classify(&error)).filter(|error| matches!(error, StoreError::Broken(_))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn db() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (x INTEGER PRIMARY KEY)").unwrap();
        db
    }

    fn insert(x: i64) -> (Box<dyn Work>, oneshot::Receiver<Outcome<()>>) {
        command(move |db| {
            db.execute("INSERT INTO t VALUES (?)", [x])?;
            Ok(())
        })
    }

    #[test]
    fn one_failing_command_does_not_sink_its_group() {
        let (db, counters) = (db(), Counters::default());
        let (good, mut good_answer) = insert(1);
        let (twin, mut twin_answer) = insert(1);
        let (panics, mut panics_answer) = command::<(), _>(|db| {
            db.execute("INSERT INTO t VALUES (7)", [])?;
            panic!("on purpose")
        });
        let (last, mut last_answer) = insert(2);
        serve(&db, &counters, vec![good, twin, panics, last]).unwrap();
        assert!(good_answer.try_recv().unwrap().is_ok());
        assert!(twin_answer.try_recv().unwrap().is_err());
        assert!(panics_answer.try_recv().unwrap().is_err());
        assert!(last_answer.try_recv().unwrap().is_ok());
        let rows: i64 = db.query_row("SELECT sum(x) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 3);
        assert_eq!(counters.stats(), Stats { groups: 1, commands: 4, ..Stats::default() });
    }

    #[test]
    fn a_command_that_fails_alone_leaves_nothing_and_the_next_one_finds_the_file_at_rest() {
        let (db, counters) = (db(), Counters::default());
        let (panics, mut panics_answer) = command::<(), _>(|db| {
            db.execute("INSERT INTO t VALUES (7)", [])?;
            panic!("on purpose")
        });
        serve(&db, &counters, vec![panics]).unwrap();
        assert!(panics_answer.try_recv().unwrap().is_err());
        let (good, mut good_answer) = insert(1);
        serve(&db, &counters, vec![good]).unwrap();
        assert!(good_answer.try_recv().unwrap().is_ok());
        let rows: i64 = db.query_row("SELECT sum(x) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 1);
    }

    #[test]
    fn a_commit_without_room_fails_the_whole_group_and_writes_nothing() {
        let (db, counters) = (db(), Counters::default());
        db.pragma_update(None, "max_page_count", 3).unwrap();
        let (small, mut small_answer) = insert(1);
        let (big, mut big_answer) = command(|db| {
            for x in 10..5_000 {
                db.execute("INSERT INTO t VALUES (?)", [x])?;
            }
            Ok(())
        });
        let error = serve(&db, &counters, vec![small, big]);
        let full = |outcome: Outcome<()>| matches!(outcome, Err(Fault::Store(StoreError::Full(_))));
        let big_full = match big_answer.try_recv().unwrap() {
            Err(Fault::Sql(error)) => matches!(classify(&error), StoreError::Full(_)),
            outcome => full(outcome),
        };
        assert!(big_full);
        // Where SQLite took the transaction back, the small one shares the fate of the group.
        let rows: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows == 1, error.is_ok());
        assert_eq!(small_answer.try_recv().unwrap().is_ok(), error.is_ok());
    }
}
