//! Visible calls as messages of kind `tool`: written with the decision, updated with their call rows.
//! They cause no events, do not count towards a root and never make a commit fail.

use agent::call::CallRow;
use agent::changes::CallChange;
use agent::id::{CallId, CycleId, EntityId, MessageId, RootId, SpaceId};
use agent::space::{Message, MessageKind, NewMessage, PostedMessage, tool_data, tool_text};
use rusqlite::{Connection, params};

use super::calls;
use super::messages::{SpaceHead, write};
use super::rows::{
    bytes, first, int, key_at, kind_at, ms, run, time_at, to_json, u32_at, u64_at, uuid_at, uuid_or_none,
};
use super::sums::SummedMessage;
use crate::sqlite::engine::fault::{Outcome, damaged};

/// Writes a message for a visible call; `None` if its agent may not post in the space, or if the message
/// exists.
pub(crate) fn show(
    db: &Connection,
    space: Option<&mut SpaceHead>,
    message: &NewMessage,
) -> Outcome<Option<Message>> {
    let Some(space) = space.filter(|space| !space.closed) else { return Ok(None) };
    let sql = "SELECT e.id FROM member m JOIN entity e ON e.id = m.entity WHERE m.space = ? AND e.uuid = ?";
    let sender = first(db, sql, params![space.id, bytes(message.sender.0)], |row| Ok(row.get::<_, i64>(0)?))?;
    sender.map_or(Ok(None), |sender| write(db, message, MessageKind::Tool, space, sender, Vec::new()))
}

/// Updates the message of a call, if it has one, from the call's row.
pub(crate) fn update(db: &Connection, call: &CallRow) -> Outcome<Option<PostedMessage>> {
    let id = MessageId::of_card(&call.id);
    // The old text is not read.
    let sql = "SELECT s.uuid, m.seq, m.urgent, m.at, m.cycle, m.root, m.hop, e.uuid, e.display_name, e.kind, e.name \
               FROM message m JOIN space s ON s.id = m.space JOIN entity e ON e.id = m.sender \
               WHERE m.uuid = ? AND m.kind = 1";
    let found = first(db, sql, [bytes(id.0)], |row| {
        let message = Message {
            id,
            space: SpaceId(uuid_at(row, 0)?),
            seq: u64_at(row, 1)?,
            rev: 0,
            sender: EntityId(uuid_at(row, 7)?),
            kind: MessageKind::Tool,
            text: tool_text(call),
            mentions: Vec::new(),
            urgent: row.get(2)?,
            at: time_at(row, 3)?,
            cycle: uuid_or_none(row, 4)?.map(CycleId),
            call: Some(call.id.clone()),
            data: Some(tool_data(call)),
            root: RootId(key_at(row, 5)?),
            hop: u32_at(row, 6)?,
        };
        Ok(PostedMessage::new(message, row.get::<_, String>(8)?, kind_at(row, 9)?)
            .with_handle(row.get::<_, String>(10)?))
    })?;
    let Some(mut posted) = found else { return Ok(None) };
    let message = &mut posted.message;
    let sql = "UPDATE space SET rev = rev + 1 WHERE uuid = ? RETURNING rev";
    let Some(rev) = first(db, sql, [bytes(message.space.0)], |row| u64_at(row, 0))? else { return Ok(None) };
    message.rev = rev;
    let data = message.data.as_ref().map(to_json).transpose()?;
    let summed = SummedMessage {
        id: id.0,
        kind: 1,
        at: ms(message.at),
        sender: message.sender.0,
        mentions: None,
        text: &message.text,
        data: data.as_deref(),
    };
    let sum = summed.sum();
    let sql = "UPDATE message SET rev = ?, mentions = NULL, text = ?, data = ?, crc = ? WHERE uuid = ?";
    run(db, sql, params![int(rev), message.text, data, sum, bytes(id.0)])?;
    Ok(Some(posted))
}

/// Updates the message of the call with this id.
pub(crate) fn update_by_id(db: &Connection, call: &CallId) -> Outcome<Option<PostedMessage>> {
    calls::by_id(db, call)?.map_or(Ok(None), |row| update(db, &row))
}

/// Updates and returns the messages of the calls whose outcome `changes` contains.
pub(crate) fn updates(db: &Connection, changes: &[CallChange]) -> Outcome<Vec<PostedMessage>> {
    let mut changed = Vec::new();
    for change in changes.iter().filter(|change| change.outcome.is_some()) {
        changed.extend(update_by_id(db, &change.id)?);
    }
    Ok(changed)
}

/// These messages, all of one sender, with its name.
pub(crate) fn with_sender(db: &Connection, messages: Vec<Message>) -> Outcome<Vec<PostedMessage>> {
    let Some(sender) = messages.first().map(|message| message.sender) else { return Ok(Vec::new()) };
    let sql = "SELECT display_name, kind, name FROM entity WHERE uuid = ?";
    let names = first(db, sql, [bytes(sender.0)], |row| {
        Ok((row.get::<_, String>(0)?, kind_at(row, 1)?, row.get::<_, String>(2)?))
    })?;
    let missing = || damaged(format!("the sender `{sender}` of a message does not exist"));
    let (sender_display_name, sender_kind, handle) = names.ok_or_else(missing)?;
    let named =
        |message| PostedMessage::new(message, sender_display_name.clone(), sender_kind).with_handle(&*handle);
    Ok(messages.into_iter().map(named).collect())
}
