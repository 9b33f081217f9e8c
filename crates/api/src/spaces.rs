//! The JSON of spaces, members and messages.

use agent::config::WakeOn;
use agent::id::{CallId, CycleId, EntityId, MessageId, RootId, SpaceId};
use agent::{entity, space};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{EntityJson, names};

/// A space: a shared timeline in which its members post messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Space)]
pub struct SpaceJson {
    /// Unique id.
    pub id: SpaceId,
    /// Handle, `[a-z0-9_-]{1,40}`, unique among spaces.
    pub handle: String,
    /// Name shown to people; free text.
    pub display_name: String,
    /// What the space is for; may be empty.
    pub description: String,
    /// `seq` of the last message; 0 if there are no messages.
    pub head_seq: u64,
    /// Revision of the space; increases with every durable change.
    pub rev: u64,
    /// Whether the space is closed to new messages.
    pub closed: bool,
    /// Which messages of agents wake the other agents in the space. If an agent's config has a stricter `wake_on`,
    /// that one applies to this agent. Messages of people always wake all agents.
    #[schema(value_type = names::WakeOn)]
    pub wake_on: WakeOn,
    /// When the space was opened.
    pub created_at: Timestamp,
}

copied!(space: entity::Space => SpaceJson {
    handle: space.name,
    ..space => { id, display_name, description, head_seq, rev, closed, wake_on, created_at }
});

/// The space to open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSpace)]
pub struct NewSpaceJson {
    /// Handle, `[a-z0-9_-]{1,40}`, unique among spaces. Upper-case letters are converted to lower case.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,40}$", example = "garden")]
    pub handle: String,
    /// Name shown to people; free text, at most 200 bytes. Default: the handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub display_name: Option<String>,
    /// What the space is for. At most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096, example = "plants and tools")]
    pub description: Option<String>,
    /// Which messages of agents wake the other agents in the space. Default: `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::WakeOn>)]
    pub wake_on: Option<String>,
    /// Initial members, by id or handle. At most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub members: Vec<String>,
}

/// The changes to a space. Fields that are left out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SpaceChange)]
pub struct SpaceChangeJson {
    /// Name shown to people; free text, at most 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub display_name: Option<String>,
    /// What the space is for. At most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096, example = "plants and tools")]
    pub description: Option<String>,
    /// Which messages of agents wake the other agents in the space. Applies from the next message on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::WakeOn>)]
    pub wake_on: Option<String>,
}

/// A member of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Member)]
pub struct MemberJson {
    /// Person or agent that is the member.
    pub entity: EntityJson,
    /// Role in the space; free text, for example `owner` or `reviewer`.
    pub role: String,
    /// When the member was added.
    pub since: Timestamp,
}

copied!(member: entity::Member => MemberJson { ..member => { entity, role, since } });

impl MemberJson {
    /// The member as an operator sees it, or as the person `own` does, who is not shown the `external_id` of others.
    pub fn shown(member: entity::Member, operator: bool, own: Option<EntityId>) -> Self {
        let mut shown = Self::from(member);
        if !operator && Some(shown.entity.id) != own {
            shown.entity.external_id = None;
        }
        shown
    }
}

/// The member to add. Adding a member again changes its role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMember {
    /// Person or agent, by id or handle.
    #[schema(min_length = 1, example = "ada")]
    pub entity: String,
    /// Role in the space; free text, at most 200 bytes. Default: `member`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, example = "reviewer")]
    pub role: Option<String>,
}

/// A message in a space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Message)]
pub struct MessageJson {
    /// Unique id.
    pub id: MessageId,
    /// Id of the space.
    pub space: SpaceId,
    /// Position in the space: 1, 2, 3 and so on, without gaps.
    pub seq: u64,
    /// `rev` of the space when the message was last changed.
    pub rev: u64,
    /// Id of the sender.
    pub sender: EntityId,
    /// Display name of the sender.
    pub sender_display_name: String,
    /// Handle of the sender.
    #[serde(default)]
    pub sender_handle: String,
    /// Whether the sender is a person or an agent.
    #[schema(value_type = names::EntityKind)]
    pub sender_kind: entity::EntityKind,
    /// `text` for a posted message, `tool` for a call of a visible tool.
    #[schema(value_type = names::MessageKind)]
    pub kind: space::MessageKind,
    /// Text of the message.
    pub text: String,
    /// Ids of the members that the message mentions.
    pub mentions: Vec<EntityId>,
    /// Whether the sender marked the message as urgent.
    pub urgent: bool,
    /// When the message was posted.
    pub at: Timestamp,
    /// Id of the cycle that posted the message; `null` for messages of people.
    pub cycle: Option<CycleId>,
    /// Id of the tool call that posted the message; `null` if there was none.
    pub call: Option<CallId>,
    /// Whether this is plain text of the agent's model, which the server posted because the model called no tool
    /// (`reply: auto`).
    #[serde(default)]
    pub from_text: bool,
    /// Data that the client stored with the message; `null` if there is none.
    pub data: Option<Value>,
    /// First event or message of the causal chain that led to this message.
    pub root: RootId,
    /// Number of agent messages between `root` and this message.
    pub hop: u32,
}

copied!(posted: space::PostedMessage => MessageJson {
    ..posted => { sender_display_name, sender_handle, sender_kind, from_text }
    ..posted.message => {
        id, space, seq, rev, sender, kind, text, mentions, urgent, at, cycle, call, data, root, hop,
    }
});

/// The message to post.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMessage)]
pub struct NewMessageJson {
    /// Text of the message. Not blank, at most 64 KiB.
    #[schema(min_length = 1, max_length = 65536, example = "What do you remember?")]
    pub text: String,
    /// Sender, by id or handle. Required with an admin key, not allowed with a person's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, example = "owner")]
    pub sender: Option<String>,
    /// Members to mention in addition to those named in the text, by id or handle. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub mentions: Vec<String>,
    /// Whether the message may interrupt a running cycle.
    #[serde(default)]
    pub urgent: bool,
    /// Id of the message, chosen by the client: a UUID of version 4 or 7. Sent again, the message is not posted
    /// twice. Default: an id chosen by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// Any JSON that the client wants to store with the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}
