//! The JSON of entities and keys.

use agent::entity;
use agent::id::{CredentialId, EntityId};
use agent::port::{Credential, CredentialKind, CredentialRow};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names;

/// A person or an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Entity)]
pub struct EntityJson {
    /// Unique id. For an agent it is also the agent's id.
    #[schema(value_type = Uuid)]
    pub id: EntityId,
    /// Whether the entity is a person or an agent.
    #[schema(value_type = names::EntityKind)]
    pub kind: entity::EntityKind,
    /// Unique handle, `[a-z0-9_-]{1,40}`.
    pub name: String,
    /// Name shown to people; free text.
    pub display_name: String,
    /// Id of the person in the client's own user database; `null` if none was set, and for agents. Shown to
    /// administrators and to the person; other members get `null`.
    pub external_id: Option<String>,
    /// When the entity was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl From<entity::Entity> for EntityJson {
    fn from(entity: entity::Entity) -> Self {
        let entity::Entity { id, kind, name, display_name, external_id, created_at } = entity;
        Self { id, kind, name, display_name, external_id, created_at }
    }
}

/// The person to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEntity {
    /// Unique handle, `[a-z0-9_-]{1,40}`. Upper-case letters are converted to lower case.
    pub name: String,
    /// Name shown to people; free text, at most 200 bytes. Default: the handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Id of the person in the client's own user database. At most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
}

/// The key to create for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// What the key is for. At most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A new key. The secret is shown only in this response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyJson {
    /// Id of the credential.
    #[schema(value_type = Uuid)]
    pub id: CredentialId,
    /// The secret. Only its hash is stored, so it cannot be shown again.
    pub key: String,
}

/// A key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyRecord {
    /// Id of the key.
    #[schema(value_type = Uuid)]
    pub id: CredentialId,
    /// Kind of key: `admin` or `entity`.
    pub kind: String,
    /// Person that the key is bound to; `null` for an admin key.
    #[schema(value_type = Option<Uuid>)]
    pub entity: Option<EntityId>,
    /// What the key is for; `cli` for the key of the commands on the server's machine.
    pub label: String,
    /// When the key was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When the key was revoked; `null` if it is valid.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
}

impl From<CredentialRow> for KeyRecord {
    fn from(row: CredentialRow) -> Self {
        let CredentialRow { credential: Credential { id, kind, label }, created_at, revoked_at } = row;
        let (kind, entity) = match kind {
            CredentialKind::Admin => ("admin", None),
            CredentialKind::Entity(entity) => ("entity", Some(entity)),
        };
        Self { id, kind: kind.to_owned(), entity, label, created_at, revoked_at }
    }
}

/// The owner of the key that the request was sent with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// Kind of key: `admin` or `entity`.
    pub kind: String,
    /// Entity that the key is bound to; left out for an admin key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<EntityJson>,
}
