//! The messages of a space, as JSON for the model: stored messages, followed by those that this step has
//! posted so far. Only the newest that fit into an outcome are included.
//!
//! The [`agent::port::Lookup`] checks the membership.

use agent::call::head_and_tail;
use agent::entity::EntityKind;
use agent::event::{NamedMessage, Trust};
use agent::life::SpaceFacts;
use agent::limits;
use agent::port::{StoreError, ToolContext, ToolError};
use agent::space::NewMessage;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::typed;

/// One page of a space's messages.
pub(crate) struct Page {
    /// Oldest first.
    pub(crate) messages: Vec<Value>,
    /// Number of messages in the space, pending ones included.
    pub(crate) total: u64,
    /// The `before` of the next older page; `None` if there is none.
    pub(crate) next_before: Option<u64>,
    /// The lowest trust of what others wrote in them, at first or second hand; `None` if that is nothing.
    pub(crate) trust: Option<Trust>,
}

/// The newest messages before `before`: at most `limit`, and at most `budget` bytes, but at least one.
pub(crate) async fn page(
    context: &ToolContext<'_>,
    space: &SpaceFacts,
    before: Option<u64>,
    limit: u32,
    budget: usize,
) -> Result<Page, ToolError> {
    let id = space.space.id;
    let pending_messages: Vec<_> =
        context.pending.messages.iter().filter(|message| message.space == id).collect();
    // Pending messages are newer than all that have a seq.
    let fresh = if before.is_none() { pending_messages.as_slice() } else { &[] };
    let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
    let wanted = u32::try_from(limit.saturating_sub(fresh.len()).max(1)).unwrap_or(u32::MAX);
    let read = context.lookup.messages(context.agent, id, before, wanted).await.map_err(unreadable)?;
    let Some((stored, stored_count)) = read else {
        let text = format!("you are no member of the space with the id {id} (any more)");
        return Err(ToolError::new(text));
    };
    let own = context.agent.entity();
    let lines = fresh
        .iter()
        .rev()
        .map(|message| pending(message, space))
        .chain(stored.iter().rev().map(|message| line(message, message.sender == own)));
    let mut messages = Vec::new();
    let mut room = budget;
    let mut oldest = None;
    for line in lines.take(limit) {
        let shown = json!(line);
        let size = typed::to_text(&shown).len() + 1;
        if size > room && !messages.is_empty() {
            break;
        }
        room = room.saturating_sub(size);
        oldest = line.seq.or(oldest);
        messages.push(shown);
    }
    messages.reverse();
    let shown = stored.iter().rev().take_while(|message| oldest.is_some_and(|oldest| message.seq >= oldest));
    // What it said itself after it had read strangers' text is theirs.
    let counts = |message: &&NamedMessage| message.sender != own || message.trust == Trust::Outside;
    let trust = shown.filter(counts).map(|message| message.trust).min();
    // If only pending messages were shown, the next page begins with the newest stored one.
    let next_before = oldest.or_else(|| stored.last().map(|message| message.seq + 1)).filter(|seq| *seq > 1);
    Ok(Page { messages, total: stored_count + pending_messages.len() as u64, next_before, trust })
}

/// A failure of the store as a tool error: the model is told to try again, the operator gets the reason.
pub(crate) fn unreadable(error: StoreError) -> ToolError {
    let model = "this cannot be read just now; go on without it or try again later".to_owned();
    ToolError { model, operator: Some(error.to_string()) }
}

/// One message, as the model reads it.
#[derive(Serialize)]
struct Line<'a> {
    /// Its position in the space; a message of this step has none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    at: Timestamp,
    sender: Option<&'a str>,
    /// Handles are unique; names are not.
    handle: Option<&'a str>,
    kind: EntityKind,
    #[serde(skip_serializing_if = "is_false")]
    you: bool,
    #[serde(skip_serializing_if = "is_false")]
    pending: bool,
    #[serde(flatten)]
    text: Text,
}

/// A text. A long one is cut to its head and tail, and `bytes` is its full size.
#[derive(Serialize)]
struct Text {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn line(message: &NamedMessage, own: bool) -> Line<'_> {
    Line {
        seq: Some(message.seq),
        at: message.at,
        sender: Some(&message.sender_name),
        handle: Some(&message.sender_handle),
        kind: message.sender_kind,
        you: own,
        pending: false,
        text: cut(&message.text),
    }
}

fn pending<'a>(message: &NewMessage, space: &'a SpaceFacts) -> Line<'a> {
    let own = space.members.iter().find(|member| member.entity.id == message.sender);
    Line {
        seq: None,
        at: message.at,
        sender: own.map(|member| member.entity.display_name.as_str()),
        handle: own.map(|member| member.entity.name.as_str()),
        kind: EntityKind::Agent,
        you: true,
        pending: true,
        text: cut(&message.text),
    }
}

fn cut(text: &str) -> Text {
    let mut max = limits::EVENT_SHOWN_MAX_BYTES;
    let mut shown = head_and_tail(text, max);
    // Escapes can make a text up to six times longer.
    while typed::to_text(&json!(shown)).len() > limits::EVENT_SHOWN_MAX_BYTES * 5 / 4 && max > 1_024 {
        max /= 2;
        shown = head_and_tail(text, max);
    }
    Text { text: shown, bytes: (text.len() > max).then_some(text.len()) }
}
