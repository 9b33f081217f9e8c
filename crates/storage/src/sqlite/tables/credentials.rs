//! Keys: only their hashes are stored.

use agent::id::{CredentialId, EntityId};
use agent::port::{Credential, CredentialRow, Scope};
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::rows::{bytes, first, time_at, time_or_none, uuid_at, uuid_or_none};
use crate::sqlite::engine::fault::{Outcome, damaged};

/// Selects the columns of [`credential_row`].
pub(crate) const CREDENTIALS: &str = "SELECT c.id, c.scope, e.uuid, c.service, c.label, c.expires_at, c.used_at, \
    c.created_at, c.revoked_at FROM credential c LEFT JOIN entity e ON e.id = c.entity";

/// A key from the columns of [`CREDENTIALS`].
pub(crate) fn credential_row(row: &Row<'_>) -> Outcome<CredentialRow> {
    let person = uuid_or_none(row, 2)?.map(|id: Uuid| Scope::Person(EntityId(id)));
    let scope = match row.get::<_, i64>(1)? {
        0 => Some(Scope::Admin),
        1 => Some(Scope::Read),
        2 => person,
        3 => row.get::<_, Option<String>>(3)?.map(Scope::Service),
        4 => row.get::<_, Option<String>>(3)?.map(Scope::Worker),
        _ => None,
    };
    let credential = Credential {
        id: CredentialId(uuid_at(row, 0)?),
        scope: scope.ok_or_else(|| damaged("the scope of a key is not valid"))?,
        label: row.get(4)?,
        expires_at: time_or_none(row, 5)?,
        used_at: time_or_none(row, 6)?,
    };
    Ok(CredentialRow { credential, created_at: time_at(row, 7)?, revoked_at: time_or_none(row, 8)? })
}

/// The key with that id.
pub(crate) fn credential_by_id(db: &Connection, id: CredentialId) -> Outcome<Option<CredentialRow>> {
    first(db, &format!("{CREDENTIALS} WHERE c.id = ?"), [bytes(id.0)], credential_row)
}

/// The key with that hash, unless it is revoked. It may be expired.
pub(crate) fn credential_by_hash(db: &Connection, secret_hash: &str) -> Outcome<Option<Credential>> {
    let sql = format!("{CREDENTIALS} WHERE c.secret_hash = ? AND c.revoked_at IS NULL");
    Ok(first(db, &sql, [secret_hash], credential_row)?.map(|row| row.credential))
}
