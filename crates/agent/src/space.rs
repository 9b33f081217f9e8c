//! Messages in spaces.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::approval;
use crate::call::{CallRow, OutcomeStatus, head_and_tail};
use crate::entity::EntityKind;
use crate::event::{Principal, Trust};
use crate::id::{CallId, CycleId, EntityId, MessageId, RootId, SpaceId};
use crate::limits;

names! {
    /// The kind of a message.
    pub enum MessageKind {
        /// A text.
        Text,
        /// A call of a visible tool. It is updated under the same id and causes no events.
        Tool,
    }
}

/// A message in a space, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Identity.
    pub id: MessageId,
    /// The space.
    pub space: SpaceId,
    /// Position in the space: 1, 2, 3 … without gaps.
    pub seq: u64,
    /// The space's `rev` when it was last changed.
    pub rev: u64,
    /// The sender.
    pub sender: EntityId,
    /// A text or a tool call.
    pub kind: MessageKind,
    /// The text.
    pub text: String,
    /// Members that it mentions.
    pub mentions: Vec<EntityId>,
    /// Whether its sender marked it urgent.
    pub urgent: bool,
    /// When it was posted.
    pub at: Timestamp,
    /// The cycle that posted it; `None` for people's messages.
    pub cycle: Option<CycleId>,
    /// The call that posted it.
    pub call: Option<CallId>,
    /// The client's own data, or the state of a tool message.
    pub data: Option<Value>,
    /// Root of its causal chain.
    pub root: RootId,
    /// Agent messages since the root.
    pub hop: u32,
}

impl Message {
    /// Whether it is the plain text of a model that made no call (`reply: auto`): no call posted it.
    pub fn is_from_text(&self) -> bool {
        self.kind == MessageKind::Text && self.cycle.is_some() && self.call.is_none()
    }
}

/// A posted message as readers see it: with the name and kind of its sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostedMessage {
    /// The message as stored.
    #[serde(flatten)]
    pub message: Message,
    /// The sender's display name.
    pub sender_display_name: String,
    /// The sender's handle; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sender_handle: String,
    /// Human or agent.
    pub sender_kind: EntityKind,
    /// [`Message::is_from_text`].
    #[serde(default)]
    pub from_text: bool,
}

impl PostedMessage {
    /// The message with its sender's display name and kind.
    pub fn new(message: Message, sender_display_name: impl Into<String>, sender_kind: EntityKind) -> Self {
        let (from_text, sender_display_name) = (message.is_from_text(), sender_display_name.into());
        Self { message, sender_display_name, sender_handle: String::new(), sender_kind, from_text }
    }

    /// The same with its sender's handle.
    #[must_use]
    pub fn with_handle(self, sender_handle: impl Into<String>) -> Self {
        Self { sender_handle: sender_handle.into(), ..self }
    }
}

impl std::ops::Deref for PostedMessage {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

/// A message to be accepted: everything except what the store assigns (seq, rev).
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    /// Identity; a second message with the same id is a duplicate.
    pub id: MessageId,
    /// The space.
    pub space: SpaceId,
    /// The sender.
    pub sender: EntityId,
    /// The text.
    pub text: String,
    /// Members that the client mentions in addition to those in the text.
    pub mentions: Vec<EntityId>,
    /// Whether it is marked urgent; only people and operators may do that.
    pub urgent: bool,
    /// When it was posted.
    pub at: Timestamp,
    /// The cycle that posts it.
    pub cycle: Option<CycleId>,
    /// The call that posts it.
    pub call: Option<CallId>,
    /// The client's own data.
    pub data: Option<Value>,
    /// The principal of the events that it causes.
    pub principal: Principal,
    /// How trustworthy it is.
    pub trust: Trust,
    /// Root of its causal chain.
    pub root: RootId,
    /// Agent messages since the root.
    pub hop: u32,
}

impl NewMessage {
    /// A plain text message of a person. It is the root of its causal chain.
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

/// The state of a tool message: `running`, `complete` or `error`.
fn tool_state(row: &CallRow) -> &'static str {
    match row.outcome.as_ref().map(|outcome| outcome.status) {
        None | Some(OutcomeStatus::Pending) => "running",
        Some(OutcomeStatus::Ok) => "complete",
        Some(OutcomeStatus::Error | OutcomeStatus::Unknown | OutcomeStatus::Canceled) => "error",
    }
}

/// The text of a tool message, for clients that show only text. One that a person was asked about keeps its arguments and answer.
pub fn tool_text(row: &CallRow) -> String {
    match &row.approval {
        Some(asked) if asked.is_wanted() => approval::card(row, asked),
        Some(asked) => approval::card_end(row, asked),
        None => format!("[{}: {}]", row.tool, tool_state(row)),
    }
}

/// The data of a tool message, from its call row. Long texts are cut to head and tail. It contains nothing that only
/// operators may read.
pub fn tool_data(row: &CallRow) -> Value {
    let bound = |text: &str| head_and_tail(text, limits::TOOL_SHOWN_MAX_BYTES);
    let mut data = json!({
        "tool": row.tool,
        "call": row.id,
        "state": tool_state(row),
        "input": bound(&row.arguments),
    });
    if let Some(asked) = &row.approval {
        data["approval"] = json!({
            "kind": asked.kind,
            "question": asked.question,
            "state": asked.state,
            "why": asked.why,
            "requested_by": asked.requested_by.iter().map(|by| &by.name).collect::<Vec<_>>(),
            "version": row.tool_version,
            "hash": asked.hash,
            "expires_at": asked.expires_at,
            "by": asked.by.as_ref().map(|by| &by.name),
            "reason": asked.reason,
            "edited": asked.asked_arguments.is_some(),
            "options": asked.options,
            "schema": asked.schema,
        });
    }
    if let Some(outcome) = &row.outcome {
        data["status"] = json!(outcome.status);
        data["output"] = json!(bound(&outcome.text));
    }
    data
}
