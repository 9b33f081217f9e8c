//! The rules of chat completions: those of OpenAI, and those that compatible servers add.

use serde_json::Value;

use super::{RuleVerdict, extends, list, text, tool_name};

/// Rules of a server in addition to those of OpenAI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// Two user messages may not follow each other.
    pub alternate: bool,
    /// A user message may not follow a tool message.
    pub assistant_after_tool: bool,
    /// Call ids have nine letters or digits.
    pub short_ids: bool,
    /// Every assistant message with calls has `reasoning_content`.
    pub reasoning_everywhere: bool,
    /// Arguments in the history are parsed and must be JSON objects.
    pub parses_arguments: bool,
}

/// Checks a request against the rules of OpenAI and those that nearly all servers share.
pub fn check_openai(request: &Value) -> RuleVerdict {
    check_openai_demands(request, &Demands::default())
}

/// The same with additional rules of a server.
pub fn check_openai_demands(request: &Value, demands: &Demands) -> RuleVerdict {
    text(&request["model"], "model")?;
    let mut names: Vec<&str> = Vec::new();
    for (index, tool) in request["tools"].as_array().into_iter().flatten().enumerate() {
        let name = text(&tool["function"]["name"], &format!("tools.{index}.function.name"))?;
        tool_name(name, &format!("tools.{index}"))?;
        if names.contains(&name) {
            return Err(format!("tools.{index}: the name `{name}` is taken"));
        }
        names.push(name);
    }
    if names.is_empty() && !request["tool_choice"].is_null() {
        return Err("tool_choice: only allowed when tools are specified".into());
    }
    let messages = list(&request["messages"], "messages")?;
    if messages.is_empty() {
        return Err("messages: wanted at least one".into());
    }
    let mut open: Vec<&str> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut before = "";
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages.{index}");
        let role = text(&message["role"], &format!("{at}.role"))?;
        if role != "tool" && !open.is_empty() {
            return Err(format!("{at}: the calls {open:?} must be answered by tool messages first"));
        }
        match role {
            "system" if index > 0 => return Err(format!("{at}: system message must be at the beginning")),
            "system" => {
                text(&message["content"], &format!("{at}.content"))?;
            }
            "user" => user(message, before, demands, &at)?,
            "assistant" => {
                open = calls(message, demands, &at)?;
                if let Some(id) = open.iter().find(|id| seen.contains(id)) {
                    return Err(format!("{at}: the call id `{id}` was used before"));
                }
                seen.extend(&open);
            }
            "tool" => {
                text(&message["content"], &format!("{at}.content"))?;
                let id = text(&message["tool_call_id"], &format!("{at}.tool_call_id"))?;
                let found = open.iter().position(|call| *call == id);
                let found = found.ok_or_else(|| format!("{at}: no call before it has the id `{id}`"))?;
                open.remove(found);
            }
            other => return Err(format!("{at}: `{other}` is not a role")),
        }
        before = role;
    }
    if !open.is_empty() {
        return Err(format!("messages: the calls {open:?} are not answered"));
    }
    if before == "assistant" {
        return Err("messages: the last message must be of a user or a tool".into());
    }
    Ok(())
}

fn user(message: &Value, before: &str, demands: &Demands, at: &str) -> RuleVerdict {
    if text(&message["content"], &format!("{at}.content"))?.trim().is_empty() {
        return Err(format!("{at}.content: empty"));
    }
    if demands.alternate && before == "user" {
        return Err(format!("{at}: conversation roles must alternate user/assistant"));
    }
    if demands.assistant_after_tool && before == "tool" {
        return Err(format!("{at}: unexpected role `user` after role `tool`"));
    }
    Ok(())
}

fn calls<'a>(message: &'a Value, demands: &Demands, at: &str) -> Result<Vec<&'a str>, String> {
    let mut ids = Vec::new();
    for (index, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let at = format!("{at}.tool_calls.{index}");
        let id = text(&call["id"], &format!("{at}.id"))?;
        if id.is_empty() || ids.contains(&id) {
            return Err(format!("{at}.id: `{id}` is empty or given twice"));
        }
        if demands.short_ids && !(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())) {
            return Err(format!("{at}.id: must be a-z, A-Z, 0-9, with a length of 9, got `{id}`"));
        }
        tool_name(text(&call["function"]["name"], &format!("{at}.function.name"))?, &at)?;
        let arguments = text(&call["function"]["arguments"], &format!("{at}.function.arguments"))?;
        let parsed: Option<Value> = serde_json::from_str(arguments).ok();
        if demands.parses_arguments && !parsed.is_some_and(|value| value.is_object()) {
            return Err(format!("{at}: failed to parse tool call arguments as JSON: `{arguments}`"));
        }
        ids.push(id);
    }
    let content = &message["content"];
    if ids.is_empty() && content.as_str().is_none_or(str::is_empty) {
        return Err(format!("{at}: wanted content or calls"));
    }
    if demands.reasoning_everywhere && !ids.is_empty() && !message["reasoning_content"].is_string() {
        return Err(format!("{at}: missing `reasoning_content` in a message with calls"));
    }
    Ok(ids)
}

/// Checks that a request strictly extends the one before it: the tools, and message by message. Text may have
/// been appended to the last user message of the earlier request.
pub fn extends_openai(before: &Value, after: &Value) -> RuleVerdict {
    extends(&blocks(before), &blocks(after))
}

/// Each paragraph of a user message is a block, because adjacent user messages are merged as paragraphs for
/// servers that want alternating roles.
fn blocks(request: &Value) -> Vec<String> {
    let mut blocks = vec![request["tools"].to_string(), request["response_format"].to_string()];
    for message in request["messages"].as_array().into_iter().flatten() {
        match (message["role"].as_str(), message["content"].as_str()) {
            (Some("user"), Some(content)) => {
                blocks.extend(content.split("\n\n").map(|paragraph| format!("user: {paragraph}")));
            }
            _ => blocks.push(message.to_string()),
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(messages: Value, demands: &Demands, expected: Option<&str>) {
        let verdict = check_openai_demands(&json!({"model": "m", "messages": messages}), demands);
        match expected {
            None => assert_eq!(verdict, Ok(())),
            Some(part) => {
                assert!(verdict.as_ref().is_err_and(|e| e.contains(part)), "{verdict:?} lacks `{part}`")
            }
        }
    }

    #[test]
    fn a_request_that_breaks_a_rule_is_refused() {
        let call = json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
        let tool = json!({"role": "tool", "tool_call_id": "a", "content": "x"});
        let user = json!({"role": "user", "content": "hi"});
        let none = Demands::default();
        check(json!([user, call, tool]), &none, None);
        check(json!([user, call, user]), &none, Some("must be answered"));
        check(json!([user, call]), &none, Some("not answered"));
        check(json!([user, tool]), &none, Some("no call before it"));
        check(json!([user, call, tool, call, tool]), &none, Some("was used before"));
        check(json!([user, {"role": "system", "content": "x"}]), &none, Some("at the beginning"));
        check(json!([user, {"role": "assistant", "content": ""}]), &none, Some("content or calls"));
        check(json!([user, user]), &Demands { alternate: true, ..none.clone() }, Some("alternate"));
        let bridge = Demands { assistant_after_tool: true, ..none.clone() };
        check(json!([user, call, tool, user]), &bridge, Some("after role `tool`"));
        check(json!([user, call, tool]), &Demands { short_ids: true, ..none.clone() }, Some("length of 9"));
        check(
            json!([user, call, tool]),
            &Demands { reasoning_everywhere: true, ..none },
            Some("reasoning_content"),
        );
    }
}
