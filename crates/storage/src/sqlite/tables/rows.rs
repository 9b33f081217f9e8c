//! Between values of the rules and columns: ids, times, closed sets, and whole rows that several
//! questions read. What does not decode is damage that names its record.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agent::config::{AgentConfig, WakeOn};
use agent::entity::{Entity, EntityKind, Space};
use agent::event::{Channel, Principal, Trust};
use agent::id::{CallId, CycleId, EntityId, MessageId, RootId, SpaceId};
use agent::life::{RestReason, Standing};
use agent::limits;
use agent::run::Usage;
use agent::space::{Message, MessageKind};
use jiff::Timestamp;
use rusqlite::types::{FromSql, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::lock;
use crate::sqlite::tables::sums;

/// Parsed configs by agent and revision. A revision never changes, so nothing here grows stale.
#[derive(Default)]
pub(in crate::sqlite) struct Configs(Mutex<Parsed>);

#[derive(Default)]
struct Parsed {
    configs: HashMap<(i64, u64), Arc<AgentConfig>>,
    /// Of their JSON.
    bytes: usize,
}

impl Configs {
    /// The config of that revision.
    pub(in crate::sqlite) fn get(&self, db: &Connection, agent: i64, rev: u64) -> Outcome<Arc<AgentConfig>> {
        if let Some(config) = lock(&self.0).configs.get(&(agent, rev)) {
            return Ok(Arc::clone(config));
        }
        let text = config_text(db, agent, rev)?;
        let config = Arc::new(from_json(&text, "a config")?);
        let mut parsed = lock(&self.0);
        if parsed.bytes + text.len() > limits::CONFIGS_MAX_BYTES {
            *parsed = Parsed::default();
        }
        if parsed.configs.insert((agent, rev), Arc::clone(&config)).is_none() {
            parsed.bytes += text.len();
        }
        Ok(config)
    }
}

/// A config straight from its row.
pub(in crate::sqlite) fn config_of(db: &Connection, agent: i64, rev: u64) -> Outcome<AgentConfig> {
    from_json(&config_text(db, agent, rev)?, "a config")
}

fn config_text(db: &Connection, agent: i64, rev: u64) -> Outcome<String> {
    let text: Option<String> = db
        .prepare_cached("SELECT config FROM config_rev WHERE agent = ? AND rev = ?")?
        .query_row(params![agent, int(rev)], |row| row.get(0))
        .optional()?;
    text.ok_or_else(|| damaged(format!("config revision {rev} of an agent is gone")))
}

pub(in crate::sqlite) fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(in crate::sqlite) fn ms(at: Timestamp) -> i64 {
    at.as_millisecond()
}

pub(in crate::sqlite) fn time(ms: i64) -> Outcome<Timestamp> {
    Timestamp::from_millisecond(ms).map_err(|_| damaged(format!("`{ms}` is no time")))
}

pub(in crate::sqlite) fn time_at(row: &Row<'_>, at: usize) -> Outcome<Timestamp> {
    time(row.get(at)?)
}

pub(in crate::sqlite) fn time_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<Timestamp>> {
    row.get::<_, Option<i64>>(at)?.map(time).transpose()
}

pub(in crate::sqlite) fn u64_at(row: &Row<'_>, at: usize) -> Outcome<u64> {
    let n: i64 = row.get(at)?;
    u64::try_from(n).map_err(|_| damaged(format!("`{n}` is no count")))
}

pub(in crate::sqlite) fn u32_at(row: &Row<'_>, at: usize) -> Outcome<u32> {
    let n: i64 = row.get(at)?;
    u32::try_from(n).map_err(|_| damaged(format!("`{n}` is no small count")))
}

pub(in crate::sqlite) fn uuid_at(row: &Row<'_>, at: usize) -> Outcome<Uuid> {
    Ok(Uuid::from_bytes(row.get(at)?))
}

pub(in crate::sqlite) fn uuid_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<Uuid>> {
    Ok(row.get::<_, Option<[u8; 16]>>(at)?.map(Uuid::from_bytes))
}

pub(in crate::sqlite) fn bytes(id: Uuid) -> [u8; 16] {
    id.into_bytes()
}

/// Text that usually is a UUID in its usual form takes 16 bytes, any other text is kept as it is.
pub(in crate::sqlite) fn key(text: &str) -> Value {
    match Uuid::try_parse(text) {
        Ok(id) if id.hyphenated().to_string() == text => Value::Blob(id.as_bytes().to_vec()),
        _ => Value::Text(text.to_owned()),
    }
}

/// The reverse of [`key`].
pub(in crate::sqlite) fn key_at(row: &Row<'_>, at: usize) -> Outcome<String> {
    match row.get_ref(at)? {
        ValueRef::Blob(bytes) => {
            let id = Uuid::from_slice(bytes).map_err(|_| damaged("an id of wrong length"))?;
            Ok(id.to_string())
        }
        other => Ok(String::column_result(other).map_err(rusqlite::Error::from)?),
    }
}

/// The same where there may be none.
pub(in crate::sqlite) fn key_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<String>> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(None),
        _ => key_at(row, at).map(Some),
    }
}

pub(in crate::sqlite) fn to_json<T: serde::Serialize>(value: &T) -> Outcome<String> {
    serde_json::to_string(value).map_err(|error| damaged(format!("a value cannot be written: {error}")))
}

pub(in crate::sqlite) fn from_json<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Outcome<T> {
    serde_json::from_str(text).map_err(|error| damaged(format!("{what} cannot be read: {error}")))
}

/// A member of a closed set from its place in `all`.
fn place<T: Copy>(all: &[T], at: i64, what: &str) -> Outcome<T> {
    usize::try_from(at)
        .ok()
        .and_then(|at| all.get(at).copied())
        .ok_or_else(|| damaged(format!("`{at}` is no {what}")))
}

/// The reverse of [`place`].
pub(in crate::sqlite) fn place_of<T: PartialEq>(all: &[T], value: &T) -> i64 {
    all.iter().position(|known| known == value).map_or(-1, |at| int(at as u64))
}

pub(in crate::sqlite) const STANDINGS: [Standing; 3] =
    [Standing::Active, Standing::Suspended, Standing::Retired];
pub(in crate::sqlite) const CHANNELS: [Channel; 5] =
    [Channel::Space, Channel::Api, Channel::Webhook, Channel::Timer, Channel::Tool];
pub(in crate::sqlite) const TRUSTS: [Trust; 4] =
    [Trust::Outside, Trust::Agent, Trust::Member, Trust::Operator];
pub(in crate::sqlite) const REASONS: [RestReason; 3] =
    [RestReason::Provider, RestReason::Backoff, RestReason::Debounce];
const KINDS: [EntityKind; 2] = [EntityKind::Human, EntityKind::Agent];

pub(in crate::sqlite) fn standing_at(row: &Row<'_>, at: usize) -> Outcome<Standing> {
    place(&STANDINGS, row.get(at)?, "standing")
}

pub(in crate::sqlite) fn kind_at(row: &Row<'_>, at: usize) -> Outcome<EntityKind> {
    place(&KINDS, row.get(at)?, "kind of entity")
}

pub(in crate::sqlite) fn kind_code(kind: EntityKind) -> i64 {
    place_of(&KINDS, &kind)
}

pub(in crate::sqlite) fn channel_at(row: &Row<'_>, at: usize) -> Outcome<Channel> {
    place(&CHANNELS, row.get(at)?, "channel")
}

pub(in crate::sqlite) fn trust_at(row: &Row<'_>, at: usize) -> Outcome<Trust> {
    place(&TRUSTS, row.get(at)?, "trust")
}

pub(in crate::sqlite) fn reason_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<RestReason>> {
    row.get::<_, Option<i64>>(at)?.map(|code| place(&REASONS, code, "reason to rest")).transpose()
}

pub(in crate::sqlite) fn event_kind_at(row: &Row<'_>, at: usize) -> Outcome<agent::event::EventKind> {
    place(&agent::event::EventKind::ALL, row.get(at)?, "kind of event")
}

/// A principal as its two columns.
pub(in crate::sqlite) fn principal_columns(principal: &Principal) -> (i64, Value) {
    match principal {
        Principal::Entity(id) => (0, Value::Blob(id.0.as_bytes().to_vec())),
        Principal::Credential(id) => (1, Value::Text(id.clone())),
        Principal::Webhook(name) => (2, Value::Text(name.clone())),
        Principal::Own => (3, Value::Null),
    }
}

/// The reverse of [`principal_columns`]; the columns follow each other.
pub(in crate::sqlite) fn principal_at(row: &Row<'_>, at: usize) -> Outcome<Principal> {
    Ok(match row.get::<_, i64>(at)? {
        0 => Principal::Entity(EntityId(uuid_at(row, at + 1)?)),
        1 => Principal::Credential(row.get(at + 1)?),
        2 => Principal::Webhook(row.get(at + 1)?),
        3 => Principal::Own,
        other => return Err(damaged(format!("`{other}` is no principal"))),
    })
}

/// Four usage columns that follow each other.
pub(in crate::sqlite) fn usage_at(row: &Row<'_>, at: usize) -> Outcome<Usage> {
    let read = |at| -> Outcome<Option<u64>> {
        Ok(row.get::<_, Option<i64>>(at)?.map(|n| u64::try_from(n).unwrap_or(0)))
    };
    Ok(Usage { input: read(at)?, cached: read(at + 1)?, output: read(at + 2)?, reasoning: read(at + 3)? })
}

/// The reverse of [`usage_at`].
pub(in crate::sqlite) fn usage_columns(usage: &Usage) -> [Option<i64>; 4] {
    [usage.input, usage.cached, usage.output, usage.reasoning].map(|n| n.map(int))
}

/// Columns of [`entity_at`], for an `entity e`.
pub(in crate::sqlite) const ENTITY: &str =
    "e.uuid, e.kind, e.name, e.display_name, e.external_id, e.created_at";

pub(in crate::sqlite) fn entity_at(row: &Row<'_>, at: usize) -> Outcome<Entity> {
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
pub(in crate::sqlite) const SPACE: &str =
    "s.uuid, s.name, s.display_name, s.description, s.head_seq, s.rev, s.closed, s.wake_on, s.created_at";

pub(in crate::sqlite) fn space_at(row: &Row<'_>, at: usize) -> Outcome<Space> {
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

/// Which agents' messages wake, as a column.
pub(in crate::sqlite) fn wake_on_code(rule: WakeOn) -> i64 {
    i64::from(rule == WakeOn::Mention)
}

pub(in crate::sqlite) fn wake_on_at(row: &Row<'_>, at: usize) -> Outcome<WakeOn> {
    match row.get::<_, i64>(at)? {
        0 => Ok(WakeOn::All),
        1 => Ok(WakeOn::Mention),
        other => Err(damaged(format!("`{other}` does not say which messages wake"))),
    }
}

/// Columns and joins of [`message_at`], those of [`sums::message_is_whole`] first.
pub(in crate::sqlite) const MESSAGE: &str = "SELECT m.uuid, m.kind, m.at, e.uuid, m.mentions, m.text, m.data, m.crc, \
    s.uuid, m.seq, m.rev, m.urgent, m.cycle, m.call, m.root, m.hop \
    FROM message m JOIN space s ON s.id = m.space JOIN entity e ON e.id = m.sender";

/// A message; where its bytes have changed by themselves, without what it said.
pub(in crate::sqlite) fn message_at(row: &Row<'_>) -> Outcome<Message> {
    let whole = sums::message_is_whole(row, 0)?;
    let data: Option<String> = if whole { row.get(6)? } else { None };
    Ok(Message {
        id: MessageId(uuid_at(row, 0)?),
        space: SpaceId(uuid_at(row, 8)?),
        seq: u64_at(row, 9)?,
        rev: u64_at(row, 10)?,
        sender: EntityId(uuid_at(row, 3)?),
        kind: if row.get::<_, i64>(1)? == 0 { MessageKind::Text } else { MessageKind::Tool },
        text: if whole { row.get(5)? } else { sums::UNREADABLE.to_owned() },
        mentions: if whole { ids_from(row.get(4)?) } else { Vec::new() },
        urgent: row.get(11)?,
        at: time_at(row, 2)?,
        cycle: uuid_or_none(row, 12)?.map(CycleId),
        call: row.get::<_, Option<String>>(13)?.map(CallId),
        data: data.map(|data| from_json(&data, "a message's data")).transpose()?,
        root: RootId(key_at(row, 14)?),
        hop: u32_at(row, 15)?,
    })
}

pub(in crate::sqlite) fn ids_from(packed: Option<Vec<u8>>) -> Vec<EntityId> {
    packed
        .unwrap_or_default()
        .chunks_exact(16)
        .filter_map(|id| Uuid::from_slice(id).ok())
        .map(EntityId)
        .collect()
}

pub(in crate::sqlite) fn packed(ids: &[EntityId]) -> Option<Vec<u8>> {
    (!ids.is_empty()).then(|| ids.iter().flat_map(|id| id.0.into_bytes()).collect())
}

/// The rowid of an agent or entity.
pub(in crate::sqlite) fn entity_row(db: &Connection, id: Uuid) -> Outcome<Option<i64>> {
    let mut statement = db.prepare_cached("SELECT id FROM entity WHERE uuid = ?")?;
    Ok(statement.query_row([bytes(id)], |row| row.get(0)).optional()?)
}

/// The rowid of an agent; `None` also where the id is a person's.
pub(in crate::sqlite) fn agent_row(db: &Connection, id: Uuid) -> Outcome<Option<i64>> {
    let mut statement = db.prepare_cached("SELECT id FROM entity WHERE uuid = ? AND kind = 1")?;
    Ok(statement.query_row([bytes(id)], |row| row.get(0)).optional()?)
}

/// The rowid of a space.
pub(in crate::sqlite) fn space_row(db: &Connection, id: SpaceId) -> Outcome<Option<i64>> {
    let mut statement = db.prepare_cached("SELECT id FROM space WHERE uuid = ?")?;
    Ok(statement.query_row([bytes(id.0)], |row| row.get(0)).optional()?)
}

/// All rows of a question, decoded.
pub(in crate::sqlite) fn all<T>(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    decode: impl FnMut(&Row<'_>) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    db.prepare_cached(sql)?.query_and_then(params, decode)?.collect()
}

/// The first row of a question, decoded.
pub(in crate::sqlite) fn first<T>(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    decode: impl FnMut(&Row<'_>) -> Outcome<T>,
) -> Outcome<Option<T>> {
    db.prepare_cached(sql)?.query_and_then(params, decode)?.next().transpose()
}

/// Runs a statement; how many rows it changed.
pub(in crate::sqlite) fn run(db: &Connection, sql: &str, params: impl rusqlite::Params) -> Outcome<usize> {
    Ok(db.prepare_cached(sql)?.execute(params)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_are_kept_parsed_up_to_a_number_of_bytes() {
        let db = crate::sqlite::engine::schema::open_memory().unwrap();
        let config = AgentConfig { instructions: "x".repeat(1 << 20), ..AgentConfig::default() };
        let text = to_json(&config).unwrap();
        let configs = Configs::default();
        for agent in 0..100 {
            let sql = "INSERT INTO config_rev (agent, rev, at, config) VALUES (?, 1, 0, ?)";
            run(&db, sql, params![agent, text]).unwrap();
            let first = configs.get(&db, agent, 1).unwrap();
            assert!(Arc::ptr_eq(&first, &configs.get(&db, agent, 1).unwrap()));
            let parsed = lock(&configs.0);
            assert_eq!(parsed.bytes, parsed.configs.len() * text.len());
            assert!(parsed.bytes <= limits::CONFIGS_MAX_BYTES);
        }
    }

    #[test]
    fn a_key_comes_back_as_it_was_whatever_it_looks_like() {
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
