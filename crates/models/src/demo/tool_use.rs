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
