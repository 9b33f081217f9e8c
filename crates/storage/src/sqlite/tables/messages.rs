//! Messages with their checksums, and their positions in spaces.

use std::collections::{BTreeMap, BTreeSet};

use agent::config::WakeOn;
use agent::event::{NamedMessage, Trust};
use agent::id::{CallId, CycleId, EntityId, MessageId, RootId, SpaceId};
use agent::space::{Message, MessageKind, NewMessage};
use rusqlite::{Connection, Row, params};

use super::queue::note_message;
use super::rows::{
    all, bytes, code_of, first, from_json, ids_from, int, key, key_at, kind_at, ms, packed,
    principal_columns, run, time, time_at, to_json, trust_at, u32_at, u64_at, uuid_at, uuid_or_none,
    wake_on_at,
};
use super::sums::{self, SummedMessage};
use crate::sqlite::engine::fault::Outcome;

/// Columns and joins of [`message_at`]; the columns of [`sums::message_is_intact`] come first.
pub(crate) const MESSAGE: &str = "SELECT m.uuid, m.kind, m.at, e.uuid, m.mentions, m.text, m.data, m.crc, \
    s.uuid, m.seq, m.rev, m.urgent, m.cycle, m.call, m.root, m.hop \
    FROM message m JOIN space s ON s.id = m.space JOIN entity e ON e.id = m.sender";

/// Reads a message. If its checksum does not match, its text is replaced and its data and mentions are left out.
pub(crate) fn message_at(row: &Row<'_>) -> Outcome<Message> {
    let whole = sums::message_is_intact(row, 0)?;
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

/// What posting a message needs of the row of a space.
pub(crate) struct SpaceHead {
    pub(crate) id: i64,
    pub(crate) head_seq: u64,
    pub(crate) rev: u64,
    pub(crate) closed: bool,
    pub(crate) wake_on: WakeOn,
    /// The time of its newest message, else of its creation, in milliseconds.
    active_at: i64,
}

/// The rows of these spaces; missing spaces are left out.
pub(crate) fn space_heads(
    db: &Connection,
    spaces: BTreeSet<SpaceId>,
) -> Outcome<BTreeMap<SpaceId, SpaceHead>> {
    let mut heads = BTreeMap::new();
    for space in spaces {
        heads.extend(space_head(db, space)?.map(|head| (space, head)));
    }
    Ok(heads)
}

/// The row of a space.
pub(crate) fn space_head(db: &Connection, space: SpaceId) -> Outcome<Option<SpaceHead>> {
    let sql = "SELECT id, head_seq, rev, closed, wake_on, active_at FROM space WHERE uuid = ?";
    first(db, sql, [bytes(space.0)], |row| {
        Ok(SpaceHead {
            id: row.get(0)?,
            head_seq: u64_at(row, 1)?,
            rev: u64_at(row, 2)?,
            closed: row.get(3)?,
            wake_on: wake_on_at(row, 4)?,
            active_at: row.get(5)?,
        })
    })
}

/// Appends a message to its space; `None` if a message with its id exists. Times never decrease within a space: a
/// message that was composed before the newest one gets that one's time.
pub(crate) fn write(
    db: &Connection,
    message: &NewMessage,
    kind: MessageKind,
    space: &mut SpaceHead,
    sender: i64,
    named: Vec<EntityId>,
) -> Outcome<Option<Message>> {
    let (seq, rev, at) = (space.head_seq + 1, space.rev + 1, ms(message.at).max(space.active_at));
    let (principal_kind, principal) = principal_columns(&message.principal);
    let data = message.data.as_ref().map(to_json).transpose()?;
    let (tool, mentions) = (i64::from(kind == MessageKind::Tool), packed(&named));
    let summed = SummedMessage {
        id: message.id.0,
        kind: tool,
        at,
        sender: message.sender.0,
        mentions: mentions.as_deref(),
        text: &message.text,
        data: data.as_deref(),
    };
    let crc = summed.sum();
    let sql = "INSERT INTO message (space, seq, uuid, rev, sender, kind, urgent, at, principal_kind, principal, \
               trust, root, hop, cycle, call, mentions, text, data, crc) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uuid) DO NOTHING";
    let rows = run(
        db,
        sql,
        params![
            space.id,
            int(seq),
            bytes(message.id.0),
            int(rev),
            sender,
            tool,
            message.urgent,
            at,
            principal_kind,
            principal,
            code_of(&Trust::ALL, &message.trust),
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
    run(db, sql, params![int(seq), int(rev), at, space.id])?;
    (space.head_seq, space.rev, space.active_at) = (seq, rev, at);
    if kind == MessageKind::Text {
        note_message(db, space.id, at)?;
    }
    let stored = stored(message, kind, seq, rev, named);
    Ok(Some(Message { at: time(at)?, ..stored }))
}

/// The message as it was stored.
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

/// Columns of [`named_message_at`]: of a message, its space and its sender.
pub(crate) const NAMED_COLUMNS: &str = "m.uuid, s.uuid, s.name, m.seq, p.uuid, p.display_name, p.kind, m.text, m.at, \
    m.uuid, m.kind, m.at, p.uuid, m.mentions, m.text, m.data, m.crc, p.name, m.trust";

/// The messages of a space with `from <= seq < before`, newest first, with names. Visible calls are left out:
/// only watchers see them.
pub(crate) fn named_messages(
    db: &Connection,
    space: i64,
    from: u64,
    before: u64,
    limit: i64,
) -> Outcome<Vec<NamedMessage>> {
    let sql = format!(
        "SELECT {NAMED_COLUMNS} FROM message m JOIN space s ON s.id = m.space JOIN entity p ON p.id = m.sender \
         WHERE m.space = ?1 AND m.seq >= ?2 AND m.seq < ?3 AND m.kind = 0 ORDER BY m.seq DESC LIMIT ?4"
    );
    all(db, &sql, params![space, int(from), int(before), limit], named_message_at)
}

pub(crate) fn named_message_at(row: &Row<'_>) -> Outcome<NamedMessage> {
    Ok(NamedMessage {
        id: MessageId(uuid_at(row, 0)?),
        space: SpaceId(uuid_at(row, 1)?),
        space_handle: row.get(2)?,
        seq: u64_at(row, 3)?,
        sender: EntityId(uuid_at(row, 4)?),
        sender_name: row.get(5)?,
        sender_handle: row.get(17)?,
        sender_kind: kind_at(row, 6)?,
        text: sums::text_at(row, 7, 9)?,
        mentions: ids_from(row.get(9 + 4)?),
        at: time_at(row, 8)?,
        trust: trust_at(row, 18)?,
    })
}
