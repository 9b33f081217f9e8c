//! Events of streams besides the updates themselves.

use agent::id::{AgentId, CycleId, MessageId, SpaceId};
use agent::life::IdleReason;
use agent::update::AgentState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{MemberJson, MessageJson, RunJson, SpaceJson, names};

/// `snapshot` of a space's stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpaceSnapshot {
    /// The space.
    pub space: SpaceJson,
    /// Its members.
    pub members: Vec<MemberJson>,
    /// Its `rev`: updates with ids above it follow.
    pub rev: u64,
    /// Its last message's seq.
    pub head_seq: u64,
    /// Messages being written.
    pub drafts: Vec<DraftNow>,
    /// Agents at work in a cycle that touched the space.
    pub agents: Vec<AgentNow>,
    /// Agents that cannot think just now, though something of the space waits for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<IdleNow>,
}

/// An agent that cannot think just now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdleNow {
    /// Who.
    #[schema(value_type = Uuid)]
    pub agent: AgentId,
    /// `provider`: its model cannot be reached; `backoff`: what it was sent failed.
    #[schema(value_type = String)]
    pub reason: IdleReason,
    /// When it tries again.
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
    /// The reason in words, a vendor's perhaps: told to operators, of rests that began since the server did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A message being written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DraftNow {
    /// Where.
    #[schema(value_type = Uuid)]
    pub space: SpaceId,
    /// The id it will have.
    #[schema(value_type = Uuid)]
    pub message: MessageId,
    /// Who writes.
    #[schema(value_type = Uuid)]
    pub agent: AgentId,
    /// The visible tool whose input this is; words have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The text so far.
    pub text: String,
}

/// An agent at work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentNow {
    /// Who.
    #[schema(value_type = Uuid)]
    pub agent: AgentId,
    /// What it does.
    #[schema(value_type = names::AgentState)]
    pub state: AgentState,
    /// In which cycle.
    #[schema(value_type = Uuid)]
    pub cycle: CycleId,
}

/// `snapshot` of an agent's stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentSnapshot {
    /// Who.
    #[schema(value_type = Uuid)]
    pub agent: AgentId,
    /// What it does.
    #[schema(value_type = names::AgentState)]
    pub state: AgentState,
    /// Why it sleeps, where there is a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same in words, a vendor's perhaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its open cycle.
    #[schema(value_type = Option<Uuid>)]
    pub cycle: Option<CycleId>,
    /// Its last commit: `commit` updates with ids above it follow.
    pub commit_n: u64,
    /// Messages that it is writing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drafts: Vec<DraftNow>,
}

/// `snapshot` of the stream of the whole server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerSnapshot {
    /// Agents at work.
    pub agents: Vec<AgentNow>,
    /// Messages being written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drafts: Vec<DraftNow>,
}

/// The recent past.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recent {
    /// What happened, oldest first.
    pub items: Vec<RecentItemJson>,
}

/// Something of the recent past.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = RecentItem)]
pub enum RecentItemJson {
    /// Said in a space.
    Message(Box<MessageJson>),
    /// A cycle came to rest.
    Run(Box<RunJson>),
}

/// `gap`: durable updates of this range are not replayed; the snapshot that follows is the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Gap {
    /// The last id that the client had.
    pub from: u64,
    /// The id of now.
    pub to: u64,
}

/// `closed`: the last event of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Closed {
    /// `slow_reader`, `not_member`, `key_revoked`, `shutdown` or `store`.
    pub reason: String,
    /// The last id that was handed to the connection; `Last-Event-ID` of the next one.
    pub last_id: Option<u64>,
}
