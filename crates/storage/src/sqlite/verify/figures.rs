//! How much a store holds.

use rusqlite::Connection;
use serde::Serialize;

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::tables::rows::{first, u64_at};

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Agents, including retired ones.
    pub agents: u64,
    /// Spaces, including closed ones.
    pub spaces: u64,
    /// Messages.
    pub messages: u64,
    /// Accepted events, in any state.
    pub events: u64,
    /// Entries of all logs.
    pub entries: u64,
    /// Commits of all agents.
    pub commits: u64,
}

impl Figures {
    pub(super) fn read(db: &Connection) -> Outcome<Self> {
        let sql = "SELECT (SELECT count(*) FROM agent), (SELECT count(*) FROM space), (SELECT count(*) FROM message), \
                   (SELECT count(*) FROM event), (SELECT count(*) FROM entry), (SELECT count(*) FROM commits)";
        let found = first(db, sql, [], |row| {
            Ok(Self {
                agents: u64_at(row, 0)?,
                spaces: u64_at(row, 1)?,
                messages: u64_at(row, 2)?,
                events: u64_at(row, 3)?,
                entries: u64_at(row, 4)?,
                commits: u64_at(row, 5)?,
            })
        })?;
        Ok(found.unwrap_or_default())
    }
}
