//! The walk over a store: runs queries row by row and collects flaws.

use agent::limits;
use agent::port::StoreError;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row};
use serde::Serialize;
use uuid::Uuid;

use crate::sqlite::engine::fault::{Fault, Outcome};

/// The table name under which flaws of the file itself are reported.
pub(crate) const FILE: &str = "file";

/// A record that breaks an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flaw {
    /// The handle of the agent whose record it is; `None` if it belongs to no single agent.
    pub agent: Option<String>,
    /// The table; `file` for the database file itself.
    pub table: &'static str,
    /// The record: its id or its position.
    pub id: String,
    /// What is wrong.
    pub what: String,
}

/// The walk, with the flaws found so far.
pub(super) struct Walk<'a> {
    pub(super) db: &'a Connection,
    pub(super) pausing: bool,
    /// The agent that is being checked.
    pub(super) agent: Option<String>,
    pub(super) flaws: Vec<Flaw>,
    pub(super) more: u64,
}

impl Walk<'_> {
    pub(super) fn flaw(&mut self, table: &'static str, id: impl ToString, what: impl Into<String>) {
        if self.flaws.len() >= limits::FLAWS_MAX {
            self.more += 1;
            return;
        }
        let (agent, id, what) = (self.agent.clone(), id.to_string(), what.into());
        self.flaws.push(Flaw { agent, table, id, what });
    }

    /// Adds a flaw if a condition does not hold.
    pub(super) fn require(
        &mut self,
        holds: bool,
        table: &'static str,
        id: impl ToString,
        what: impl FnOnce() -> String,
    ) {
        if !holds {
            self.flaw(table, id, what());
        }
    }

    /// Checks the pages of the file.
    pub(super) fn file(&mut self) {
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

    /// Runs `check` on each row of a query. An error becomes a flaw of that row, which is named by its first
    /// column.
    pub(super) fn each(
        &mut self,
        table: &'static str,
        sql: &str,
        params: impl Params,
        mut check: impl FnMut(&mut Self, &Row<'_>) -> Outcome<()>,
    ) {
        let db = self.db;
        let walk = || -> Outcome<()> {
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                if let Err(fault) = check(self, row) {
                    self.flaw(table, name_of(row), describe(fault));
                }
            }
            Ok(())
        };
        if let Err(fault) = walk() {
            self.flaw(table, "", describe(fault));
        }
    }

    /// Reads one number from one row.
    pub(super) fn number(&mut self, table: &'static str, sql: &str, params: impl Params) -> Option<i64> {
        match self.db.prepare_cached(sql).and_then(|mut ask| ask.query_row(params, |row| row.get(0))) {
            Ok(number) => Some(number),
            Err(error) => {
                self.flaw(table, "", error.to_string());
                None
            }
        }
    }
}

/// The first column as text.
pub(super) fn name_of(row: &Row<'_>) -> String {
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

pub(crate) fn describe(fault: Fault) -> String {
    match StoreError::from(fault) {
        StoreError::Damaged(why) => why,
        other => other.to_string(),
    }
}

/// Checks that a number follows the last one without a gap; returns a description of what is missing, if any.
pub(super) fn gap_before(last: &mut u64, next: u64, what: &str) -> Option<String> {
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
