//! Encodes entries as input items. Each item is a complete JSON object, so the glue is short.

use agent::message::{ModelMessage, Native, Origin, Part, Role};
use agent::prompt::{Item, Prompt};
use bytes::Bytes;

use crate::wire::json::{self, RawObject};
use crate::wire::transcript::{self, answered_call, matching, orphan, output};
use crate::wire::{Between, EncodeContext, Turn};

/// Kinds of items that need an answer. Such tools are never offered, so only the vendor answers them, in
/// an item of its own.
const ANSWERED_BY_VENDOR: [&str; 6] = [
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "mcp_approval_request",
];

/// The system layer and the tools.
pub(super) fn head(prompt: &Prompt) -> Bytes {
    let mut out = String::new();
    if !prompt.system.trim().is_empty() {
        out.push_str(&format!(r#","instructions":{}"#, json::string(&prompt.system)));
    }
    if !prompt.tools.is_empty() {
        let tools = prompt.tools.iter().map(|tool| {
            format!(
                r#"{{"type":"function","name":{},"description":{},"parameters":{},"strict":false}}"#,
                json::string(&tool.name),
                json::string(&tool.description),
                tool.schema
            )
        });
        out.push_str(&format!(r#","tools":[{}]"#, tools.collect::<Vec<_>>().join(",")));
    }
    out.push_str(r#","input":["#);
    Bytes::from(out)
}

/// The items of one entry or layer.
pub(super) fn fragment(origin: &Origin, item: &Item, context: EncodeContext<'_>) -> Option<(Turn, Bytes)> {
    let entry = match item {
        Item::Layer(text) => return list(Turn::User, user(text).into_iter().collect()),
        Item::Entry(entry) => entry,
    };
    match entry.message.role {
        Role::User => list(Turn::User, user(&transcript::text(&entry.message)).into_iter().collect()),
        Role::Assistant => list(Turn::Assistant, assistant(origin, &entry.message, context.reasoning)),
        Role::Tool => outcomes(origin, &entry.message, context),
    }
}

/// The JSON between two lists of items. The input must not be empty and must end with input to the agent.
pub(super) fn glue(between: Between) -> &'static str {
    match (between.before, between.after) {
        (None, Some(_)) | (Some(Turn::User | Turn::Outcomes), None) => "",
        (None, None) => {
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Continue."}]}"#
        }
        (Some(Turn::Assistant), None) => {
            r#",{"type":"message","role":"user","content":[{"type":"input_text","text":"Continue."}]}"#
        }
        (Some(_), Some(_)) => ",",
    }
}

fn list(turn: Turn, items: Vec<String>) -> Option<(Turn, Bytes)> {
    (!items.is_empty()).then(|| (turn, Bytes::from(items.join(","))))
}

fn user(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| {
        format!(
            r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":{}}}]}}"#,
            json::string(text)
        )
    })
}

fn assistant(origin: &Origin, message: &ModelMessage, reasoning: bool) -> Vec<String> {
    match matching(origin, message) {
        Some(native) => replayed(native, message.calls().count(), reasoning),
        None => canonical(message),
    }
}

/// The vendor's own items. If all reasoning is sent, they go back unchanged. If any is left out, the ids
/// are removed too, since the vendor would look for the reasoning that belongs to an id.
fn replayed(native: &Native, calls: usize, reasoning: bool) -> Vec<String> {
    let items: Vec<RawObject> = serde_json::from_str(&native.body).unwrap_or_default();
    let named = |item: &RawObject| (item.text("type").unwrap_or_default(), item.text("call_id"));
    let names: Vec<_> = items.iter().map(named).collect();
    let mut left = calls;
    let mut kept: Vec<(bool, RawObject)> = Vec::new();
    let mut whole = false;
    for item in items {
        let kind = item.text("type").unwrap_or_default();
        let is_reasoning = kind == "reasoning";
        match kind.as_str() {
            "reasoning" if !reasoning || item.text("encrypted_content").is_none() => continue,
            "reasoning" => whole = true,
            "function_call" if left == 0 => continue,
            "function_call" => left -= 1,
            "message" if !has_content(&item) => continue,
            kind if counterpart(kind)
                .is_some_and(|other| !names.contains(&(other, item.text("call_id")))) =>
            {
                continue;
            }
            _ => {}
        }
        kept.push((is_reasoning, item));
    }
    // Reasoning without an item after it is left out.
    while kept.last().is_some_and(|(is_reasoning, _)| *is_reasoning) {
        kept.pop();
        whole = false;
    }
    let write = |(_, mut item): (bool, RawObject)| {
        if !whole {
            item.0.retain(|(key, _)| key != "id");
        }
        let mut text = String::new();
        item.write(&mut text);
        text
    };
    kept.into_iter().filter(|(is_reasoning, _)| whole || !is_reasoning).map(write).collect()
}

/// The other kind of a pair, call and output: the vendor refuses one without the other.
fn counterpart(kind: &str) -> Option<String> {
    if ANSWERED_BY_VENDOR.contains(&kind) {
        return Some(format!("{kind}_output"));
    }
    kind.strip_suffix("_output").filter(|call| ANSWERED_BY_VENDOR.contains(call)).map(str::to_owned)
}

fn has_content(message: &RawObject) -> bool {
    let parts: Vec<RawObject> =
        message.get("content").and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
    parts.iter().any(|part| {
        let text = part.text("text").or_else(|| part.text("refusal"));
        text.is_none_or(|text| !text.trim().is_empty())
    })
}

fn canonical(message: &ModelMessage) -> Vec<String> {
    let text = transcript::text(message);
    let mut items = Vec::new();
    if !text.trim().is_empty() {
        items.push(assistant_text(&text));
    }
    items.extend(message.calls().map(|(id, name, arguments)| {
        format!(
            r#"{{"type":"function_call","call_id":{},"name":{},"arguments":{}}}"#,
            json::string(&id.0),
            json::string(&json::valid_name(name)),
            json::string(&json::valid_arguments(arguments))
        )
    }));
    items
}

/// An assistant text as an item.
pub(super) fn assistant_text(text: &str) -> String {
    format!(
        r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":{}}}]}}"#,
        json::string(text)
    )
}

fn outcomes(origin: &Origin, message: &ModelMessage, context: EncodeContext<'_>) -> Option<(Turn, Bytes)> {
    let mut items = Vec::new();
    let mut orphans = Vec::new();
    for part in &message.parts {
        let Part::ToolResult { id, name, text, .. } = part else { continue };
        match answered_call(origin, context.caller, id) {
            Some(call) => items.push(format!(
                r#"{{"type":"function_call_output","call_id":{},"output":{}}}"#,
                json::string(call.native.unwrap_or(&call.id.0)),
                json::string(output(text))
            )),
            None => orphans.push(orphan(name, text)),
        }
    }
    let turn = if items.is_empty() { Turn::User } else { Turn::Outcomes };
    items.extend(user(&orphans.join("\n")));
    list(turn, items)
}
