//! An agent out of lines of JSON. All of it or nothing: what a file says is held against the tables, then
//! the whole life is judged as `verify` judges it, and every flaw is told with its line.

use std::collections::HashMap;
use std::path::Path;

use agent::life::Standing;
use agent::limits;
use agent::port::StoreError;
use rusqlite::Connection;

use super::error::UpkeepError;
use super::export::TABLES;
use super::files::regular;
use super::frame::{END, Footer, HEADER, Header, Line, Lines, Seen};
use super::records::Tables;
use crate::sqlite::engine::fault::{Fault, Outcome, damaged};
use crate::sqlite::engine::file::FILE;
use crate::sqlite::engine::schema::{open_memory, set_meta};
use crate::sqlite::tables::opening::open;
use crate::sqlite::tables::rows::{first, standing_at, u64_at};
use crate::sqlite::verify::{Flaw, judge_agent, words};

/// Something in a file that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFlaw {
    /// The line, from 1; 0 where it is the file's as a whole.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

/// An agent that was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Its handle here.
    pub name: String,
    /// Records that were read.
    pub records: u64,
    /// Events that wait for it, as they did where it came from.
    pub waiting: u64,
    /// Whether it is in the middle of a cycle, which goes on at the next start.
    pub open: bool,
    /// Whether it may run.
    pub standing: Standing,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Import {
    /// It is active here.
    Done(Imported),
    /// Nothing was written.
    Flawed {
        /// Why, as far as it is listed.
        flaws: Vec<LineFlaw>,
        /// How much more is wrong.
        more: u64,
    },
}

/// Reads an agent from a file into the store of `dir`, which no server may have; where there is none it is
/// made. It keeps its ids, and its handle unless it is given another one.
pub fn import(dir: &Path, file: &Path, name: Option<&str>) -> Result<Import, UpkeepError> {
    regular(file)?;
    let lines = || {
        Lines::open(file).map_err(|source| UpkeepError::Io { doing: "read", file: file.to_owned(), source })
    };
    if !dir.join(FILE).exists() {
        // Where there is no store, none is made for what is refused.
        let done = within(&open_memory()?, lines()?, file, name).map_err(StoreError::from)?;
        if matches!(done, Import::Flawed { .. }) {
            return Ok(done);
        }
    }
    let lines = lines()?;
    let (opened, opening) = open(dir, None)?;
    let db = &opened.db;
    if let Some(note) = opening.unnoted() {
        note(db).map_err(|error| StoreError::from(Fault::Sql(error)))?;
    }
    let done = within(db, lines, file, name).map_err(StoreError::from);
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK").map_err(|error| StoreError::from(Fault::Sql(error)))?;
    }
    // It is left as it was found: after a crash the next start looks after what was going on.
    set_meta(db, "clean", i64::from(opening.clean)).map_err(|error| StoreError::from(Fault::Sql(error)))?;
    Ok(done?)
}

/// All of it in one transaction, which is left open where it comes to nothing.
fn within(db: &Connection, lines: Lines, file: &Path, name: Option<&str>) -> Outcome<Import> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let mut reading = Reading {
        tables: Tables::new(db)?,
        name,
        agent: None,
        flaws: Vec::new(),
        more: 0,
        torn: false,
        records: None,
        seen: Seen::default(),
        ended: false,
    };
    let count = reading.all(lines)?;
    reading.judge(file)?;
    let Reading { mut flaws, more, agent, .. } = reading;
    flaws.sort_by_key(|flaw| flaw.line);
    let Some((agent, called)) = agent.filter(|_| flaws.is_empty()) else {
        return Ok(Import::Flawed { flaws, more });
    };
    let sql = "SELECT h.waiting, l.open_cycle IS NOT NULL, a.standing FROM agent a \
               JOIN inbox_head h ON h.agent = a.id JOIN life l ON l.agent = a.id WHERE a.id = ?";
    let found = first(db, sql, [agent], |row| {
        Ok(Imported {
            name: called.clone(),
            records: count,
            waiting: u64_at(row, 0)?,
            open: row.get(1)?,
            standing: standing_at(row, 2)?,
        })
    })?;
    let imported = found.ok_or_else(|| damaged("it has no life"))?;
    db.execute_batch("COMMIT")?;
    Ok(Import::Done(imported))
}

struct Reading<'a> {
    tables: Tables<'a>,
    name: Option<&'a str>,
    /// The row of the agent and its handle, once its entity was read.
    agent: Option<(i64, String)>,
    flaws: Vec<LineFlaw>,
    more: u64,
    /// Whether a record could not be taken: then the life has a hole that is none of its own.
    torn: bool,
    /// How many records the first line tells of.
    records: Option<u64>,
    seen: Seen,
    ended: bool,
}

impl Reading<'_> {
    fn flaw(&mut self, line: u64, what: impl Into<String>) {
        if self.flaws.len() < limits::FLAWS_MAX {
            self.flaws.push(LineFlaw { line, what: what.into() });
        } else {
            self.more += 1;
        }
    }

    /// Reads all lines; how many of them are records.
    fn all(&mut self, mut lines: Lines) -> Outcome<u64> {
        let (mut count, mut last) = (0, 0);
        loop {
            let line = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    self.torn = true;
                    self.flaw(last + 1, format!("the file cannot be read on: {error}"));
                    return Ok(count);
                }
            };
            last = line.number;
            match self.line(&line) {
                Ok(record) => count += u64::from(record),
                Err(Fault::Sql(error)) if self.tables.db.is_autocommit() => return Err(Fault::Sql(error)),
                Err(fault) => {
                    self.torn = true;
                    self.flaw(line.number, words(fault));
                }
            }
            // Without knowing whose rows they are there is nothing to be said of the others.
            if line.number <= 2 && !self.flaws.is_empty() {
                return Ok(count);
            }
            self.seen.line(&line.bytes);
        }
        if last == 0 {
            self.flaw(0, "it is empty");
        } else if !self.ended {
            let told = self.records.map_or_else(String::new, |n| format!(" of {n} records"));
            self.flaw(
                last,
                format!("it breaks off behind this line: {count}{told}, and no last line `{END}`"),
            );
        }
        Ok(count)
    }

    /// Takes one line; whether it is a record.
    fn line(&mut self, line: &Line) -> Outcome<bool> {
        let (what, row) = line.object()?;
        if self.ended {
            return Err(damaged(format!("it stands behind the last line `{END}`")));
        }
        if line.number == 1 {
            self.records = Some(Header::read(&what, row)?.records);
            return Ok(false);
        }
        let Some((agent, _)) = self.agent else {
            if what != "entity" {
                return Err(damaged("wanted the agent's `entity` before its rows"));
            }
            self.seen.record(&what);
            self.agent = Some(self.tables.entity(row, self.name)?);
            return Ok(true);
        };
        match what.as_str() {
            END => {
                self.ended = true;
                for objection in Footer::read(row)?.objections(&self.seen) {
                    self.flaw(line.number, objection);
                }
                return Ok(false);
            }
            HEADER => return Err(damaged("it is a second first line: one file holds one agent")),
            "entity" => return Err(damaged("it is a second `entity`: one file holds one agent")),
            _ => self.seen.record(&what),
        }
        match TABLES.iter().find(|table| table.name == what) {
            Some(table) => self.tables.row(table, agent, row).map(|()| true),
            None => Err(damaged(format!("`{what}` is nothing that an agent has"))),
        }
    }

    /// What was read must be a life. Flaws of it are found in the file again.
    fn judge(&mut self, file: &Path) -> Outcome<()> {
        let Some((agent, _)) = self.agent.as_ref().filter(|_| !self.torn) else { return Ok(()) };
        let found = judge_agent(self.tables.db, *agent);
        if found.is_empty() {
            return Ok(());
        }
        let places = places(file, &found);
        for flaw in found {
            let table = flaw.table.to_owned();
            let line =
                places.get(&(table.clone(), flaw.id.clone())).or_else(|| places.get(&(table, String::new())));
            // Some say themselves which record they mean.
            let named = flaw.what.starts_with(flaw.table);
            let what = if named { flaw.what } else { format!("{} {}: {}", flaw.table, flaw.id, flaw.what) };
            self.flaw(line.copied().unwrap_or(0), what);
        }
        Ok(())
    }
}

/// Where in the file the records of these flaws stand, by table and name; under no name those that there
/// is one of.
fn places(file: &Path, found: &[Flaw]) -> HashMap<(String, String), u64> {
    let mut places = HashMap::new();
    let Ok(mut lines) = Lines::open(file) else { return places };
    while let Ok(Some(line)) = lines.next() {
        let Ok((table, row)) = line.object() else { continue };
        if matches!(table.as_str(), "agent" | "life" | "inbox_head") {
            places.entry((table.clone(), String::new())).or_insert(line.number);
        }
        for key in ["seq", "n", "ordinal", "rev", "id", "key"] {
            let id = row.get(key).map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
            let id = id.filter(|id| found.iter().any(|flaw| flaw.table == table && flaw.id == *id));
            if let Some(id) = id {
                places.entry((table, id)).or_insert(line.number);
                break;
            }
        }
    }
    places
}
