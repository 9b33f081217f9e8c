//! One parameter of an operation as an argument, and where its template stands. Must not know bodies.

use serde_json::Value;

use super::operation::Arguments;
use super::schema::{Shape, fields, shape};
use crate::declare::HttpDeclaration;

/// Headers that a document may name and that mean nothing there.
const IGNORED: [&str; 3] = ["accept", "content-type", "authorization"];

/// Whether a call must have the parameter.
pub(super) fn is_required(parameter: &Value) -> bool {
    parameter["in"] == "path" || parameter["required"] == true
}

/// Writes a parameter into the request. The error says why it cannot be declared.
pub(super) fn write<'a>(
    document: &'a Value,
    parameter: &'a Value,
    arguments: &mut Arguments<'a>,
    http: &mut HttpDeclaration,
    path: &mut String,
) -> Result<(), String> {
    let name = parameter["name"].as_str().unwrap_or_default();
    let place = parameter["in"].as_str().unwrap_or_default();
    if place == "header" && IGNORED.contains(&name.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    if !matches!(place, "path" | "query" | "header") {
        return Err(format!("the parameter `{name}` is a {place}, which cannot be declared"));
    }
    let (schema, is_json) = schema_of(document, parameter);
    let style = parameter["style"].as_str().unwrap_or(if place == "query" { "form" } else { "simple" });
    let is_exploded = parameter["explode"].as_bool().unwrap_or(style == "form");
    let cannot =
        |what: &str| Err(format!("the parameter `{name}` is {what}, which cannot be written into a {place}"));
    let filter = match (shape(document, schema), style) {
        _ if is_json => Some("tojson"),
        (_, "label" | "matrix") => return cannot(&format!("of the style `{style}`")),
        // An object in a query has brackets: `filter[state]=open`.
        (Shape::Object, "deepObject") if place == "query" => None,
        (Shape::Object, "form") if place == "query" && is_exploded => {
            return spread(document, parameter, schema, arguments, http)
                .map_or_else(|| cannot("an object"), Ok);
        }
        (Shape::Object, _) => return cannot("an object"),
        // A list is written once for each item.
        (Shape::List, "form" | "pipeDelimited" | "spaceDelimited" | "deepObject") if is_exploded => None,
        (Shape::List, "pipeDelimited") => Some("join('|')"),
        (Shape::List, "spaceDelimited") => Some("join(' ')"),
        (Shape::List, _) => Some("join(',')"),
        (Shape::Other, _) => None,
    };
    let required = is_required(parameter);
    let argument = arguments.add(name, place, schema, parameter["description"].as_str(), required);
    let template = match filter {
        Some(filter) => format!("{{{{ {argument} | {filter} if {argument} is defined }}}}"),
        None => format!("{{{{ {argument} }}}}"),
    };
    match place {
        "path" => *path = path.replace(&format!("{{{name}}}"), &template),
        "query" => drop(http.query.insert(name.to_owned(), template)),
        _ => drop(http.headers.insert(name.to_owned(), template)),
    }
    Ok(())
}

/// Writes each field of an object as a parameter of its own; `None` if it has others than those that are named.
fn spread<'a>(
    document: &'a Value,
    parameter: &'a Value,
    schema: &'a Value,
    arguments: &mut Arguments<'a>,
    http: &mut HttpDeclaration,
) -> Option<()> {
    let (fields, required) = fields(document, schema).filter(|(fields, _)| !fields.is_empty())?;
    if fields.iter().any(|(name, _)| http.query.contains_key(*name)) {
        return None;
    }
    for (name, schema) in fields {
        let is_required = is_required(parameter) && required.contains(&name.as_str());
        let argument = arguments.add(name, "query", schema, None, is_required);
        http.query.insert(name.clone(), format!("{{{{ {argument} }}}}"));
    }
    Some(())
}

/// The schema of a parameter, and whether it is written as JSON.
fn schema_of<'a>(document: &'a Value, parameter: &'a Value) -> (&'a Value, bool) {
    match (
        parameter.get("schema"),
        parameter["content"].as_object().and_then(|content| content.iter().next()),
    ) {
        (Some(schema), _) => (schema, false),
        (None, Some((kind, media))) => (&media["schema"], kind.contains("json")),
        (None, None) => (&document["null"], false),
    }
}
