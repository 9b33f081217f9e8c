//! The JSON of snapshots and control events of streams, and of the recent history.

use agent::id::{AgentId, CycleId, MessageId, SpaceId};
use agent::life::IdleReason;
use agent::update::AgentState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{MemberJson, MessageJson, RunJson, SpaceJson, names};

/// The event `snapshot` of the stream of a space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpaceSnapshot {
    /// The space.
    pub space: SpaceJson,
    /// Members of the space.
    pub members: Vec<MemberJson>,
    /// `rev` of the space. Updates with greater ids follow.
    pub rev: u64,
    /// `seq` of the last message; 0 if there are no messages.
    pub head_seq: u64,
    /// Messages that are being written.
    pub drafts: Vec<DraftNow>,
    /// Agents that are running a cycle which involves the space.
    pub agents: Vec<AgentNow>,
    /// Agents that are backing off although events of the space wait for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<IdleNow>,
}

/// An agent that is backing off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdleNow {
    /// Id of the agent.
    pub agent: AgentId,
    /// `provider`: the model provider cannot be reached. `backoff`: the last attempt failed.
    #[schema(value_type = String)]
    pub reason: IdleReason,
    /// When the agent tries again.
    pub until: Timestamp,
    /// The reason as text, possibly from the model provider. Only for admin keys; left out if the back-off began
    /// before the server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A message that is being written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DraftNow {
    /// Id of the space.
    pub space: SpaceId,
    /// Id that the message will have.
    pub message: MessageId,
    /// Id of the agent that writes it.
    pub agent: AgentId,
    /// Visible tool whose input this is; left out for the text of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Text written so far.
    pub text: String,
}

/// An agent that is running a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentNow {
    /// Id of the agent.
    pub agent: AgentId,
    /// What the agent is doing.
    #[schema(value_type = names::AgentState)]
    pub state: AgentState,
    /// Id of the cycle.
    pub cycle: CycleId,
}

/// The event `snapshot` of the stream of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentSnapshot {
    /// Id of the agent.
    pub agent: AgentId,
    /// What the agent is doing.
    #[schema(value_type = names::AgentState)]
    pub state: AgentState,
    /// Why the agent sleeps although events may be waiting, or makes no progress; left out if there is no special
    /// reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason as text, possibly from the model provider; left out if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Id of the open cycle; `null` if none is open.
    pub cycle: Option<CycleId>,
    /// Number of the last commit. Updates `commit` with greater ids follow.
    pub commit_n: u64,
    /// Messages that the agent is writing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drafts: Vec<DraftNow>,
}

/// The event `snapshot` of the stream of the whole server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerSnapshot {
    /// Agents that are running a cycle.
    pub agents: Vec<AgentNow>,
    /// Messages that are being written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drafts: Vec<DraftNow>,
}

/// The recent history of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recent {
    /// Messages and runs, oldest first.
    pub items: Vec<RecentItemJson>,
}

/// An item of the recent history; `type` is `message` or `run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = RecentItem)]
pub enum RecentItemJson {
    /// A message that was posted.
    Message(Box<MessageJson>),
    /// The run of a cycle that ended.
    Run(Box<RunJson>),
}

/// The event `gap`: durable updates in this range are not replayed. Use the `snapshot` that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Gap {
    /// Last id that the client had.
    pub from: u64,
    /// Current id.
    pub to: u64,
}

/// The event `closed`: the last event of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Closed {
    /// Why the stream ends: `slow_reader`, `not_member`, `key_revoked`, `key_expired`, `shutdown` or `store`.
    pub reason: String,
    /// Last id that was sent; use it as `Last-Event-ID` to continue. `null` if none was sent.
    pub last_id: Option<u64>,
}
