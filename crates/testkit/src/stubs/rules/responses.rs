//! The rules of the Responses API without stored responses: every call has its output, reasoning comes
//! before the item that it led to, and an id is only known together with the reasoning before it.
//!
//! The ids of the stub name that reasoning, so the check needs only the request.

use serde_json::Value;

use super::{RuleVerdict, extends, list, text, tool_name};

const SEALED: &str = "stub-sealed";

/// Creates the ids for the items of one answer.
#[derive(Debug)]
pub struct ItemIds {
    answer: usize,
    count: usize,
    reasoning: String,
}

impl ItemIds {
    /// Starts the ids of an answer to this request.
    pub fn of(request: &Value) -> Self {
        let answer = request["input"].as_array().map_or(0, Vec::len);
        Self { answer, count: 0, reasoning: "none".into() }
    }

    /// The id of the next item, of a kind such as `msg` or `fc`.
    pub fn next(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}_stub.{}.{}.{}", self.answer, self.count, self.reasoning)
    }

    /// The id of the next reasoning item, and its encrypted content.
    pub fn reasoning(&mut self) -> (String, String) {
        self.count += 1;
        let id = format!("rs_stub.{}.{}", self.answer, self.count);
        self.reasoning = id.replace('.', "-");
        let sealed = format!("{SEALED}.{id}");
        (id, sealed)
    }
}

/// Checks a request against the vendor's rules.
pub fn check_responses(request: &Value) -> RuleVerdict {
    let model = text(&request["model"], "model")?;
    if request["store"] != false {
        return Err("store: wanted `false`, responses must not be stored".into());
    }
    if request["max_output_tokens"].as_u64().is_some_and(|max| max < 16) {
        return Err("max_output_tokens: integer below minimum value, wanted at least 16".into());
    }
    let sealed = request["include"].to_string().contains("reasoning.encrypted_content");
    if sealed && model.starts_with("gpt-4") {
        return Err("include: Encrypted content is not supported with this model.".into());
    }
    tools(request)?;
    let input = list(&request["input"], "input")?;
    if input.is_empty() {
        return Err("input: wanted at least one item".into());
    }
    let mut open: Vec<&str> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, item) in input.iter().enumerate() {
        let at = format!("input.{index}");
        match text(&item["type"], &format!("{at}.type"))? {
            "message" => message(item, &open, &at)?,
            "reasoning" => reasoning(item, input.get(index + 1), &at)?,
            "function_call" => {
                let id = text(&item["call_id"], &format!("{at}.call_id"))?;
                if id.is_empty() || id.len() > 64 || seen.contains(&id) {
                    return Err(format!("{at}.call_id: `{id}` is empty, too long or given twice"));
                }
                tool_name(text(&item["name"], &format!("{at}.name"))?, &at)?;
                text(&item["arguments"], &format!("{at}.arguments"))?;
                seen.push(id);
                open.push(id);
            }
            "function_call_output" => {
                let id = text(&item["call_id"], &format!("{at}.call_id"))?;
                text(&item["output"], &format!("{at}.output"))?;
                let found = open.iter().position(|call| *call == id);
                let found = found.ok_or_else(|| {
                    format!("{at}: No tool call found for function call output with call_id {id}")
                })?;
                open.remove(found);
            }
            "custom_tool_call" => return Err(format!("{at}: No tool output found for custom tool call")),
            // Items of the vendor's own tools are sent back unchanged.
            _ => {}
        }
        known_id(item, &input[..index], &at)?;
    }
    if let Some(id) = open.first() {
        return Err(format!("input: No tool output found for function call {id}."));
    }
    let last = &input[input.len() - 1];
    if last["role"] != "user" && last["type"] != "function_call_output" {
        return Err("input: the last item must be a user message or a call output".into());
    }
    Ok(())
}

fn tools(request: &Value) -> RuleVerdict {
    let mut names: Vec<&str> = Vec::new();
    for (index, tool) in request["tools"].as_array().into_iter().flatten().enumerate() {
        let at = format!("tools.{index}");
        if tool["type"] != "function" {
            return Err(format!("{at}.type: wanted `function`"));
        }
        let name = text(&tool["name"], &format!("{at}.name"))?;
        tool_name(name, &at)?;
        if names.contains(&name) {
            return Err(format!("{at}: the name `{name}` is taken"));
        }
        if !tool["parameters"].is_object() {
            return Err(format!("{at}.parameters: wanted an object"));
        }
        if tool["strict"] != false && tool["parameters"]["additionalProperties"] != false {
            return Err(format!("{at}: strict schemas want `additionalProperties` to be false"));
        }
        names.push(name);
    }
    if names.is_empty() && !request["tool_choice"].is_null() {
        return Err("tool_choice: only allowed when tools are specified".into());
    }
    Ok(())
}

fn message(item: &Value, open: &[&str], at: &str) -> RuleVerdict {
    let wanted: &[&str] = match item["role"].as_str() {
        Some("assistant") => &["output_text", "refusal"],
        Some("user" | "system" | "developer") => &["input_text"],
        other => return Err(format!("{at}.role: {other:?} is not a role")),
    };
    let content = list(&item["content"], &format!("{at}.content"))?;
    for (position, part) in content.iter().enumerate() {
        let kind = text(&part["type"], &format!("{at}.content.{position}.type"))?;
        if !wanted.contains(&kind) {
            return Err(format!("{at}.content.{position}: invalid value `{kind}`, supported are {wanted:?}"));
        }
        let said = if kind == "refusal" { &part["refusal"] } else { &part["text"] };
        if text(said, &format!("{at}.content.{position}"))?.trim().is_empty() {
            return Err(format!("{at}.content.{position}: empty"));
        }
    }
    if item["role"] == "user" && !open.is_empty() {
        return Err(format!("{at}: No tool output found for function call {}.", open[0]));
    }
    Ok(())
}

fn reasoning(item: &Value, next: Option<&Value>, at: &str) -> RuleVerdict {
    let sealed = item["encrypted_content"].as_str().unwrap_or_default();
    let id = item["id"].as_str().unwrap_or_default();
    if sealed.is_empty() {
        return Err(format!(
            "{at}: Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        ));
    }
    let own = sealed.strip_prefix(SEALED).and_then(|rest| rest.strip_prefix('.'));
    if own.is_none() || (!id.is_empty() && own != Some(id)) {
        return Err(format!("{at}: The encrypted content for item {id} could not be verified."));
    }
    let follows = next.is_some_and(|next| {
        next["role"] == "assistant" || matches!(next["type"].as_str(), Some("reasoning" | "function_call"))
    });
    if !follows {
        return Err(format!(
            "{at}: Item '{id}' of type 'reasoning' was provided without its required following item."
        ));
    }
    Ok(())
}

/// Checks that an id comes with the reasoning that it names.
fn known_id(item: &Value, before: &[Value], at: &str) -> RuleVerdict {
    let Some(id) = item["id"].as_str() else { return Ok(()) };
    let kind = match item["type"].as_str() {
        Some("message") => "msg",
        Some("function_call") => "fc",
        Some("reasoning") => "rs",
        _ => return Ok(()),
    };
    let Some(rest) = id.strip_prefix(&format!("{kind}_stub.")) else {
        return Err(format!(
            "{at}.id: Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        ));
    };
    let wanted = rest.rsplit('.').next().filter(|_| kind != "rs").unwrap_or("none");
    let there =
        before.iter().any(|earlier| earlier["id"].as_str().is_some_and(|id| id.replace('.', "-") == wanted));
    if wanted != "none" && !there {
        return Err(format!(
            "{at}: Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: '{wanted}'."
        ));
    }
    Ok(())
}

/// Checks that a request strictly extends the one before it: the tools, and item by item.
pub fn extends_responses(before: &Value, after: &Value) -> RuleVerdict {
    let blocks = |request: &Value| {
        let mut all = vec![request["instructions"].to_string(), request["tools"].to_string()];
        all.extend(request["input"].as_array().into_iter().flatten().map(Value::to_string));
        all
    };
    extends(&blocks(before), &blocks(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(input: Value, expected: Option<&str>) {
        let verdict = check_responses(&json!({"model": "gpt-5", "store": false, "input": input}));
        match expected {
            None => assert_eq!(verdict, Ok(())),
            Some(part) => {
                assert!(verdict.as_ref().is_err_and(|e| e.contains(part)), "{verdict:?} lacks `{part}`")
            }
        }
    }

    #[test]
    fn a_request_that_breaks_a_rule_is_refused() {
        let hi =
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]});
        let call = json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"});
        let output = json!({"type": "function_call_output", "call_id": "a", "output": "x"});
        let mut ids = ItemIds::of(&json!({"input": [hi]}));
        let (id, sealed) = ids.reasoning();
        let thought = json!({"type": "reasoning", "id": id, "encrypted_content": sealed, "summary": []});
        let mut named = call.clone();
        named["id"] = json!(ids.next("fc"));
        check(json!([hi, call, output]), None);
        check(json!([hi, thought, named, output]), None);
        check(json!([hi, named, output]), Some("without its required 'reasoning' item"));
        check(json!([hi, thought, hi]), Some("required following item"));
        check(json!([hi, call, hi]), Some("No tool output found"));
        check(json!([hi, call]), Some("No tool output found"));
        check(json!([hi, output]), Some("No tool call found"));
        check(json!([hi, call, output, call, output]), Some("given twice"));
        let mut unknown = call.clone();
        unknown["id"] = json!("fc_123");
        check(json!([hi, unknown, output]), Some("not found"));
        let mut stripped = thought.clone();
        stripped["encrypted_content"] = Value::Null;
        check(json!([hi, stripped, call, output]), Some("not persisted"));
        let mut other = thought.clone();
        other["id"] = json!("rs_stub.9.9");
        check(json!([hi, other, call, output]), Some("could not be verified"));
        check(json!([]), Some("at least one item"));
        let stored = json!({"model": "gpt-5", "input": [hi]});
        assert!(check_responses(&stored).unwrap_err().contains("store"));
        let sealed = json!({"model": "gpt-4.1", "store": false, "include": ["reasoning.encrypted_content"], "input": [hi]});
        assert!(check_responses(&sealed).unwrap_err().contains("not supported"));
    }
}
