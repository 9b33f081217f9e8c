//! The body of an operation as arguments: JSON, a form or a text. Must not know parameters.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::operation::Arguments;
use super::schema::{Shape, fields, followed, shape};
use crate::declare::HttpDeclaration;

/// The schema of a body that is one text.
static TEXT: LazyLock<Value> = LazyLock::new(|| json!({"type": "string"}));

/// How a body is written, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Format {
    Json,
    /// Anything, so JSON.
    AnyKind,
    /// JSON under a name of its own, which the server wants to read.
    OtherJson,
    Form,
    Text,
}

/// The format of a media type, if it can be declared.
fn format(kind: &str, media: &Value) -> Option<Format> {
    let texts = ["xml", "yaml", "csv", "graphql", "ndjson", "jsonl", "javascript", "toml"];
    match kind {
        "application/json" | "text/json" | "application/*+json" => Some(Format::Json),
        "*/*" | "application/*" => (media["schema"]["format"] != "binary").then_some(Format::AnyKind),
        _ if kind.ends_with("+json") => Some(Format::OtherJson),
        "application/x-www-form-urlencoded" => Some(Format::Form),
        _ if kind.starts_with("text/") || texts.iter().any(|end| kind.ends_with(end)) => Some(Format::Text),
        _ => None,
    }
}

/// Writes the body of an operation into the request. Returns what is left out, if something is that may be; the error says
/// why what must be there cannot be declared.
pub(super) fn write<'a>(
    document: &'a Value,
    operation: &'a Value,
    arguments: &mut Arguments<'a>,
    http: &mut HttpDeclaration,
) -> Result<Option<String>, String> {
    let body = followed(document, &operation["requestBody"]);
    let Some(content) = body["content"].as_object().filter(|content| !content.is_empty()) else {
        return Ok(None);
    };
    let is_required = body["required"] == true;
    let essence = |kind: &str| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let known = content.iter().filter_map(|(kind, media)| {
        let kind = essence(kind);
        Some((format(&kind, media)?, kind, media))
    });
    let reads = matches!(http.method.as_str(), "GET" | "HEAD");
    let Some((format, kind, media)) = known.min_by_key(|(format, ..)| *format).filter(|_| !reads) else {
        let kinds = content.keys().map(String::as_str).collect::<Vec<_>>().join("`, `");
        let why = match reads {
            true => format!("a `{}` request has no body, and it takes `{kinds}`", http.method),
            false => format!("it takes `{kinds}` as its body, and only JSON, forms and text can be declared"),
        };
        return if is_required { Err(why) } else { Ok(Some(why)) };
    };
    if matches!(format, Format::OtherJson | Format::Text) {
        http.headers.insert("content-type".to_owned(), kind);
    }
    let description = body["description"].as_str();
    let schema = &media["schema"];
    if format == Format::Text {
        let argument = arguments.add("body", "body", &TEXT, description, is_required);
        http.body = Some(format!("{{{{ {argument} }}}}"));
        return Ok(None);
    }
    let written = match fields(document, schema).filter(|(fields, _)| !fields.is_empty()) {
        Some((fields, required)) => {
            let mut written = Map::new();
            for (name, schema) in fields {
                let is_required = is_required && required.contains(&name.as_str());
                let argument = arguments.add(name, "body", schema, None, is_required);
                let name = if format == Format::Form {
                    form_name(document, media, name, schema)
                } else {
                    name.clone()
                };
                written.insert(name, Value::String(format!("{{{{ {argument} }}}}")));
            }
            Value::Object(written)
        }
        // What has other fields than those that it names stays whole.
        None => {
            let argument = arguments.add("body", "body", schema, description, is_required);
            Value::String(format!("{{{{ {argument} }}}}"))
        }
    };
    match format {
        Format::Form => http.form = Some(written),
        _ => http.json = Some(written),
    }
    Ok(None)
}

/// The name of a field in a form: a list has brackets if the document says so.
fn form_name(document: &Value, media: &Value, name: &str, schema: &Value) -> String {
    let is_deep = media["encoding"][name]["style"] == "deepObject";
    if is_deep && shape(document, schema) == Shape::List { format!("{name}[]") } else { name.to_owned() }
}
