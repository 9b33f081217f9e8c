//! Visible calls as messages of kind `tool`: written with the decision, updated with their call rows.
//! They cause no events, do not count towards a root and never make a commit fail.

use agent::changes::CallChange;
use agent::id::{CallId, MessageId};
use agent::space::{Message, MessageKind, NewMessage, PostedMessage, tool_data, tool_text};
use rusqlite::{Connection, params};

use super::calls::{CALL, call_at};
use super::messages::{MESSAGE, SpaceHead, message_at, write};
use super::rows::{bytes, first, int, kind_at, run, to_json, u64_at, uuid_at};
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
pub(crate) fn update(db: &Connection, call: &CallId) -> Outcome<Option<Message>> {
    let id = bytes(MessageId::of_call(call).0);
    let sql = "SELECT m.space, m.at, e.uuid, m.mentions FROM message m JOIN entity e ON e.id = m.sender \
               WHERE m.uuid = ? AND m.kind = 1";
    let found = first(db, sql, [id], |row| {
        Ok((row.get::<_, i64>(0)?, row.get(1)?, uuid_at(row, 2)?, row.get::<_, Option<Vec<u8>>>(3)?))
    })?;
    let Some((space, at, sender, mentions)) = found else { return Ok(None) };
    let sql = format!("SELECT {CALL} FROM call WHERE id = ?");
    let Some(row) = first(db, &sql, [&call.0], |row| call_at(row, 0))? else { return Ok(None) };
    let sql = "UPDATE space SET rev = rev + 1 WHERE id = ? RETURNING rev";
    let Some(rev) = first(db, sql, [space], |row| u64_at(row, 0))? else { return Ok(None) };
    let (text, data) = (tool_text(&row), to_json(&tool_data(&row))?);
    let (data, mentions) = (Some(data.as_str()), mentions.as_deref());
    let summed =
        SummedMessage { id: MessageId::of_call(call).0, kind: 1, at, sender, mentions, text: &text, data };
    let sql = "UPDATE message SET rev = ?, text = ?, data = ?, crc = ? WHERE uuid = ?";
    run(db, sql, params![int(rev), text, data, summed.sum(), id])?;
    first(db, &format!("{MESSAGE} WHERE m.uuid = ?"), [id], message_at)
}

/// Updates and returns the messages of the calls whose outcome `changes` contains.
pub(crate) fn updates(db: &Connection, changes: &[CallChange]) -> Outcome<Vec<Message>> {
    let mut changed = Vec::new();
    for change in changes.iter().filter(|change| change.outcome.is_some()) {
        changed.extend(update(db, &change.id)?);
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
    let (sender_name, sender_kind, handle) = names.ok_or_else(missing)?;
    let named = |message| PostedMessage::new(message, sender_name.clone(), sender_kind).with_handle(&*handle);
    Ok(messages.into_iter().map(named).collect())
}
