//! Encodes entries as content blocks. A fragment is a list of blocks; the glue groups them into messages,
//! so that consecutive user turns are one message, with outcomes first.

use agent::entry::Entry;
use agent::message::{ModelMessage, Native, Origin, Part, Role};
use agent::prompt::{Item, Prompt};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::transcript::{answered_call, matching, orphan, output, texts};
use crate::wire::{Between, EncodeContext, Turn, json};

/// The system layer and the tools, with the first cache breakpoint after both.
pub(super) fn head(prompt: &Prompt) -> Bytes {
    let mut out = String::new();
    if !prompt.system.trim().is_empty() {
        out.push_str(r#","system":[{"type":"text","text":"#);
        out.push_str(&json::string(&prompt.system));
        out.push_str(r#","cache_control":{"type":"ephemeral"}}]"#);
    }
    if !prompt.tools.is_empty() {
        out.push_str(r#","tools":["#);
        for (index, tool) in prompt.tools.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&format!(
                r#"{{"name":{},"description":{},"input_schema":{}}}"#,
                json::string(&tool.name),
                json::string(&tool.description),
                tool.schema
            ));
        }
        out.push(']');
    }
    out.push_str(r#","messages":["#);
    Bytes::from(out)
}

/// The blocks of one item.
pub(super) fn fragment(origin: &Origin, item: &Item, context: EncodeContext<'_>) -> Option<(Turn, Bytes)> {
    let (turn, blocks) = match item {
        Item::Layer(text) => (Turn::User, text_blocks([text.as_ref()])),
        Item::Entry(entry) => match entry.message.role {
            Role::User => (Turn::User, text_blocks(texts(&entry.message))),
            Role::Assistant => (Turn::Assistant, assistant(origin, &entry.message, context.reasoning)),
            Role::Tool => outcomes(origin, &entry.message, context),
        },
    };
    (!blocks.is_empty()).then(|| (turn, Bytes::from(blocks.join(","))))
}

/// The JSON between two lists of blocks.
pub(super) fn glue(between: Between) -> &'static str {
    use Turn::{Assistant, Outcomes, User};
    match (between.before, between.after) {
        (None, Some(User | Outcomes)) => r#"{"role":"user","content":["#,
        (None, Some(Assistant)) => {
            r#"{"role":"user","content":[{"type":"text","text":"Continue."}]},{"role":"assistant","content":["#
        }
        (None, None) => r#"{"role":"user","content":[{"type":"text","text":"Continue."}]}"#,
        (Some(Outcomes), Some(User)) if between.bridge => {
            r#"]},{"role":"assistant","content":[{"type":"text","text":"Noted."}]},{"role":"user","content":["#
        }
        (Some(User | Outcomes), Some(User | Outcomes)) => ",",
        (Some(User | Outcomes), Some(Assistant)) => r#"]},{"role":"assistant","content":["#,
        (Some(Assistant), Some(User | Outcomes)) => r#"]},{"role":"user","content":["#,
        (Some(Assistant), Some(Assistant)) => {
            r#"]},{"role":"user","content":[{"type":"text","text":"Continue."}]},{"role":"assistant","content":["#
        }
        (Some(Assistant), None) => r#"]},{"role":"user","content":[{"type":"text","text":"Continue."}]}"#,
        (Some(User | Outcomes), None) => "]}",
    }
}

/// Whether the entry has reasoning that can be sent.
pub(super) fn reasons(origin: &Origin, entry: &Entry) -> bool {
    matching(origin, &entry.message).is_some_and(|native| {
        blocks_of(native).iter().any(|block| kind(block).is_some_and(|kind| kind.is_reasoning()))
    })
}

/// Text blocks. Blank texts are left out, because the vendor refuses them.
fn text_blocks<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    texts.into_iter().filter(|text| !text.trim().is_empty()).map(text_block).collect()
}

fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, json::string(text))
}

fn assistant(origin: &Origin, message: &ModelMessage, reasoning: bool) -> Vec<String> {
    match matching(origin, message) {
        Some(native) => replayed(native, message.calls().count(), reasoning),
        None => canonical(message),
    }
}

/// The vendor's own blocks, byte for byte. Reasoning is left out unless `reasoning` is set. Blank text
/// (which the vendor sends but refuses) and calls that the entry does not have are left out too.
fn replayed(native: &Native, calls: usize, reasoning: bool) -> Vec<String> {
    let mut left = calls;
    let keeps = |block: &&RawValue| match kind(block) {
        Some(kind) if kind.is_reasoning() => reasoning,
        Some(kind) if kind.name == "text" => !kind.text.unwrap_or_default().trim().is_empty(),
        Some(kind) if kind.name == "tool_use" => {
            let known = left > 0;
            left = left.saturating_sub(1);
            known
        }
        _ => true,
    };
    blocks_of(native).into_iter().filter(keeps).map(|block| block.get().to_owned()).collect()
}

fn canonical(message: &ModelMessage) -> Vec<String> {
    let mut blocks = text_blocks(texts(message));
    // The vendor requires calls after the text of their turn.
    blocks.extend(message.calls().map(|(id, name, arguments)| {
        format!(
            r#"{{"type":"tool_use","id":{},"name":{},"input":{}}}"#,
            json::string(&id.0),
            json::string(&json::valid_name(name)),
            json::valid_arguments(arguments)
        )
    }));
    blocks
}

fn outcomes(origin: &Origin, message: &ModelMessage, context: EncodeContext<'_>) -> (Turn, Vec<String>) {
    let mut results = Vec::new();
    let mut orphans = Vec::new();
    for part in &message.parts {
        let Part::ToolResult { id, name, text, error } = part else { continue };
        match answered_call(origin, context.caller, id) {
            Some(call) => {
                let failed = if *error { r#","is_error":true"# } else { "" };
                results.push(format!(
                    r#"{{"type":"tool_result","tool_use_id":{},"content":{}{failed}}}"#,
                    json::string(call.native.unwrap_or(&call.id.0)),
                    json::string(output(text))
                ));
            }
            None => orphans.push(text_block(&orphan(name, text))),
        }
    }
    let turn = if results.is_empty() { Turn::User } else { Turn::Outcomes };
    results.extend(orphans);
    (turn, results)
}

#[derive(Deserialize)]
struct AnthropicContentKind {
    #[serde(rename = "type")]
    name: String,
    #[serde(default)]
    text: Option<String>,
}

impl AnthropicContentKind {
    fn is_reasoning(&self) -> bool {
        matches!(self.name.as_str(), "thinking" | "redacted_thinking")
    }
}

fn kind(block: &RawValue) -> Option<AnthropicContentKind> {
    serde_json::from_str(block.get()).ok()
}

fn blocks_of(native: &Native) -> Vec<&RawValue> {
    serde_json::from_str(&native.body).unwrap_or_default()
}
