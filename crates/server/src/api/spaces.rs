//! Spaces, members and messages.

use agent::config::WakeOn;
use agent::id::{CallId, CycleId, EntityId, MessageId, RootId, SpaceId};
use agent::{entity, space};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{EntityJson, names};

/// A shared timeline where members speak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Space)]
pub struct SpaceJson {
    /// Identity.
    #[schema(value_type = Uuid)]
    pub id: SpaceId,
    /// Unique handle among spaces.
    pub name: String,
    /// Free text for people.
    pub display_name: String,
    /// What the space is for.
    pub description: String,
    /// The last message's seq; 0 where nothing was said.
    pub head_seq: u64,
    /// Raised by every durable change.
    pub rev: u64,
    /// A closed space takes no more messages.
    pub closed: bool,
    /// Which messages of agents wake the other agents there, beside `wake_on` in each agent's config: the
    /// stricter of the two holds. People's messages always wake.
    #[schema(value_type = names::WakeOn)]
    pub wake_on: WakeOn,
    /// When it was opened.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl From<entity::Space> for SpaceJson {
    fn from(space: entity::Space) -> Self {
        let entity::Space { id, name, display_name, description, head_seq, rev, closed, .. } = space;
        let entity::Space { wake_on, created_at, .. } = space;
        Self { id, name, display_name, description, head_seq, rev, closed, wake_on, created_at }
    }
}

/// A space to be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSpace)]
pub struct NewSpaceJson {
    /// Handle, `[a-z0-9_-]{1,40}`; upper case is lowered.
    pub name: String,
    /// Free text for people; the handle where left out. At most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the space is for. At most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Which messages of agents wake the other agents there; `all` where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::WakeOn>)]
    pub wake_on: Option<String>,
    /// First members, by id or handle. At most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
}

/// What is to be changed of a space; what is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SpaceChange)]
pub struct SpaceChangeJson {
    /// Free text for people. At most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the space is for. At most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Which messages of agents wake the other agents there, from the next message on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::WakeOn>)]
    pub wake_on: Option<String>,
}

/// An entity in a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Member)]
pub struct MemberJson {
    /// Who.
    pub entity: EntityJson,
    /// Free text: `owner`, `reviewer`, ….
    pub role: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
}

impl From<entity::Member> for MemberJson {
    fn from(member: entity::Member) -> Self {
        let entity::Member { entity, role, since } = member;
        Self { entity: entity.into(), role, since }
    }
}

/// A member to be added; adding one again changes the role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMember {
    /// Who, by id or handle.
    pub entity: String,
    /// Free text; `member` where left out. At most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// Something said in a space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Message)]
pub struct MessageJson {
    /// Identity.
    #[schema(value_type = Uuid)]
    pub id: MessageId,
    /// Where.
    #[schema(value_type = Uuid)]
    pub space: SpaceId,
    /// Place there: 1, 2, 3 … without gaps.
    pub seq: u64,
    /// The space's `rev` when it was last changed.
    pub rev: u64,
    /// Who.
    #[schema(value_type = Uuid)]
    pub sender: EntityId,
    /// The sender's display name.
    pub sender_name: String,
    /// Human or agent.
    #[schema(value_type = names::EntityKind)]
    pub sender_kind: entity::EntityKind,
    /// Words or a tool.
    #[schema(value_type = names::MessageKind)]
    pub kind: space::MessageKind,
    /// The words.
    pub text: String,
    /// Members named in it.
    #[schema(value_type = Vec<Uuid>)]
    pub mentions: Vec<EntityId>,
    /// Whether its sender marked it urgent.
    pub urgent: bool,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The cycle that said it; people's messages have none.
    #[schema(value_type = Option<Uuid>)]
    pub cycle: Option<CycleId>,
    /// The call that said it.
    #[schema(value_type = Option<String>)]
    pub call: Option<CallId>,
    /// The client's own data.
    pub data: Option<Value>,
    /// The happening that it goes back to.
    #[schema(value_type = String)]
    pub root: RootId,
    /// Agents' messages since then.
    pub hop: u32,
}

impl From<space::Spoken> for MessageJson {
    fn from(spoken: space::Spoken) -> Self {
        let space::Spoken { message, sender_name, sender_kind } = spoken;
        let space::Message { id, space, seq, rev, sender, kind, text, mentions, urgent, at, .. } = message;
        let space::Message { cycle, call, data, root, hop, .. } = message;
        Self {
            id,
            space,
            seq,
            rev,
            sender,
            sender_name,
            sender_kind,
            kind,
            text,
            mentions,
            urgent,
            at,
            cycle,
            call,
            data,
            root,
            hop,
        }
    }
}

/// Something to be said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMessage)]
pub struct NewMessageJson {
    /// The words; not blank, at most 64 KiB.
    pub text: String,
    /// Who says it, by id or handle: with an admin key required, with an entity's key refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// Members to mention in addition to those in the text, by id or handle. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
    /// Whether it may break into a running cycle.
    #[serde(default)]
    pub urgent: bool,
    /// Its id, chosen by the client: a UUID of version 4 or 7. Sending it again is a duplicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// The client's own data, kept and given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}
