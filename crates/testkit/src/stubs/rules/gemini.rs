//! The rules of Gemini's `generateContent`, including thought signatures: in the current turn the first call
//! of each step must be signed, and a signed call may not be changed.
//!
//! A signature of the stub contains the hash of its call, so the check needs only the request.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};

use super::{RuleVerdict, extends, list, text, tool_name};

const MARK: &str = "stub-signature";
/// The signature that the vendor accepts for a call that it did not make.
const NO_VALIDATION: &str = "skip_thought_signature_validator";

/// The signature of a call.
pub fn sign_gemini(name: &str, args: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    format!("{name}{args}").hash(&mut hasher);
    format!("{MARK}.{:016x}", hasher.finish())
}

/// An error in the vendor's format.
pub fn gemini_error(error: &Value) -> Value {
    let status = error["type"].as_str().unwrap_or_default();
    let code = match status {
        "INVALID_ARGUMENT" | "invalid_request_error" => 400,
        "RESOURCE_EXHAUSTED" => 429,
        "UNAVAILABLE" => 503,
        _ => 500,
    };
    json!({"error": {"code": code, "message": error["message"], "status": status}})
}

/// Checks a request to `model` against the vendor's rules.
pub fn check_gemini(model: &str, request: &Value) -> RuleVerdict {
    tools(request)?;
    if request["generationConfig"]["maxOutputTokens"].as_u64().is_none_or(|max| max == 0) {
        return Err("generationConfig.maxOutputTokens: wanted a number above 0".into());
    }
    let contents = list(&request["contents"], "contents")?;
    if contents.is_empty() {
        return Err("contents: must not be empty".into());
    }
    if contents[0]["role"] != "user" {
        return Err("contents.0: please ensure that the conversation begins with a user turn".into());
    }
    let mut open: Vec<&Value> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let at = format!("contents.{index}");
        let parts = list(&content["parts"], &format!("{at}.parts"))?;
        if parts.is_empty() {
            return Err(format!("{at}: must include at least one parts field"));
        }
        for (position, part) in parts.iter().enumerate() {
            data(part, &format!("{at}.parts.{position}"))?;
        }
        match content["role"].as_str() {
            Some("user") => user(parts, &mut open, &at)?,
            Some("model") => {
                if !open.is_empty() || contents[index - 1]["role"] != "user" {
                    return Err(format!(
                        "{at}: a function call turn must come immediately after a user turn or after a function response turn"
                    ));
                }
                open = calls(parts, &at)?;
            }
            other => return Err(format!("{at}.role: please use a valid role: user, model; got {other:?}")),
        }
    }
    if contents.last().is_none_or(|last| last["role"] != "user") {
        return Err("contents: the last content must be of the user".into());
    }
    signatures(model, contents)
}

fn tools(request: &Value) -> RuleVerdict {
    let mut names: Vec<&str> = Vec::new();
    let declared = request["tools"].as_array().into_iter().flatten();
    let declared = declared.flat_map(|tool| tool["functionDeclarations"].as_array().into_iter().flatten());
    for (index, tool) in declared.enumerate() {
        let at = format!("tools.0.functionDeclarations.{index}");
        let name = text(&tool["name"], &format!("{at}.name"))?;
        tool_name(name, &at)?;
        if names.contains(&name) {
            return Err(format!("{at}: duplicate function declaration found: {name}"));
        }
        if tool["parameters"].is_null() == tool["parametersJsonSchema"].is_null() {
            return Err(format!("{at}: wanted one of `parameters` and `parametersJsonSchema`"));
        }
        if tool.to_string().contains("\"$schema\"") {
            return Err(format!("{at}: unknown name \"$schema\""));
        }
        names.push(name);
    }
    let mode = &request["toolConfig"]["functionCallingConfig"]["mode"];
    if names.is_empty() && !mode.is_null() {
        return Err("toolConfig: function calling config is set without function declarations".into());
    }
    match mode.as_str() {
        None | Some("AUTO" | "ANY" | "NONE" | "VALIDATED") => Ok(()),
        Some(other) => Err(format!("toolConfig.functionCallingConfig.mode: `{other}` is not a mode")),
    }
}

/// A part has exactly one data field, apart from the fields about reasoning.
fn data(part: &Value, at: &str) -> RuleVerdict {
    let fields = part.as_object().ok_or_else(|| format!("{at}: wanted an object"))?;
    let beside = ["thought", "thoughtSignature"];
    let data = fields.keys().filter(|key| !beside.contains(&key.as_str())).count();
    if data > 1 || (data == 0 && part["thoughtSignature"].is_null()) {
        return Err(format!("{at}: required oneof field 'data' must have one initialized field"));
    }
    Ok(())
}

fn user(parts: &[Value], open: &mut Vec<&Value>, at: &str) -> RuleVerdict {
    let responses: Vec<&Value> =
        parts.iter().map(|part| &part["functionResponse"]).filter(|response| !response.is_null()).collect();
    if responses.is_empty() {
        if !open.is_empty() {
            return Err(format!("{at}: function response parts must come directly after the function calls"));
        }
        let blank = |part: &Value| part["text"].as_str().is_some_and(|text| text.trim().is_empty());
        if parts.iter().any(blank) {
            return Err(format!("{at}: a text is empty"));
        }
        return Ok(());
    }
    if responses.len() != parts.len() {
        return Err(format!("{at}: function responses must be in a content of their own"));
    }
    if responses.len() != open.len() {
        return Err(format!(
            "{at}: the number of function response parts ({}) is not equal to the number of function call parts ({})",
            responses.len(),
            open.len()
        ));
    }
    for (position, (response, call)) in responses.iter().zip(open.drain(..)).enumerate() {
        if response["name"] != call["name"] || response["id"] != call["id"] {
            return Err(format!(
                "{at}.parts.{position}: answers {}, wanted {}",
                response["name"], call["name"]
            ));
        }
        if !response["response"].is_object() {
            return Err(format!("{at}.parts.{position}.functionResponse.response: wanted an object"));
        }
    }
    Ok(())
}

fn calls<'a>(parts: &'a [Value], at: &str) -> Result<Vec<&'a Value>, String> {
    let mut calls = Vec::new();
    for (position, part) in parts.iter().enumerate() {
        let call = &part["functionCall"];
        if call.is_null() {
            continue;
        }
        let at = format!("{at}.parts.{position}.functionCall");
        tool_name(text(&call["name"], &format!("{at}.name"))?, &at)?;
        if !call["args"].is_object() {
            return Err(format!("{at}.args: wanted an object"));
        }
        if !call["partialArgs"].is_null() || !call["willContinue"].is_null() {
            return Err(format!("{at}: a call in the history must be whole"));
        }
        calls.push(call);
    }
    Ok(calls)
}

/// Checks the signatures. The current turn begins with the last user content that is not a function response.
fn signatures(model: &str, contents: &[Value]) -> RuleVerdict {
    for (index, content) in contents.iter().enumerate() {
        let parts = content["parts"].as_array().into_iter().flatten();
        let Some(call) = parts.clone().find(|part| !part["functionCall"].is_null()) else { continue };
        let signature = call["thoughtSignature"].as_str();
        let (name, args) = (&call["functionCall"]["name"], &call["functionCall"]["args"]);
        let changed = |signature: &str| {
            signature.starts_with(MARK) && signature != sign_gemini(name.as_str().unwrap_or_default(), args)
        };
        if signature.is_some_and(changed) {
            return Err(format!("contents.{index}: Thought signature is not valid: the call was changed"));
        }
        let current = contents[index..].iter().all(|later| {
            later["role"] == "model" || later["parts"].to_string().contains("\"functionResponse\"")
        });
        let known = signature.is_some_and(|text| text == NO_VALIDATION || text.starts_with(MARK));
        if current && !known && !model.starts_with("gemini-2") {
            return Err(format!(
                "contents.{index}: Function call is missing a thought_signature in functionCall parts: {name}"
            ));
        }
    }
    Ok(())
}

/// Checks that a request strictly extends the one before it: the tools, and part by part.
pub fn extends_gemini(before: &Value, after: &Value) -> RuleVerdict {
    let blocks = |request: &Value| {
        let mut all = vec![request["systemInstruction"].to_string(), request["tools"].to_string()];
        for content in request["contents"].as_array().into_iter().flatten() {
            let parts = content["parts"].as_array().into_iter().flatten();
            all.extend(parts.map(|part| format!("{}: {part}", content["role"])));
        }
        all
    };
    extends(&blocks(before), &blocks(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(contents: Value, expected: Option<&str>) {
        let request = json!({"generationConfig": {"maxOutputTokens": 9}, "contents": contents});
        let verdict = check_gemini("gemini-3-pro", &request);
        match expected {
            None => assert_eq!(verdict, Ok(())),
            Some(part) => {
                assert!(verdict.as_ref().is_err_and(|e| e.contains(part)), "{verdict:?} lacks `{part}`")
            }
        }
    }

    #[test]
    fn a_request_that_breaks_a_rule_is_refused() {
        let hi = json!({"role": "user", "parts": [{"text": "hi"}]});
        let plain = json!({"functionCall": {"name": "f", "args": {}}});
        let mut signed = plain.clone();
        signed["thoughtSignature"] = json!(sign_gemini("f", &json!({})));
        let model = |parts: &[&Value]| json!({"role": "model", "parts": parts});
        let answer = json!({"functionResponse": {"name": "f", "response": {"output": "x"}}});
        let answers = |count: usize| json!({"role": "user", "parts": vec![&answer; count]});
        check(json!([hi, model(&[&signed]), answers(1)]), None);
        check(json!([hi, model(&[&signed, &plain]), answers(2), model(&[&signed]), answers(1)]), None);
        check(json!([hi, model(&[&plain]), answers(1), hi]), None);
        check(json!([hi, model(&[&plain]), answers(1)]), Some("missing a thought_signature"));
        check(json!([hi, model(&[&signed, &plain]), answers(1)]), Some("number of function response"));
        check(json!([hi, model(&[&signed]), hi]), Some("directly after"));
        check(json!([hi, model(&[&signed])]), Some("last content"));
        check(json!([model(&[&signed])]), Some("begins with a user turn"));
        check(json!([hi, hi]), None);
        let text = json!({"text": "x"});
        check(json!([hi, model(&[&text]), model(&[&text])]), Some("immediately after"));
        let mixed = json!({"role": "user", "parts": [answer, {"text": "more"}]});
        check(json!([hi, model(&[&signed]), mixed]), Some("of their own"));
        let mut changed = signed.clone();
        changed["functionCall"]["args"] = json!({"x": 1});
        check(json!([hi, model(&[&changed]), answers(1)]), Some("not valid"));
        check(json!([{"role": "system", "parts": [{"text": "x"}]}]), Some("user turn"));
        check(json!([]), Some("must not be empty"));
    }
}
