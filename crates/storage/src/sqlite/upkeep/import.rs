//! Imports an agent from lines of JSON, all of it or nothing: each record is checked against its table, then the
//! whole agent is checked as by `verify`, and every flaw is reported with its line.

use std::collections::HashMap;
use std::path::Path;

use agent::archive::FileOrigin;
use agent::config::AgentConfig;
use agent::guard::GuardMode;
use agent::life::Standing;
use agent::limits;
use agent::port::StoreError;
use rusqlite::Connection;

use super::error::UpkeepError;
use super::export::TABLES;
use super::files::check_regular_file;
use super::frame::{END, Footer, HEADER, Header, Line, Lines, Seen};
use super::records::Tables;
use crate::sqlite::engine::fault::{Fault, Outcome, damaged};
use crate::sqlite::engine::file::FILE;
use crate::sqlite::engine::schema::{open_memory, set_meta};
use crate::sqlite::index::file as index;
use crate::sqlite::tables::opening::open;
use crate::sqlite::tables::rows::{all, first, from_json, standing_at, u64_at};
use crate::sqlite::verify::{Flaw, check_agent, describe};

/// Something in a file that prevents the import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFlaw {
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

/// An agent that was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Its handle in this store.
    pub name: String,
    /// The number of records that were read.
    pub records: u64,
    /// The number of waiting events, the same as in the store that it came from.
    pub waiting: u64,
    /// Whether it has an open cycle, which continues at the next start.
    pub open: bool,
    /// Whether it may run.
    pub standing: Standing,
    /// What its config says of its guard.
    pub guard: GuardMode,
    /// The tools that its config names; `None`: all.
    pub tools: Option<Vec<String>>,
    /// The plans that will wake it.
    pub plans: Vec<String>,
    /// The tools of its calls that have not ended.
    pub open_calls: Vec<String>,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Import {
    /// The agent was imported.
    Done(Imported),
    /// Nothing was written.
    Flawed {
        /// The first flaws that were found.
        flaws: Vec<LineFlaw>,
        /// How many more were found.
        more: u64,
    },
}

/// Reads an agent from a file into the store of `dir`, which no server may have open. If there is no store, one is
/// created. The agent keeps its ids, and its handle unless `name` is given.
pub fn import(
    dir: &Path,
    file: &Path,
    name: Option<&str>,
    origin: FileOrigin,
) -> Result<Import, UpkeepError> {
    check_regular_file(file)?;
    let lines = || {
        Lines::open(file).map_err(|source| UpkeepError::Io { doing: "read", file: file.to_owned(), source })
    };
    if !dir.join(FILE).exists() {
        // If there is no store yet, a refused file must not create one: try it in memory first.
        let done = import_into(&open_memory()?, lines()?, file, name, origin).map_err(StoreError::from)?;
        if matches!(done, Import::Flawed { .. }) {
            return Ok(done);
        }
    }
    let lines = lines()?;
    let (opened, opening) = open(dir, None)?;
    let db = &opened.db;
    if let Some(record) = opening.first_write() {
        record(db).map_err(|error| StoreError::from(Fault::Sql(error)))?;
    }
    let done = import_into(db, lines, file, name, origin).map_err(StoreError::from);
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK").map_err(|error| StoreError::from(Fault::Sql(error)))?;
    }
    // The imported agent is in no queue of the index: the next start builds a new one.
    index::remove(dir).map_err(|source| UpkeepError::Io {
        doing: "remove",
        file: dir.join(index::INDEX),
        source,
    })?;
    // Keep the record of a clean end or a crash: after a crash the next start must still recover from it.
    set_meta(db, "clean", i64::from(opening.clean)).map_err(|error| StoreError::from(Fault::Sql(error)))?;
    Ok(done?)
}

/// Imports in one transaction, which is left open if the file is refused.
fn import_into(
    db: &Connection,
    lines: Lines,
    file: &Path,
    name: Option<&str>,
    origin: FileOrigin,
) -> Outcome<Import> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let mut importer = Importer {
        tables: Tables::new(db, origin)?,
        name,
        agent: None,
        flaws: Vec::new(),
        more: 0,
        incomplete: false,
        records: None,
        seen: Seen::default(),
        ended: false,
    };
    let count = importer.read_all(lines)?;
    importer.check(file)?;
    let Importer { mut flaws, more, agent, .. } = importer;
    flaws.sort_by_key(|flaw| flaw.line);
    let Some((agent, called)) = agent.filter(|_| flaws.is_empty()) else {
        return Ok(Import::Flawed { flaws, more });
    };
    let texts = |sql: &str| all(db, sql, [agent], |row| Ok(row.get::<_, String>(0)?));
    let plans = texts(
        "SELECT name FROM plan WHERE agent = ? AND to_commit IS NULL AND next_at IS NOT NULL ORDER BY name",
    )?;
    let open_calls =
        texts("SELECT tool FROM call WHERE agent = ? AND state <> 'done' ORDER BY cycle, step, idx")?;
    let config = "SELECT config FROM config_rev WHERE agent = ? ORDER BY rev DESC LIMIT 1";
    let config = first(db, config, [agent], |row| Ok(row.get::<_, String>(0)?))?;
    let config: AgentConfig = from_json(&config.ok_or_else(|| damaged("it has no config"))?, "its config")?;
    let sql = "SELECT h.waiting, l.open_cycle IS NOT NULL, a.standing FROM agent a \
               JOIN inbox_head h ON h.agent = a.id JOIN life l ON l.agent = a.id WHERE a.id = ?";
    let found = first(db, sql, [agent], |row| {
        Ok(Imported {
            name: called.clone(),
            records: count,
            waiting: u64_at(row, 0)?,
            open: row.get(1)?,
            standing: standing_at(row, 2)?,
            guard: config.guard,
            tools: config.tools.clone(),
            plans: plans.clone(),
            open_calls: open_calls.clone(),
        })
    })?;
    let imported = found.ok_or_else(|| damaged("it has no `life` row"))?;
    db.execute_batch("COMMIT")?;
    Ok(Import::Done(imported))
}

struct Importer<'a> {
    tables: Tables<'a>,
    name: Option<&'a str>,
    /// The row of the agent and its handle, once its entity was read.
    agent: Option<(i64, String)>,
    flaws: Vec<LineFlaw>,
    more: u64,
    /// Whether a record could not be imported: then missing rows are not reported as flaws.
    incomplete: bool,
    /// The number of records according to the first line.
    records: Option<u64>,
    seen: Seen,
    ended: bool,
}

impl Importer<'_> {
    fn flaw(&mut self, line: u64, what: impl Into<String>) {
        if self.flaws.len() < limits::FLAWS_MAX {
            self.flaws.push(LineFlaw { line, what: what.into() });
        } else {
            self.more += 1;
        }
    }

    /// Reads all lines; returns how many of them are records.
    fn read_all(&mut self, mut lines: Lines) -> Outcome<u64> {
        let (mut count, mut last) = (0, 0);
        loop {
            let line = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    self.incomplete = true;
                    self.flaw(last + 1, format!("the file cannot be read further: {error}"));
                    return Ok(count);
                }
            };
            last = line.number;
            match self.line(&line) {
                Ok(record) => count += u64::from(record),
                Err(Fault::Sql(error)) if self.tables.db.is_autocommit() => return Err(Fault::Sql(error)),
                Err(fault) => {
                    self.incomplete = true;
                    self.flaw(line.number, describe(fault));
                }
            }
            // Without a valid header and entity the other lines cannot be checked.
            if line.number <= 2 && !self.flaws.is_empty() {
                return Ok(count);
            }
            self.seen.line(&line.bytes);
        }
        if last == 0 {
            self.flaw(0, "it is empty");
        } else if !self.ended {
            let expected = self.records.map_or_else(String::new, |n| format!(" of {n} records"));
            self.flaw(
                last,
                format!("it breaks off after this line: {count}{expected}, and no last line `{END}`"),
            );
        }
        Ok(count)
    }

    /// Imports one line; returns whether it is a record.
    fn line(&mut self, line: &Line) -> Outcome<bool> {
        let (what, row) = line.object()?;
        if self.ended {
            return Err(damaged(format!("it comes after the last line `{END}`")));
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
                for difference in Footer::read(row)?.differences(&self.seen) {
                    self.flaw(line.number, difference);
                }
                return Ok(false);
            }
            HEADER => return Err(damaged("it is a second first line: one file holds one agent")),
            "entity" => return Err(damaged("it is a second `entity`: one file holds one agent")),
            _ => self.seen.record(&what),
        }
        match TABLES.iter().find(|table| table.name == what) {
            Some(table) => self.tables.row(table, agent, row).map(|()| true),
            None => Err(damaged(format!("`{what}` is not a table of an agent"))),
        }
    }

    /// Checks the imported agent, and finds the lines of its flaws.
    fn check(&mut self, file: &Path) -> Outcome<()> {
        let Some((agent, _)) = self.agent.as_ref().filter(|_| !self.incomplete) else { return Ok(()) };
        let found = check_agent(self.tables.db, *agent);
        if found.is_empty() {
            return Ok(());
        }
        let lines = line_numbers(file, &found);
        for flaw in found {
            let table = flaw.table.to_owned();
            let line =
                lines.get(&(table.clone(), flaw.id.clone())).or_else(|| lines.get(&(table, String::new())));
            // Some flaws name their record themselves.
            let named = flaw.what.starts_with(flaw.table);
            let what = if named { flaw.what } else { format!("{} {}: {}", flaw.table, flaw.id, flaw.what) };
            self.flaw(line.copied().unwrap_or(0), what);
        }
        Ok(())
    }
}

/// The lines of the records with these flaws, by table and record name. The name is empty for tables of which an
/// agent has one row.
fn line_numbers(file: &Path, found: &[Flaw]) -> HashMap<(String, String), u64> {
    let mut numbers = HashMap::new();
    let Ok(mut lines) = Lines::open(file) else { return numbers };
    while let Ok(Some(line)) = lines.next() {
        let Ok((table, row)) = line.object() else { continue };
        if matches!(table.as_str(), "agent" | "life" | "inbox_head") {
            numbers.entry((table.clone(), String::new())).or_insert(line.number);
        }
        for key in ["seq", "n", "ordinal", "rev", "id", "key"] {
            let id = row.get(key).map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
            let id = id.filter(|id| found.iter().any(|flaw| flaw.table == table && flaw.id == *id));
            if let Some(id) = id {
                numbers.entry((table, id)).or_insert(line.number);
                break;
            }
        }
    }
    numbers
}
