//! Entities and keys.

use agent::entity;
use agent::id::{CredentialId, EntityId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names;

/// A human or an agent, as members know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Entity)]
pub struct EntityJson {
    /// Identity; an agent's is also its agent id.
    #[schema(value_type = Uuid)]
    pub id: EntityId,
    /// Human or agent.
    #[schema(value_type = names::EntityKind)]
    pub kind: entity::EntityKind,
    /// Unique handle.
    pub name: String,
    /// Free text for people.
    pub display_name: String,
    /// The id in the client's own auth; humans only.
    pub external_id: Option<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl From<entity::Entity> for EntityJson {
    fn from(entity: entity::Entity) -> Self {
        let entity::Entity { id, kind, name, display_name, external_id, created_at } = entity;
        Self { id, kind, name, display_name, external_id, created_at }
    }
}

/// A person to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEntity {
    /// Handle, `[a-z0-9_-]{1,40}`; upper case is lowered.
    pub name: String,
    /// Free text for people; the handle where left out. At most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The id in the client's own auth. At most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
}

/// A key to be made for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// What it is for. At most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A key, shown this once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyJson {
    /// Identity of the credential.
    #[schema(value_type = Uuid)]
    pub id: CredentialId,
    /// The secret. It is stored hashed and cannot be shown again.
    pub key: String,
}

/// Whose key it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// `admin` or `entity`.
    pub kind: String,
    /// The entity that the key is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<EntityJson>,
}
