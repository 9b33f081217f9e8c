//! A quick look at a store that nobody may have open: what it is, and who of its agents cannot be processed.

use std::path::Path;

use agent::id::AgentId;
use agent::port::StoreError;
use rusqlite::Row;

use super::beside::Beside;
use super::error::UpkeepError;
use crate::sqlite::engine::fault::Fault;
use crate::sqlite::engine::schema::VERSION;
use crate::sqlite::ports::reader::lives::agent;
use crate::sqlite::tables::configs::Configs;
use crate::sqlite::tables::rows::{all, int, uuid_at};

/// What a look at a store tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The version of its tables.
    pub version: i64,
    /// Frames of its log that are lost: they stand behind a damaged one. None is found where a server has it.
    pub lost_frames: u64,
    /// Agents that were quarantined or of whose life something cannot be read: the handle, and why.
    pub torn: Vec<(String, String)>,
}

/// Looks at the store of a data directory, and at `most` of its agents. Agents of an older version of the
/// tables are not looked at. Writes nothing.
pub fn look(place: &Path, most: usize) -> Result<Looked, UpkeepError> {
    let store = Beside::open(place)?;
    let mut found = Looked { version: store.version, lost_frames: store.lost_frames(), torn: Vec::new() };
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
            Err(Fault::Torn(_, why)) => Some(why),
            Err(fault) => return Err(StoreError::from(fault).into()),
        };
        found.torn.extend(why.map(|why| (name, why)));
    }
    Ok(found)
}
