//! Judges a store: walks all of it and names what breaks an invariant, with agent, table and row. It
//! reads what is stored by the same functions as the living do, so that what passes here can be lived.
//!
//! This module must not change anything, and must not stop at the first thing that it finds.

mod house;
mod ledger;
mod life;
mod log;

use agent::limits;
use agent::port::StoreError;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row};
use uuid::Uuid;

use super::engine::fault::{Fault, Outcome};
use super::engine::schema::VERSION;
use super::upkeep::Figures;
use super::{Sqlite, Who};

/// Agents that are judged on one snapshot: a longer look would keep the write-ahead log from being
/// used again.
const AGENTS_AT_ONCE: u32 = 64;
/// The table under which flaws of the file itself are told.
pub(super) const FILE: &str = "file";

/// Something that is not as it should be, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Whose record it is, by handle; `None` where it is nobody's alone.
    pub agent: Option<String>,
    /// The table; `file` for the database as such.
    pub table: &'static str,
    /// The record: its id, or its place.
    pub id: String,
    /// What is wrong.
    pub what: String,
}

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
        house::check(&mut walk)?;
        walk.agents()?;
    }
    let figures = match Figures::read(db) {
        Err(_) if torn => Figures::default(),
        read => read?,
    };
    let Walk { flaws, more, .. } = walk;
    Ok(Verified { version, records: records && !torn, figures, flaws, more })
}

/// Judges one agent's life, within the transaction in hand.
pub(super) fn judge_agent(db: &Connection, agent: i64) -> Vec<Flaw> {
    let mut walk = Walk { db, pausing: false, agent: None, flaws: Vec::new(), more: 0 };
    life::check(&mut walk, agent);
    walk.flaws
}

impl Sqlite {
    /// Judges the store as of one moment.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        Ok(self.read(Who::Doors, |db, _| judge(db, VERSION, false)).await?)
    }
}

/// The walk, and what it has found.
struct Walk<'a> {
    db: &'a Connection,
    pausing: bool,
    /// The agent that is judged.
    agent: Option<String>,
    flaws: Vec<Flaw>,
    more: u64,
}

impl Walk<'_> {
    fn flaw(&mut self, table: &'static str, id: impl ToString, what: impl Into<String>) {
        if self.flaws.len() >= limits::FLAWS_MAX {
            self.more += 1;
            return;
        }
        let (agent, id, what) = (self.agent.clone(), id.to_string(), what.into());
        self.flaws.push(Flaw { agent, table, id, what });
    }

    /// Notes a flaw where something does not hold.
    fn hold(&mut self, holds: bool, table: &'static str, id: impl ToString, what: impl FnOnce() -> String) {
        if !holds {
            self.flaw(table, id, what());
        }
    }

    /// The pages of the file.
    fn file(&mut self) {
        let db = self.db;
        let checked: rusqlite::Result<Vec<String>> = db
            .prepare("PRAGMA integrity_check")
            .and_then(|mut check| check.query_map([], |row| row.get(0))?.collect());
        match checked {
            Ok(lines) if lines == ["ok"] => {}
            Ok(lines) => lines.into_iter().for_each(|line| self.flaw(FILE, "", line)),
            Err(error) => self.flaw(FILE, "", error.to_string()),
        }
    }

    fn agents(&mut self) -> Outcome<()> {
        let db = self.db;
        let sql = "SELECT a.id, coalesce(e.name, 'agent ' || a.id) FROM agent a \
                   LEFT JOIN entity e ON e.id = a.id WHERE a.id > ? ORDER BY a.id LIMIT ?";
        let mut last = i64::MIN;
        loop {
            if self.pausing {
                db.execute_batch("BEGIN")?;
            }
            let some: Vec<(i64, String)> = db
                .prepare_cached(sql)?
                .query_map((last, AGENTS_AT_ONCE), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            for (agent, name) in &some {
                self.agent = Some(name.clone());
                life::check(self, *agent);
                self.agent = None;
                last = *agent;
            }
            if self.pausing {
                db.execute_batch("COMMIT")?;
            }
            if some.is_empty() {
                return Ok(());
            }
        }
    }

    /// Judges each row of a question. What the judge returns as an error is a flaw of that row, which
    /// its first column names.
    fn each(
        &mut self,
        table: &'static str,
        sql: &str,
        params: impl Params,
        mut judge: impl FnMut(&mut Self, &Row<'_>) -> Outcome<()>,
    ) {
        let db = self.db;
        let walk = || -> Outcome<()> {
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                if let Err(fault) = judge(self, row) {
                    self.flaw(table, name_of(row), words(fault));
                }
            }
            Ok(())
        };
        if let Err(fault) = walk() {
            self.flaw(table, "", words(fault));
        }
    }

    /// One number out of one row.
    fn number(&mut self, table: &'static str, sql: &str, params: impl Params) -> Option<i64> {
        match self.db.prepare_cached(sql).and_then(|mut ask| ask.query_row(params, |row| row.get(0))) {
            Ok(number) => Some(number),
            Err(error) => {
                self.flaw(table, "", error.to_string());
                None
            }
        }
    }
}

/// The first column as people write it.
fn name_of(row: &Row<'_>) -> String {
    match row.get_ref(0) {
        Ok(ValueRef::Integer(number)) => number.to_string(),
        Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        Ok(ValueRef::Blob(bytes)) => match Uuid::from_slice(bytes) {
            Ok(id) => id.to_string(),
            Err(_) => agent::id::hex(bytes),
        },
        _ => String::new(),
    }
}

pub(super) fn words(fault: Fault) -> String {
    match StoreError::from(fault) {
        StoreError::Damaged(why) => why,
        other => other.to_string(),
    }
}

/// Whether numbers count on from the last one without a gap; in words what they lack.
fn follows(last: &mut u64, next: u64, what: &str) -> Option<String> {
    let wanted = *last + 1;
    *last = next;
    match next.cmp(&wanted) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => Some(format!("{what} {next} is there twice")),
        std::cmp::Ordering::Greater if next == wanted + 1 => {
            Some(format!("{what} {wanted} before it is missing"))
        }
        std::cmp::Ordering::Greater => Some(format!("{what} {wanted} to {} before it are missing", next - 1)),
    }
}
