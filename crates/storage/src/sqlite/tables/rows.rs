//! Converts between columns and the types of `agent`: ids, times, closed sets, and rows that several
//! queries read. A value that does not decode is reported as damage of its record.

use agent::config::WakeOn;
use agent::entity::{Entity, EntityKind, Space};
use agent::event::{Channel, Principal, Trust};
use agent::id::{EntityId, SpaceId};
use agent::life::{IdleReason, Standing};
use agent::memory::Importance;
use agent::run::Usage;
use jiff::Timestamp;
use rusqlite::types::{FromSql, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use crate::sqlite::engine::fault::{Outcome, damaged};

pub(crate) fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(crate) fn ms(at: Timestamp) -> i64 {
    at.as_millisecond()
}

pub(crate) fn time(ms: i64) -> Outcome<Timestamp> {
    Timestamp::from_millisecond(ms).map_err(|_| damaged(format!("`{ms}` is not a time")))
}

pub(crate) fn time_at(row: &Row<'_>, at: usize) -> Outcome<Timestamp> {
    time(row.get(at)?)
}

pub(crate) fn time_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<Timestamp>> {
    row.get::<_, Option<i64>>(at)?.map(time).transpose()
}

pub(crate) fn u64_at(row: &Row<'_>, at: usize) -> Outcome<u64> {
    let n: i64 = row.get(at)?;
    u64::try_from(n).map_err(|_| damaged(format!("`{n}` is not a count")))
}

pub(crate) fn u64_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<u64>> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(None),
        _ => u64_at(row, at).map(Some),
    }
}

pub(crate) fn u32_at(row: &Row<'_>, at: usize) -> Outcome<u32> {
    let n: i64 = row.get(at)?;
    u32::try_from(n).map_err(|_| damaged(format!("`{n}` is not a 32-bit count")))
}

pub(crate) fn uuid_at(row: &Row<'_>, at: usize) -> Outcome<Uuid> {
    Ok(Uuid::from_bytes(row.get(at)?))
}

pub(crate) fn uuid_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<Uuid>> {
    Ok(row.get::<_, Option<[u8; 16]>>(at)?.map(Uuid::from_bytes))
}

pub(crate) fn bytes(id: Uuid) -> [u8; 16] {
    id.into_bytes()
}

/// Stores a text that is a UUID in its usual form as 16 bytes, and any other text as it is.
pub(crate) fn key(text: &str) -> Value {
    match Uuid::try_parse(text) {
        Ok(id) if id.hyphenated().to_string() == text => Value::Blob(id.as_bytes().to_vec()),
        _ => Value::Text(text.to_owned()),
    }
}

/// The reverse of [`key`].
pub(crate) fn key_at(row: &Row<'_>, at: usize) -> Outcome<String> {
    match row.get_ref(at)? {
        ValueRef::Blob(bytes) => {
            let id = Uuid::from_slice(bytes).map_err(|_| damaged("an id has the wrong length"))?;
            Ok(id.to_string())
        }
        other => Ok(String::column_result(other).map_err(rusqlite::Error::from)?),
    }
}

/// Like [`key_at`], for a column that may be `NULL`.
pub(crate) fn key_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<String>> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(None),
        _ => key_at(row, at).map(Some),
    }
}

pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> Outcome<String> {
    serde_json::to_string(value).map_err(|error| damaged(format!("a value cannot be written: {error}")))
}

pub(crate) fn from_json<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Outcome<T> {
    serde_json::from_str(text).map_err(|error| damaged(format!("{what} cannot be read: {error}")))
}

/// A member of a closed set from its index in `all`.
pub(crate) fn from_code<T: Copy>(all: &[T], at: i64, what: &str) -> Outcome<T> {
    usize::try_from(at)
        .ok()
        .and_then(|at| all.get(at).copied())
        .ok_or_else(|| damaged(format!("`{at}` is not a {what}")))
}

/// The reverse of [`from_code`].
pub(crate) fn code_of<T: PartialEq>(all: &[T], value: &T) -> i64 {
    all.iter().position(|known| known == value).map_or(-1, |at| int(at as u64))
}

pub(crate) fn standing_at(row: &Row<'_>, at: usize) -> Outcome<Standing> {
    from_code(&Standing::ALL, row.get(at)?, "standing")
}

pub(crate) fn kind_at(row: &Row<'_>, at: usize) -> Outcome<EntityKind> {
    from_code(&EntityKind::ALL, row.get(at)?, "kind of entity")
}

pub(crate) fn kind_code(kind: EntityKind) -> i64 {
    code_of(&EntityKind::ALL, &kind)
}

pub(crate) fn channel_at(row: &Row<'_>, at: usize) -> Outcome<Channel> {
    from_code(&Channel::ALL, row.get(at)?, "channel")
}

pub(crate) fn trust_at(row: &Row<'_>, at: usize) -> Outcome<Trust> {
    from_code(&Trust::ALL, row.get(at)?, "trust level")
}

pub(crate) fn importance_at(row: &Row<'_>, at: usize) -> Outcome<Importance> {
    from_code(&Importance::ALL, row.get(at)?, "level of importance")
}

pub(crate) fn reason_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<IdleReason>> {
    row.get::<_, Option<i64>>(at)?
        .map(|code| from_code(&IdleReason::ALL, code, "valid idle reason"))
        .transpose()
}

pub(crate) fn event_kind_at(row: &Row<'_>, at: usize) -> Outcome<agent::event::EventKind> {
    from_code(&agent::event::EventKind::ALL, row.get(at)?, "kind of event")
}

/// The two columns of a principal.
pub(crate) fn principal_columns(principal: &Principal) -> (i64, Value) {
    match principal {
        Principal::Entity(id) => (0, Value::Blob(id.0.as_bytes().to_vec())),
        Principal::Credential(id) => (1, Value::Text(id.clone())),
        Principal::Webhook(name) => (2, Value::Text(name.clone())),
        Principal::Own => (3, Value::Null),
    }
}

/// The reverse of [`principal_columns`], for two columns from `at` on.
pub(crate) fn principal_at(row: &Row<'_>, at: usize) -> Outcome<Principal> {
    Ok(match row.get::<_, i64>(at)? {
        0 => Principal::Entity(EntityId(uuid_at(row, at + 1)?)),
        1 => Principal::Credential(row.get(at + 1)?),
        2 => Principal::Webhook(row.get(at + 1)?),
        3 => Principal::Own,
        other => return Err(damaged(format!("`{other}` is not a kind of principal"))),
    })
}

/// Reads four usage columns from `at` on.
pub(crate) fn usage_at(row: &Row<'_>, at: usize) -> Outcome<Usage> {
    let read = |at| -> Outcome<Option<u64>> {
        Ok(row.get::<_, Option<i64>>(at)?.map(|n| u64::try_from(n).unwrap_or(0)))
    };
    Ok(Usage { input: read(at)?, cached: read(at + 1)?, output: read(at + 2)?, reasoning: read(at + 3)? })
}

/// The reverse of [`usage_at`].
pub(crate) fn usage_columns(usage: &Usage) -> [Option<i64>; 4] {
    [usage.input, usage.cached, usage.output, usage.reasoning].map(|n| n.map(int))
}

/// Columns of [`entity_at`], for an `entity e`.
pub(crate) const ENTITY: &str = "e.uuid, e.kind, e.name, e.display_name, e.external_id, e.created_at";

pub(crate) fn entity_at(row: &Row<'_>, at: usize) -> Outcome<Entity> {
    Ok(Entity {
        id: EntityId(uuid_at(row, at)?),
        kind: kind_at(row, at + 1)?,
        name: row.get(at + 2)?,
        display_name: row.get(at + 3)?,
        external_id: row.get(at + 4)?,
        created_at: time_at(row, at + 5)?,
    })
}

/// Columns of [`space_at`], for a `space s`.
pub(crate) const SPACE: &str =
    "s.uuid, s.name, s.display_name, s.description, s.head_seq, s.rev, s.closed, s.wake_on, s.created_at";

pub(crate) fn space_at(row: &Row<'_>, at: usize) -> Outcome<Space> {
    Ok(Space {
        id: SpaceId(uuid_at(row, at)?),
        name: row.get(at + 1)?,
        display_name: row.get(at + 2)?,
        description: row.get(at + 3)?,
        head_seq: u64_at(row, at + 4)?,
        rev: u64_at(row, at + 5)?,
        closed: row.get(at + 6)?,
        wake_on: wake_on_at(row, at + 7)?,
        created_at: time_at(row, at + 8)?,
    })
}

/// The code of the rule that says which messages of agents wake other agents.
pub(crate) fn wake_on_code(rule: WakeOn) -> i64 {
    i64::from(rule == WakeOn::Mention)
}

pub(crate) fn wake_on_at(row: &Row<'_>, at: usize) -> Outcome<WakeOn> {
    match row.get::<_, i64>(at)? {
        0 => Ok(WakeOn::All),
        1 => Ok(WakeOn::Mention),
        other => Err(damaged(format!("`{other}` is not a rule of `wake_on`"))),
    }
}

pub(crate) fn ids_from(packed: Option<Vec<u8>>) -> Vec<EntityId> {
    packed
        .unwrap_or_default()
        .chunks_exact(16)
        .filter_map(|id| Uuid::from_slice(id).ok())
        .map(EntityId)
        .collect()
}

pub(crate) fn packed(ids: &[EntityId]) -> Option<Vec<u8>> {
    (!ids.is_empty()).then(|| ids.iter().flat_map(|id| id.0.into_bytes()).collect())
}

/// The rowid of a person or agent.
pub(crate) fn entity_row(db: &Connection, id: Uuid) -> Outcome<Option<i64>> {
    let mut statement = db.prepare_cached("SELECT id FROM entity WHERE uuid = ?")?;
    Ok(statement.query_row([bytes(id)], |row| row.get(0)).optional()?)
}

/// The rowid of an agent; `None` also for a person's id.
pub(crate) fn agent_row(db: &Connection, id: Uuid) -> Outcome<Option<i64>> {
    let mut statement = db.prepare_cached("SELECT id FROM entity WHERE uuid = ? AND kind = 1")?;
    Ok(statement.query_row([bytes(id)], |row| row.get(0)).optional()?)
}

/// The rowid of a space.
pub(crate) fn space_row(db: &Connection, id: SpaceId) -> Outcome<Option<i64>> {
    let mut statement = db.prepare_cached("SELECT id FROM space WHERE uuid = ?")?;
    Ok(statement.query_row([bytes(id.0)], |row| row.get(0)).optional()?)
}

/// All rows of a query, decoded.
pub(crate) fn all<T>(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    decode: impl FnMut(&Row<'_>) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    db.prepare_cached(sql)?.query_and_then(params, decode)?.collect()
}

/// The rows of one page, and whether more follow: at most `most` rows, and not more than `max_bytes` together unless
/// the first row alone has more. The query must return one row more than `most`.
pub(crate) fn page_of<T>(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    (most, max_bytes): (u32, usize),
    size: impl Fn(&Row<'_>) -> Outcome<usize>,
    mut decode: impl FnMut(&Row<'_>) -> Outcome<T>,
) -> Outcome<(Vec<T>, bool)> {
    let mut ask = db.prepare_cached(sql)?;
    let (mut rows, mut found, mut bytes) = (ask.query(params)?, Vec::new(), 0);
    while let Some(row) = rows.next()? {
        bytes += size(row)?;
        if found.len() >= most as usize || (bytes > max_bytes && !found.is_empty()) {
            return Ok((found, true));
        }
        found.push(decode(row)?);
    }
    Ok((found, false))
}

/// The size of a row's texts and blobs, in bytes.
pub(crate) fn row_bytes(row: &Row<'_>) -> Outcome<usize> {
    let mut bytes = 0;
    for at in 0..row.as_ref().column_count() {
        bytes += match row.get_ref(at)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
            _ => 0,
        };
    }
    Ok(bytes)
}

/// The first row of a query, decoded.
pub(crate) fn first<T>(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    decode: impl FnMut(&Row<'_>) -> Outcome<T>,
) -> Outcome<Option<T>> {
    db.prepare_cached(sql)?.query_and_then(params, decode)?.next().transpose()
}

/// Runs a statement; returns how many rows it changed.
pub(crate) fn run(db: &Connection, sql: &str, params: impl rusqlite::Params) -> Outcome<usize> {
    Ok(db.prepare_cached(sql)?.execute(params)?)
}

/// The column to search for a text, with the value to search for: an id, or a handle in lower case.
pub(crate) fn id_or_name(text: &str, id: &'static str, name: &'static str) -> (&'static str, Value) {
    match Uuid::try_parse(text) {
        Ok(uuid) => (id, Value::Blob(uuid.as_bytes().to_vec())),
        Err(_) => (name, Value::Text(text.to_lowercase())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_back_unchanged() {
        let db = Connection::open_in_memory().unwrap();
        for text in [
            "0192d3e4-0000-7000-8000-000000000001",
            "0192D3E4-0000-7000-8000-000000000001",
            "0192d3e4000070008000000000000001",
            "plan:1:2",
            "",
        ] {
            let back = first(&db, "SELECT ?", [key(text)], |row| key_at(row, 0)).unwrap().unwrap();
            assert_eq!(back, text);
        }
    }
}
