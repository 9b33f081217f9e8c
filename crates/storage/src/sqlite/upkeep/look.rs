//! A quick look at a store that may be closed: its version, which of its agents cannot be read, and a key.

use std::path::Path;
use std::time::Duration;

use agent::id::AgentId;
use agent::port::{Credential, StoreError, StoredTool};
use rusqlite::Row;

use super::error::UpkeepError;
use super::read_only::ReadOnlyStore;
use crate::sqlite::engine::check::{self, Checked};
use crate::sqlite::engine::fault::Fault;
use crate::sqlite::engine::schema::VERSION;
use crate::sqlite::ports::reader::agents::agent;
use crate::sqlite::ports::tool_book;
use crate::sqlite::tables::configs::Configs;
use crate::sqlite::tables::credentials::credential_by_hash;
use crate::sqlite::tables::rows::{all, int, uuid_at};

/// The result of a look at a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The version of its tables.
    pub version: i64,
    /// Frames of its log that come after a damaged one and are lost; 0 if a server has the store open.
    pub lost_frames: u64,
    /// Agents that are quarantined or have an unreadable record: the handle, and why.
    pub damaged: Vec<(String, String)>,
}

/// Looks at the store of a data directory, and at `most` of its agents. If the tables are of another version,
/// agents are not read. Writes nothing.
pub fn look(place: &Path, most: usize) -> Result<Looked, UpkeepError> {
    let store = ReadOnlyStore::open(place)?;
    let mut found = Looked { version: store.version, lost_frames: store.lost_frames(), damaged: Vec::new() };
    if store.version != VERSION {
        return Ok(found);
    }
    let db = &store.db;
    let sql = "SELECT e.uuid, e.name FROM agent a JOIN entity e ON e.id = a.id ORDER BY e.name LIMIT ?";
    let known = |row: &Row<'_>| Ok((AgentId(uuid_at(row, 0)?), row.get::<_, String>(1)?));
    let agents = all(db, sql, [int(most as u64)], known).map_err(StoreError::from)?;
    let configs = Configs::default();
    for (id, name) in agents {
        let why = match agent(db, &configs, id) {
            Ok(card) => card.and_then(|card| card.damage),
            Err(Fault::DamagedAgent(_, why)) => Some(why),
            Err(fault) => return Err(StoreError::from(fault).into()),
        };
        found.damaged.extend(why.map(|why| (name, why)));
    }
    Ok(found)
}

/// Checks the store's file of a data directory for at most `within`.
pub fn check(place: &Path, within: Duration) -> Result<Checked, UpkeepError> {
    let mut store = ReadOnlyStore::open(place)?;
    check::check(&mut store.db, within, || false).map_err(|error| store.failed(place, &error))
}

/// The tools that the store of a data directory keeps; none where there is no store, or an older one.
pub fn tools(place: &Path) -> Result<Vec<StoredTool>, UpkeepError> {
    let store = ReadOnlyStore::open(place)?;
    if store.version != VERSION {
        return Ok(Vec::new());
    }
    Ok(tool_book::tools(&store.db).map_err(StoreError::from)?)
}

/// The key with that hash in the store of a data directory, unless it is revoked. It may be expired.
pub fn key(place: &Path, secret_hash: &str) -> Result<Option<Credential>, UpkeepError> {
    let store = ReadOnlyStore::open(place)?;
    Ok(credential_by_hash(&store.db, secret_hash).map_err(StoreError::from)?)
}
