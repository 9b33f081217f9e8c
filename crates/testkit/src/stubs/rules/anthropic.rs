//! The rules of the Messages API, including the prefix rule: a signed reasoning block is valid only while
//! the system prompt, the tools and everything before it are unchanged.
//!
//! A signature of the stub contains the hash of its prefix and of the reasoning before it, so the check
//! needs only the request.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};

use super::{RuleVerdict, extends, list, text, tool_name};

const MARK: &str = "stub-signature";

/// Signs the reasoning of an answer to one request.
#[derive(Debug)]
pub struct Signer {
    prefix: String,
    last: String,
    count: usize,
}

impl Signer {
    /// A signer for an answer to this request.
    pub fn of(request: &Value) -> Self {
        let messages = request["messages"].as_array().map_or(0, Vec::len);
        let last = signatures(request).last().map(|found| found.signature.to_owned()).unwrap_or_default();
        Self { prefix: prefix(request, messages), last, count: 0 }
    }

    /// The signature of the next reasoning block.
    pub fn sign(&mut self, reasoning: &str) -> String {
        self.count += 1;
        let (reasoning, last) = (hash(reasoning), hash(&self.last));
        let signature = format!("{MARK}.{}.{reasoning}.{last}.{}", self.prefix, self.count);
        self.last.clone_from(&signature);
        signature
    }
}

struct Signed<'a> {
    message: usize,
    block: usize,
    reasoning: &'a str,
    signature: &'a str,
}

fn signatures(request: &Value) -> Vec<Signed<'_>> {
    let mut found = Vec::new();
    for (message, value) in request["messages"].as_array().into_iter().flatten().enumerate() {
        for (block, value) in value["content"].as_array().into_iter().flatten().enumerate() {
            if let Some(signature) = value["signature"].as_str().filter(|text| text.starts_with(MARK)) {
                let reasoning = value["thinking"].as_str().unwrap_or_default();
                found.push(Signed { message, block, reasoning, signature });
            }
        }
    }
    found
}

/// The hash of everything that a block in message `upto` is bound to. Reasoning is not part of it: it may be
/// removed from the start or entirely, and a gap in it is checked separately.
fn prefix(request: &Value, upto: usize) -> String {
    let mut seen = bare(&request["system"]).to_string() + &bare(&request["tools"]).to_string();
    for message in request["messages"].as_array().into_iter().flatten().take(upto) {
        for block in blocks_of(message).iter().filter(|block| !is_reasoning(block)) {
            seen.push_str(&format!("{}{}", message["role"], bare(block)));
        }
    }
    hash(&seen)
}

fn hash(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// A value without cache marks, which are not part of the prefix.
fn bare(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(bare).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| *key != "cache_control");
            kept.map(|(key, value)| (key.clone(), bare(value))).collect()
        }
        other => other.clone(),
    }
}

fn is_reasoning(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

fn blocks_of(message: &Value) -> Vec<Value> {
    match &message["content"] {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

/// Whether the model checks the prefix: all but the older models do.
fn binds(request: &Value) -> bool {
    let model = request["model"].as_str().unwrap_or_default();
    let older = ["claude-3", "claude-opus-4", "claude-sonnet-4", "claude-haiku-4"];
    !older.iter().any(|name| model.starts_with(name)) && !matches!(model, "claude-opus-5" | "claude-sonnet-5")
}

/// The paths of misplaced reasoning blocks, each with the vendor's error.
fn misplaced(request: &Value) -> Vec<(String, String)> {
    if !binds(request) {
        return Vec::new();
    }
    let mut bad = Vec::new();
    unsigned(request, &mut bad);
    let mut before: Option<&str> = None;
    for found in signatures(request) {
        let path = format!("messages.{}.content.{}", found.message, found.block);
        let parts: Vec<&str> = found.signature.split('.').collect();
        let [_, made_for, reasoning, last, _] = parts.as_slice() else {
            bad.push((path, "Invalid `signature` in `thinking` block.".into()));
            continue;
        };
        let gap = before.is_some_and(|before| hash(before) != *last);
        if *reasoning != hash(found.reasoning) {
            bad.push((path, "Invalid `signature` in `thinking` block. The block was changed.".into()));
        } else if *made_for != prefix(request, found.message) || gap {
            bad.push((path, "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".".into()));
        }
        before = Some(found.signature);
    }
    bad
}

/// Adds reasoning blocks whose signature is not from the stub.
fn unsigned(request: &Value, bad: &mut Vec<(String, String)>) {
    for (message, value) in request["messages"].as_array().into_iter().flatten().enumerate() {
        for (position, block) in value["content"].as_array().into_iter().flatten().enumerate() {
            let signature = block["signature"].as_str().unwrap_or_default();
            if block["type"] == "thinking" && !signature.starts_with(MARK) {
                let path = format!("messages.{message}.content.{position}");
                bad.push((path, "Invalid `signature` in `thinking` block.".into()));
            }
        }
    }
}

/// The entries of `input_transformations`: the blocks that the vendor drops, if the request allows it.
pub fn dropped_by_binding(request: &Value) -> Vec<Value> {
    if request["thinking"]["block_binding"]["prefix_mismatch_behavior"] != "drop_block" {
        return Vec::new();
    }
    let entry =
        |(path, _)| json!({"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"});
    misplaced(request).into_iter().map(entry).collect()
}

/// Checks a request against the vendor's rules.
pub fn check_anthropic(request: &Value) -> RuleVerdict {
    let model = text(&request["model"], "model")?;
    let max_tokens = request["max_tokens"].as_u64().filter(|max| *max > 0);
    let max_tokens = max_tokens.ok_or("max_tokens: wanted a number above 0")?;
    let names = tools(request)?;
    thinking(request, max_tokens)?;
    choice(request, model, &names)?;
    let messages = list(&request["messages"], "messages")?;
    if messages.is_empty() {
        return Err("messages: at least one message is required".into());
    }
    let mut open: Vec<String> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages.{index}");
        let wanted = if index % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != wanted {
            return Err(format!("{at}: roles must alternate, wanted `{wanted}`"));
        }
        let blocks = blocks_of(message);
        if blocks.is_empty() {
            return Err(format!("{at}: content must be non-empty"));
        }
        if wanted == "user" {
            check_user(&blocks, &open, &at)?;
            open.clear();
        } else {
            open = check_assistant(&blocks, &mut seen, &at)?;
        }
    }
    if messages.len() % 2 == 0 {
        return Err("messages: the conversation must end with a user message".into());
    }
    if !seen.is_empty() && names.is_empty() {
        return Err("tools: required where the history holds calls".into());
    }
    let marks = request.to_string().matches("\"cache_control\"").count();
    if marks > 4 {
        return Err(format!("a maximum of 4 blocks with cache_control may be provided, found {marks}"));
    }
    last_turn(request, messages)?;
    // If the request allows it, misplaced blocks are dropped. Blocks that were never signed are still refused.
    let drops = request["thinking"]["block_binding"]["prefix_mismatch_behavior"] == "drop_block";
    let refused = |(_, reason): &(String, String)| !drops || !reason.contains("bound to");
    match misplaced(request).into_iter().find(refused) {
        Some((path, reason)) => Err(format!("{path}: {reason}")),
        None => Ok(()),
    }
}

fn tools(request: &Value) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for (index, tool) in request["tools"].as_array().into_iter().flatten().enumerate() {
        let name = text(&tool["name"], &format!("tools.{index}.name"))?;
        tool_name(name, &format!("tools.{index}"))?;
        if names.iter().any(|other| other == name) {
            return Err(format!("tools: the name `{name}` is not unique"));
        }
        if tool["input_schema"]["type"] != "object" {
            return Err(format!("tools.{index}.input_schema.type: wanted `object`"));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

fn thinking(request: &Value, max_tokens: u64) -> RuleVerdict {
    let thinking = &request["thinking"];
    match thinking["type"].as_str() {
        None if thinking.is_null() => Ok(()),
        Some("adaptive" | "disabled") => Ok(()),
        Some("enabled") => {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or(0);
            if budget < 1_024 {
                return Err("thinking.enabled.budget_tokens: wanted at least 1024".into());
            }
            if budget >= max_tokens {
                return Err("`max_tokens` must be greater than `thinking.budget_tokens`".into());
            }
            match request["temperature"].as_f64() {
                Some(temperature) if (temperature - 1.0).abs() > f64::EPSILON => {
                    Err("`temperature` may only be set to 1 when thinking is enabled".into())
                }
                _ => Ok(()),
            }
        }
        _ => Err("thinking.type: wanted `adaptive`, `enabled` or `disabled`".into()),
    }
}

fn choice(request: &Value, model: &str, names: &[String]) -> RuleVerdict {
    let Some(choice) = request["tool_choice"]["type"].as_str() else { return Ok(()) };
    if names.is_empty() {
        return Err("tool_choice: only allowed where tools are given".into());
    }
    let forced = matches!(choice, "any" | "tool");
    let refuses = ["claude-fable", "claude-mythos", "claude-opus-5-5", "claude-sonnet-5-5"];
    if forced && refuses.iter().any(|name| model.starts_with(name)) {
        return Err(format!("tool_choice: `{choice}` is not supported by this model"));
    }
    if forced && request["thinking"]["type"] == "enabled" {
        return Err("Thinking may not be enabled when tool_choice forces tool use.".into());
    }
    Ok(())
}

/// Checks a user message: first the outcomes of all open calls, then text.
fn check_user(blocks: &[Value], open: &[String], at: &str) -> RuleVerdict {
    let mut left = open.to_vec();
    let mut text_began = false;
    for (index, block) in blocks.iter().enumerate() {
        let at = format!("{at}.content.{index}");
        match block["type"].as_str() {
            Some("text") => {
                visible(block, &at)?;
                text_began = true;
            }
            Some("tool_result") => {
                let id = text(&block["tool_use_id"], &format!("{at}.tool_use_id"))?;
                let Some(found) = left.iter().position(|call| call == id) else {
                    return Err(format!(
                        "{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}"
                    ));
                };
                if text_began {
                    return Err(format!("{at}: `tool_result` blocks must come first"));
                }
                left.remove(found);
            }
            Some("image" | "document") => text_began = true,
            other => return Err(format!("{at}: {other:?} is not a block of a user message")),
        }
    }
    match left.first() {
        Some(id) => Err(format!("{at}: `tool_use` ids were found without `tool_result` blocks: {id}")),
        None => Ok(()),
    }
}

/// Checks an assistant message and returns the ids of its calls.
fn check_assistant(blocks: &[Value], seen: &mut Vec<String>, at: &str) -> Result<Vec<String>, String> {
    let mut ids = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let at = format!("{at}.content.{index}");
        if is_reasoning(block) && !block["cache_control"].is_null() {
            return Err(format!("{at}: cache_control cannot be set for thinking blocks"));
        }
        match block["type"].as_str() {
            Some("text") => visible(block, &at)?,
            Some("tool_use") => {
                let id = text(&block["id"], &format!("{at}.id"))?;
                tool_name(text(&block["name"], &format!("{at}.name"))?, &at)?;
                if !block["input"].is_object() {
                    return Err(format!("{at}.input: wanted an object"));
                }
                if id.is_empty() || seen.iter().any(|other| other == id) {
                    return Err(format!("{at}: `tool_use` ids must be unique, got `{id}`"));
                }
                seen.push(id.to_owned());
                ids.push(id.to_owned());
            }
            Some("tool_result") => return Err(format!("{at}: no `tool_result` in an assistant message")),
            Some(_) => {}
            None => return Err(format!("{at}.type: wanted a string")),
        }
    }
    Ok(ids)
}

fn visible(block: &Value, at: &str) -> RuleVerdict {
    match text(&block["text"], &format!("{at}.text"))?.trim().is_empty() {
        true => Err(format!("{at}: text content blocks must contain non-whitespace text")),
        false => Ok(()),
    }
}

/// With manual thinking, the last assistant turn of a tool loop must begin with its reasoning.
fn last_turn(request: &Value, messages: &[Value]) -> RuleVerdict {
    if request["thinking"]["type"] != "enabled" {
        return Ok(());
    }
    let Some(last) = messages.iter().rev().find(|message| message["role"] == "assistant") else {
        return Ok(());
    };
    let blocks = blocks_of(last);
    let calls = blocks.iter().any(|block| block["type"] == "tool_use");
    if calls && !blocks.first().is_some_and(is_reasoning) {
        return Err(
            "a final `assistant` message must start with a thinking block when thinking is enabled".into()
        );
    }
    Ok(())
}

/// Checks that a request strictly extends the one before it, by content blocks in the vendor's order: system,
/// tools, then the blocks of all messages.
pub fn extends_anthropic(before: &Value, after: &Value) -> RuleVerdict {
    let blocks = |request: &Value| {
        let mut all = vec![bare(&request["system"]).to_string(), bare(&request["tools"]).to_string()];
        for message in request["messages"].as_array().into_iter().flatten() {
            let role = message["role"].as_str().unwrap_or_default();
            all.extend(blocks_of(message).iter().map(|block| format!("{role}: {}", bare(block))));
        }
        all
    };
    extends(&blocks(before), &blocks(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(messages: Value) -> Value {
        let schema = json!({"type": "object"});
        json!({"model": "claude-fable-5-2", "max_tokens": 100, "system": "s",
               "tools": [{"name": "f", "description": "", "input_schema": schema}], "messages": messages})
    }

    fn text_block(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn check(messages: Value, expected: Option<&str>) {
        let verdict = check_anthropic(&request(messages));
        match expected {
            None => assert_eq!(verdict, Ok(())),
            Some(part) => {
                assert!(verdict.as_ref().is_err_and(|e| e.contains(part)), "{verdict:?} lacks `{part}`")
            }
        }
    }

    fn user(blocks: Value) -> Value {
        json!({"role": "user", "content": blocks})
    }

    fn assistant(blocks: Value) -> Value {
        json!({"role": "assistant", "content": blocks})
    }

    #[test]
    fn a_request_that_breaks_a_rule_is_refused() {
        let hi = user(json!([text_block("hi")]));
        let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "x"});
        let asked = assistant(json!([call]));
        check(json!([hi, asked, user(json!([result, text_block("more")]))]), None);
        check(json!([hi, asked, user(json!([text_block("more"), result]))]), Some("must come first"));
        check(json!([hi, asked, hi]), Some("without `tool_result`"));
        check(json!([hi, hi]), Some("alternate"));
        check(json!([asked]), Some("alternate"));
        check(json!([hi, asked]), Some("end with a user"));
        check(json!([user(json!([result]))]), Some("unexpected `tool_use_id`"));
        check(json!([user(json!([text_block(" ")]))]), Some("non-whitespace"));
        check(json!([hi, assistant(json!([call, call])), hi]), Some("unique"));
        let mut forced = request(json!([hi]));
        forced["tool_choice"] = json!({"type": "any"});
        assert!(check_anthropic(&forced).is_err());
        forced["model"] = json!("claude-haiku-5-5");
        assert_eq!(check_anthropic(&forced), Ok(()));
    }

    #[test]
    fn reasoning_is_bound_to_its_prefix_and_to_the_reasoning_before_it() {
        let hi = user(json!([text_block("hi")]));
        let first = request(json!([hi]));
        let think = |request: &Value| {
            let signature = Signer::of(request).sign("hm");
            json!({"type": "thinking", "thinking": "hm", "signature": signature})
        };
        let a = assistant(json!([think(&first), text_block("one")]));
        let second = request(json!([hi, a, user(json!([text_block("go")]))]));
        assert_eq!(check_anthropic(&second), Ok(()));
        let b = assistant(json!([think(&second), text_block("two")]));
        let go = user(json!([text_block("go")]));
        let third = request(json!([hi, a, go, b, go]));
        assert_eq!(check_anthropic(&third), Ok(()));

        let mut edited = third.clone();
        edited["messages"][0]["content"][0]["text"] = json!("hi!");
        assert!(check_anthropic(&edited).unwrap_err().contains("bound to a different conversation"));
        edited["thinking"] =
            json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
        assert_eq!(check_anthropic(&edited), Ok(()));
        assert_eq!(dropped_by_binding(&edited).len(), 2);

        let without_first = request(json!([hi, assistant(json!([text_block("one")])), go, b, go]));
        assert_eq!(check_anthropic(&without_first), Ok(()), "removing from the start is allowed");
        let mut marked = third.clone();
        marked["messages"][0]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
        assert_eq!(check_anthropic(&marked), Ok(()), "cache marks are not part of the prefix");
    }

    #[test]
    fn removing_reasoning_from_the_middle_is_refused() {
        let hi = user(json!([text_block("hi")]));
        let mut messages = vec![hi.clone()];
        for word in ["one", "two", "three"] {
            let signature = Signer::of(&request(json!(messages))).sign(word);
            messages.push(assistant(json!([
                {"type": "thinking", "thinking": word, "signature": signature}, text_block(word)])));
            messages.push(hi.clone());
        }
        assert_eq!(check_anthropic(&request(json!(messages))), Ok(()));
        messages[3]["content"] = json!([text_block("two")]);
        assert!(check_anthropic(&request(json!(messages))).unwrap_err().contains("bound"));
    }
}
