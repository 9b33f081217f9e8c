//! What was said in a space, as JSON for the model: stored messages with the pending ones of the
//! same step behind them, as many of the newest as fit what the model is shown of an outcome.
//!
//! This module must not know where messages are stored; membership is the lookup's to check.

use agent::call::head_and_tail;
use agent::entity::EntityKind;
use agent::event::Said;
use agent::life::SpaceFacts;
use agent::limits;
use agent::port::{Hands, StoreError, ToolError};
use agent::space::NewMessage;
use serde_json::{Value, json};

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
    hands: &Hands<'_>,
    space: &SpaceFacts,
    before: Option<u64>,
    limit: u32,
    budget: usize,
) -> Result<Page, ToolError> {
    let id = space.space.id;
    let says: Vec<_> = hands.pending.says.iter().filter(|say| say.space == id).collect();
    // What is pending is newer than everything that has a seq.
    let fresh = if before.is_none() { says.as_slice() } else { &[] };
    let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
    let wanted = u32::try_from(limit.saturating_sub(fresh.len()).max(1)).unwrap_or(u32::MAX);
    let read = hands.lookup.messages(hands.agent, id, before, wanted).await.map_err(unreadable)?;
    let Some((said, stored)) = read else {
        let text = format!("you are no member of the space with the id {id} (any more)");
        return Err(ToolError::new(text));
    };
    let own = hands.agent.entity();
    let lines = fresh
        .iter()
        .rev()
        .map(|say| (None, pending(say, space)))
        .chain(said.iter().rev().map(|said| (Some(said.seq), told(said, said.sender == own))));
    let (mut messages, mut room, mut oldest) = (Vec::new(), budget, None);
    for (seq, line) in lines.take(limit) {
        let size = line.to_string().len() + 1;
        if size > room && !messages.is_empty() {
            break;
        }
        room = room.saturating_sub(size);
        oldest = seq.or(oldest);
        messages.push(line);
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

fn told(said: &Said, own: bool) -> Value {
    let mut line = json!({
        "id": said.id,
        "seq": said.seq,
        "at": said.at,
        "sender": said.sender_name,
        "sender_id": said.sender,
        "kind": said.sender_kind,
    });
    if own {
        line["you"] = json!(true);
    }
    put_text(&mut line, &said.text);
    line
}

/// A message of this very step has no place in the space yet.
fn pending(say: &NewMessage, space: &SpaceFacts) -> Value {
    let own = space.members.iter().find(|member| member.entity.id == say.sender);
    let mut line = json!({
        "id": say.id,
        "at": say.at,
        "sender": own.map(|member| member.entity.display_name.as_str()),
        "sender_id": say.sender,
        "kind": EntityKind::Agent,
        "you": true,
        "pending": true,
    });
    put_text(&mut line, &say.text);
    line
}

/// The text, cut to its head and tail where it is long; then its true size stands beside it.
fn put_text(line: &mut Value, text: &str) {
    let mut max = limits::EVENT_SHOWN_MAX_BYTES;
    line["text"] = json!(head_and_tail(text, max));
    // Escapes can make a text up to six times as long.
    while line["text"].to_string().len() > limits::EVENT_SHOWN_MAX_BYTES * 5 / 4 && max > 1_024 {
        max /= 2;
        line["text"] = json!(head_and_tail(text, max));
    }
    if text.len() > max {
        line["bytes"] = json!(text.len());
    }
}
