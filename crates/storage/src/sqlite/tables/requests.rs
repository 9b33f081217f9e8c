//! Requests with an idempotency key, and what they came to.

use agent::limits;
use agent::port::{KnownRequest, RequestKey};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::rows::{bytes, first, ms, run, uuid_or_none};
use crate::sqlite::engine::fault::Outcome;

/// What is known of a request.
pub(crate) fn known(db: &Connection, key: &RequestKey) -> Outcome<KnownRequest> {
    let sql = "SELECT body_hash, subject, answer FROM request WHERE principal = ? AND key = ? AND at >= ?";
    let kept = first(db, sql, params![key.principal, key.key, ms(key.kept_since())], |row| {
        Ok((row.get::<_, String>(0)?, uuid_or_none(row, 1)?, row.get::<_, Option<String>>(2)?))
    })?;
    Ok(match kept {
        None => KnownRequest::New,
        Some((body_hash, ..)) if body_hash != key.body_hash => KnownRequest::Conflict,
        Some((_, _, Some(answer))) => KnownRequest::Answered(answer),
        Some((_, subject, None)) => KnownRequest::Repeated(subject.unwrap_or(Uuid::nil())),
    })
}

/// Stores the subject of this key, unless one is stored already; a nil one reserves the key. Returns what was known
/// before.
pub(crate) fn note(db: &Connection, key: &RequestKey, subject: Uuid) -> Outcome<KnownRequest> {
    let before = known(db, key)?;
    match &before {
        KnownRequest::New => {
            forget_old(db, key)?;
            // What has this key and was not found is too old.
            let sql = "INSERT OR REPLACE INTO request (principal, key, body_hash, subject, at) VALUES (?, ?, ?, ?, ?)";
            run(db, sql, params![key.principal, key.key, key.body_hash, bytes(subject), ms(key.at)])?;
        }
        KnownRequest::Repeated(reserved) if reserved.is_nil() && !subject.is_nil() => {
            let sql = "UPDATE request SET subject = ? WHERE principal = ? AND key = ?";
            run(db, sql, params![bytes(subject), key.principal, key.key])?;
        }
        KnownRequest::Repeated(_) | KnownRequest::Answered(_) | KnownRequest::Conflict => {}
    }
    Ok(before)
}

/// Stores the answer of this key.
pub(crate) fn answer(db: &Connection, key: &RequestKey, answer: &str) -> Outcome<()> {
    let sql = "UPDATE request SET answer = ? WHERE principal = ? AND key = ? AND body_hash = ?";
    run(db, sql, params![answer, key.principal, key.key, key.body_hash]).map(drop)
}

/// Forgets some keys that are too old: more than one with each new key, so that there are never many.
fn forget_old(db: &Connection, key: &RequestKey) -> Outcome<()> {
    let sql = "DELETE FROM request WHERE (principal, key) IN \
               (SELECT principal, key FROM request WHERE at < ? ORDER BY at LIMIT ?)";
    run(db, sql, params![ms(key.kept_since()), limits::REQUEST_KEYS_FORGOTTEN]).map(drop)
}
