//! Encodes entries as parts. A fragment is a list of parts; the glue groups them into contents.
//! Neighboring texts of the user become one content, but outcomes and text never share one.

use agent::message::{ModelMessage, Native, Origin, Part, Role};
use agent::prompt::{Item, Prompt};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::schema;
use crate::wire::json::{self, RawObject};
use crate::wire::transcript::{answered_call, matching, orphan, output, texts};
use crate::wire::{Between, EncodeContext, Turn};

/// The signature that Gemini accepts for a call that it did not make itself.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The system layer and the tools.
pub(super) fn head(prompt: &Prompt) -> Bytes {
    let mut out = String::new();
    if !prompt.system.trim().is_empty() {
        out.push_str(&format!(r#","systemInstruction":{{"parts":[{}]}}"#, text_part(&prompt.system)));
    }
    if !prompt.tools.is_empty() {
        let tools = prompt.tools.iter().map(|tool| {
            format!(
                r#"{{"name":{},"description":{},"parametersJsonSchema":{}}}"#,
                json::string(&tool.name),
                json::string(&tool.description),
                schema::accepted(&tool.schema)
            )
        });
        let tools = tools.collect::<Vec<_>>().join(",");
        out.push_str(&format!(r#","tools":[{{"functionDeclarations":[{tools}]}}]"#));
    }
    out.push_str(r#","contents":["#);
    Bytes::from(out)
}

/// The parts of one item. `sealed` is whether the model checks signatures.
pub(super) fn fragment(
    origin: &Origin,
    sealed: bool,
    item: &Item,
    context: EncodeContext<'_>,
) -> Option<(Turn, Bytes)> {
    let entry = match item {
        Item::Layer(text) => return user([text.as_ref()]),
        Item::Entry(entry) => entry,
    };
    match entry.message.role {
        Role::User => user(texts(&entry.message)),
        Role::Assistant => {
            let parts = assistant(origin, sealed, &entry.message, context.reasoning);
            (!parts.is_empty()).then(|| (Turn::Assistant, Bytes::from(parts.join(","))))
        }
        Role::Tool => outcomes(origin, &entry.message, context),
    }
}

/// The JSON between two contents of the user, because outcomes and text may not share one.
const APART: &str = r#"]},{"role":"user","parts":["#;

/// The JSON between two lists of parts.
pub(super) fn glue(between: Between) -> &'static str {
    use Turn::{Assistant, Outcomes, User};
    match (between.before, between.after) {
        (None, Some(User | Outcomes)) => r#"{"role":"user","parts":["#,
        (None, Some(Assistant)) => {
            r#"{"role":"user","parts":[{"text":"Continue."}]},{"role":"model","parts":["#
        }
        (None, None) => r#"{"role":"user","parts":[{"text":"Continue."}]}"#,
        (Some(User), Some(User)) => ",",
        (Some(Outcomes), Some(User | Outcomes)) | (Some(User), Some(Outcomes)) => APART,
        (Some(User | Outcomes), Some(Assistant)) => r#"]},{"role":"model","parts":["#,
        (Some(Assistant), Some(User | Outcomes)) => APART,
        (Some(Assistant), Some(Assistant)) => {
            r#"]},{"role":"user","parts":[{"text":"Continue."}]},{"role":"model","parts":["#
        }
        (Some(Assistant), None) => r#"]},{"role":"user","parts":[{"text":"Continue."}]}"#,
        (Some(User | Outcomes), None) => "]}",
    }
}

fn user<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<(Turn, Bytes)> {
    let parts: Vec<String> = text_parts(texts);
    (!parts.is_empty()).then(|| (Turn::User, Bytes::from(parts.join(","))))
}

fn text_parts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    texts.into_iter().filter(|text| !text.trim().is_empty()).map(text_part).collect()
}

fn text_part(text: &str) -> String {
    format!(r#"{{"text":{}}}"#, json::string(text))
}

fn assistant(origin: &Origin, sealed: bool, message: &ModelMessage, reasoning: bool) -> Vec<String> {
    let parts = match matching(origin, message) {
        Some(native) => replayed(native, message.calls().count(), reasoning),
        None => canonical(message),
    };
    if sealed { signed(parts) } else { parts }
}

/// The vendor's own parts, byte for byte, with their signatures. Thoughts are left out unless `reasoning`
/// is set, and so are calls that the entry does not have. Empty if neither text nor a call is left.
fn replayed(native: &Native, calls: usize, reasoning: bool) -> Vec<String> {
    let parts: Vec<&RawValue> = serde_json::from_str(&native.body).unwrap_or_default();
    let mut left = calls;
    let mut visible = false;
    let mut kept = Vec::new();
    for part in parts {
        let Some(fields) = RawObject::parse(part.get()) else { continue };
        if fields.get("functionCall").is_some() {
            if left == 0 {
                continue;
            }
            left -= 1;
            visible = true;
        } else if fields.get("thought") == Some("true") {
            if !reasoning {
                continue;
            }
        } else {
            visible |= has_content(&fields);
        }
        kept.push(part.get().to_owned());
    }
    if visible { kept } else { Vec::new() }
}

/// Whether a part has content other than a signature.
fn has_content(fields: &RawObject) -> bool {
    let beside = ["text", "thought", "thoughtSignature"];
    fields.text("text").is_some_and(|text| !text.trim().is_empty())
        || fields.0.iter().any(|(key, _)| !beside.contains(&key.as_str()))
}

fn canonical(message: &ModelMessage) -> Vec<String> {
    let mut parts = text_parts(texts(message));
    parts.extend(message.calls().map(|(_, name, arguments)| {
        format!(
            r#"{{"functionCall":{{"name":{},"args":{}}}}}"#,
            json::string(&json::valid_name(name)),
            json::valid_arguments(arguments)
        )
    }));
    parts
}

/// The first call of a step must have a signature. A call of another model gets [`NO_SIGNATURE`].
fn signed(mut parts: Vec<String>) -> Vec<String> {
    let call = |part: &String| RawObject::parse(part).filter(|fields| fields.get("functionCall").is_some());
    let first = parts.iter().enumerate().find_map(|(at, part)| Some((at, call(part)?)));
    if let Some((at, mut fields)) = first.filter(|(_, fields)| fields.get("thoughtSignature").is_none()) {
        fields.set_text("thoughtSignature", NO_SIGNATURE);
        parts[at].clear();
        fields.write(&mut parts[at]);
    }
    parts
}

fn outcomes(origin: &Origin, message: &ModelMessage, context: EncodeContext<'_>) -> Option<(Turn, Bytes)> {
    let mut results = Vec::new();
    let mut orphans = Vec::new();
    for part in &message.parts {
        let Part::ToolResult { id, name, text, error } = part else { continue };
        match answered_call(origin, context.caller, id) {
            Some(call) => {
                // Without an id, Gemini matches outcomes with calls by their order.
                let sent = call.native.filter(|id| !id.is_empty());
                let id = sent.map(|id| format!(r#""id":{},"#, json::string(id))).unwrap_or_default();
                let key = if *error { "error" } else { "output" };
                results.push(format!(
                    r#"{{"functionResponse":{{{id}"name":{},"response":{{"{key}":{}}}}}}}"#,
                    json::string(&json::valid_name(call.name)),
                    json::string(output(text))
                ));
            }
            None => orphans.push(text_part(&orphan(name, text))),
        }
    }
    if results.is_empty() {
        return (!orphans.is_empty()).then(|| (Turn::User, Bytes::from(orphans.join(","))));
    }
    let mut out = results.join(",");
    if !orphans.is_empty() {
        out.push_str(APART);
        out.push_str(&orphans.join(","));
    }
    Some((Turn::Outcomes, Bytes::from(out)))
}
