//! What was said: messages with their checksums, and their places in spaces.

use std::collections::{BTreeMap, BTreeSet};

use agent::config::WakeOn;
use agent::event::NamedMessage;
use agent::id::{CallId, CycleId, EntityId, MessageId, RootId, SpaceId};
use agent::space::{Message, MessageKind, NewMessage};
use rusqlite::{Connection, Row, params};

use super::rows::{
    TRUSTS, all, bytes, first, from_json, ids_from, int, key, key_at, kind_at, ms, packed, place_of,
    principal_columns, run, time_at, to_json, u32_at, u64_at, uuid_at, uuid_or_none, wake_on_at,
};
use super::sums::{self, Words};
use crate::sqlite::engine::fault::Outcome;

/// Columns and joins of [`message_at`], those of [`sums::message_is_whole`] first.
pub(crate) const MESSAGE: &str = "SELECT m.uuid, m.kind, m.at, e.uuid, m.mentions, m.text, m.data, m.crc, \
    s.uuid, m.seq, m.rev, m.urgent, m.cycle, m.call, m.root, m.hop \
    FROM message m JOIN space s ON s.id = m.space JOIN entity e ON e.id = m.sender";

/// A message; where its bytes have changed by themselves, without what it said.
pub(crate) fn message_at(row: &Row<'_>) -> Outcome<Message> {
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

/// A message by its id.
pub(crate) fn message_by(db: &Connection, id: MessageId) -> Outcome<Option<Message>> {
    first(db, &format!("{MESSAGE} WHERE m.uuid = ?"), [bytes(id.0)], message_at)
}

/// The row of a space.
pub(crate) struct MessagePosition {
    pub(crate) id: i64,
    pub(crate) head_seq: u64,
    pub(crate) rev: u64,
    pub(crate) closed: bool,
    pub(crate) wake_on: WakeOn,
}

/// These spaces, as far as they are there.
pub(crate) fn places(
    db: &Connection,
    spaces: BTreeSet<SpaceId>,
) -> Outcome<BTreeMap<SpaceId, MessagePosition>> {
    let mut places = BTreeMap::new();
    for space in spaces {
        places.extend(place(db, space)?.map(|place| (space, place)));
    }
    Ok(places)
}

/// The row of a space.
pub(crate) fn place(db: &Connection, space: SpaceId) -> Outcome<Option<MessagePosition>> {
    let sql = "SELECT id, head_seq, rev, closed, wake_on FROM space WHERE uuid = ?";
    first(db, sql, [bytes(space.0)], |row| {
        Ok(MessagePosition {
            id: row.get(0)?,
            head_seq: u64_at(row, 1)?,
            rev: u64_at(row, 2)?,
            closed: row.get(3)?,
            wake_on: wake_on_at(row, 4)?,
        })
    })
}

/// Writes a message behind all others of its space; `None` where it is not new.
pub(crate) fn write(
    db: &Connection,
    message: &NewMessage,
    kind: MessageKind,
    place: &mut MessagePosition,
    sender: i64,
    named: Vec<EntityId>,
) -> Outcome<Option<Message>> {
    let (seq, rev) = (place.head_seq + 1, place.rev + 1);
    let (principal_kind, principal) = principal_columns(&message.principal);
    let data = message.data.as_ref().map(to_json).transpose()?;
    let (tool, mentions) = (i64::from(kind == MessageKind::Tool), packed(&named));
    let words = Words {
        id: message.id.0,
        kind: tool,
        at: ms(message.at),
        sender: message.sender.0,
        mentions: mentions.as_deref(),
        text: &message.text,
        data: data.as_deref(),
    };
    let crc = words.sum();
    let sql = "INSERT INTO message (space, seq, uuid, rev, sender, kind, urgent, at, principal_kind, principal, \
               trust, root, hop, cycle, call, mentions, text, data, crc) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uuid) DO NOTHING";
    let rows = run(
        db,
        sql,
        params![
            place.id,
            int(seq),
            bytes(message.id.0),
            int(rev),
            sender,
            tool,
            message.urgent,
            ms(message.at),
            principal_kind,
            principal,
            place_of(&TRUSTS, &message.trust),
            key(&message.root.0),
            message.hop,
            message.cycle.map(|cycle| bytes(cycle.0)),
            message.call.as_ref().map(|call| &call.0),
            mentions,
            message.text,
            data,
            crc,
        ],
    )?;
    if rows == 0 {
        return Ok(None);
    }
    let sql = "UPDATE space SET head_seq = ?, rev = ?, active_at = ? WHERE id = ?";
    run(db, sql, params![int(seq), int(rev), ms(message.at), place.id])?;
    (place.head_seq, place.rev) = (seq, rev);
    Ok(Some(stored(message, kind, seq, rev, named)))
}

/// The message as it is stored now.
fn stored(message: &NewMessage, kind: MessageKind, seq: u64, rev: u64, mentions: Vec<EntityId>) -> Message {
    Message {
        id: message.id,
        space: message.space,
        seq,
        rev,
        sender: message.sender,
        kind,
        text: message.text.clone(),
        mentions,
        urgent: message.urgent,
        at: message.at,
        cycle: message.cycle,
        call: message.call.clone(),
        data: message.data.clone(),
        root: message.root.clone(),
        hop: message.hop,
    }
}

/// Columns and joins of [`said_by_name`].
const SAID: &str = "SELECT m.uuid, s.uuid, s.name, m.seq, p.uuid, p.display_name, p.kind, m.text, m.at, \
    m.uuid, m.kind, m.at, p.uuid, m.mentions, m.text, m.data, m.crc, p.name FROM message m JOIN space s ON s.id = m.space JOIN entity p ON p.id = m.sender";

/// What was said in a space with `from <= seq < before`, newest first, with names. Visible calls are for
/// watchers.
pub(crate) fn said(
    db: &Connection,
    space: i64,
    from: u64,
    before: u64,
    limit: i64,
) -> Outcome<Vec<NamedMessage>> {
    let sql = format!(
        "{SAID} WHERE m.space = ?1 AND m.seq >= ?2 AND m.seq < ?3 AND m.kind = 0 ORDER BY m.seq DESC LIMIT ?4"
    );
    all(db, &sql, params![space, int(from), int(before), limit], said_by_name)
}

fn said_by_name(row: &Row<'_>) -> Outcome<NamedMessage> {
    Ok(NamedMessage {
        id: MessageId(uuid_at(row, 0)?),
        space: SpaceId(uuid_at(row, 1)?),
        space_handle: row.get(2)?,
        seq: u64_at(row, 3)?,
        sender: EntityId(uuid_at(row, 4)?),
        sender_name: row.get(5)?,
        sender_handle: row.get(17)?,
        sender_kind: kind_at(row, 6)?,
        text: sums::words_at(row, 7, 9)?,
        mentions: ids_from(row.get(9 + 4)?),
        at: time_at(row, 8)?,
    })
}
