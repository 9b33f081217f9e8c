//! Visible calls as messages of kind `tool`: written with their decision, changed with their call
//! rows. They cause no events, count towards no root and are no reason to refuse a commit.

use agent::changes::CallChange;
use agent::id::{CallId, MessageId};
use agent::space::{Message, MessageKind, NewMessage, Spoken, tool_data, tool_text};
use rusqlite::{Connection, params};

use super::calls::{CALL, call_at};
use super::messages::{MESSAGE, MessagePosition, message_at, write};
use super::rows::{bytes, first, int, kind_at, run, to_json, u64_at, uuid_at};
use super::sums::Words;
use crate::sqlite::engine::fault::{Outcome, damaged};

/// Writes a visible call down as a message; `None` where its agent may not speak there (any more), or
/// it stands there already.
pub(crate) fn show(
    db: &Connection,
    place: Option<&mut MessagePosition>,
    message: &NewMessage,
) -> Outcome<Option<Message>> {
    let Some(place) = place.filter(|place| !place.closed) else { return Ok(None) };
    let sql = "SELECT e.id FROM member m JOIN entity e ON e.id = m.entity WHERE m.space = ? AND e.uuid = ?";
    let sender = first(db, sql, params![place.id, bytes(message.sender.0)], |row| Ok(row.get::<_, i64>(0)?))?;
    sender.map_or(Ok(None), |sender| write(db, message, MessageKind::Tool, place, sender, Vec::new()))
}

/// Brings the message of a call, if it has one, to what the call's row says now.
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
    let words = Words { id: MessageId::of_call(call).0, kind: 1, at, sender, mentions, text: &text, data };
    let sql = "UPDATE message SET rev = ?, text = ?, data = ?, crc = ? WHERE uuid = ?";
    run(db, sql, params![int(rev), text, data, words.sum(), id])?;
    first(db, &format!("{MESSAGE} WHERE m.uuid = ?"), [id], message_at)
}

/// The messages of the calls whose outcome `changes` writes.
pub(crate) fn updates(db: &Connection, changes: &[CallChange]) -> Outcome<Vec<Message>> {
    let mut changed = Vec::new();
    for change in changes.iter().filter(|change| change.outcome.is_some()) {
        changed.extend(update(db, &change.id)?);
    }
    Ok(changed)
}

/// These messages of one sender with its names.
pub(crate) fn spoken(db: &Connection, said: Vec<Message>) -> Outcome<Vec<Spoken>> {
    let Some(sender) = said.first().map(|message| message.sender) else { return Ok(Vec::new()) };
    let sql = "SELECT display_name, kind FROM entity WHERE uuid = ?";
    let names = first(db, sql, [bytes(sender.0)], |row| Ok((row.get::<_, String>(0)?, kind_at(row, 1)?)))?;
    let missing = || damaged(format!("there is no entity `{sender}`, which spoke"));
    let (sender_name, sender_kind) = names.ok_or_else(missing)?;
    let named = |message| Spoken { message, sender_name: sender_name.clone(), sender_kind };
    Ok(said.into_iter().map(named).collect())
}
