//! What a server says, entry by entry: whatever of it can be used is, and one malformed entry costs no other. What is not
//! used here is left out before the client library reads it.

use serde_json::{Map, Value, json};

use crate::json::TOO_DEEP;

/// Longest shown name of what was left out.
const NAME_SHOWN_CHARS: usize = 80;

/// What of a message could not be used: names of tools, each with the reason.
pub(super) type LeftOut = Vec<(String, String)>;

/// Mends the result of a message, if it has one.
pub(super) fn mend(message: &mut Value) -> LeftOut {
    let mut left_out = LeftOut::new();
    let Some(Value::Object(result)) = message.get_mut("result") else { return left_out };
    for (key, value) in &mut *result {
        match key.as_str() {
            "tools" => list(value, |tool| mend_tool(tool, &mut left_out)),
            "content" => {
                if value.is_null() {
                    *value = json!([]);
                } else if !value.is_array() {
                    *value = Value::Array(vec![value.take()]);
                }
                list(value, |block| Some(mend_block(block)));
            }
            "contents" => list(value, |contents| Some(mend_contents(contents))),
            "resources" => list(value, |entry| mend_named(entry, "uri")),
            "resourceTemplates" => list(value, |entry| mend_named(entry, "uriTemplate")),
            "capabilities" => mend_capabilities(value),
            "serverInfo" => *value = json!({"name": text(value, "name"), "version": text(value, "version")}),
            "isError" => *value = Value::Bool(value.as_bool().unwrap_or(value == "true")),
            "nextCursor" if value.is_number() => *value = Value::String(value.to_string()),
            _ => {}
        }
    }
    let is_text =
        |key: &str, value: &Value| !matches!(key, "nextCursor" | "instructions") || value.is_string();
    result.retain(|key, value| is_text(key, value) && (key != "_meta" || value.is_object()));
    left_out
}

fn list(value: &mut Value, mend: impl FnMut(Value) -> Option<Value>) {
    if let Value::Array(entries) = value {
        *entries = std::mem::take(entries).into_iter().filter_map(mend).collect();
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Only what a model is told; or why the tool cannot be used.
fn mend_tool(mut tool: Value, left_out: &mut LeftOut) -> Option<Value> {
    let name = text(&tool, "name").to_owned();
    let shown = if name.is_empty() { "a tool without a name" } else { name.as_str() };
    let schema = match tool.get_mut("inputSchema").map(Value::take) {
        None | Some(Value::Null) => Ok(json!({"type": "object"})),
        Some(schema @ Value::Object(_)) if !schema.to_string().contains(TOO_DEEP) => Ok(schema),
        Some(Value::Object(_)) => Err("its `inputSchema` is nested too deep"),
        Some(_) => Err("its `inputSchema` is no object"),
    };
    let is_task = tool.pointer("/execution/taskSupport").is_some_and(|support| support == "required");
    let why = match &schema {
        _ if name.is_empty() => "wanted its `name`, a text",
        _ if is_task => "it can only be run as a task, which is not offered to it",
        Err(why) => why,
        Ok(_) => {
            return Some(
                json!({"name": name, "description": text(&tool, "description"), "inputSchema": schema.ok()}),
            );
        }
    };
    left_out.push((shown.chars().take(NAME_SHOWN_CHARS).collect(), why.to_owned()));
    None
}

fn mend_block(block: Value) -> Value {
    let kind = text(&block, "type");
    let said = |text: String| json!({"type": "text", "text": text});
    match (kind, block.get("text").and_then(Value::as_str), block.get("data").and_then(Value::as_str)) {
        ("image" | "audio", _, Some(data)) => {
            let media = block.get("mimeType").and_then(Value::as_str).unwrap_or("unknown type");
            json!({"type": kind, "mimeType": media, "data": data})
        }
        ("resource", None, _) if block["resource"].is_object() => {
            json!({"type": kind, "resource": mend_contents(block["resource"].clone())})
        }
        ("resource_link", None, _) if block["uri"].is_string() => {
            let name = Some(text(&block, "name")).filter(|name| !name.is_empty());
            json!({"type": kind, "uri": block["uri"], "name": name.unwrap_or(text(&block, "uri"))})
        }
        // Of whatever kind it is: this can be read.
        (_, Some(text), _) => said(text.to_owned()),
        (_, None, _) => said(match &block {
            Value::String(text) => text.clone(),
            Value::Object(_) => {
                let kind: String = kind.chars().take(NAME_SHOWN_CHARS).collect();
                format!("[content of a kind that is not known: `{kind}`]")
            }
            other => other.to_string(),
        }),
    }
}

fn mend_contents(contents: Value) -> Value {
    let mut mended = Map::from_iter([("uri".to_owned(), json!(text(&contents, "uri")))]);
    for key in ["mimeType", "text", "blob"] {
        if let Some(value @ Value::String(_)) = contents.get(key) {
            mended.insert(key.to_owned(), value.clone());
        }
    }
    if !mended.contains_key("text") && !mended.contains_key("blob") {
        mended.insert("text".to_owned(), json!("[content of a kind that is not known]"));
    }
    Value::Object(mended)
}

/// An entry by its address, with its name.
fn mend_named(entry: Value, key: &str) -> Option<Value> {
    let address = entry.get(key)?.as_str()?;
    let name = entry.get("name").and_then(Value::as_str).unwrap_or(address);
    let mut mended = json!({"name": name});
    mended[key] = json!(address);
    if let Some(media @ Value::String(_)) = entry.get("mimeType") {
        mended["mimeType"] = media.clone();
    }
    Some(mended)
}

/// What is promised, without what is no promise.
fn mend_capabilities(value: &mut Value) {
    let Value::Object(capabilities) = value else {
        *value = json!({});
        return;
    };
    capabilities.retain(|key, _| matches!(key.as_str(), "tools" | "resources"));
    capabilities.retain(|_, promise| match promise {
        Value::Object(promise) => {
            promise.retain(|_, flag| flag.is_boolean());
            true
        }
        Value::Bool(true) => {
            *promise = json!({});
            true
        }
        _ => false,
    });
}

#[cfg(test)]
mod tests {
    use agent::call::OutcomeStatus;
    use rmcp::model::{CallToolResult, ListToolsResult, ReadResourceResult};

    use super::*;
    use crate::mcp::answer;
    use crate::secret::Mask;
    use futures_util::FutureExt as _;

    fn mended(result: Value) -> (Value, LeftOut) {
        let mut message = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        let left_out = mend(&mut message);
        (message["result"].take(), left_out)
    }

    #[test]
    fn a_malformed_tool_is_left_out_by_its_name_and_what_is_only_odd_is_not() {
        let plain = json!({"type": "object"});
        let (result, left_out) = mended(json!({"nextCursor": 7, "_meta": 5, "tools": [
            {"name": "plain", "inputSchema": plain},
            {"name": "bare"},
            {"name": "hinted", "inputSchema": plain, "annotations": {"readOnlyHint": "yes"}, "description": 5},
            {"name": "icons", "inputSchema": plain, "icons": [{"src": 5, "sizes": "48x48"}], "title": 5, "outputSchema": []},
            {"name": "no-schema", "inputSchema": "none"},
            {"name": "task", "inputSchema": plain, "execution": {"taskSupport": "required"}},
            {"name": "deep", "inputSchema": {"x": TOO_DEEP}},
            {"name": 5, "inputSchema": plain}, "nonsense",
        ]}));
        let read: ListToolsResult = serde_json::from_value(result).unwrap();
        let names: Vec<&str> = read.tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["plain", "bare", "hinted", "icons"]);
        assert_eq!(read.next_cursor.as_deref(), Some("7"));
        let left: Vec<String> = left_out.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert_eq!(
            left,
            [
                "no-schema: its `inputSchema` is no object",
                "task: it can only be run as a task, which is not offered to it",
                "deep: its `inputSchema` is nested too deep",
                "a tool without a name: wanted its `name`, a text",
                "a tool without a name: wanted its `name`, a text",
            ]
        );
    }

    #[test]
    fn a_block_that_is_not_known_costs_no_other() {
        let said = |result| {
            let read: CallToolResult = serde_json::from_value(mended(result).0).unwrap();
            let outcome = answer::outcome(read, &Mask::default()).now_or_never().unwrap();
            (outcome.status, outcome.text)
        };
        let blocks = json!([
            {"type": "text", "text": "one", "annotations": {"priority": "high"}},
            {"type": "hologram", "shape": 5}, {"type": "newer", "text": "two"}, {"text": "three"}, "four", 5,
            {"type": "image", "data": "AAAA"}, {"type": "image"},
            {"type": "resource", "resource": {"uri": "a://b", "text": "six", "mimeType": 5}},
            {"type": "resource_link", "uri": "a://c"},
        ]);
        let wanted = "one\n[content of a kind that is not known: `hologram`]\ntwo\nthree\nfour\n5\n\
            [image, unknown type, 3 bytes]\n[content of a kind that is not known: `image`]\nsix\n[resource a://c: a://c]";
        assert_eq!(said(json!({"content": blocks})), (OutcomeStatus::Ok, wanted.to_owned()));
        assert_eq!(
            said(json!({"content": "plain", "isError": "false"})),
            (OutcomeStatus::Ok, "plain".to_owned())
        );
        assert_eq!(said(json!({"content": [], "isError": "true"})).0, OutcomeStatus::Error);
        let contents = json!({"contents": [{"uri": "a://b", "text": "x", "_meta": 5}, {"uri": "a://c"}, 5]});
        let read: ReadResourceResult = serde_json::from_value(mended(contents).0).unwrap();
        let text = answer::resource(read, &Mask::default()).now_or_never().unwrap();
        assert!(text.starts_with("x\n[content of a kind"));
    }

    #[test]
    fn an_odd_greeting_is_read_as_far_as_it_goes() {
        let greeting = json!({
            "protocolVersion": "2025-06-18", "serverInfo": {"name": "x", "icons": 5}, "instructions": {"a": 1},
            "capabilities": {"tools": true, "resources": {"listChanged": "yes"}, "logging": "on", "x": 5},
        });
        let (result, _) = mended(greeting);
        assert_eq!(
            result,
            json!({
                "protocolVersion": "2025-06-18", "serverInfo": {"name": "x", "version": ""},
                "capabilities": {"tools": {}, "resources": {}},
            })
        );
        serde_json::from_value::<rmcp::model::InitializeResult>(result).unwrap();
    }
}
