//! The handle of a store, and one file per port, with its helpers in a folder of that name. Each method of a port
//! is one command or one query. `agent` makes the decisions; `tables` knows how rows are stored.

mod approvals;
mod calls;
mod hooks;
mod lookup;
mod quarantine;
pub(crate) mod reader;
mod recall;
mod registry;
mod store;
mod target_book;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tool_book;

use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agent::limits;
use agent::port::{BoxFuture, Clock, StoreError};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{oneshot, watch};

use crate::sqlite::engine::check::{self, Checked};
use crate::sqlite::engine::fault::{Fault, Outcome, classify};
use crate::sqlite::engine::mutex::lock;
use crate::sqlite::engine::open_error::{OpenError, unreadable};
use crate::sqlite::engine::readers::{self, Query, Readers};
use crate::sqlite::engine::slot::Slot;
use crate::sqlite::engine::writer::{self, Command, Counters, Stats, Writer};
use crate::sqlite::engine::{log, schema};
use crate::sqlite::index::tailer::Tailer;
use crate::sqlite::tables::opening;
use crate::sqlite::tables::queue;
use crate::sqlite::tables::session::Session;

/// The store. Cloning is cheap; all clones are one store.
#[derive(Clone)]
pub struct Sqlite {
    inner: Arc<Inner>,
}

struct Inner {
    mode: Mode,
    session: Arc<Session>,
    counters: Arc<Counters>,
    /// Why the store is broken, once it is; set by the writer.
    broken: watch::Receiver<Option<String>>,
    /// Frames of the log that were found lost when the store was opened.
    lost_frames: u64,
    /// Set with why the store is broken, if a query finds out.
    report_broken: watch::Sender<Option<String>>,
    /// Closed after all connections.
    _held: Arc<Vec<File>>,
}

enum Mode {
    /// Everything runs on the caller's thread; `None` once closed. The index is created by the first search.
    Inline { db: Mutex<Option<Connection>>, index: Mutex<Option<Connection>> },
    Threaded {
        queue: RwLock<Option<SyncSender<Command>>>,
        writer: Mutex<Option<JoinHandle<()>>>,
        agents: Readers,
        api: Readers,
        tailer: Tailer,
    },
}

/// Who runs a query. Each has its own connections, so that long lists for the API do not delay activations.
#[derive(Clone, Copy)]
pub(crate) enum Caller {
    Agents,
    Api,
}

impl Sqlite {
    /// Opens the store in `dir`, and creates both if they are missing. Its methods must be called within
    /// a tokio runtime (queries use its blocking threads).
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let (opened, opening) = opening::open(dir, Some(clock.now()))?;
        let counters = Arc::new(Counters::default());
        let mut db = opened.db;
        let pages = Arc::clone(&counters);
        db.wal_hook(Some(move |_: &mut _, frames: i32| {
            pages.count_pages(frames.into());
            Ok(())
        }))
        .map_err(|error| unreadable(&opened.file, &error))?;
        let (sender, queue) = mpsc::sync_channel(limits::WRITER_QUEUE);
        let (report_broken, broken) = watch::channel(None);
        let (lock, first_write) = (opened.lock, opening.first_write());
        let session = Arc::new(Session::new(opening, clock));
        let tailer = Tailer::start(dir, opened.file.clone(), opening.clean, Arc::clone(&session.index));
        let writing = Writer {
            db,
            counters: Arc::clone(&counters),
            memory: Arc::clone(&session),
            log: log::path_of(&opened.file),
            first_write,
            quiet_time: Duration::from_millis(limits::LOG_QUIET_MS),
            last_write: Instant::now(),
            // What an earlier process left in the log is copied back after the first group.
            copy_back_from: 0,
        };
        let report = report_broken.clone();
        let _held = Arc::new(opened.held);
        let held = Arc::clone(&_held);
        let writer = std::thread::Builder::new()
            .name("viv-writer".into())
            .spawn(move || {
                writing.run(&queue, &report);
                // The next process that opens the directory finds the file unused.
                held.iter().for_each(|file| drop(file.unlock()));
                drop(lock);
            })
            .map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
        let mode = Mode::Threaded {
            queue: RwLock::new(Some(sender)),
            writer: Mutex::new(Some(writer)),
            agents: Readers::new(opened.file.clone(), limits::READERS_ACTIVATIONS),
            api: Readers::new(opened.file, limits::READERS_API),
            tailer,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                mode,
                session,
                counters,
                broken,
                lost_frames: opened.lost_frames,
                report_broken,
                _held,
            }),
        })
    }

    /// An empty store in memory, dropped with its last clone. It has no threads: every command runs on
    /// the caller's thread at the first poll of its future.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let db = schema::open_memory()?;
        let opening = opening::begin(&db, None).map_err(|error| unreadable(Path::new(":memory:"), &error))?;
        let mode = Mode::Inline { db: Mutex::new(Some(db)), index: Mutex::default() };
        let (report_broken, broken) = watch::channel(None);
        let (session, counters) = (Arc::new(Session::new(opening, clock)), Arc::default());
        let (lost_frames, _held) = (0, Arc::default());
        Ok(Self {
            inner: Arc::new(Inner { mode, session, counters, broken, lost_frames, report_broken, _held }),
        })
    }

    /// The same store in memory as after a restart: it keeps all data, and earlier handles return
    /// [`StoreError::Closed`]. `clean` says whether it was closed cleanly. Not for a store on disk: open
    /// that again.
    pub fn restarted(&self, clean: bool) -> Result<Self, StoreError> {
        let Mode::Inline { db: held, .. } = &self.inner.mode else { return Err(StoreError::Closed) };
        let db = lock(held).take().ok_or(StoreError::Closed)?;
        let clock = Arc::clone(&self.inner.session.clock);
        let ended = if clean { opening::mark_clean(&db) } else { Ok(()) };
        let opening = ended.and_then(|()| Ok(opening::begin(&db, Some(clock.now()))?))?;
        let mode = Mode::Inline { db: Mutex::new(Some(db)), index: Mutex::default() };
        let (counters, broken) = (Arc::clone(&self.inner.counters), self.inner.broken.clone());
        Ok(Self {
            inner: Arc::new(Inner {
                mode,
                session: Arc::new(Session::new(opening, clock)),
                counters,
                broken,
                lost_frames: 0,
                report_broken: self.inner.report_broken.clone(),
                _held: Arc::default(),
            }),
        })
    }

    /// From now on counts every step of SQLite's virtual machine: a cost that is the same on every computer. Does
    /// nothing for a store on disk, which it would slow down.
    pub fn count_steps(&self) -> Result<(), StoreError> {
        let Mode::Inline { db, .. } = &self.inner.mode else { return Ok(()) };
        let counters = Arc::clone(&self.inner.counters);
        let count = move || {
            counters.count_step();
            false
        };
        let mut db = lock(db);
        let db = db.as_mut().ok_or(StoreError::Closed)?;
        Ok(db.progress_handler(1, Some(count)).map_err(Fault::Sql)?)
    }

    /// Figures of the writer since the store was opened.
    pub fn stats(&self) -> Stats {
        self.inner.counters.stats()
    }

    /// Frames of the write-ahead log after a damaged one, found when the store was opened. Their content had been
    /// acknowledged and is lost.
    pub fn lost_frames(&self) -> u64 {
        self.inner.lost_frames
    }

    /// Checks the store's file for at most `within`, on a thread of its own, while it is in use. What it finds is part of the totals
    /// from then on.
    pub async fn check(&self, within: Duration) -> Result<Checked, StoreError> {
        let Mode::Threaded { api, .. } = &self.inner.mode else { return Ok(Checked::Sound) };
        let (file, session) = (api.file().to_owned(), Arc::clone(&self.inner.session));
        let checked = tokio::task::spawn_blocking(move || {
            let mut db = readers::connect(&file)?;
            let closing = Arc::clone(&session);
            let found = check::check(&mut db, within, move || closing.closing.load(Ordering::Relaxed));
            let found = found.map_err(Fault::Sql)?;
            if let Checked::Damaged(what) = &found {
                let _ = session.damage.set(what.clone());
            }
            Ok::<_, Fault>(found)
        });
        Ok(checked.await.unwrap_or(Err(Fault::Store(StoreError::Closed)))?)
    }

    /// What a check of the file has found damaged.
    fn damage(&self) -> Option<String> {
        self.inner.session.damage.get().cloned()
    }

    /// Waits until the store is broken (for example because an fsync failed) and returns why. Nothing can
    /// be written any more: the process must end, and recovers from the log at its next start.
    pub async fn broken(&self) -> String {
        let mut broken = self.inner.broken.clone();
        let why = broken.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(why) => why,
            // The writer ended without an error: this future never completes.
            None => std::future::pending().await,
        }
    }

    /// Waits until the search index must be built anew, and returns why. A new store has none to build.
    pub async fn index_rebuilding(&self) -> String {
        if let Mode::Threaded { tailer, .. } = &self.inner.mode {
            let mut rebuilding = tailer.rebuilding();
            if let Some(why) = rebuilding.wait_for(Option::is_some).await.ok().and_then(|why| why.clone()) {
                return why;
            }
        }
        std::future::pending().await
    }

    /// Why what is new cannot be found by searches, for as long as that is so.
    pub fn index_failing(&self) -> watch::Receiver<Option<String>> {
        match &self.inner.mode {
            Mode::Threaded { tailer, .. } => tailer.failing(),
            Mode::Inline { .. } => watch::channel(None).1,
        }
    }

    /// When the oldest change was committed that cannot be found yet; `None` if everything can be found.
    pub async fn unindexed_since(&self) -> Result<Option<jiff::Timestamp>, StoreError> {
        if let Mode::Inline { .. } = self.inner.mode {
            // A search reads what is new before it searches.
            return Ok(None);
        }
        let waiting = self.read(Caller::Api, |db, session| queue::waits_since(db, session.index.indexed()));
        Ok(waiting.await?)
    }

    /// Stops feeding the search index until the store is opened again, to measure what commits cost without it.
    pub fn stop_indexing(&self) {
        if let Mode::Threaded { tailer, .. } = &self.inner.mode {
            tailer.stop();
        }
    }

    /// Runs the queued commands, records a clean end and unlocks the directory. Later commands return
    /// [`StoreError::Closed`]. A store that is dropped without this counts as crashed.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.inner.session.closing.store(true, Ordering::Relaxed);
        match &self.inner.mode {
            Mode::Inline { db, .. } => {
                lock(db).take();
                Ok(())
            }
            Mode::Threaded { queue, writer, .. } => {
                let Some(sender) = queue.write().unwrap_or_else(PoisonError::into_inner).take() else {
                    return Ok(());
                };
                let (work, answer) = writer::command(opening::mark_clean);
                let sent = tokio::task::spawn_blocking(move || sender.send(work).is_ok());
                let marked = match sent.await {
                    Ok(true) => answer.await.unwrap_or(Err(Fault::Store(StoreError::Closed))),
                    _ => Err(Fault::Store(StoreError::Closed)),
                };
                let (handle, inner) = (lock(writer).take(), Arc::clone(&self.inner));
                let joined = tokio::task::spawn_blocking(move || {
                    // It reads the files, which the writer unlocks.
                    if let Mode::Threaded { tailer, .. } = &inner.mode {
                        tailer.stop();
                    }
                    drop(inner);
                    handle.map(JoinHandle::join)
                });
                let ended = joined.await;
                marked?;
                match ended {
                    Ok(Some(Err(_))) | Err(_) => Err(StoreError::Broken("the writer thread panicked".into())),
                    Ok(_) => Ok(()),
                }
            }
        }
    }

    /// Runs `work` in a transaction; when this returns, its writes are on disk. `work` may run again after its
    /// writes were rolled back.
    pub(crate) fn write<T, F>(&self, work: F) -> BoxFuture<'static, Outcome<T>>
    where
        T: Send + 'static,
        F: Fn(&Connection, &Session) -> Outcome<T> + Send + 'static,
    {
        let session = Arc::clone(&self.inner.session);
        let (kept, slot) = Slot::pair();
        let (command, answer) = writer::command(move |db: &Connection| kept.keep(work(db, &session)));
        slot.when(Arc::clone(&self.inner).commit(command, answer))
    }

    /// Runs `work` on one snapshot of the store.
    pub(crate) fn read<T, F>(&self, caller: Caller, work: F) -> BoxFuture<'static, Outcome<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Session) -> Outcome<T> + Send + 'static,
    {
        self.query(caller, false, work)
    }

    /// Like [`Self::read`], for queries of a few rows found by index that a request or an activation waits for.
    pub(crate) fn read_inline<T, F>(&self, caller: Caller, work: F) -> BoxFuture<'static, Outcome<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Session) -> Outcome<T> + Send + 'static,
    {
        self.query(caller, true, work)
    }

    fn query<T, F>(&self, caller: Caller, short: bool, work: F) -> BoxFuture<'static, Outcome<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Session) -> Outcome<T> + Send + 'static,
    {
        let session = Arc::clone(&self.inner.session);
        let (kept, slot) = Slot::pair();
        let work = Box::new(move |db: &Connection| kept.keep(work(db, &session)));
        slot.when(Arc::clone(&self.inner).look_up(caller, short, work))
    }
}

impl Inner {
    fn commit(
        self: Arc<Self>,
        command: Command,
        answer: oneshot::Receiver<Outcome<()>>,
    ) -> BoxFuture<'static, Outcome<()>> {
        Box::pin(async move {
            self.submit(command)?;
            drop(self);
            answer.await.unwrap_or(Err(Fault::Store(StoreError::Closed)))
        })
    }

    fn look_up(self: Arc<Self>, caller: Caller, short: bool, work: Query) -> BoxFuture<'static, Outcome<()>> {
        Box::pin(async move {
            match &self.mode {
                Mode::Inline { db, .. } => {
                    let db = lock(db);
                    work(db.as_ref().ok_or(Fault::Store(StoreError::Closed))?)
                }
                Mode::Threaded { queue, agents, api, .. } => {
                    if queue.read().unwrap_or_else(PoisonError::into_inner).is_none() {
                        return Err(Fault::Store(StoreError::Closed));
                    }
                    let readers = match caller {
                        Caller::Agents => agents,
                        Caller::Api => api,
                    };
                    let answer =
                        if short { readers.read_inline(work).await } else { readers.read(work).await };
                    answer.map_err(|fault| self.of_query(fault))
                }
            }
        })
    }

    /// What a failed query means. A page that cannot be read is the damage of what is on it, and all else goes on; if the
    /// file itself cannot be read, the process must end, as after a failed command.
    fn of_query(&self, fault: Fault) -> Fault {
        let Fault::Sql(error) = &fault else { return fault };
        match (error.sqlite_error_code(), classify(error)) {
            (Some(ErrorCode::DatabaseCorrupt), _) => {
                Fault::Store(StoreError::Damaged(format!("a page of the store cannot be read: {error}")))
            }
            // Too many files are open.
            (Some(ErrorCode::CannotOpen), _) => Fault::Store(StoreError::Busy(error.to_string())),
            (_, StoreError::Broken(why)) => {
                self.report_broken.send_if_modified(|known| known.is_none() && known.replace(why).is_none());
                fault
            }
            _ => fault,
        }
    }

    fn submit(&self, work: Command) -> Result<(), Fault> {
        match &self.mode {
            Mode::Inline { db, .. } => {
                let db = lock(db);
                let db = db.as_ref().ok_or(Fault::Store(StoreError::Closed))?;
                // The command gets its own answer, which includes an error of the group.
                let _ = writer::serve(db, &self.counters, &*self.session, vec![work]);
                Ok(())
            }
            Mode::Threaded { queue, .. } => {
                let queue = queue.read().unwrap_or_else(PoisonError::into_inner);
                let queue = queue.as_ref().ok_or(Fault::Store(StoreError::Closed))?;
                queue.try_send(work).map_err(|error| match error {
                    TrySendError::Full(_) => Fault::Store(StoreError::Busy(format!(
                        "{} commands wait for the disk; try again",
                        limits::WRITER_QUEUE
                    ))),
                    TrySendError::Disconnected(_) => {
                        Fault::Store(StoreError::Broken("the writer thread has ended".into()))
                    }
                })
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Mode::Threaded { queue, writer, tailer, .. } = &mut self.mode {
            tailer.stop();
            // The writer ends when its queue is empty; only then is the directory unlocked.
            drop(queue.write().unwrap_or_else(PoisonError::into_inner).take());
            if let Some(handle) = lock(writer).take() {
                let _ = handle.join();
            }
        }
    }
}
