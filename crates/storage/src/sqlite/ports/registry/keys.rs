//! Keys: add, rotate, revoke, find. Must not know secrets: only their hashes come here.

use agent::id::CredentialId;
use agent::port::{
    Credential, CredentialRow, Denial, KeyAdded, KnownRequest, NewCredential, RequestKey, Rotation, Scope,
};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::tables::credentials::credential_by_id;
use crate::sqlite::tables::requests::{known, note};
use crate::sqlite::tables::rows::{bytes, entity_row, ms, run};

/// Stores a key, at most once per request.
pub(super) fn add(db: &Connection, new: &NewCredential, request: Option<&RequestKey>) -> Outcome<KeyAdded> {
    if let Some(known) = repeated(db, request)? {
        return Ok(known);
    }
    let NewCredential { credential, secret_hash, at, replace_label } = new;
    let (scope, entity, service) = match &credential.scope {
        Scope::Admin => (0, None, None),
        Scope::Read => (1, None, None),
        Scope::Person(entity) => {
            let denial = || Denial::NotFound { what: "entity", name: entity.to_string() };
            (2, Some(entity_row(db, entity.0)?.ok_or_else(denial)?), None)
        }
        Scope::Service(name) => (3, None, Some(name)),
        Scope::Worker(tools) => (4, None, Some(tools)),
    };
    if *replace_label {
        let sql = "DELETE FROM credential WHERE label = ? AND scope = ? AND entity IS ? AND service IS ?";
        run(db, sql, params![credential.label, scope, entity, service])?;
    }
    let sql = "INSERT INTO credential (id, scope, entity, service, label, secret_hash, created_at, expires_at) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let (id, expires) = (bytes(credential.id.0), credential.expires_at.map(ms));
    run(db, sql, params![id, scope, entity, service, credential.label, secret_hash, ms(*at), expires])?;
    if let Some(request) = request {
        note(db, request, credential.id.0)?;
    }
    Ok(KeyAdded::Added(stored(db, credential.id)?))
}

/// Gives a key a successor, at most once per request.
pub(super) fn rotate(
    db: &Connection,
    rotation: &Rotation,
    request: Option<&RequestKey>,
) -> Outcome<KeyAdded> {
    if let Some(known) = repeated(db, request)? {
        return Ok(known);
    }
    let Rotation { old, old_until, new, secret_hash, at, expires_at } = rotation;
    let row = stored(db, *old)?;
    if row.revoked_at.is_some() || row.credential.is_expired(*at) {
        return Err(Denial::KeyOver(*old).into());
    }
    let same_lifetime = || at.checked_add(row.credential.expires_at?.duration_since(row.created_at)).ok();
    let Credential { scope, label, expires_at: ends, .. } = row.credential.clone();
    let until = ends.map_or(*old_until, |ends| ends.min(*old_until));
    run(db, "UPDATE credential SET expires_at = ? WHERE id = ?", params![ms(until), bytes(old.0)])?;
    let expires_at = expires_at.or_else(same_lifetime);
    let credential = Credential { expires_at, ..Credential::new(*new, scope, label) };
    let secret_hash = secret_hash.clone();
    add(db, &NewCredential { credential, secret_hash, at: *at, replace_label: false }, request)
}

/// The answer of an earlier request with the same idempotency key.
fn repeated(db: &Connection, request: Option<&RequestKey>) -> Outcome<Option<KeyAdded>> {
    let Some(request) = request else { return Ok(None) };
    Ok(match known(db, request)? {
        KnownRequest::New | KnownRequest::Answered(_) => None,
        KnownRequest::Repeated(id) if id.is_nil() => None,
        KnownRequest::Repeated(id) => Some(KeyAdded::Repeated(stored(db, CredentialId(id))?)),
        KnownRequest::Conflict => Some(KeyAdded::Conflict),
    })
}

fn stored(db: &Connection, id: CredentialId) -> Outcome<CredentialRow> {
    credential_by_id(db, id)?.ok_or_else(|| Denial::NotFound { what: "key", name: id.to_string() }.into())
}

/// Notes a use.
pub(super) fn used(db: &Connection, id: CredentialId, at: Timestamp) -> Outcome<()> {
    let sql = "UPDATE credential SET used_at = max(coalesce(used_at, ?1), ?1) WHERE id = ?2";
    run(db, sql, params![ms(at), bytes(id.0)]).map(drop)
}

/// Revokes a key; a repeat changes nothing.
pub(super) fn revoke(db: &Connection, id: CredentialId, at: Timestamp) -> Outcome<CredentialRow> {
    let sql = "UPDATE credential SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL";
    run(db, sql, params![ms(at), bytes(id.0)])?;
    stored(db, id)
}
