//! Encodes entries as chat messages, for native tool calls. A user fragment is the inside of a string
//! without its quotes, so that the glue decides whether neighbors become one message.

use agent::id::CallId;
use agent::message::{ModelMessage, Origin, Part, Role};
use agent::port::ReasoningReplay;
use agent::prompt::{Item, Prompt};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::Dialect;
use crate::wire::json::{self, RawObject};
use crate::wire::transcript::{self, answered_call, matching, orphan, output};
use crate::wire::{Between, EncodeContext, Turn};

/// The fields in which servers send reasoning and accept it back.
pub(super) const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

/// The tools and the system message, which is the first message.
pub(super) fn head(tools: &str, system: &str) -> Bytes {
    let mut out = format!(r#"{tools},"messages":["#);
    if !system.trim().is_empty() {
        out.push_str(&format!(r#"{{"role":"system","content":{}}},"#, json::string(system)));
    }
    Bytes::from(out)
}

/// The `tools` field; empty without tools.
pub(super) fn tools(prompt: &Prompt) -> String {
    if prompt.tools.is_empty() {
        return String::new();
    }
    let tools = prompt.tools.iter().map(|tool| {
        format!(
            r#"{{"type":"function","function":{{"name":{},"description":{},"parameters":{}}}}}"#,
            json::string(&tool.name),
            json::string(&tool.description),
            tool.schema
        )
    });
    format!(r#","tools":[{}]"#, tools.collect::<Vec<_>>().join(","))
}

/// Encodes one item.
pub(super) fn fragment(
    origin: &Origin,
    dialect: Dialect,
    item: &Item,
    context: EncodeContext<'_>,
) -> Option<(Turn, Bytes)> {
    let entry = match item {
        Item::Layer(text) => return user(text),
        Item::Entry(entry) => entry,
    };
    match entry.message.role {
        Role::User => user(&transcript::text(&entry.message)),
        Role::Assistant => {
            let message = assistant(origin, dialect, &entry.message, context.reasoning)?;
            Some((Turn::Assistant, Bytes::from(message)))
        }
        Role::Tool => outcomes(origin, dialect, &entry.message, context),
    }
}

/// The JSON between two fragments.
pub(super) fn glue(dialect: Dialect, between: Between) -> &'static str {
    use Turn::{Assistant, Outcomes, User};
    match (between.before, between.after) {
        (None, Some(User)) => r#"{"role":"user","content":""#,
        (None, Some(Outcomes)) => "",
        (None, Some(Assistant)) => r#"{"role":"user","content":"Continue."},"#,
        (None, None) => r#"{"role":"user","content":"Continue."}"#,
        (Some(User), Some(User)) if dialect.merge_user => r"\n\n",
        (Some(User), Some(User)) => r#""},{"role":"user","content":""#,
        (Some(User), Some(Assistant | Outcomes)) => r#""},"#,
        (Some(User), None) => r#""}"#,
        (Some(Outcomes), Some(User)) if dialect.assistant_after_tool => {
            r#",{"role":"assistant","content":"Noted."},{"role":"user","content":""#
        }
        (Some(Assistant | Outcomes), Some(User)) => r#",{"role":"user","content":""#,
        (Some(Assistant), Some(Assistant)) => r#",{"role":"user","content":"Continue."},"#,
        (Some(Assistant | Outcomes), Some(Assistant | Outcomes)) => ",",
        (Some(Assistant), None) => r#",{"role":"user","content":"Continue."}"#,
        (Some(Outcomes), None) => "",
    }
}

/// A user's text as a string without quotes.
pub(super) fn user(text: &str) -> Option<(Turn, Bytes)> {
    (!text.trim().is_empty()).then(|| (Turn::User, Bytes::from(json::unquoted(text))))
}

fn assistant(origin: &Origin, dialect: Dialect, message: &ModelMessage, reasoning: bool) -> Option<String> {
    let native = matching(origin, message).and_then(|native| RawObject::parse(&native.body));
    let calls = match &native {
        Some(native) => replayed_calls(native, message.calls().count()),
        None => canonical_calls(dialect, message),
    };
    let content = match &native {
        Some(native) => native.get("content").filter(|raw| *raw != "null").map(str::to_owned),
        None => Some(json::string(&transcript::text(message))),
    };
    let content = content.unwrap_or_else(|| r#""""#.to_owned());
    let mut fields = String::new();
    for key in REASONING.iter().filter(|_| reasoning) {
        if let Some(raw) = native.as_ref().and_then(|native| native.get(key)).filter(|raw| *raw != "null") {
            fields.push_str(&format!(r#","{key}":{raw}"#));
        }
    }
    // DeepSeek requires this field in every turn with calls, even if it is empty.
    if dialect.reasoning == ReasoningReplay::All && !calls.is_empty() && !fields.contains("reasoning_content")
    {
        fields.push_str(r#","reasoning_content":"""#);
    }
    if calls.is_empty() {
        let blank = serde_json::from_str::<String>(&content).is_ok_and(|text| text.trim().is_empty());
        return (!blank).then(|| format!(r#"{{"role":"assistant","content":{content}{fields}}}"#));
    }
    Some(format!(r#"{{"role":"assistant","content":{content}{fields},"tool_calls":[{}]}}"#, calls.join(",")))
}

fn replayed_calls(native: &RawObject, count: usize) -> Vec<String> {
    let raw = native.get("tool_calls").unwrap_or("[]");
    let calls: Vec<&RawValue> = serde_json::from_str(raw).unwrap_or_default();
    calls.into_iter().take(count).map(|call| call.get().to_owned()).collect()
}

fn canonical_calls(dialect: Dialect, message: &ModelMessage) -> Vec<String> {
    let call = |(id, name, arguments): (&CallId, &str, &str)| {
        format!(
            r#"{{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}}"#,
            json::string(&our_id(dialect, id)),
            json::string(&json::valid_name(name)),
            json::string(&json::valid_arguments(arguments))
        )
    };
    message.calls().map(call).collect()
}

fn our_id(dialect: Dialect, id: &CallId) -> String {
    if dialect.short_ids { json::short_id(&id.0) } else { id.0.clone() }
}

fn outcomes(
    origin: &Origin,
    dialect: Dialect,
    message: &ModelMessage,
    context: EncodeContext<'_>,
) -> Option<(Turn, Bytes)> {
    let mut results = Vec::new();
    let mut orphans = Vec::new();
    for part in &message.parts {
        let Part::ToolResult { id, name, text, .. } = part else { continue };
        let call = answered_call(origin, context.caller, id);
        match call.map(|call| call.native.map_or_else(|| our_id(dialect, call.id), str::to_owned)) {
            Some(sent) => results.push(format!(
                r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#,
                json::string(&sent),
                json::string(output(text))
            )),
            None => orphans.push(orphan(name, text)),
        }
    }
    if results.is_empty() {
        return user(&orphans.join("\n"));
    }
    Some((Turn::Outcomes, Bytes::from(results.join(","))))
}
