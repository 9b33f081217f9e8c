//! Judges a store: walks all of it and names what breaks an invariant, with agent, table and row. It
//! reads what is stored by the same functions as the living do, so that what passes here can be processed.
//!
//! This module must not change anything, and must not stop at the first thing that it finds.

mod figures;
mod ledger;
mod life;
mod log;
mod registry;
mod row;
mod walk;

use agent::port::StoreError;
use rusqlite::Connection;

pub use self::figures::Figures;
pub use self::walk::Flaw;
use self::walk::Walk;
pub(super) use self::walk::{FILE, words};
use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::engine::schema::VERSION;
use crate::sqlite::ports::{Sqlite, Who};

/// Agents that are judged on one snapshot: a longer look would keep the write-ahead log from being
/// used again.
const AGENTS_AT_ONCE: u32 = 64;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The version of the store's tables.
    pub version: i64,
    /// Whether all was judged; records of older tables are only once they are brought up to date.
    pub records: bool,
    /// How much there is.
    pub figures: Figures,
    /// What is wrong, as far as it is listed.
    pub flaws: Vec<Flaw>,
    /// How much more is.
    pub more: u64,
}

/// Judges a store whose tables are of that version. Between agents the snapshot is renewed where
/// `pausing`.
pub(super) fn judge(db: &Connection, version: i64, pausing: bool) -> Outcome<Verified> {
    let records = version == VERSION;
    let mut walk = Walk { db, pausing, agent: None, flaws: Vec::new(), more: 0 };
    walk.file();
    // Where pages are torn, everything else would be told over and over.
    let torn = !walk.flaws.is_empty();
    if records && !torn {
        registry::check(&mut walk)?;
        agents(&mut walk)?;
    }
    let figures = match Figures::read(db) {
        Err(_) if torn => Figures::default(),
        read => read?,
    };
    let Walk { flaws, more, .. } = walk;
    Ok(Verified { version, records: records && !torn, figures, flaws, more })
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

/// Judges one agent's life, within the transaction in progress.
pub(super) fn judge_agent(db: &Connection, agent: i64) -> Vec<Flaw> {
    let mut walk = Walk { db, pausing: false, agent: None, flaws: Vec::new(), more: 0 };
    life::check(&mut walk, agent);
    walk.flaws
}

impl Sqlite {
    /// Judges the store as of one moment.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        Ok(self.read(Who::Api, |db, _| judge(db, VERSION, false)).await?)
    }
}
