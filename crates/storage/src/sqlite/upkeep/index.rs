//! Builds the search index of a store that no server has open.

use std::path::Path;

use agent::port::StoreError;
use rusqlite::Connection;

use super::error::UpkeepError;
use super::read_only::ReadOnlyStore;
use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::engine::file::lock_dir;
use crate::sqlite::engine::schema::VERSION;
use crate::sqlite::index::feed::{Feed, SPACE, Trouble};
use crate::sqlite::index::file;
use crate::sqlite::index::tailer::store_state;
use crate::sqlite::tables::rows::{first, u64_at};

/// An index that was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Agents with something to find.
    pub agents: u64,
    /// Entries, memories and messages that can be found. 0 for a store of an older version: its next start builds the index.
    pub texts: u64,
}

/// Deletes the search index of the store in `dir` and builds a new one.
pub fn rebuild_index(dir: &Path) -> Result<Indexed, UpkeepError> {
    let store = ReadOnlyStore::open(dir)?;
    let _lock = lock_dir(dir)?;
    if store.version != VERSION {
        let io = |source| UpkeepError::Io { doing: "remove", file: dir.join(file::INDEX), source };
        return file::remove(dir).map(|()| Indexed { agents: 0, texts: 0 }).map_err(io);
    }
    Ok(build(&store.db, dir).map_err(StoreError::from)?)
}

fn build(store: &Connection, dir: &Path) -> Outcome<Indexed> {
    let index = file::create(dir, store_state(store, true)?)?;
    let feed = Feed { store, index: &index };
    let fault = |trouble| match trouble {
        Trouble::Store(fault) => fault,
        Trouble::Index(error) => Fault::Sql(error),
    };
    while feed.build().map_err(fault)? {}
    while feed.next().map_err(fault)?.is_some() {}
    let sql = "SELECT count(*) FILTER (WHERE owner < ?), coalesce(sum(docs), 0) FROM done WHERE docs > 0";
    let found =
        first(&index, sql, [SPACE], |row| Ok(Indexed { agents: u64_at(row, 0)?, texts: u64_at(row, 1)? }))?;
    Ok(found.unwrap_or(Indexed { agents: 0, texts: 0 }))
}
