//! Verifies a store: reads all of it and names every record that breaks an invariant, with agent, table and row.
//! It uses the same functions as a running server, so a store that passes can be used.
//!
//! This module must not change anything, and must not stop at the first flaw.

mod figures;
mod ledger;
mod life;
mod log;
mod registry;
mod row;
mod walk;

use agent::port::StoreError;
use rusqlite::Connection;
use serde::Serialize;

pub use self::figures::Figures;
pub use self::walk::Flaw;
use self::walk::Walk;
pub(super) use self::walk::{FILE, describe};
use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::engine::schema::VERSION;
use crate::sqlite::ports::{Caller, Sqlite};

/// Agents that are checked on one snapshot: a longer snapshot would keep the write-ahead log from being
/// reused.
const AGENTS_AT_ONCE: u32 = 64;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The version of the store's tables.
    #[serde(rename = "tables_version")]
    pub version: i64,
    /// Whether records were checked; those of older tables cannot be until the store is migrated.
    #[serde(rename = "records_verified")]
    pub records: bool,
    /// How much the store holds.
    #[serde(flatten)]
    pub figures: Figures,
    /// The first flaws that were found.
    pub flaws: Vec<Flaw>,
    /// How many more were found.
    #[serde(rename = "more_flaws")]
    pub more: u64,
}

/// Checks a store whose tables are of that version. With `pausing`, takes a new snapshot now and then between
/// agents.
pub(super) fn check_store(db: &Connection, version: i64, pausing: bool) -> Outcome<Verified> {
    let records = version == VERSION;
    let mut walk = Walk { db, pausing, agent: None, flaws: Vec::new(), more: 0 };
    walk.file();
    // If pages are damaged, the same damage would be reported many times: stop here.
    let damaged = !walk.flaws.is_empty();
    if records && !damaged {
        registry::check(&mut walk)?;
        agents(&mut walk)?;
    }
    let figures = match Figures::read(db) {
        Err(_) if damaged => Figures::default(),
        read => read?,
    };
    let Walk { flaws, more, .. } = walk;
    Ok(Verified { version, records: records && !damaged, figures, flaws, more })
}

fn agents(walk: &mut Walk<'_>) -> Outcome<()> {
    let db = walk.db;
    let sql = "SELECT a.id, coalesce(e.name, 'agent ' || a.id) FROM agent a \
               LEFT JOIN entity e ON e.id = a.id WHERE a.id > ? ORDER BY a.id LIMIT ?";
    let mut last = i64::MIN;
    loop {
        if walk.pausing {
            db.execute_batch("BEGIN")?;
        }
        let some: Vec<(i64, String)> = db
            .prepare_cached(sql)?
            .query_map((last, AGENTS_AT_ONCE), |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (agent, name) in &some {
            walk.agent = Some(name.clone());
            life::check(walk, *agent);
            walk.agent = None;
            last = *agent;
        }
        if walk.pausing {
            db.execute_batch("COMMIT")?;
        }
        if some.is_empty() {
            return Ok(());
        }
    }
}

/// Checks one agent, within the current transaction.
pub(super) fn check_agent(db: &Connection, agent: i64) -> Vec<Flaw> {
    let mut walk = Walk { db, pausing: false, agent: None, flaws: Vec::new(), more: 0 };
    life::check(&mut walk, agent);
    walk.flaws
}

impl Sqlite {
    /// Verifies the store on one snapshot.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        Ok(self.read(Caller::Api, |db, _| check_store(db, VERSION, false)).await?)
    }
}
