//! The handle on a store, and one file per port with its helpers beside it: each verb is one command or one
//! question. What is decided is asked of `agent`; what is stored is known to `tables`.

mod calls;
mod lookup;
mod quarantine;
pub(crate) mod reader;
mod registry;
mod store;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agent::limits;
use agent::port::{BoxFuture, Clock, StoreError};
use rusqlite::Connection;
use tokio::sync::watch;

use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::engine::mutex::lock;
use crate::sqlite::engine::open_error::{OpenError, unreadable};
use crate::sqlite::engine::readers::Readers;
use crate::sqlite::engine::writer::{self, Counters, Stats, Work, Writing};
use crate::sqlite::engine::{log, schema};
use crate::sqlite::tables::opening;
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
    /// Why the store is broken, once it is; told by the writer.
    broken: watch::Receiver<Option<String>>,
    /// Frames of the log that were found lost when it was opened.
    lost: u64,
}

enum Mode {
    /// Everything on the caller; `None` once closed.
    Inline(Mutex<Option<Connection>>),
    Threaded {
        queue: RwLock<Option<SyncSender<Box<dyn Work>>>>,
        writer: Mutex<Option<JoinHandle<()>>>,
        living: Readers,
        doors: Readers,
    },
}

/// Who asks. A long list that somebody wants to see keeps no agent from activation.
#[derive(Clone, Copy)]
pub(crate) enum Who {
    Living,
    Api,
}

impl Sqlite {
    /// Opens the store in `dir`, making both where they are not. Its methods must be called within
    /// a tokio runtime (reading uses its blocking threads).
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let (opened, opening) = opening::open(dir, Some(clock.now()))?;
        let counters = Arc::new(Counters::default());
        let mut db = opened.db;
        let told = Arc::clone(&counters);
        db.wal_hook(Some(move |_: &mut _, frames: i32| {
            told.wrote(frames.into());
            Ok(())
        }))
        .map_err(|error| unreadable(&opened.file, &error))?;
        let (sender, queue) = mpsc::sync_channel(limits::WRITER_QUEUE);
        let (tell_broken, broken) = watch::channel(None);
        let (lock, unnoted) = (opened.lock, opening.unnoted());
        let session = Arc::new(Session::new(opening, clock));
        let writing = Writing {
            db,
            counters: Arc::clone(&counters),
            memory: Arc::clone(&session),
            log: log::of(&opened.file),
            unnoted,
            quiet: Duration::from_millis(limits::LOG_QUIET_MS),
            wrote: Instant::now(),
            // What an earlier life left in the log is copied back behind the first group.
            bound: 0,
        };
        let writer = std::thread::Builder::new()
            .name("viv-writer".into())
            .spawn(move || {
                writing.all(&queue, &tell_broken);
                // The next process that opens the directory finds the file unused.
                drop(lock);
            })
            .map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
        let mode = Mode::Threaded {
            queue: RwLock::new(Some(sender)),
            writer: Mutex::new(Some(writer)),
            living: Readers::new(opened.file.clone(), limits::READERS_LIVING),
            doors: Readers::new(opened.file, limits::READERS_API),
        };
        Ok(Self { inner: Arc::new(Inner { mode, session, counters, broken, lost: opened.lost }) })
    }

    /// An empty store in memory, gone with its last clone. No threads: every command runs on its
    /// caller at the first poll of its future.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let db = schema::open_memory()?;
        let opening = opening::begin(&db, None).map_err(|error| unreadable(Path::new(":memory:"), &error))?;
        let mode = Mode::Inline(Mutex::new(Some(db)));
        let (_, broken) = watch::channel(None);
        let (session, counters) = (Arc::new(Session::new(opening, clock)), Arc::default());
        Ok(Self { inner: Arc::new(Inner { mode, session, counters, broken, lost: 0 }) })
    }

    /// The same store in memory as after a restart: nothing of it is lost, and every handle from before
    /// is answered [`StoreError::Closed`]. `peaceful` says how it ended. One on disk is opened again.
    pub fn restarted(&self, peaceful: bool) -> Result<Self, StoreError> {
        let Mode::Inline(held) = &self.inner.mode else { return Err(StoreError::Closed) };
        let db = lock(held).take().ok_or(StoreError::Closed)?;
        let clock = Arc::clone(&self.inner.session.clock);
        let ended = if peaceful { opening::mark_clean(&db) } else { Ok(()) };
        let opening = ended.and_then(|()| Ok(opening::begin(&db, Some(clock.now()))?))?;
        let mode = Mode::Inline(Mutex::new(Some(db)));
        let (counters, broken) = (Arc::clone(&self.inner.counters), self.inner.broken.clone());
        Ok(Self {
            inner: Arc::new(Inner {
                mode,
                session: Arc::new(Session::new(opening, clock)),
                counters,
                broken,
                lost: 0,
            }),
        })
    }

    /// From now on every step of SQLite's machine is counted: what a command costs, on any machine alike. Only of
    /// a store in memory; one on disk is not slowed down.
    pub fn count_steps(&self) -> Result<(), StoreError> {
        let Mode::Inline(db) = &self.inner.mode else { return Ok(()) };
        let counters = Arc::clone(&self.inner.counters);
        let count = move || {
            counters.stepped();
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

    /// Frames of the write-ahead log that stood behind a damaged one when the store was opened: what they held
    /// had been acknowledged and is lost.
    pub fn lost_frames(&self) -> u64 {
        self.inner.lost
    }

    /// Waits until the store is broken (an fsync failed, say) and tells why. Nothing can be written
    /// any more: the process must end, and recovers from the log at its next start.
    pub async fn broken(&self) -> String {
        let mut broken = self.inner.broken.clone();
        let told = broken.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match told {
            Some(why) => why,
            // The writer ended in good order: this never comes true.
            None => std::future::pending().await,
        }
    }

    /// Ends what is queued, notes that all is well and lets the directory go. Later commands are
    /// answered [`StoreError::Closed`]. A store that is dropped without it counts as crashed.
    pub async fn close(&self) -> Result<(), StoreError> {
        match &self.inner.mode {
            Mode::Inline(db) => {
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
                let handle = lock(writer).take();
                let joined = tokio::task::spawn_blocking(move || handle.map(JoinHandle::join));
                let ended = joined.await;
                marked?;
                match ended {
                    Ok(Some(Err(_))) | Err(_) => Err(StoreError::Broken("the writer panicked".into())),
                    Ok(_) => Ok(()),
                }
            }
        }
    }

    /// Runs `work` in a transaction; done, it is on disk. It may run again, after what it wrote was taken back.
    pub(crate) fn write<T, F>(&self, work: F) -> BoxFuture<'static, Outcome<T>>
    where
        T: Send + 'static,
        F: Fn(&Connection, &Session) -> Outcome<T> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let session = Arc::clone(&inner.session);
            let (work, answer) = writer::command(move |db: &Connection| work(db, &session));
            inner.submit(work)?;
            drop(inner);
            answer.await.unwrap_or(Err(Fault::Store(StoreError::Closed)))
        })
    }

    /// Runs `work` on one snapshot of the store.
    pub(crate) fn read<T, F>(&self, who: Who, work: F) -> BoxFuture<'static, Outcome<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Session) -> Outcome<T> + Send + 'static,
    {
        self.question(who, false, work)
    }

    /// The same for a few rows found by index, which stand on the path of a request or an activation.
    pub(crate) fn look<T, F>(&self, who: Who, work: F) -> BoxFuture<'static, Outcome<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Session) -> Outcome<T> + Send + 'static,
    {
        self.question(who, true, work)
    }

    fn question<T, F>(&self, who: Who, short: bool, work: F) -> BoxFuture<'static, Outcome<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Session) -> Outcome<T> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            match &inner.mode {
                Mode::Inline(db) => {
                    let db = lock(db);
                    let db = db.as_ref().ok_or(Fault::Store(StoreError::Closed))?;
                    work(db, &inner.session)
                }
                Mode::Threaded { queue, living, doors, .. } => {
                    if queue.read().unwrap_or_else(PoisonError::into_inner).is_none() {
                        return Err(Fault::Store(StoreError::Closed));
                    }
                    let session = Arc::clone(&inner.session);
                    let work = move |db: &Connection| work(db, &session);
                    let readers = match who {
                        Who::Living => living,
                        Who::Api => doors,
                    };
                    if short { readers.look(work).await } else { readers.read(work).await }
                }
            }
        })
    }
}

impl Inner {
    fn submit(&self, work: Box<dyn Work>) -> Result<(), Fault> {
        match &self.mode {
            Mode::Inline(db) => {
                let db = lock(db);
                let db = db.as_ref().ok_or(Fault::Store(StoreError::Closed))?;
                // The command has its own answer, the group's error included.
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
                        Fault::Store(StoreError::Broken("the writer is gone".into()))
                    }
                })
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Mode::Threaded { queue, writer, .. } = &mut self.mode {
            // The writer ends once its queue is empty; only then is the directory free again.
            drop(queue.write().unwrap_or_else(PoisonError::into_inner).take());
            if let Some(handle) = lock(writer).take() {
                let _ = handle.join();
            }
        }
    }
}
