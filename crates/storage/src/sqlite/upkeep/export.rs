//! Exports one agent as lines of JSON: its entity, then all its rows, named like the tables and columns. Values
//! that mean something only in one store (row numbers, spaces, keys) are left out. Everything is read from one
//! snapshot, while a server may be running, and written line by line.

use std::io::{self, Write};
use std::path::Path;

use agent::event::EventData;
use agent::id::hex;
use agent::port::StoreError;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde_json::{Map, Value, json};

use super::error::UpkeepError;
use super::frame::{END, HEADER, Header, Seen};
use super::read_only::ReadOnlyStore;
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::engine::schema::VERSION;
use crate::sqlite::tables::inbox::{COLUMNS, JOINS, NEXT, event_at};
use crate::sqlite::tables::rows::{all, first, to_json, u64_at};

/// A table with rows of an agent: the order of its rows, and the columns that mean something only in one store.
pub(super) struct Table {
    pub(super) name: &'static str,
    order: &'static str,
    pub(super) local: &'static [&'static str],
}

impl Table {
    /// The column with the agent's rowid.
    pub(super) fn key(&self) -> &'static str {
        if self.name == "agent" { "id" } else { "agent" }
    }
}

const fn table(name: &'static str, order: &'static str, local: &'static [&'static str]) -> Table {
    Table { name, order, local }
}

/// The exported tables, in the order in which they are written.
pub(super) const TABLES: [Table; 16] = [
    table("agent", "id", &["id", "facts_rev"]),
    table("config_rev", "rev", &["agent"]),
    table("life", "agent", &["agent", "active_space", "boot"]),
    table("inbox_head", "agent", &["agent"]),
    table("entry", "seq", &["agent"]),
    table("event", "seq", &["agent", "space", "from_seq"]),
    table("waiting", "seq", &["agent", "boot"]),
    table("call", "cycle, step, idx", &["agent"]),
    table("step", "cycle, step", &["agent"]),
    table("layer", "request, idx", &["agent"]),
    table("view", "rev", &["agent"]),
    table("commits", "n", &["agent"]),
    table("run", "ordinal", &["agent"]),
    table("memory", "key, from_commit", &["agent"]),
    table("goal", "id, from_commit", &["agent"]),
    table("plan", "id, from_commit", &["agent"]),
];

/// The exported columns of the agent's entity.
pub(super) const ENTITY: [&str; 5] = ["uuid", "name", "display_name", "external_id", "created_at"];

/// An agent that was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Its handle.
    pub name: String,
    /// The number of lines, including the first and the last one.
    pub lines: u64,
}

/// Writes an agent, given by handle or id, from the store in `place` to `out`.
pub fn export(place: &Path, agent: &str, out: &mut dyn Write) -> Result<Exported, UpkeepError> {
    let from = ReadOnlyStore::open(place)?;
    if from.version != VERSION {
        return Err(UpkeepError::Older { file: from.file, version: from.version, ours: VERSION });
    }
    let found = from.db.execute_batch("BEGIN").map_err(Into::into).and_then(|()| find(&from.db, agent));
    let found = found.map_err(StoreError::from)?;
    let Some((row, name)) = found else { return Err(UpkeepError::NoAgent { name: agent.to_owned() }) };
    let mut writing = ExportFile { out, lines: 0, seen: Seen::default(), failed: None };
    let written = writing.write_all(&from.db, row, &name);
    if let Some(source) = writing.failed {
        return Err(UpkeepError::Io { doing: "write", file: "the export".into(), source });
    }
    written.map_err(StoreError::from)?;
    Ok(Exported { name, lines: writing.lines })
}

fn find(db: &Connection, agent: &str) -> Outcome<Option<(i64, String)>> {
    let id = uuid::Uuid::try_parse(agent).map(|id| id.into_bytes()).ok();
    let sql = "SELECT id, name FROM entity WHERE kind = 1 AND (uuid = ?1 OR name = ?2)";
    first(db, sql, (id, agent.to_lowercase()), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// The exported columns of a table.
pub(super) fn columns(db: &Connection, table: &Table) -> Outcome<Vec<String>> {
    let sql = format!("SELECT name FROM pragma_table_info('{}')", table.name);
    let columns: Vec<String> = all(db, &sql, [], |row| Ok(row.get(0)?))?;
    Ok(columns.into_iter().filter(|name| !table.local.contains(&name.as_str())).collect())
}

struct ExportFile<'a> {
    out: &'a mut dyn Write,
    lines: u64,
    seen: Seen,
    failed: Option<io::Error>,
}

impl ExportFile<'_> {
    fn line(&mut self, what: &str, row: Value) -> Outcome<()> {
        let text = to_json(&json!({what: row}))?;
        self.lines += 1;
        self.seen.line(text.as_bytes());
        writeln!(self.out, "{text}").map_err(|error| {
            self.failed = Some(error);
            damaged("it could not be written")
        })
    }

    fn record(&mut self, what: &str, row: Value) -> Outcome<()> {
        self.seen.record(what);
        self.line(what, row)
    }

    fn write_all(&mut self, db: &Connection, agent: i64, name: &str) -> Outcome<()> {
        let mut records = 1;
        for table in &TABLES {
            let sql = format!("SELECT count(*) FROM {} WHERE {} = ?", table.name, table.key());
            records += first(db, &sql, [agent], |row| u64_at(row, 0))?.unwrap_or(0);
        }
        self.line(HEADER, json!(Header::new(name, records)))?;
        let sql = format!("SELECT {} FROM entity WHERE id = {agent}", ENTITY.join(", "));
        self.rows(db, "entity", &sql, &ENTITY.map(str::to_owned))?;
        for table in &TABLES {
            let columns = columns(db, table)?;
            if table.name == "event" {
                self.events(db, agent, &columns)?;
                continue;
            }
            let (names, name, order) = (columns.join(", "), table.name, table.order);
            let sql = format!("SELECT {names} FROM {name} WHERE {} = {agent} ORDER BY {order}", table.key());
            self.rows(db, name, &sql, &columns)?;
        }
        self.line(END, json!(self.seen.footer()))
    }

    fn rows(&mut self, db: &Connection, what: &str, sql: &str, names: &[String]) -> Outcome<()> {
        let mut statement = db.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.record(what, object(row, names, 0)?)?;
        }
        Ok(())
    }

    /// Writes events. Messages are named by ids, because rowids of one store mean nothing in another.
    fn events(&mut self, db: &Connection, agent: i64, columns: &[String]) -> Outcome<()> {
        let plain: Vec<String> = columns.iter().map(|name| format!("e.{name}")).collect();
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM event e {JOINS} WHERE e.agent = {agent} ORDER BY e.seq",
            plain.join(", ")
        );
        let mut statement = db.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let event = event_at(row)?;
            let mut shown = object(row, columns, NEXT)?;
            if matches!(event.data, EventData::Message { .. }) {
                shown["data"] = Value::String(to_json(&event.data)?);
            }
            self.record("event", shown)?;
        }
        Ok(())
    }
}

fn object(row: &Row<'_>, names: &[String], from: usize) -> Outcome<Value> {
    let mut object = Map::new();
    for (at, name) in names.iter().enumerate() {
        object.insert(name.clone(), value(row.get_ref(from + at)?)?);
    }
    Ok(Value::Object(object))
}

fn value(cell: ValueRef<'_>) -> Outcome<Value> {
    Ok(match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|_| damaged("a text is not UTF-8"))?;
            json!(text)
        }
        ValueRef::Blob(bytes) => json!({"hex": hex(bytes)}),
    })
}
