//! One thing has one name, in every type of the API: `X` is an id, `X_handle` a handle, `X_display_name` what people are shown.
//! The types come from the OpenAPI document, so that a new field is held to this by itself.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::world::World;

/// What can be referred to, and has an id that is a UUID.
const REFERENCES: &[&str] = &["agent", "retired_agent", "space", "entity", "sender", "cycle", "claim"];
/// What has an id of another form.
const OTHER_REFERENCES: &[&str] = &["event", "last_event", "call"];
/// What has a handle.
const HANDLED: &[&str] = &["agent", "space", "sender", "approver"];
/// Times that are not a moment at which something happened or will.
const LIMITS: &[&str] = &["until", "since", "from", "to", "not_before"];
/// JSON of others, whose names are theirs.
const OF_OTHERS: &[&str] = &["config", "data", "payload", "arguments", "input", "schema", "declaration"];

/// Every type with properties: what it is part of, its properties, and whether clients send it.
struct Types<'a> {
    document: &'a Value,
    seen: BTreeSet<String>,
    found: Vec<(String, &'a Map<String, Value>, bool)>,
}

impl<'a> Types<'a> {
    fn of(document: &'a Value) -> Vec<(String, &'a Map<String, Value>, bool)> {
        let mut types = Self { document, seen: BTreeSet::new(), found: Vec::new() };
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let at = format!("{method} {path}");
                types.walk(&at, &operation["requestBody"], true);
                types.walk(&at, &operation["responses"], false);
            }
        }
        types.found
    }

    fn walk(&mut self, at: &str, value: &'a Value, sent: bool) {
        if let Some(reference) = value["$ref"].as_str() {
            if self.seen.insert(format!("{reference} {sent}")) {
                let name = reference.rsplit('/').next().unwrap();
                self.walk(name, self.document.pointer(&reference[1..]).unwrap(), sent);
            }
            return;
        }
        if let Some(properties) = value["properties"].as_object() {
            self.found.push((at.to_owned(), properties, sent));
        }
        match value {
            Value::Object(fields) => {
                fields
                    .iter()
                    .filter(|(name, _)| *name != "example")
                    .for_each(|(_, of)| self.walk(at, of, sent));
            }
            Value::Array(items) => items.iter().for_each(|of| self.walk(at, of, sent)),
            _ => {}
        }
    }
}

/// The schema of a value, of the items of a list or of what may be `null`.
fn item(schema: &Value) -> &Value {
    if schema["items"].is_object() {
        return &schema["items"];
    }
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    variants.into_iter().find(|variant| variant["type"] != "null").unwrap_or(schema)
}

fn is_text(schema: &Value) -> bool {
    schema["type"] == "string"
        || schema["type"].as_array().is_some_and(|types| types.contains(&"string".into()))
}

/// What is wrong with the name of a property.
fn flaw(name: &str, schema: &Value, sent: bool) -> Option<&'static str> {
    let of = item(schema);
    let (text, format) = (is_text(of), of["format"].as_str());
    let one = name.strip_suffix('s').unwrap_or(name);
    let about = schema["description"].as_str().unwrap_or_default();
    let said = |beginnings: &[&str]| beginnings.iter().any(|beginning| about.starts_with(beginning));
    let is_handle = one == "handle" || one.ends_with("_handle");
    if REFERENCES.contains(&one) && text && format != Some("uuid") && !sent {
        return Some("it is a text that is no id: a handle is called `X_handle`");
    }
    if OTHER_REFERENCES.contains(&name) && text && of["enum"].is_null() && !sent && !about.contains("Id of") {
        return Some("it is a text that is no id");
    }
    if is_handle && (!text || format.is_some()) {
        return Some("a handle is a text");
    }
    if one.strip_suffix("_handle").is_some_and(|of| !HANDLED.contains(&of)) {
        return Some("nothing of this name has a handle");
    }
    if !is_handle && !sent && said(&["Handle", "Unique handle"]) {
        return Some("it is a handle: it is called `handle`, or `X_handle`");
    }
    if name.ends_with("_name") && name != "display_name" && !name.ends_with("_display_name") {
        return Some(
            "a name is called `name`, and another's is not repeated, but its handle or display name",
        );
    }
    // That of a goal is called as agents write it.
    if name.ends_with("_id") && !["external_id", "last_id"].contains(&name) {
        return Some("an id is called as what it is the id of, and its own `id`");
    }
    let is_limit = LIMITS.contains(&name) || name.ends_with("_until");
    if format == Some("date-time") && name != "at" && !name.ends_with("_at") && !is_limit {
        return Some("a time is called `at` or `…_at`");
    }
    if of["properties"][name].is_object() {
        return Some("it has itself as a field");
    }
    None
}

#[tokio::test]
async fn every_field_of_every_type_is_called_by_the_one_rule() {
    let world = World::new().await;
    let types = Types::of(world.document());
    assert!(types.len() > 100, "{}", types.len());
    let mut flaws = BTreeSet::new();
    for (at, properties, sent) in types {
        if properties.contains_key("display_name") && properties.contains_key("name") {
            flaws.insert(format!("{at}: who has a display name has a `handle`, and no other name"));
        }
        for (name, schema) in properties {
            if let Some(flaw) = flaw(name, schema, sent) {
                flaws.insert(format!("{at}.{name}: {flaw}"));
            }
            let handled = name.trim_end_matches('s').strip_suffix("_handle");
            let id = |of: &str| properties.keys().any(|key| key.trim_end_matches('s') == of);
            // A config names who may answer by handles that may be nobody's.
            if handled.is_some_and(|of| of != "approver" && !id(of)) {
                flaws.insert(format!("{at}.{name}: beside a handle is its id"));
            }
        }
    }
    assert!(flaws.is_empty(), "{flaws:#?}");
}

#[tokio::test]
async fn types_are_called_as_in_the_docs() {
    let world = World::new().await;
    let names = world.document()["components"]["schemas"].as_object().unwrap().keys();
    let code: Vec<_> = names.filter(|name| name.ends_with("Json")).collect();
    assert!(code.is_empty(), "{code:?} have the names of their Rust types: `#[schema(as = …)]`");
}

#[tokio::test]
async fn every_delete_answers_alike() {
    let world = World::new().await;
    for (path, item) in world.document()["paths"].as_object().unwrap() {
        let Some(responses) = item["delete"]["responses"].as_object() else { continue };
        let good: Vec<_> = responses.keys().filter(|status| status.starts_with('2')).collect();
        assert_eq!(good, ["204"], "{path}");
    }
}

/// The values of the answer whose names break the rule: what no schema describes, too.
pub(crate) fn misnamed(answer: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(answer, &mut found);
    found
}

fn walk(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !OF_OTHERS.contains(&name.as_str())) {
                let text = value.as_str();
                let is_id = |text: &str| uuid::Uuid::try_parse(text).is_ok();
                if REFERENCES.contains(&name.as_str()) && text.is_some_and(|text| !is_id(text)) {
                    found.push(format!("`{name}` is no id: {value}"));
                }
                if name.ends_with("handle") && text.is_some_and(is_id) {
                    found.push(format!("`{name}` is no handle: {value}"));
                }
                walk(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
        _ => {}
    }
}

/// What the server says is read by clients over HTTP, too: it names what they have, not commands.
#[test]
fn no_problem_names_a_command() {
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let source = std::fs::read_to_string(&path).unwrap();
            let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
            let named: Vec<_> = code.filter(|line| line.contains("`viv ")).collect();
            assert!(named.is_empty(), "{}: {named:?}", path.display());
        }
    }
    assert!(files > 40, "{files}");
}
