//! The thread that keeps the index up to date: it is woken after commits, gathers for a moment, and reads what is new.
//! Commits never wait for it. It also decides when the index must be built anew. Must not know how the index is read.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agent::limits;
use agent::port::StoreError;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::watch;

use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::engine::mutex::lock;
use crate::sqlite::engine::readers::{Readers, connect};
use crate::sqlite::engine::schema;
use crate::sqlite::index::feed::{Feed, Trouble};
use crate::sqlite::index::file::{self, StoreState};
use crate::sqlite::tables::queue::{self, Signal};
use crate::sqlite::tables::rows::first;

/// How often a process builds a damaged index anew before it gives the disk up; the next start tries again.
const REBUILDS_MAX: u32 = 3;

/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The index of an open store.
pub(crate) struct Tailer {
    shared: Arc<Shared>,
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    /// `None` until the index is open.
    readers: RwLock<Option<Arc<Readers>>>,
    /// A query found the index damaged.
    suspect: AtomicBool,
    stopping: AtomicBool,
    /// Why the index is being built anew.
    rebuilding: watch::Sender<Option<String>>,
    /// Why what is new is not indexed.
    failing: watch::Sender<Option<String>>,
}

impl Tailer {
    /// Starts the thread for the store in `dir`. A store without an index is served all the same.
    pub(crate) fn start(dir: &Path, store: PathBuf, clean: bool, signal: Arc<Signal>) -> Self {
        let (wake, woken) = mpsc::sync_channel(1);
        signal.listen(Some(wake));
        let shared = Arc::new(Shared {
            readers: RwLock::default(),
            suspect: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            rebuilding: watch::channel(None).0,
            failing: watch::channel(None).0,
        });
        let (dir, at_work) = (dir.to_owned(), Arc::clone(&shared));
        let work = IndexWriter {
            dir,
            file: store,
            clean,
            shared: at_work,
            signal: Arc::clone(&signal),
            rebuilds: 0,
        };
        let thread = std::thread::Builder::new().name("viv-index".into()).spawn(move || work.run(&woken));
        if let Err(error) = &thread {
            shared.failing.send_replace(Some(format!("its thread cannot be started: {error}")));
        }
        Self { shared, signal, thread: Mutex::new(thread.ok()) }
    }

    /// Connections that read the index; `None` while there is none.
    pub(crate) fn readers(&self) -> Option<Arc<Readers>> {
        self.shared.readers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports what a query met. A damaged index is built anew.
    pub(crate) fn report(&self, fault: &Fault) {
        if matches!(fault, Fault::Sql(error) if is_damage(error)) {
            self.shared.suspect.store(true, Ordering::Relaxed);
            self.signal.wake();
        }
    }

    /// Why the index is being built anew, as soon as it is.
    pub(crate) fn rebuilding(&self) -> watch::Receiver<Option<String>> {
        self.shared.rebuilding.subscribe()
    }

    /// Why what is new is not indexed; `None` while it is.
    pub(crate) fn failing(&self) -> watch::Receiver<Option<String>> {
        self.shared.failing.subscribe()
    }

    /// Ends the thread after what it is reading now, and waits for that.
    pub(crate) fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.signal.listen(None);
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Tailer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread needs.
struct IndexWriter {
    dir: PathBuf,
    file: PathBuf,
    clean: bool,
    shared: Arc<Shared>,
    signal: Arc<Signal>,
    rebuilds: u32,
}

impl IndexWriter {
    fn run(mut self, woken: &Receiver<()>) {
        let mut index = None;
        loop {
            let done = self.catch_up(&mut index);
            let failed = done.is_err();
            let goes_on = self.judge(done, &mut index);
            if !goes_on || self.shared.stopping.load(Ordering::Relaxed) || !wait(woken, failed) {
                // The last connection to be closed writes the log into the file.
                self.close_readers();
                return;
            }
        }
    }

    /// Keeps for operators why an attempt failed, until one succeeds. Returns whether there is another one.
    fn judge(&mut self, done: Result<(), Trouble>, index: &mut Option<Connection>) -> bool {
        let failing = &self.shared.failing;
        let why = match done {
            Ok(()) => {
                failing.send_if_modified(|failing| failing.take().is_some());
                return true;
            }
            Err(Trouble::Index(error)) if is_damage(&error) && self.rebuilds >= REBUILDS_MAX => {
                let why = format!(
                    "it was built {REBUILDS_MAX} times and is damaged again ({error}); the next start tries again. Is the \
                     disk sound?"
                );
                failing.send_replace(Some(why));
                return false;
            }
            Err(Trouble::Index(error)) if is_damage(&error) => {
                *index = None;
                self.clean = false;
                return true;
            }
            Err(Trouble::Index(error)) => format!("`{}`: {error}", self.dir.join(file::INDEX).display()),
            Err(Trouble::Store(fault)) => format!("the store cannot be read: {}", StoreError::from(fault)),
        };
        let why = format!("{why}; it is tried again every second");
        failing.send_if_modified(|failing| {
            let first = failing.is_none();
            failing.get_or_insert(why);
            first
        });
        true
    }

    /// Reads everything that is new.
    fn catch_up(&mut self, index: &mut Option<Connection>) -> Result<(), Trouble> {
        let store = connect(&self.file).map_err(Trouble::Store)?;
        if self.shared.suspect.swap(false, Ordering::Relaxed) {
            *index = None;
            self.clean = false;
        }
        let db = match index.take() {
            Some(db) => db,
            None => self.open(&store)?,
        };
        let db = index.insert(db);
        let feed = Feed { store: &store, index: db };
        while !self.shared.stopping.load(Ordering::Relaxed) {
            let built = file::meta(db, "built").map_err(Trouble::Index)? == Some(1);
            if !built {
                feed.build()?;
                continue;
            }
            match feed.next()? {
                Some(n) => self.signal.indexed_to(n),
                None => break,
            }
        }
        Ok(())
    }

    /// Opens the index, or creates a new one, and lets queries use it.
    fn open(&mut self, store: &Connection) -> Result<Connection, Trouble> {
        let state = store_state(store, self.clean).map_err(Trouble::Store)?;
        let db = match file::open(&self.dir, state) {
            Ok(db) => db,
            Err(why) => {
                self.close_readers();
                let db = file::create(&self.dir, state).map_err(Trouble::Index)?;
                self.rebuilds += 1;
                // A new store has nothing to build.
                if state.queue.is_some() || has_entries(store).map_err(Trouble::Store)? {
                    self.shared.rebuilding.send_replace(Some(why));
                }
                db
            }
        };
        let read = file::meta(&db, "n").map_err(Trouble::Index)?;
        self.signal.indexed_to(read.unwrap_or(0));
        let readers = Readers::new(self.dir.join(file::INDEX), limits::READERS_INDEX);
        *self.shared.readers.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(readers));
        Ok(db)
    }

    fn close_readers(&self) {
        *self.shared.readers.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Waits for a commit, and gathers what follows it; after a failure not for long. Returns whether to go on.
fn wait(woken: &Receiver<()>, failed: bool) -> bool {
    let first = match failed {
        true => woken.recv_timeout(RETRY),
        false => woken.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    if first == Err(RecvTimeoutError::Disconnected) {
        return false;
    }
    let until = Instant::now() + Duration::from_millis(limits::INDEX_GATHER_MS);
    loop {
        match woken.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// What the index must agree with.
pub(crate) fn store_state(store: &Connection, clean: bool) -> Outcome<StoreState> {
    let id = schema::meta(store, "index_of")?.unwrap_or(0);
    Ok(StoreState { id, queue: queue::ends(store)?, clean })
}

fn has_entries(store: &Connection) -> Outcome<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM entry) OR EXISTS (SELECT 1 FROM memory)";
    Ok(first(store, sql, [], |row| Ok(row.get::<_, bool>(0)?))?.unwrap_or(false))
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

#[cfg(test)]
mod tests {
    use rusqlite::Error;
    use rusqlite::ffi::{self, SQLITE_CORRUPT, SQLITE_FULL};

    use super::*;

    fn failed(code: i32) -> Result<(), Trouble> {
        Err(Trouble::Index(Error::SqliteFailure(ffi::Error::new(code), None)))
    }

    #[test]
    fn a_failure_is_kept_once_until_it_ends_and_damage_after_many_rebuilds_for_good() {
        let shared = Arc::new(Shared {
            readers: RwLock::default(),
            suspect: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            rebuilding: watch::channel(None).0,
            failing: watch::channel(None).0,
        });
        let mut failing = shared.failing.subscribe();
        let (dir, file) = (PathBuf::from("data"), PathBuf::from("data/store"));
        let mut writer = IndexWriter {
            dir,
            file,
            clean: true,
            shared,
            signal: Arc::default(),
            rebuilds: REBUILDS_MAX - 1,
        };
        let steps = [
            (failed(SQLITE_CORRUPT), true, None),
            (failed(SQLITE_FULL), true, Some("full")),
            (failed(SQLITE_FULL), true, None),
            (Ok(()), true, Some("")),
            (Ok(()), true, None),
            (failed(SQLITE_FULL), true, Some("full")),
        ];
        for (n, (done, goes_on, news)) in steps.into_iter().enumerate() {
            assert_eq!(writer.judge(done, &mut None), goes_on, "{n}");
            assert_eq!(failing.has_changed().unwrap(), news.is_some(), "{n}");
            let why = failing.borrow_and_update().clone().unwrap_or_default();
            assert!(why.contains(news.unwrap_or_default()), "{n}: {why}");
        }
        writer.rebuilds = REBUILDS_MAX;
        assert!(!writer.judge(failed(SQLITE_CORRUPT), &mut None));
        assert!(failing.borrow().as_ref().unwrap().contains("the next start tries again"));
    }
}
