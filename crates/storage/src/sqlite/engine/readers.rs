//! A bounded number of read-only connections. Each query sees one snapshot and must be short: a long
//! reader would keep the write-ahead log from being reused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agent::port::StoreError;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::engine::mutex::lock;
use crate::sqlite::engine::schema;

/// What is to be read. It leaves its value in a slot.
pub(crate) type Query = Box<dyn FnOnce(&Connection) -> Outcome<()> + Send>;

/// The page cache of each connection, in KiB.
const CACHE: i64 = 2_048;

pub(crate) struct Readers {
    file: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    /// At most `most` connections, and so many queries at once.
    pub(crate) fn new(file: PathBuf, most: usize) -> Self {
        Self { file, idle: Arc::default(), permits: Arc::new(Semaphore::new(most)) }
    }

    /// The file that is read.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    #[cfg(test)]
    pub(crate) fn are_busy(&self) -> bool {
        self.permits.available_permits() == 0
    }

    /// Runs `work` on one snapshot, on a blocking thread.
    pub(crate) async fn read(&self, work: Query) -> Outcome<()> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Fault::Store(StoreError::Closed))?;
        let (file, idle) = (self.file.clone(), Arc::clone(&self.idle));
        let answer = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let kept = lock(&idle).pop();
            let db = match kept {
                Some(db) => db,
                None => connect(&file)?,
            };
            snapshot(&idle, db, work)
        });
        answer.await.unwrap_or_else(|_| Err(panicked()))
    }

    /// Runs `work` on the caller's thread. For queries of a few rows found by index: they take less time than
    /// a switch to another thread and back, and every request and activation runs some. If no connection is
    /// idle, this is the same as [`Self::read`].
    pub(crate) async fn read_inline(&self, work: Query) -> Outcome<()> {
        if let Ok(_permit) = self.permits.try_acquire() {
            let kept = lock(&self.idle).pop();
            if let Some(db) = kept {
                let answer = catch_unwind(AssertUnwindSafe(|| snapshot(&self.idle, db, work)));
                return answer.unwrap_or_else(|_| Err(panicked()));
            }
        }
        self.read(work).await
    }
}

/// Runs `work` on one snapshot. If it panics or cannot end its snapshot, the connection is not reused.
fn snapshot(idle: &Mutex<Vec<Connection>>, db: Connection, work: Query) -> Outcome<()> {
    db.prepare_cached("BEGIN")?.raw_execute()?;
    let answer = work(&db);
    db.prepare_cached("COMMIT")?.raw_execute()?;
    lock(idle).push(db);
    answer
}

fn panicked() -> Fault {
    Fault::Store(StoreError::Bug("a query panicked; nothing was changed".into()))
}

/// A connection that only reads.
pub(crate) fn connect(file: &Path) -> Outcome<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags)?;
    schema::tune(&db)?;
    db.pragma_update(None, "query_only", true)?;
    schema::cache(&db, CACHE)?;
    Ok(db)
}
