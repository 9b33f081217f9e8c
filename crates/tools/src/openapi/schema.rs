//! Schemas of an OpenAPI document as the JSON Schema of a tool: references resolved, cycles and depth cut, and only what
//! helps a model to write arguments. Must not know operations.

use agent::limits;
use serde_json::{Map, Value, json};

/// Keywords that are copied as they are. Patterns are left out: their language is not ours, and the server checks them.
const COPIED: &[&str] = &[
    "type",
    "enum",
    "const",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "format",
];

/// Keywords that allow an object more fields than its `properties` name.
const ELSEWHERE: [&str; 4] = ["patternProperties", "allOf", "anyOf", "oneOf"];

/// A part of `allOf`: the fields of the others are allowed beside its own.
fn opened(mut part: Value) -> Value {
    if part["additionalProperties"] == false
        && let Some(map) = part.as_object_mut()
    {
        map.shift_remove("additionalProperties");
    }
    part
}

/// The value to which a reference leads; the value itself if it is none. `null` if it leads nowhere.
pub(super) fn followed<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let mut value = value;
    for _ in 0..limits::OPENAPI_REFS_MAX {
        let Some(reference) = value["$ref"].as_str() else { return value };
        // References into other documents are not fetched.
        let Some(found) = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer)) else {
            return &Value::Null;
        };
        value = found;
    }
    &Value::Null
}

/// Copies schemas up to a depth.
pub(super) struct Copier<'a> {
    document: &'a Value,
    depth: usize,
    /// How many parts may still be copied.
    left: usize,
    /// References inside which the copy is.
    open: Vec<&'a str>,
}

impl<'a> Copier<'a> {
    pub(super) fn new(document: &'a Value, depth: usize) -> Self {
        Self { document, depth, left: limits::OPENAPI_PARTS_MAX, open: Vec::new() }
    }

    /// Whether parts are missing because there were too many.
    pub(super) fn is_used_up(&self) -> bool {
        self.left == 0
    }

    /// The schema without references. What is cut is `{}`, which allows everything.
    pub(super) fn copy(&mut self, schema: &'a Value) -> Value {
        let reference = schema["$ref"].as_str();
        if self.open.len() >= self.depth
            || self.left == 0
            || reference.is_some_and(|name| self.open.contains(&name))
        {
            return json!({});
        }
        self.left -= 1;
        self.open.push(reference.unwrap_or_default());
        let copied = self.inner(followed(self.document, schema));
        self.open.pop();
        copied
    }

    fn inner(&mut self, schema: &'a Value) -> Value {
        let Some(map) = schema.as_object() else { return json!({}) };
        let mut copied = Map::new();
        for (key, value) in map {
            let value = match (key.as_str(), value) {
                ("description", Value::String(text)) => Value::String(beginning(text)),
                ("properties", Value::Object(fields)) => self.properties(fields),
                ("items", value) => self.copy(value),
                ("additionalProperties", Value::Object(_)) => self.copy(value),
                // Others than the fields that stand here can be in what is not copied, or in a part beside it.
                ("additionalProperties", Value::Bool(false))
                    if ELSEWHERE.iter().any(|key| map.contains_key(*key)) =>
                {
                    continue;
                }
                ("additionalProperties", Value::Bool(_)) | ("required", Value::Array(_)) => value.clone(),
                ("allOf", Value::Array(parts)) => parts.iter().map(|part| opened(self.copy(part))).collect(),
                ("anyOf" | "oneOf", Value::Array(parts)) => {
                    parts.iter().map(|part| self.copy(part)).collect()
                }
                (key, value) if COPIED.contains(&key) => value.clone(),
                _ => continue,
            };
            // One value can fit two schemas once they are cut.
            let key = if key == "oneOf" { "anyOf" } else { key };
            copied.insert(key.to_owned(), value);
        }
        keep_required(&mut copied);
        if take_null(&mut copied) || map.get("nullable") == Some(&Value::Bool(true)) {
            allow_null(&mut copied);
        }
        Value::Object(copied)
    }

    /// Fields that a client may send.
    fn properties(&mut self, fields: &'a Map<String, Value>) -> Value {
        let mut copied = Map::new();
        for (name, schema) in fields {
            if followed(self.document, schema)["readOnly"] != true {
                copied.insert(name.clone(), self.copy(schema));
            }
        }
        Value::Object(copied)
    }
}

/// What kind of value a schema is for, as far as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    List,
    Other,
}

/// See [`Shape`].
pub(super) fn shape(document: &Value, schema: &Value) -> Shape {
    let mut parts = vec![followed(document, schema)];
    for _ in 0..limits::OPENAPI_REFS_MAX {
        let Some(part) = parts.pop() else { break };
        let is = |kind: &str| {
            part["type"] == kind
                || part["type"].as_array().is_some_and(|kinds| kinds.iter().any(|other| other == kind))
        };
        if is("object") || part["properties"].is_object() {
            return Shape::Object;
        }
        if is("array") {
            return Shape::List;
        }
        parts.extend(part["allOf"].as_array().into_iter().flatten().map(|part| followed(document, part)));
    }
    Shape::Other
}

/// The fields of an object, each with its name and schema, and the names of those that are required.
pub(super) type Fields<'a> = (Vec<(&'a String, &'a Value)>, Vec<&'a str>);

/// The fields of an object, those of its `allOf` included; `None` if it can have others than those, or depends on which it has:
/// then it is described only as a whole.
pub(super) fn fields<'a>(document: &'a Value, schema: &'a Value) -> Option<Fields<'a>> {
    let (mut fields, mut required): Fields<'a> = Default::default();
    let mut parts = vec![followed(document, schema)];
    for _ in 0..limits::OPENAPI_REFS_MAX {
        let Some(part) = parts.pop() else {
            fields.retain(|(_, schema)| followed(document, schema)["readOnly"] != true);
            return Some((fields, required));
        };
        for (key, value) in part.as_object()? {
            match (key.as_str(), value) {
                ("properties", Value::Object(named)) => {
                    for (name, schema) in named {
                        match fields.iter().find(|(known, _)| *known == name) {
                            None => fields.push((name, schema)),
                            Some((_, known)) if *known == schema => {}
                            Some(_) => return None,
                        }
                    }
                }
                ("required", Value::Array(names)) => required.extend(names.iter().filter_map(Value::as_str)),
                ("allOf", Value::Array(inner)) => {
                    parts.extend(inner.iter().rev().map(|part| followed(document, part)));
                }
                ("oneOf" | "anyOf", Value::Array(choices)) if choices.iter().all(only_requires) => {}
                ("additionalProperties" | "unevaluatedProperties", Value::Bool(false)) => {}
                ("type", kind)
                    if kind == "object"
                        || kind.as_array().is_some_and(|kinds| kinds.contains(&"object".into())) => {}
                (
                    "oneOf"
                    | "anyOf"
                    | "additionalProperties"
                    | "unevaluatedProperties"
                    | "patternProperties"
                    | "type"
                    | "enum"
                    | "const"
                    | "items",
                    _,
                ) => return None,
                _ => {}
            }
        }
    }
    None
}

/// Whether a choice says nothing but which fields must be there, which the server checks.
fn only_requires(choice: &Value) -> bool {
    let says_little = |key: &String| matches!(key.as_str(), "required" | "title" | "description");
    choice.as_object().is_some_and(|choice| choice.keys().all(says_little))
}

/// The beginning of a description, on one line.
pub(super) fn beginning(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(limits::OPENAPI_DESCRIPTION_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Requires no field that was left out.
fn keep_required(schema: &mut Map<String, Value>) {
    let Some(Value::Array(mut required)) = schema.shift_remove("required") else { return };
    let fields = schema.get("properties").and_then(Value::as_object);
    required.retain(|name| {
        name.as_str().is_some_and(|name| fields.is_none_or(|fields| fields.contains_key(name)))
    });
    schema.insert("required".to_owned(), Value::Array(required));
}

/// Takes `null` out of the values that a schema lists, since a TOML file cannot hold it. Returns whether one of them was.
fn take_null(schema: &mut Map<String, Value>) -> bool {
    if schema.get("default").is_some_and(has_null) {
        schema.shift_remove("default");
    }
    if schema.get("const") == Some(&Value::Null) {
        schema.shift_remove("const");
        schema.insert("type".to_owned(), json!("null"));
    }
    let Some(Value::Array(values)) = schema.get_mut("enum") else { return false };
    let all = values.len();
    values.retain(|value| !value.is_null());
    values.len() < all
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        _ => false,
    }
}

/// `nullable` of version 3.0.
fn allow_null(schema: &mut Map<String, Value>) {
    let is_listed = ["enum", "allOf"].iter().any(|key| schema.contains_key(*key));
    match (schema.get("type").cloned(), schema.get_mut("anyOf")) {
        (Some(Value::String(kind)), None) if !is_listed => {
            schema.insert("type".to_owned(), json!([kind, "null"]));
        }
        (None, Some(Value::Array(parts))) if !is_listed => parts.push(json!({"type": "null"})),
        (None, None) if !is_listed => {}
        _ => {
            let description = schema.shift_remove("description");
            let other = Value::Object(std::mem::take(schema));
            schema.extend(description.map(|text| ("description".to_owned(), text)));
            schema.insert("anyOf".to_owned(), json!([other, {"type": "null"}]));
        }
    }
}
