//! The one writer: runs all waiting commands in one transaction and answers them only after the commit
//! is on disk. This is group commit without a timer: while one group is being synced, the next one
//! gathers. A command that fails writes nothing and does not make the others fail.
//!
//! This module must not know what a command does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use agent::limits;
use agent::port::StoreError;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{oneshot, watch};

use crate::sqlite::engine::fault::{Fault, Outcome, classify, copy_error};
use crate::sqlite::engine::schema;

/// Above this number of frames the write-ahead log is copied back into the database, so that its file
/// is used again from the start. The next command waits for that some milliseconds.
const CHECKPOINT_FRAMES: i64 = 1_000;

/// Figures of the writer since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that wrote something: each is one fsync that commands wait for.
    pub groups: u64,
    /// Commands, including those that wrote nothing.
    pub commands: u64,
    /// Copies of the write-ahead log into the database; no command's answer waits for one.
    pub checkpoints: u64,
    /// Pages written to the write-ahead log.
    pub pages: u64,
    /// Rows written by commands, including those that were rolled back.
    pub rows: u64,
    /// Steps of SQLite's virtual machine, for commands and queries; counted only after `Sqlite::count_steps`.
    pub steps: u64,
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    groups: AtomicU64,
    commands: AtomicU64,
    checkpoints: AtomicU64,
    pages: AtomicU64,
    rows: AtomicU64,
    steps: AtomicU64,
    /// Frames in the write-ahead log when it was last written.
    end: AtomicI64,
    /// Frames in the write-ahead log that are not copied back yet.
    frames: AtomicI64,
}

impl Counters {
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            groups: self.groups.load(Ordering::Relaxed),
            commands: self.commands.load(Ordering::Relaxed),
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
            pages: self.pages.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            steps: self.steps.load(Ordering::Relaxed),
        }
    }

    /// Counts one step of SQLite's virtual machine.
    pub(crate) fn count_step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the pages of a commit, after which the write-ahead log has so many frames.
    pub(crate) fn count_pages(&self, frames: i64) {
        let end = self.end.swap(frames, Ordering::Relaxed);
        // A log that is shorter than before is used again from its start.
        let new = if frames > end { frames - end } else { frames };
        self.pages.fetch_add(new.unsigned_abs(), Ordering::Relaxed);
        self.frames.store(frames, Ordering::Relaxed);
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It succeeded; its writes are to be kept.
    Done,
    /// It refused between two statements: SQLite's row count shows whether it has written.
    Refused,
    /// It failed with an error. It may have written: SQLite does not count rows of a statement that fails midway.
    Failed,
}

/// State in memory that commands change together with their writes.
pub(crate) trait Memory: Send {
    /// The writes are on disk.
    fn committed(&self);
    /// The writes were rolled back.
    fn rolled_back(&self);
}

/// What a command does. It may run again after its writes were rolled back.
type CommandWork = Box<dyn Fn(&Connection) -> Outcome<()> + Send>;

/// One command, with the channel for its answer.
pub(crate) struct Command {
    work: CommandWork,
    outcome: Option<Outcome<()>>,
    reply: oneshot::Sender<Outcome<()>>,
}

/// A command from a closure, and the receiver of its answer. It may run again after its writes were rolled back.
pub(crate) fn command(
    work: impl Fn(&Connection) -> Outcome<()> + Send + 'static,
) -> (Command, oneshot::Receiver<Outcome<()>>) {
    let (reply, answer) = oneshot::channel();
    (Command { work: Box::new(work), outcome: None, reply }, answer)
}

impl Command {
    /// Runs the command. It may run again after its writes were rolled back.
    fn run(&mut self, db: &Connection) -> End {
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(db))).unwrap_or_else(|_| {
            let text = "a command panicked; nothing was written";
            Err(Fault::Store(StoreError::Bug(text.into())))
        });
        let end = match &outcome {
            Ok(()) => End::Done,
            Err(fault) if fault.is_refusal() => End::Refused,
            Err(_) => End::Failed,
        };
        self.outcome = Some(outcome);
        end
    }

    /// The store error that the last run ended with, if any.
    fn error(&self) -> Option<StoreError> {
        match self.outcome.as_ref()? {
            Err(Fault::Sql(error)) => Some(classify(error)),
            Err(Fault::Store(error)) => Some(copy_error(error)),
            _ => None,
        }
    }

    /// Sends the answer: the command's own result, or the error of the group.
    fn finish(self, group: Result<(), StoreError>) {
        let outcome = match group {
            Ok(()) => self.outcome.unwrap_or(Err(Fault::Store(StoreError::Closed))),
            Err(error) => Err(Fault::Store(error)),
        };
        // The caller may have stopped waiting; the writes stay.
        let _ = self.reply.send(outcome);
    }
}

/// Runs commands in one transaction and answers them. There are no savepoints: for each one SQLite would copy
/// every page before it is changed, which is a quarter of the cost of an accept. If a command fails after it may
/// have written (rare), the transaction is rolled back: the commands before it run again and are committed, the
/// failed one is answered, then the commands after it run. So each failure costs at most one more commit, and no
/// command runs more than twice because another one failed.
///
/// Returns an error of the commit or of the file; the commands concerned have been answered with it.
pub(crate) fn serve(
    db: &Connection,
    counters: &Counters,
    memory: &dyn Memory,
    mut group: Vec<Command>,
) -> Result<(), StoreError> {
    while !group.is_empty() {
        let failed = match transact(db, counters, memory, &mut group) {
            Ok(Some(failed)) => failed,
            done => return answer(counters, group, done.map(drop)),
        };
        let behind = group.split_off(failed + 1);
        let failed = group.split_off(failed);
        let before = serve(db, counters, memory, group);
        answer(counters, failed, Ok(()))?;
        if before.is_err() {
            return answer(counters, behind, before);
        }
        group = behind;
    }
    Ok(())
}

fn answer(
    counters: &Counters,
    works: Vec<Command>,
    result: Result<(), StoreError>,
) -> Result<(), StoreError> {
    counters.commands.fetch_add(works.len() as u64, Ordering::Relaxed);
    for work in works {
        work.finish(result.as_ref().copied().map_err(copy_error));
    }
    result
}

/// Runs and commits all commands. If one fails, nothing is committed and its index is returned.
fn transact(
    db: &Connection,
    counters: &Counters,
    memory: &dyn Memory,
    group: &mut [Command],
) -> Result<Option<usize>, StoreError> {
    let before = db.total_changes();
    let done = step(db, "BEGIN IMMEDIATE").and_then(|()| {
        let failed = first_failed(db, group)?;
        failpoint::hit!("group.before_commit");
        step(db, if failed.is_none() { "COMMIT" } else { "ROLLBACK" })?;
        Ok(failed)
    });
    let rows = db.total_changes().saturating_sub(before);
    counters.rows.fetch_add(rows, Ordering::Relaxed);
    if !matches!(done, Ok(None)) {
        memory.rolled_back();
        if !db.is_autocommit() {
            // A failed group must leave nothing behind. If the rollback fails too, the store cannot repair it.
            step(db, "ROLLBACK")?;
        }
        return done;
    }
    memory.committed();
    if rows > 0 {
        counters.groups.fetch_add(1, Ordering::Relaxed);
        failpoint::hit!("group.committed");
    }
    done
}

/// Runs the commands until one fails that may have written; returns its index.
fn first_failed(db: &Connection, group: &mut [Command]) -> Result<Option<usize>, StoreError> {
    for (at, work) in group.iter_mut().enumerate() {
        let before = db.total_changes();
        let end = work.run(db);
        if db.is_autocommit() {
            // SQLite rolled the whole transaction back by itself (disk full, I/O error): no command took effect.
            let lost = || StoreError::Broken("a transaction was lost".into());
            return Err(work.error().unwrap_or_else(lost));
        }
        if end == End::Failed || (end == End::Refused && db.total_changes() != before) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn step(db: &Connection, sql: &str) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| classify(&error))?;
    statement.raw_execute().map(drop).map_err(|error| match error.sqlite_error_code() {
        // After a failed commit it is unknown what is on disk, unless the disk was full: the process must end.
        Some(ErrorCode::DiskFull) | None => classify(&error),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => classify(&error),
        Some(_) => StoreError::Broken(error.to_string()),
    })
}

/// A write that must happen before any other.
pub(crate) type FirstWrite = Box<dyn Fn(&Connection) -> rusqlite::Result<()> + Send>;

/// The state of the writer thread.
pub(crate) struct Writer<M> {
    pub(crate) db: Connection,
    pub(crate) counters: Arc<Counters>,
    pub(crate) memory: Arc<M>,
    /// The path of the write-ahead log.
    pub(crate) log: PathBuf,
    /// Written before anything else, as soon as the disk has room for it.
    pub(crate) first_write: Option<FirstWrite>,
    /// A log that has grown is truncated after so much time without a write.
    pub(crate) quiet_time: Duration,
    /// When something was last written, or the log was truncated.
    pub(crate) last_write: Instant,
    /// The number of frames from which on the log is copied back.
    pub(crate) copy_back_from: i64,
}

impl<M: Memory> Writer<M> {
    /// Runs commands until every sender is dropped.
    pub(crate) fn run(mut self, queue: &Receiver<Command>, report_broken: &watch::Sender<Option<String>>) {
        let mut broken: Option<StoreError> = None;
        loop {
            let failed = match self.next(queue, broken.is_some()) {
                Ok(first) => {
                    let mut group = vec![first];
                    group.extend(queue.try_iter().take(limits::GROUP_MAX - 1));
                    self.serve_group(group, broken.as_ref())
                }
                Err(RecvTimeoutError::Timeout) => {
                    let done = self.truncate();
                    self.last_write = Instant::now();
                    done
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let (None, Err(error @ StoreError::Broken(_))) = (&broken, failed) {
                report_broken.send_replace(Some(error.to_string()));
                broken = Some(error);
            }
        }
        if broken.is_none() && self.copy_back().is_ok() {
            // After a clean stop the file alone is the store: if a log stayed and were damaged later, commits
            // would be lost. If a reader is in the way, the log stays, as after a kill.
            let _ = self.db.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
        }
    }

    /// Waits for the next command: forever, or up to a time-out if the log is long.
    fn next(&self, queue: &Receiver<Command>, broken: bool) -> Result<Command, RecvTimeoutError> {
        let long = std::fs::metadata(&self.log).is_ok_and(|log| log.len() > limits::LOG_KEPT_BYTES);
        match long && !broken {
            // Commands that write nothing do not extend the time-out: they come all the time.
            true => match self.quiet_time.checked_sub(self.last_write.elapsed()) {
                Some(left) => queue.recv_timeout(left),
                None => queue.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
            },
            false => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Runs a group, then copies the log back if it is long. The answers are sent before that.
    fn serve_group(&mut self, group: Vec<Command>, broken: Option<&StoreError>) -> Result<(), StoreError> {
        let allowed = broken.map_or_else(|| self.run_first_write(), |error| Err(copy_error(error)));
        if let Err(error) = allowed {
            group.into_iter().for_each(|work| work.finish(Err(copy_error(&error))));
            return Err(error);
        }
        let groups = self.counters.groups.load(Ordering::Relaxed);
        let served = serve(&self.db, &self.counters, &*self.memory, group);
        if self.counters.groups.load(Ordering::Relaxed) != groups {
            self.last_write = Instant::now();
        }
        if matches!(served, Err(StoreError::Broken(_)))
            || self.counters.frames.load(Ordering::Relaxed) < self.copy_back_from
        {
            return served;
        }
        self.copy_back_from =
            if failpoint::on!("small-log") { CHECKPOINT_FRAMES / 40 } else { CHECKPOINT_FRAMES };
        self.copy_back()
    }

    fn run_first_write(&mut self) -> Result<(), StoreError> {
        if let Some(write) = &self.first_write {
            write(&self.db).map_err(|error| classify(&error))?;
            self.first_write = None;
        }
        Ok(())
    }

    /// Copies the log into the database, so that its file is used again from the start.
    fn copy_back(&self) -> Result<(), StoreError> {
        failpoint::hit!("checkpoint.before");
        self.checkpoint(CheckpointMode::PASSIVE)?;
        failpoint::hit!("checkpoint.done");
        Ok(())
    }

    /// Copies the log into the database and truncates its file, while no command waits.
    fn truncate(&self) -> Result<(), StoreError> {
        let wait = |time| self.db.busy_timeout(time).map_err(|error| classify(&error));
        // Do not wait for a reader: a command that arrives meanwhile would wait with it.
        wait(Duration::ZERO)?;
        let done = self.checkpoint(CheckpointMode::TRUNCATE);
        wait(schema::BUSY_TIMEOUT)?;
        done
    }

    /// A busy reader or a full disk only delay a checkpoint. After any other failure it is unknown what is on disk.
    fn checkpoint(&self, mode: CheckpointMode) -> Result<(), StoreError> {
        self.db.wal_checkpoint_v2(None::<&str>, mode).map_err(|error| classify(&error))?;
        self.counters.frames.store(0, Ordering::Relaxed);
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::engine::file::{FILE, open_dir};

    /// For commands that change nothing in memory.
    struct NoMemory;

    impl Memory for NoMemory {
        fn committed(&self) {}
        fn rolled_back(&self) {}
    }

    fn db() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (x INTEGER PRIMARY KEY)").unwrap();
        db
    }

    fn insert(x: i64) -> (Command, oneshot::Receiver<Outcome<()>>) {
        command(move |db| {
            db.execute("INSERT INTO t VALUES (?)", [x])?;
            Ok(())
        })
    }

    #[test]
    fn a_failing_command_does_not_make_the_rest_of_its_group_fail() {
        let (db, counters) = (db(), Counters::default());
        let (good, mut good_answer) = insert(1);
        let (twin, mut twin_answer) = insert(1);
        let (panics, mut panics_answer) = command(|db| {
            db.execute("INSERT INTO t VALUES (7)", [])?;
            panic!("on purpose")
        });
        let (last, mut last_answer) = insert(2);
        serve(&db, &counters, &NoMemory, vec![good, twin, panics, last]).unwrap();
        assert!(good_answer.try_recv().unwrap().is_ok());
        assert!(twin_answer.try_recv().unwrap().is_err());
        assert!(panics_answer.try_recv().unwrap().is_err());
        assert!(last_answer.try_recv().unwrap().is_ok());
        let rows: i64 = db.query_row("SELECT sum(x) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 3);
        assert_eq!(counters.stats(), Stats { groups: 2, commands: 4, rows: 4, ..Stats::default() });
    }

    #[test]
    fn a_group_runs_again_in_order_only_if_a_command_fails_after_it_has_written() {
        let (db, ran) = (db(), Arc::new(AtomicU64::new(0)));
        let note = |x: i64, outcome: fn(&Connection, i64) -> Outcome<()>| {
            let ran = Arc::clone(&ran);
            command(move |db| {
                ran.fetch_add(1, Ordering::Relaxed);
                outcome(db, x)
            })
        };
        let write = |db: &Connection, x| Ok(db.execute("INSERT INTO t VALUES (?)", [x]).map(drop)?);
        let refuse = |_: &Connection, _| Err(Fault::Lost);
        let write_and_refuse = |db: &Connection, x| {
            db.execute("INSERT INTO t VALUES (?)", [x])?;
            Err(Fault::Lost)
        };
        let serve_three = |numbers: [i64; 3], second: fn(&Connection, i64) -> Outcome<()>| {
            let outcomes = [write, second, write];
            let group = std::array::from_fn::<_, 3, _>(|at| note(numbers[at], outcomes[at]));
            let (works, answers): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            serve(&db, &Counters::default(), &NoMemory, works).unwrap();
            let done = answers.into_iter().map(|mut answer| answer.try_recv().unwrap().is_ok());
            (done.collect::<Vec<_>>(), ran.swap(0, Ordering::Relaxed))
        };
        assert_eq!(serve_three([1, 2, 3], write), (vec![true; 3], 3));
        assert_eq!(serve_three([4, 5, 6], refuse), (vec![true, false, true], 3));
        assert_eq!(serve_three([7, 8, 9], write_and_refuse), (vec![true, false, true], 4));
        let mut rows = db.prepare("SELECT x FROM t ORDER BY rowid").unwrap();
        let rows: Vec<i64> = rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows, [1, 2, 3, 4, 6, 7, 9]);
    }

    #[test]
    fn a_statement_that_fails_midway_leaves_nothing_and_the_rest_of_its_group_is_written() {
        let (db, counters) = (db(), Counters::default());
        db.execute_batch(
            "CREATE TABLE n (x INTEGER PRIMARY KEY, y INTEGER NOT NULL) STRICT; \
             INSERT INTO n VALUES (1, 0), (2, -9223372036854775808); \
             CREATE TABLE torn (x INTEGER, y INTEGER); CREATE INDEX torn_y ON torn (y); \
             INSERT INTO torn VALUES (1, 1); PRAGMA writable_schema = ON; \
             UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'n') \
             WHERE name = 'torn_y'; PRAGMA writable_schema = RESET",
        )
        .unwrap();
        let fails = |sql: &'static str| command(move |db| Ok(db.execute(sql, []).map(drop)?));
        let ((first, mut first_answer), (last, mut last_answer)) = (insert(1), insert(2));
        let (middle, mut middle_answer) = fails("UPDATE n SET y = y - 1");
        let (corrupt, mut corrupt_answer) = fails("UPDATE torn SET y = 2, x = 2");
        serve(&db, &counters, &NoMemory, vec![first, middle, corrupt, last]).unwrap();
        assert!(middle_answer.try_recv().unwrap().is_err());
        let corrupt = corrupt_answer.try_recv().unwrap().unwrap_err();
        assert!(
            matches!(corrupt, Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt))
        );
        first_answer.try_recv().unwrap().unwrap();
        last_answer.try_recv().unwrap().unwrap();
        let sum = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(sum("SELECT y FROM n WHERE x = 1"), 0);
        assert_eq!(sum("SELECT x FROM torn NOT INDEXED"), 1);
        assert_eq!(sum("SELECT sum(x) FROM t"), 3);
    }

    #[test]
    fn a_single_failing_command_leaves_nothing_and_the_next_one_succeeds() {
        let (db, counters) = (db(), Counters::default());
        let (panics, mut panics_answer) = command(|db| {
            db.execute("INSERT INTO t VALUES (7)", [])?;
            panic!("on purpose")
        });
        serve(&db, &counters, &NoMemory, vec![panics]).unwrap();
        assert!(panics_answer.try_recv().unwrap().is_err());
        let (good, mut good_answer) = insert(1);
        serve(&db, &counters, &NoMemory, vec![good]).unwrap();
        assert!(good_answer.try_recv().unwrap().is_ok());
        let rows: i64 = db.query_row("SELECT sum(x) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 1);
    }

    #[test]
    fn a_commit_on_a_full_disk_fails_for_the_whole_group_and_writes_nothing() {
        let (db, counters) = (db(), Counters::default());
        db.pragma_update(None, "max_page_count", 3).unwrap();
        let (small, mut small_answer) = insert(1);
        let (big, mut big_answer) = command(|db| {
            for x in 10..5_000 {
                db.execute("INSERT INTO t VALUES (?)", [x])?;
            }
            Ok(())
        });
        let error = serve(&db, &counters, &NoMemory, vec![small, big]);
        let full = |outcome: Outcome<()>| matches!(outcome, Err(Fault::Store(StoreError::Full(_))));
        let big_full = match big_answer.try_recv().unwrap() {
            Err(Fault::Sql(error)) => matches!(classify(&error), StoreError::Full(_)),
            outcome => full(outcome),
        };
        assert!(big_full);
        // If SQLite rolled the transaction back, the small command is rolled back with it.
        let rows: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows == 1, error.is_ok());
        assert_eq!(small_answer.try_recv().unwrap().is_ok(), error.is_ok());
    }

    /// A writer of a store in a file, and a function that returns the size of its log.
    fn writing(dir: &std::path::Path) -> (Writer<NoMemory>, impl Fn() -> u64 + use<>) {
        let opened = open_dir(dir).unwrap();
        opened.db.execute_batch("CREATE TABLE t (x)").unwrap();
        let log = crate::sqlite::engine::log::path_of(&opened.file);
        let (db, counters, first_write, copy_back_from) = (opened.db, Arc::default(), None, i64::MAX);
        let (quiet_time, last_write) = (Duration::ZERO, Instant::now());
        let memory = Arc::new(NoMemory);
        let writing = Writer {
            db,
            counters,
            memory,
            log: log.clone(),
            first_write,
            quiet_time,
            last_write,
            copy_back_from,
        };
        (writing, move || std::fs::metadata(&log).unwrap().len())
    }

    fn large_write() -> (Command, oneshot::Receiver<Outcome<()>>) {
        command(|db| {
            db.execute("INSERT INTO t VALUES (zeroblob(6000000))", [])?;
            Ok(())
        })
    }

    #[test]
    fn a_log_that_has_grown_is_truncated_when_nothing_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (writing, log) = writing(dir.path());
        let (sender, queue) = std::sync::mpsc::sync_channel(8);
        let (report_broken, broken) = watch::channel(None);
        let writer = std::thread::spawn(move || writing.run(&queue, &report_broken));
        for _ in 0..2 {
            let (work, answer) = large_write();
            sender.send(work).unwrap();
            answer.blocking_recv().unwrap().unwrap();
            while log() > 0 {
                std::thread::yield_now();
            }
        }
        let (work, answer) = command(|db| Ok(db.execute("INSERT INTO t VALUES (1)", []).map(drop)?));
        sender.send(work).unwrap();
        answer.blocking_recv().unwrap().unwrap();
        assert!((1..limits::LOG_KEPT_BYTES).contains(&log()), "a short log stays");
        drop(sender);
        writer.join().unwrap();
        assert_eq!(*broken.borrow(), None);
    }

    #[test]
    fn nothing_is_written_before_there_is_room_to_record_the_opening() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writing, _) = writing(dir.path());
        crate::sqlite::ports::tests::fill(&writing.db);
        writing.first_write = Some(Box::new(|db| schema::set_meta(db, "boot", 2)));
        let (work, mut answer) = large_write();
        assert!(matches!(writing.serve_group(vec![work], None), Err(StoreError::Full(_))));
        assert!(matches!(answer.try_recv().unwrap(), Err(Fault::Store(StoreError::Full(_)))));
        crate::sqlite::ports::tests::empty(&writing.db);
        let (work, mut answer) = large_write();
        writing.serve_group(vec![work], None).unwrap();
        assert!(answer.try_recv().unwrap().is_ok() && writing.first_write.is_none());
    }

    #[test]
    fn a_busy_reader_only_delays_truncating_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writing, log) = writing(dir.path());
        let reader = Connection::open(dir.path().join(FILE)).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        writing.serve_group(vec![large_write().0], None).unwrap();
        let grown = log();
        assert!(matches!(writing.truncate(), Err(StoreError::Busy(_))));
        assert!(grown > limits::LOG_KEPT_BYTES && log() == grown);
        reader.execute_batch("COMMIT").unwrap();
        writing.truncate().unwrap();
        assert_eq!(log(), 0);
    }
}
