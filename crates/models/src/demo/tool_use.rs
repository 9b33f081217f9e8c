//! Tools that somebody asks the demo model to call, as `call weather {"city": "Rome"}`, and what it says about their outcomes.

use agent::call::Effect;
use agent::entry::Entry;
use agent::message::Part;
use agent::port::ToolSpec;
use serde_json::{Value, json};

use super::{ToolCall, shortened};

/// The call that a message asks for: of a tool that reaches outside, with arguments as JSON.
pub(super) fn wanted(text: &str, tools: &[ToolSpec]) -> Option<ToolCall> {
    let (word, rest) = text.trim().split_once(' ')?;
    let (name, arguments) = rest.trim().split_once(' ').unwrap_or((rest.trim(), "{}"));
    let reaches_outside = |tool: &&ToolSpec| tool.name == name && tool.effect != Effect::Inward;
    let tool = tools.iter().find(reaches_outside).filter(|_| word.eq_ignore_ascii_case("call"))?;
    let arguments: Value = serde_json::from_str(arguments).ok().filter(Value::is_object)?;
    Some(ToolCall { tool: tool.name.clone(), arguments })
}

/// Why nothing is called, if a message asks for a call that cannot be made.
pub(super) fn not_called(text: &str, tools: &[ToolSpec]) -> Option<String> {
    let (word, rest) = text.trim().split_once(' ')?;
    let (name, arguments) = rest.trim().split_once(' ').unwrap_or((rest.trim(), "{}"));
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    // "Call me tomorrow" asks for none.
    if !word.eq_ignore_ascii_case("call") || !is_name || !arguments.trim_start().starts_with('{') {
        return None;
    }
    match tools.iter().find(|tool| tool.name == name) {
        None => Some(format!("I have no tool `{}`", shortened(name))),
        Some(tool) if tool.effect == Effect::Inward => {
            Some(format!("`{name}` reaches nothing outside, and I am told to call only tools that do"))
        }
        Some(_) => {
            wanted(text, tools).is_none().then(|| format!("the arguments of `{name}` are no JSON object"))
        }
    }
}

/// A message about the outcomes of such calls.
pub(super) fn answer(
    outcomes: Option<&Entry>,
    space: Option<String>,
    tools: &[ToolSpec],
) -> Option<ToolCall> {
    let is_outward = |name: &str| tools.iter().any(|tool| tool.name == name && tool.effect != Effect::Inward);
    let lines = outcomes?.message.parts.iter().filter_map(|part| match part {
        Part::ToolResult { name, text, .. } if is_outward(name) => {
            Some(format!("`{name}` says: {}", shortened(text)))
        }
        _ => None,
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let space = space.filter(|_| !text.is_empty())?;
    Some(ToolCall { tool: "send_message".to_owned(), arguments: json!({"space": space, "text": text}) })
}
