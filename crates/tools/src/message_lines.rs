//! What was said in a space, as JSON for the model: stored messages with the pending ones of the
//! same step behind them, as many of the newest as fit what the model is shown of an outcome.
//!
//! This module must not know where messages are stored; membership is the lookup's to check.

use agent::call::head_and_tail;
use agent::entity::EntityKind;
use agent::event::NamedMessage;
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
    /// All messages of the space, pending ones included.
    pub(crate) total: u64,
    /// What to give as `before` for the page before this one; `None` where there is none.
    pub(crate) next_before: Option<u64>,
}

/// The newest messages before `before`, at most `limit` and at most `budget` bytes, but always one.
pub(crate) async fn page(
    context: &ToolContext<'_>,
    space: &SpaceFacts,
    before: Option<u64>,
    limit: u32,
    budget: usize,
) -> Result<Page, ToolError> {
    let id = space.space.id;
    let says: Vec<_> = context.pending.messages.iter().filter(|say| say.space == id).collect();
    // What is pending is newer than everything that has a seq.
    let fresh = if before.is_none() { says.as_slice() } else { &[] };
    let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
    let wanted = u32::try_from(limit.saturating_sub(fresh.len()).max(1)).unwrap_or(u32::MAX);
    let read = context.lookup.messages(context.agent, id, before, wanted).await.map_err(unreadable)?;
    let Some((said, stored)) = read else {
        let text = format!("you are no member of the space with the id {id} (any more)");
        return Err(ToolError::new(text));
    };
    let own = context.agent.entity();
    let lines = fresh
        .iter()
        .rev()
        .map(|say| pending(say, space))
        .chain(said.iter().rev().map(|said| line(said, said.sender == own)));
    let mut messages = Vec::new();
    let mut room = budget;
    let mut oldest = None;
    for line in lines.take(limit) {
        let shown = json!(line);
        let size = typed::written(&shown).len() + 1;
        if size > room && !messages.is_empty() {
            break;
        }
        room = room.saturating_sub(size);
        oldest = line.seq.or(oldest);
        messages.push(shown);
    }
    messages.reverse();
    // Where only pending ones were shown, everything stored is still to be read.
    let next_before = oldest.or_else(|| said.last().map(|said| said.seq + 1)).filter(|seq| *seq > 1);
    Ok(Page { messages, total: stored + says.len() as u64, next_before })
}

/// The store's failure as a tool's: the model can only try again, the operator reads why.
pub(crate) fn unreadable(error: StoreError) -> ToolError {
    let model = "this cannot be read just now; go on without it or try again later".to_owned();
    ToolError { model, operator: Some(error.to_string()) }
}

/// One message, as the model reads it.
#[derive(Serialize)]
struct Line<'a> {
    /// Its place in the space; what this very step says has none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    at: Timestamp,
    sender: Option<&'a str>,
    /// Two may have the same name, and nobody has another's handle.
    handle: Option<&'a str>,
    kind: EntityKind,
    #[serde(skip_serializing_if = "is_false")]
    you: bool,
    #[serde(skip_serializing_if = "is_false")]
    pending: bool,
    #[serde(flatten)]
    text: Text,
}

/// A text, cut to its head and tail where it is long; then its true size stands beside it.
#[derive(Serialize)]
struct Text {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde context it over so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn line(said: &NamedMessage, own: bool) -> Line<'_> {
    Line {
        seq: Some(said.seq),
        at: said.at,
        sender: Some(&said.sender_name),
        handle: Some(&said.sender_handle),
        kind: said.sender_kind,
        you: own,
        pending: false,
        text: cut(&said.text),
    }
}

fn pending<'a>(say: &NewMessage, space: &'a SpaceFacts) -> Line<'a> {
    let own = space.members.iter().find(|member| member.entity.id == say.sender);
    Line {
        seq: None,
        at: say.at,
        sender: own.map(|member| member.entity.display_name.as_str()),
        handle: own.map(|member| member.entity.name.as_str()),
        kind: EntityKind::Agent,
        you: true,
        pending: true,
        text: cut(&say.text),
    }
}

fn cut(text: &str) -> Text {
    let mut max = limits::EVENT_SHOWN_MAX_BYTES;
    let mut shown = head_and_tail(text, max);
    // Escapes can make a text up to six times as long.
    while typed::written(&json!(shown)).len() > limits::EVENT_SHOWN_MAX_BYTES * 5 / 4 && max > 1_024 {
        max /= 2;
        shown = head_and_tail(text, max);
    }
    Text { text: shown, bytes: (text.len() > max).then_some(text.len()) }
}
