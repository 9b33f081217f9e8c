//! The one writer: drains whatever waits into one transaction and completes the commands only once
//! the commit is on disk. Group commit without a timer: while one group is being synced the next one
//! gathers. A command that fails leaves nothing behind and takes no other with it.
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

use crate::sqlite::engine::fault::{Fault, Outcome, again, classify};
use crate::sqlite::engine::schema;

/// Frames of the write-ahead log above which it is copied back into the database, so that its file
/// is used again from the start. The next command waits for that, some milliseconds.
const CHECKPOINT_FRAMES: i64 = 1_000;

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
    /// Rows written by commands, those that were taken back included.
    pub rows: u64,
    /// Steps of SQLite's machine, of questions too; none are counted unless `Sqlite::count_steps` says so.
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
    /// How long the write-ahead log was when it was written to last.
    end: AtomicI64,
    /// Frames in the write-ahead log after the last commit.
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

    /// SQLite's machine took a step.
    pub(crate) fn stepped(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// What the write-ahead log tells after each commit that wrote to it.
    pub(crate) fn wrote(&self, frames: i64) {
        let end = self.end.swap(frames, Ordering::Relaxed);
        // A log that is shorter than it was is used again from its start.
        let new = if frames > end { frames - end } else { frames };
        self.pages.fetch_add(new.unsigned_abs(), Ordering::Relaxed);
        self.frames.store(frames, Ordering::Relaxed);
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// What it wrote is to be kept.
    Done,
    /// By a refusal of its own: what it wrote until then has been counted.
    Refused,
    /// By an error: nobody knows what it wrote. SQLite counts no row of a statement that failed in the middle.
    Failed,
}

/// One command, whatever it does.
pub(crate) trait Work: Send {
    /// Does it. It may be asked again, after all that it wrote was taken back.
    fn run(&mut self, db: &Connection) -> End;
    /// The store's error that it ended with, if it did.
    fn error(&self) -> Option<StoreError>;
    /// Answers: as it ended, or with the error of the group.
    fn finish(self: Box<Self>, group: Result<(), StoreError>);
}

/// What commands change in memory along with what they write.
pub(crate) trait Memory: Send {
    /// What was written is on disk.
    fn kept(&self);
    /// What was written was taken back.
    fn taken_back(&self);
}

/// A command and who waits for it.
struct Command<T, F> {
    work: F,
    outcome: Option<Outcome<T>>,
    reply: oneshot::Sender<Outcome<T>>,
}

/// A command from a closure, and its answer to come. It may run again, after what it wrote was taken back.
pub(crate) fn command<T, F>(work: F) -> (Box<dyn Work>, oneshot::Receiver<Outcome<T>>)
where
    T: Send + 'static,
    F: Fn(&Connection) -> Outcome<T> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Command { work, outcome: None, reply }), answer)
}

impl<T, F> Work for Command<T, F>
where
    T: Send + 'static,
    F: Fn(&Connection) -> Outcome<T> + Send + 'static,
{
    fn run(&mut self, db: &Connection) -> End {
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(db))).unwrap_or_else(|_| {
            let text = "a command panicked; nothing of it was written";
            Err(Fault::Store(StoreError::Damaged(text.into())))
        });
        let end = match &outcome {
            Ok(_) => End::Done,
            Err(fault) if fault.is_refusal() => End::Refused,
            Err(_) => End::Failed,
        };
        self.outcome = Some(outcome);
        end
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
        // The caller may be gone; what was written stays.
        let _ = self.reply.send(outcome);
    }
}

/// Runs commands in one transaction and answers them. There are no savepoints: for each, SQLite would copy every page
/// before it is changed, a quarter of what an accept costs. Where a command fails after it may have written, which is
/// rare, all is taken back: those before it run again and are committed, it is answered, and those behind it follow.
/// So each failure costs one more commit at most, and no command runs more than twice for the failure of another.
///
/// The error is that of a commit or of the file; whom it concerns has been told.
pub(crate) fn serve(
    db: &Connection,
    counters: &Counters,
    memory: &dyn Memory,
    mut group: Vec<Box<dyn Work>>,
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
    works: Vec<Box<dyn Work>>,
    result: Result<(), StoreError>,
) -> Result<(), StoreError> {
    counters.commands.fetch_add(works.len() as u64, Ordering::Relaxed);
    for work in works {
        work.finish(result.as_ref().copied().map_err(again));
    }
    result
}

/// Runs and commits them all, or none where one failed: which one.
fn transact(
    db: &Connection,
    counters: &Counters,
    memory: &dyn Memory,
    group: &mut [Box<dyn Work>],
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
        memory.taken_back();
        if !db.is_autocommit() {
            // Nothing of a group that failed may stay; if even this fails the file is not ours to mend.
            step(db, "ROLLBACK")?;
        }
        return done;
    }
    memory.kept();
    if rows > 0 {
        counters.groups.fetch_add(1, Ordering::Relaxed);
        failpoint::hit!("group.committed");
    }
    done
}

/// Runs them until one fails that may have written.
fn first_failed(db: &Connection, group: &mut [Box<dyn Work>]) -> Result<Option<usize>, StoreError> {
    for (at, work) in group.iter_mut().enumerate() {
        let before = db.total_changes();
        let end = work.run(db);
        if db.is_autocommit() {
            // SQLite takes a whole transaction back by itself (disk full, IO error): then no command happened.
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
        // A commit that fails for any reason but room leaves open what is on disk: end the process.
        Some(ErrorCode::DiskFull) | None => classify(&error),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => classify(&error),
        Some(_) => StoreError::Broken(error.to_string()),
    })
}

/// What must stand in the store before anything else is written.
pub(crate) type Note = Box<dyn Fn(&Connection) -> rusqlite::Result<()> + Send>;

/// What the writer thread works with.
pub(crate) struct Writing<M> {
    pub(crate) db: Connection,
    pub(crate) counters: Arc<Counters>,
    pub(crate) memory: Arc<M>,
    /// Where the write-ahead log is.
    pub(crate) log: PathBuf,
    /// Noted before anything is written, as soon as there is room for it.
    pub(crate) unnoted: Option<Note>,
    /// How long nothing is to be written before a log that has grown is cut.
    pub(crate) quiet: Duration,
    /// When something was written last, or the log was cut.
    pub(crate) wrote: Instant,
    /// Frames above which the log is copied back.
    pub(crate) bound: i64,
}

impl<M: Memory> Writing<M> {
    /// Writes until every sender is gone.
    pub(crate) fn all(
        mut self,
        queue: &Receiver<Box<dyn Work>>,
        tell_broken: &watch::Sender<Option<String>>,
    ) {
        let mut broken: Option<StoreError> = None;
        loop {
            let failed = match self.next(queue, broken.is_some()) {
                Ok(first) => {
                    let mut group = vec![first];
                    group.extend(queue.try_iter().take(limits::GROUP_MAX - 1));
                    self.group(group, broken.as_ref())
                }
                Err(RecvTimeoutError::Timeout) => {
                    let cut = self.cut();
                    self.wrote = Instant::now();
                    cut
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let (None, Err(error @ StoreError::Broken(_))) = (&broken, failed) {
                tell_broken.send_replace(Some(error.to_string()));
                broken = Some(error);
            }
        }
        if broken.is_none() && self.copy_back().is_ok() {
            // Stopped in order, the file alone is the store: a log that is kept could rot, and roll it back. Where
            // a reader is in the way the log stays, as after a kill.
            let _ = self.db.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
        }
    }

    /// The next command. It is waited for without end, but where the log is long.
    fn next(&self, queue: &Receiver<Box<dyn Work>>, broken: bool) -> Result<Box<dyn Work>, RecvTimeoutError> {
        let long = std::fs::metadata(&self.log).is_ok_and(|log| log.len() > limits::LOG_KEPT_BYTES);
        match long && !broken {
            // Commands that write nothing come all the time: they do not count.
            true => match self.quiet.checked_sub(self.wrote.elapsed()) {
                Some(left) => queue.recv_timeout(left),
                None => queue.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
            },
            false => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Runs a group, and copies the log back after the answers are out.
    fn group(&mut self, group: Vec<Box<dyn Work>>, broken: Option<&StoreError>) -> Result<(), StoreError> {
        let may = broken.map_or_else(|| self.note(), |error| Err(again(error)));
        if let Err(error) = may {
            group.into_iter().for_each(|work| work.finish(Err(again(&error))));
            return Err(error);
        }
        let groups = self.counters.groups.load(Ordering::Relaxed);
        let served = serve(&self.db, &self.counters, &*self.memory, group);
        if self.counters.groups.load(Ordering::Relaxed) != groups {
            self.wrote = Instant::now();
        }
        if matches!(served, Err(StoreError::Broken(_)))
            || self.counters.frames.load(Ordering::Relaxed) < self.bound
        {
            return served;
        }
        self.bound = if failpoint::on!("small-log") { CHECKPOINT_FRAMES / 40 } else { CHECKPOINT_FRAMES };
        self.copy_back()
    }

    fn note(&mut self) -> Result<(), StoreError> {
        if let Some(note) = &self.unnoted {
            note(&self.db).map_err(|error| classify(&error))?;
            self.unnoted = None;
        }
        Ok(())
    }

    /// Copies the log back, so that its file is used again from the start.
    fn copy_back(&self) -> Result<(), StoreError> {
        failpoint::hit!("checkpoint.before");
        self.checkpoint(CheckpointMode::PASSIVE)?;
        failpoint::hit!("checkpoint.done");
        Ok(())
    }

    /// Copies the log back and gives its room back, while nobody waits.
    fn cut(&self) -> Result<(), StoreError> {
        let wait = |time| self.db.busy_timeout(time).map_err(|error| classify(&error));
        // A command that comes meanwhile is not to wait for a reader that is in the way.
        wait(Duration::ZERO)?;
        let cut = self.checkpoint(CheckpointMode::TRUNCATE);
        wait(schema::BUSY)?;
        cut
    }

    /// A reader in the way and a full disk only delay it. After any other failure nobody knows what is on disk.
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

    /// Commands that change nothing in memory.
    struct Nothing;

    impl Memory for Nothing {
        fn kept(&self) {}
        fn taken_back(&self) {}
    }

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
        serve(&db, &counters, &Nothing, vec![good, twin, panics, last]).unwrap();
        assert!(good_answer.try_recv().unwrap().is_ok());
        assert!(twin_answer.try_recv().unwrap().is_err());
        assert!(panics_answer.try_recv().unwrap().is_err());
        assert!(last_answer.try_recv().unwrap().is_ok());
        let rows: i64 = db.query_row("SELECT sum(x) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 3);
        assert_eq!(counters.stats(), Stats { groups: 2, commands: 4, rows: 4, ..Stats::default() });
    }

    #[test]
    fn a_group_runs_again_only_where_one_of_it_fails_after_it_has_written_and_then_in_its_order() {
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
            serve(&db, &Counters::default(), &Nothing, works).unwrap();
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
    fn nothing_stays_of_a_statement_that_fails_in_the_middle_and_the_rest_of_its_group_is_written() {
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
        serve(&db, &counters, &Nothing, vec![first, middle, corrupt, last]).unwrap();
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
    fn a_command_that_fails_alone_leaves_nothing_and_the_next_one_finds_the_file_at_rest() {
        let (db, counters) = (db(), Counters::default());
        let (panics, mut panics_answer) = command::<(), _>(|db| {
            db.execute("INSERT INTO t VALUES (7)", [])?;
            panic!("on purpose")
        });
        serve(&db, &counters, &Nothing, vec![panics]).unwrap();
        assert!(panics_answer.try_recv().unwrap().is_err());
        let (good, mut good_answer) = insert(1);
        serve(&db, &counters, &Nothing, vec![good]).unwrap();
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
        let error = serve(&db, &counters, &Nothing, vec![small, big]);
        let full = |outcome: Outcome<()>| matches!(outcome, Err(Fault::Store(StoreError::Full(_))));
        let big_full = match big_answer.try_recv().unwrap() {
            Err(Fault::Sql(error)) => matches!(classify(&error), StoreError::Full(_)),
            outcome => full(outcome),
        };
        assert!(big_full);
        // If SQLite rolled the transaction back, the small one is rolled back with the group.
        let rows: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows == 1, error.is_ok());
        assert_eq!(small_answer.try_recv().unwrap().is_ok(), error.is_ok());
    }

    /// A writer of a store in a file, and what its log measures.
    fn writing(dir: &std::path::Path) -> (Writing<Nothing>, impl Fn() -> u64 + use<>) {
        let opened = open_dir(dir).unwrap();
        opened.db.execute_batch("CREATE TABLE t (x)").unwrap();
        let log = crate::sqlite::engine::log::of(&opened.file);
        let (db, counters, unnoted, bound) = (opened.db, Arc::default(), None, i64::MAX);
        let (quiet, wrote) = (Duration::ZERO, Instant::now());
        let memory = Arc::new(Nothing);
        let writing = Writing { db, counters, memory, log: log.clone(), unnoted, quiet, wrote, bound };
        (writing, move || std::fs::metadata(&log).unwrap().len())
    }

    fn much() -> (Box<dyn Work>, oneshot::Receiver<Outcome<()>>) {
        command(|db| {
            db.execute("INSERT INTO t VALUES (zeroblob(6000000))", [])?;
            Ok(())
        })
    }

    #[test]
    fn a_log_that_has_grown_is_cut_once_nobody_writes() {
        let dir = tempfile::tempdir().unwrap();
        let (writing, log) = writing(dir.path());
        let (sender, queue) = std::sync::mpsc::sync_channel(8);
        let (tell_broken, broken) = watch::channel(None);
        let writer = std::thread::spawn(move || writing.all(&queue, &tell_broken));
        for _ in 0..2 {
            let (work, answer) = much();
            sender.send(work).unwrap();
            answer.blocking_recv().unwrap().unwrap();
            while log() > 0 {
                std::thread::yield_now();
            }
        }
        let (work, answer) = command(|db| Ok(db.execute("INSERT INTO t VALUES (1)", []).map(drop)?));
        sender.send(work).unwrap();
        answer.blocking_recv().unwrap().unwrap();
        assert!((1..limits::LOG_KEPT_BYTES).contains(&log()), "a short one stays");
        drop(sender);
        writer.join().unwrap();
        assert_eq!(*broken.borrow(), None);
    }

    #[test]
    fn where_there_is_no_room_for_an_opening_nothing_is_written_until_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writing, _) = writing(dir.path());
        crate::sqlite::ports::tests::fill(&writing.db);
        writing.unnoted = Some(Box::new(|db| schema::set_meta(db, "boot", 2)));
        let (work, mut answer) = much();
        assert!(matches!(writing.group(vec![work], None), Err(StoreError::Full(_))));
        assert!(matches!(answer.try_recv().unwrap(), Err(Fault::Store(StoreError::Full(_)))));
        crate::sqlite::ports::tests::empty(&writing.db);
        let (work, mut answer) = much();
        writing.group(vec![work], None).unwrap();
        assert!(answer.try_recv().unwrap().is_ok() && writing.unnoted.is_none());
    }

    #[test]
    fn a_reader_in_the_way_only_delays_the_cut() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writing, log) = writing(dir.path());
        let reader = Connection::open(dir.path().join(FILE)).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        writing.group(vec![much().0], None).unwrap();
        let grown = log();
        assert!(matches!(writing.cut(), Err(StoreError::Busy(_))));
        assert!(grown > limits::LOG_KEPT_BYTES && log() == grown);
        reader.execute_batch("COMMIT").unwrap();
        writing.cut().unwrap();
        assert_eq!(log(), 0);
    }
}
