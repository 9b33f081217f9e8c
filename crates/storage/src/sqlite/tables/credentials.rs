//! Keys: only their hashes are stored.

use agent::id::{CredentialId, EntityId};
use agent::port::{Credential, CredentialKind, CredentialRow};
use rusqlite::Row;
use uuid::Uuid;

use super::rows::{time_at, time_or_none, uuid_at, uuid_or_none};
use crate::sqlite::engine::fault::Outcome;

/// Selects the columns of [`credential_row`].
pub(crate) const CREDENTIALS: &str = "SELECT c.id, c.label, e.uuid, c.created_at, c.revoked_at FROM credential c \
    LEFT JOIN entity e ON e.id = c.entity";

/// A key from the columns of [`CREDENTIALS`].
pub(crate) fn credential_row(row: &Row<'_>) -> Outcome<CredentialRow> {
    let kind =
        uuid_or_none(row, 2)?.map_or(CredentialKind::Admin, |id: Uuid| CredentialKind::Entity(EntityId(id)));
    let credential = Credential { id: CredentialId(uuid_at(row, 0)?), kind, label: row.get(1)? };
    Ok(CredentialRow { credential, created_at: time_at(row, 3)?, revoked_at: time_or_none(row, 4)? })
}
