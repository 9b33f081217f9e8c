//! Requests with an idempotency key, and their answers.

use agent::id::MessageId;
use agent::port::{Accepted, KnownRequest, RequestKey};
use agent::space::Message;
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::messages::message_by;
use super::rows::{bytes, first, run, uuid_or_none};
use crate::sqlite::engine::fault::Outcome;

/// The answer that this key got before, if any.
pub(crate) fn answered(db: &Connection, key: &RequestKey) -> Outcome<Option<Accepted>> {
    let sql = "SELECT body_hash, message FROM request WHERE principal = ? AND key = ?";
    let kept = first(db, sql, params![key.principal, key.key], |row| {
        Ok((row.get::<_, String>(0)?, uuid_or_none(row, 1)?))
    })?;
    let Some((body_hash, message)) = kept else { return Ok(None) };
    if body_hash != key.body_hash {
        return Ok(Some(Accepted::Conflict));
    }
    let message = message.map(|id| message_by(db, MessageId(id))).transpose()?.flatten();
    Ok(Some(Accepted::Duplicate { message }))
}

/// What is known of a request that is not answered by a message or event.
pub(crate) fn known(db: &Connection, key: &RequestKey) -> Outcome<KnownRequest> {
    let sql = "SELECT body_hash, subject FROM request WHERE principal = ? AND key = ?";
    let kept = first(db, sql, params![key.principal, key.key], |row| {
        Ok((row.get::<_, String>(0)?, uuid_or_none(row, 1)?))
    })?;
    Ok(match kept {
        None => KnownRequest::New,
        Some((body_hash, _)) if body_hash != key.body_hash => KnownRequest::Conflict,
        Some((_, subject)) => KnownRequest::Repeated(subject.unwrap_or(Uuid::nil())),
    })
}

/// Stores the subject of this key, unless one is stored already; a nil one reserves the key. Returns what was known
/// before.
pub(crate) fn note(db: &Connection, key: &RequestKey, subject: Uuid) -> Outcome<KnownRequest> {
    let before = known(db, key)?;
    match &before {
        KnownRequest::New => {
            let sql = "INSERT INTO request (principal, key, body_hash, subject) VALUES (?, ?, ?, ?)";
            run(db, sql, params![key.principal, key.key, key.body_hash, bytes(subject)])?;
        }
        KnownRequest::Repeated(reserved) if reserved.is_nil() && !subject.is_nil() => {
            let sql = "UPDATE request SET subject = ? WHERE principal = ? AND key = ?";
            run(db, sql, params![bytes(subject), key.principal, key.key])?;
        }
        KnownRequest::Repeated(_) | KnownRequest::Conflict => {}
    }
    Ok(before)
}

/// Stores the answer of this key.
pub(crate) fn remember(db: &Connection, key: &RequestKey, message: Option<&Message>) -> Outcome<()> {
    let sql = "INSERT INTO request (principal, key, body_hash, message) VALUES (?, ?, ?, ?)";
    let message = message.map(|message| bytes(message.id.0));
    run(db, sql, params![key.principal, key.key, key.body_hash, message]).map(drop)
}
