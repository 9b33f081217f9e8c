//! Inserts records of an agent into the tables. Each must have exactly the exported columns of its table; values
//! that mean something only in one store are created anew.
//!
//! This module must not know about lines and files.

use std::collections::HashMap;

use agent::approval::Approval;
use agent::archive::FileOrigin;
use agent::call::{CallState, Effect};
use agent::entity::handle;
use agent::event::{EventData, Trust};
use agent::id::unhex;
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, params, params_from_iter};
use serde_json::{Map, Value};

use super::export::{ENTITY, Table, columns};
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::engine::schema::meta;
use crate::sqlite::tables::agents::free_name;
use crate::sqlite::tables::rows::{bytes, code_of, first, from_code, from_json, int, run};

/// The tables into which records are inserted.
pub(super) struct Tables<'a> {
    pub(super) db: &'a Connection,
    boot: i64,
    columns: HashMap<&'static str, Vec<String>>,
    origin: FileOrigin,
}

/// The columns with records as JSON that say how far something can be trusted.
const RECORDS: [(&str, &str); 4] =
    [("life", "open"), ("call", "outcome"), ("step", "record"), ("run", "steps")];

impl<'a> Tables<'a> {
    pub(super) fn new(db: &'a Connection, origin: FileOrigin) -> Outcome<Self> {
        Ok(Self { db, boot: meta(db, "boot")?.unwrap_or(0), columns: HashMap::new(), origin })
    }

    /// Inserts the agent's entity, whose id and handle must be new. Returns its rowid and its handle.
    pub(super) fn entity(&self, mut row: Map<String, Value>, name: Option<&str>) -> Outcome<(i64, String)> {
        if let Some(name) = name {
            row.insert("name".into(), Value::String(name.to_owned()));
        }
        let cells = cells(row, &ENTITY.map(str::to_owned))?;
        let (Cell::Blob(uuid), Cell::Text(name)) = (&cells[0], &cells[1]) else {
            return Err(damaged("wanted an id as `uuid` and a text as `name`"));
        };
        let (uuid, name) = (uuid.clone(), name.clone());
        if uuid.len() != 16 {
            return Err(damaged("its `uuid` is not an id: an id has 16 bytes"));
        }
        if handle(&name).ok().as_deref() != Some(name.as_str()) {
            return Err(damaged(format!("`{name}` is not a handle: a-z, 0-9, `_` and `-`, at most 40")));
        }
        let known = "SELECT name FROM entity WHERE uuid = ?";
        // Its rows would mix with those of the other entity, so the rest of the file is not read.
        if let Some(other) = first(self.db, known, [uuid], |row| Ok(row.get::<_, String>(0)?))? {
            return Err(damaged(format!(
                "this agent is here already, as `{other}`, and there is each only once: `viv agents clone {other} NEW` makes another \
                 one with its config"
            )));
        }
        if !free_name(self.db, &name)? {
            return Err(damaged(format!(
                "the handle `{name}` is taken here: `--as NAME` imports it under another one"
            )));
        }
        let sql = "INSERT INTO entity (kind, uuid, name, display_name, external_id, created_at) \
                   VALUES (1, ?, ?, ?, ?, ?)";
        Ok((self.db.prepare_cached(sql)?.insert(params_from_iter(cells))?, name))
    }

    /// Inserts a row into one of an agent's tables.
    pub(super) fn row(&mut self, table: &Table, agent: i64, row: Map<String, Value>) -> Outcome<()> {
        let names = match self.columns.get(table.name) {
            Some(names) => names.clone(),
            None => {
                let names = columns(self.db, table)?;
                self.columns.insert(table.name, names.clone());
                names
            }
        };
        let mut cells = cells(row, &names)?;
        self.believe(table.name, &names, &mut cells)?;
        let mut names = names;
        names.push(table.key().into());
        cells.push(agent.into());
        match table.name {
            "event" => self.event(&mut names, &mut cells)?,
            "waiting" => {
                names.push("boot".into());
                cells.push(self.boot.into());
            }
            _ => {}
        }
        let blanks = vec!["?"; names.len()].join(", ");
        let sql = format!("INSERT INTO {} ({}) VALUES ({blanks})", table.name, names.join(", "));
        run(self.db, &sql, params_from_iter(cells)).map(drop)
    }

    /// Lowers what a row says of trust, and refuses a call that would be run although nobody here has decided it.
    fn believe(&self, table: &str, names: &[String], cells: &mut [Cell]) -> Outcome<()> {
        for (name, cell) in names.iter().zip(&mut *cells) {
            match cell {
                Cell::Integer(level) if name == "trust" => {
                    let said = from_code(&Trust::ALL, *level, "trust level")?;
                    *level = code_of(&Trust::ALL, &self.origin.trust(said));
                }
                Cell::Text(text)
                    if RECORDS.contains(&(table, name.as_str())) && self.origin != FileOrigin::Own =>
                {
                    let mut record: Value = from_json(text, &format!("its `{name}`"))?;
                    self.origin.trust_inside(&mut record);
                    *text = record.to_string();
                }
                _ => {}
            }
        }
        if table != "call" {
            return Ok(());
        }
        let text = |wanted: &str| {
            let at = names.iter().position(|name| name == wanted)?;
            if let Cell::Text(text) = &cells[at] { Some(text.as_str()) } else { None }
        };
        let (Some(state), Some(effect)) = (
            text("state").and_then(|state| CallState::try_from(state).ok()),
            text("effect").and_then(|effect| Effect::try_from(effect).ok()),
        ) else {
            return Ok(());
        };
        let approval: Option<Approval> =
            text("approval").map(|approval| from_json(approval, "its `approval`")).transpose()?;
        if self.origin.believes_call(state, effect, approval.as_ref()) {
            return Ok(());
        }
        let tool = text("tool").unwrap_or_default();
        Err(damaged(format!(
            "its call of `{tool}` has not ended, and would be run here as the file says: import it with `--trusted` if the file \
             is your own, or let the call end where the agent is, and export the agent again"
        )))
    }

    /// If the message that an event refers to is in this store too, links the event to it again.
    fn event(&self, names: &mut Vec<String>, cells: &mut Vec<Cell>) -> Outcome<()> {
        let at = |name: &str| names.iter().position(|known| known == name);
        let (Some(data), Some(state)) = (at("data"), at("state")) else { return Ok(()) };
        let Cell::Text(text) = &cells[data] else { return Err(damaged("wanted a text as `data`")) };
        let EventData::Message { space, seq, message } = from_json(text, "its `data`")? else {
            return Ok(());
        };
        // It must be the same message: another server may have another message with this number.
        let sql = "SELECT s.id FROM space s JOIN message m ON m.space = s.id AND m.seq = ?1 \
                   WHERE s.uuid = ?2 AND m.uuid = ?3";
        let here = params![int(seq), bytes(space.0), bytes(message.0)];
        let here = first(self.db, sql, here, |row| Ok(row.get::<_, i64>(0)?))?;
        let unsettled = matches!(cells[state], Cell::Integer(0 | 1));
        let Some(here) = here else {
            if unsettled {
                return Err(damaged(format!(
                    "it waits, and its message is in the space `{space}`, which is not here: let the agent \
                     process it where it is, or cancel it there, and export the agent again"
                )));
            }
            return Ok(());
        };
        for (name, value) in [("space", here.into()), ("from_seq", int(seq).into())] {
            names.push(name.into());
            cells.push(value);
        }
        cells[data] = Cell::Null;
        Ok(())
    }
}

/// The values of exactly these columns, in their order.
fn cells(mut row: Map<String, Value>, names: &[String]) -> Outcome<Vec<Cell>> {
    let mut cells = Vec::with_capacity(names.len() + 4);
    for name in names {
        let value = row.remove(name).ok_or_else(|| damaged(format!("`{name}` is missing")))?;
        cells.push(cell(&value)?);
    }
    match row.keys().next() {
        Some(name) => Err(damaged(format!("`{name}` does not belong there"))),
        None => Ok(cells),
    }
}

fn cell(value: &Value) -> Outcome<Cell> {
    Ok(match value {
        Value::Null => Cell::Null,
        Value::Number(number) => match number.as_i64() {
            Some(number) => Cell::Integer(number),
            None => Cell::Real(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cell::Text(text.clone()),
        Value::Object(object) if object.len() == 1 => {
            let digits = object.get("hex").and_then(Value::as_str);
            let bytes = digits.and_then(unhex).ok_or_else(|| damaged("wanted {\"hex\": \"…\"}"))?;
            Cell::Blob(bytes)
        }
        other => return Err(damaged(format!("`{other}` is not a value of a record"))),
    })
}
