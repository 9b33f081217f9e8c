//! The JSON of entities and keys.

use agent::entity;
use agent::id::{CredentialId, EntityId};
use agent::port::{Credential, CredentialRow, Scope};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names;

/// A person or an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Entity)]
pub struct EntityJson {
    /// Unique id. For an agent it is also the agent's id.
    pub id: EntityId,
    /// Whether the entity is a person or an agent.
    #[schema(value_type = names::EntityKind)]
    pub kind: entity::EntityKind,
    /// Unique handle, `[a-z0-9_-]{1,40}`.
    pub handle: String,
    /// Name shown to people; free text.
    pub display_name: String,
    /// Id of the person in the client's own user database; `null` if none was set, and for agents. Shown to
    /// administrators and to the person; other members get `null`.
    pub external_id: Option<String>,
    /// When the entity was created.
    pub created_at: Timestamp,
}

copied!(entity: entity::Entity => EntityJson {
    handle: entity.name,
    ..entity => { id, kind, display_name, external_id, created_at }
});

/// The person to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEntity {
    /// Unique handle, `[a-z0-9_-]{1,40}`. Upper-case letters are converted to lower case.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,40}$", example = "husam")]
    pub handle: String,
    /// Name shown to people; free text, at most 200 bytes. Default: the handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub display_name: Option<String>,
    /// Id of the person in the client's own user database. At most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub external_id: Option<String>,
}

/// The key to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// What the key may do: `admin` (everything), `operator:read` (read everything that an admin key may read, and
    /// change nothing), `person` (whatever the person in `entity` may do), `service:NAME` (send events as the service
    /// `NAME`, and nothing else) or `worker:TOOL` (run the calls of the worker tools with this name, or of all that a
    /// pattern with `*` names, and nothing else).
    #[schema(
        pattern = "^(admin|operator:read|person|service:.+|worker:.+)$",
        max_length = 208,
        example = "operator:read"
    )]
    pub scope: String,
    /// Id or handle of the person; required for the scope `person`, and refused for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub entity: Option<String>,
    /// What the key is for. At most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096, example = "dashboard")]
    pub label: Option<String>,
    /// When the key stops working. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// How to rotate a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRotation {
    /// For how many seconds the old key stays valid beside the new one, at most 30 days. Default: one day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 2_592_000, example = 86_400)]
    pub overlap_seconds: Option<u64>,
    /// When the new key stops working. Default: it lives as long as the old one was created for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyJson {
    /// Id of the key.
    pub id: CredentialId,
    /// The secret, to be sent as `authorization: Bearer SECRET`. Only in the answer to the request that created the
    /// key: only its hash is stored, so it cannot be shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What the key may do: `admin`, `operator:read`, `person`, `service:NAME` or `worker:TOOL`.
    pub scope: String,
    /// Person that the key belongs to; `null` for all other scopes.
    pub entity: Option<EntityId>,
    /// What the key is for; `cli` for the key of the commands on the server's machine.
    pub label: String,
    /// When the key was created.
    pub created_at: Timestamp,
    /// When the key stops working; `null`: never.
    pub expires_at: Option<Timestamp>,
    /// When the key was last used, to about a minute; `null` if it was not used yet.
    pub used_at: Option<Timestamp>,
    /// When the key was revoked; `null` if it was not.
    pub revoked_at: Option<Timestamp>,
}

impl From<CredentialRow> for KeyJson {
    fn from(row: CredentialRow) -> Self {
        let CredentialRow { credential, created_at, revoked_at } = row;
        let Credential { id, scope, label, expires_at, used_at } = credential;
        let entity = match scope {
            Scope::Person(entity) => Some(entity),
            Scope::Admin | Scope::Read | Scope::Service(_) | Scope::Worker(_) => None,
        };
        let scope = scope.to_string();
        Self { id, secret: None, scope, entity, label, created_at, expires_at, used_at, revoked_at }
    }
}

/// The key that the request was sent with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// What the key may do: `admin`, `operator:read`, `person`, `service:NAME` or `worker:TOOL`.
    pub scope: String,
    /// Person that the key belongs to; left out for all other scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<EntityJson>,
}
