//! Messages: what is said in spaces.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::{CallRow, OutcomeStatus, head_and_tail};
use crate::entity::EntityKind;
use crate::event::{Principal, Trust};
use crate::id::{CallId, CycleId, EntityId, MessageId, RootId, SpaceId};
use crate::limits;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum MessageKind {
    /// Words.
    Text,
    /// A visible tool at work; updated under the same id, causes no events.
    Tool,
}

impl MessageKind {
    /// The name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Something said in a space, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Identity.
    pub id: MessageId,
    /// Where.
    pub space: SpaceId,
    /// Place there: 1, 2, 3 … without gaps.
    pub seq: u64,
    /// The space's `rev` when it was last changed.
    pub rev: u64,
    /// Who.
    pub sender: EntityId,
    /// Words or a tool.
    pub kind: MessageKind,
    /// The words.
    pub text: String,
    /// Members named in it.
    pub mentions: Vec<EntityId>,
    /// Whether its sender marked it urgent.
    pub urgent: bool,
    /// When.
    pub at: Timestamp,
    /// The cycle that said it; people's messages have none.
    pub cycle: Option<CycleId>,
    /// The call that said it.
    pub call: Option<CallId>,
    /// The client's own data, or a tool message's state.
    pub data: Option<Value>,
    /// Causal root.
    pub root: RootId,
    /// Agent messages since the root.
    pub hop: u32,
}

/// A message with its sender's names beside the id, as readers see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spoken {
    /// The message as stored.
    #[serde(flatten)]
    pub message: Message,
    /// The sender's display name.
    pub sender_name: String,
    /// Human or agent.
    pub sender_kind: EntityKind,
}

impl std::ops::Deref for Spoken {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

/// A message that is to be accepted: everything but what the store assigns (seq, rev).
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    /// Identity; a repeat is a duplicate.
    pub id: MessageId,
    /// Where.
    pub space: SpaceId,
    /// Who.
    pub sender: EntityId,
    /// The words.
    pub text: String,
    /// Members named by the client in addition to those in the text.
    pub mentions: Vec<EntityId>,
    /// Marked urgent; people and operators only.
    pub urgent: bool,
    /// When.
    pub at: Timestamp,
    /// The cycle that says it.
    pub cycle: Option<CycleId>,
    /// The call that says it.
    pub call: Option<CallId>,
    /// The client's own data.
    pub data: Option<Value>,
    /// On whose behalf the events it causes exist.
    pub principal: Principal,
    /// How trustworthy it is.
    pub trust: Trust,
    /// Causal root.
    pub root: RootId,
    /// Agent messages since the root.
    pub hop: u32,
}

impl NewMessage {
    /// What a person says, with nothing but words: the first happening of its chain.
    pub fn of_person(
        id: MessageId,
        space: SpaceId,
        sender: EntityId,
        text: impl Into<String>,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            space,
            sender,
            text: text.into(),
            mentions: Vec::new(),
            urgent: false,
            at,
            cycle: None,
            call: None,
            data: None,
            principal: Principal::Entity(sender),
            trust: Trust::Member,
            root: RootId(id.to_string()),
            hop: 0,
        }
    }
}

/// Where the call of a tool message stands: `running`, `complete` or `error`.
fn tool_state(row: &CallRow) -> &'static str {
    match row.outcome.as_ref().map(|outcome| outcome.status) {
        None | Some(OutcomeStatus::Pending) => "running",
        Some(OutcomeStatus::Ok) => "complete",
        Some(OutcomeStatus::Error | OutcomeStatus::Unknown | OutcomeStatus::Canceled) => "error",
    }
}

/// The text of a tool message, for clients that show only text.
pub fn tool_text(row: &CallRow) -> String {
    format!("[{}: {}]", row.tool, tool_state(row))
}

/// The data of a tool message: what its call row says, long texts as head and tail. What only
/// operators may read stays out.
pub fn tool_data(row: &CallRow) -> Value {
    let bound = |text: &str| head_and_tail(text, limits::TOOL_SHOWN_MAX_BYTES);
    let mut data = json!({
        "tool": row.tool,
        "call": row.id,
        "state": tool_state(row),
        "input": bound(&row.arguments),
    });
    if let Some(outcome) = &row.outcome {
        data["status"] = json!(outcome.status);
        data["output"] = json!(bound(&outcome.text));
    }
    data
}
