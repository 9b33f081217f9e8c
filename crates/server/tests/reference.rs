//! Generates `docs/api.md` from the OpenAPI document: every route with its policy, parameters and responses, and
//! every type with its fields.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value};

use crate::world::World;

const PAGE: &str = "../../docs/api.md";
/// Set by `make docs`: the page is written instead of compared.
const WRITE: &str = "VIV_WRITE_DOCS";

#[tokio::test]
async fn the_reference_lists_every_route_and_type() {
    let world = World::new().await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let wanted = page(world.document());
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(is == wanted, "docs/api.md is out of date: run `make docs`");
}

fn page(document: &Value) -> String {
    let mut page = format!(
        "# API reference\n\n{}\n\n\
         This page is generated from the code (`make docs`). A running server returns the same as OpenAPI 3.1 at\n\
         `/openapi.json`. Send a key as `authorization: Bearer KEY`. *Access* is the policy of a route:\n\
         `admin` (admin keys), `member` (admin keys and keys of members of the space), `person` (admin keys and keys of\n\
         people), `service` (admin keys and keys of services), `any_key` (any key), `signed` (no key: a hook verifies each delivery),\n\
         `link` (no key: the link is valid for one call), `public` (no key) or `probe` (no key, and any name of the host). A key of the\n\
         scope `operator:read` may do what an admin key may do with `GET`.\n\n\
         ## Errors\n\n\
         What [each code](errors.md#codes-of-the-api) means. These are common; a route lists only errors of its own.\n\n\
         | of | codes |\n|---|---|\n",
        text(&document["info"]["description"])
    );
    for row in document["x-common-codes"].as_array().into_iter().flatten() {
        let codes: Vec<_> = row["codes"].as_array().into_iter().flatten().map(text).collect();
        let _ = writeln!(page, "| {} | `{}` |", text(&row["of"]), codes.join("`, `"));
    }
    // Grouped by tag, in the order in which the tags first occur.
    let mut subjects: Vec<(&str, String)> = Vec::new();
    for (path, item) in object(&document["paths"]) {
        for (method, operation) in object(item) {
            let tag = text(&operation["tags"][0]);
            let at = subjects.iter().position(|(name, _)| *name == tag).unwrap_or_else(|| {
                subjects.push((tag, String::new()));
                subjects.len() - 1
            });
            write_operation(&mut subjects[at].1, path, method, operation);
        }
    }
    for (name, operations) in subjects {
        let _ = write!(page, "\n## {name}\n{operations}");
    }
    page += "\n## Types\n";
    for (name, schema) in object(&document["components"]["schemas"]) {
        write_type(&mut page, name, schema);
    }
    page
}

fn write_operation(page: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = write!(page, "\n### `{} {path}`\n\n", method.to_uppercase());
    let about = [text(&operation["summary"]), text(&operation["description"])];
    for line in about.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(page, "{line}");
    }
    let _ = writeln!(page, "\nAccess: `{}`.", text(&operation["x-access"]));
    let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
    let listed: Vec<_> = parameters.iter().filter(|parameter| parameter["in"] != "path").collect();
    if !listed.is_empty() {
        page.push('\n');
    }
    for parameter in listed {
        let (name, location) = (text(&parameter["name"]), text(&parameter["in"]));
        let _ = writeln!(
            page,
            "- `{name}` ({location}, {}): {}",
            kind(&parameter["schema"]),
            description(parameter)
        );
    }
    if let Some(body) = object(&operation["requestBody"]["content"]).next().map(|(_, content)| content) {
        let _ = writeln!(page, "\nTakes {}, such as `{}`.", kind(&body["schema"]), body["example"]);
    }
    let fails = |status: &String| status.starts_with(['4', '5']);
    let own = operation["x-codes"].as_array().cloned().unwrap_or_default();
    for (status, response) in object(&operation["responses"]).filter(|(status, _)| !fails(status)) {
        let gives =
            object(&response["content"]).next().map(|(media, content)| match kind(&content["schema"]) {
                unknown if unknown == "any" => format!(" (`{media}`)"),
                known => format!(": {known}"),
            });
        let _ = writeln!(page, "\n`{status}`{} — {}", gives.unwrap_or_default(), description(response));
    }
    let errors =
        object(&operation["responses"]).filter(|(status, _)| fails(status)).map(|(status, response)| {
            let of_code = "/content/application~1problem+json/schema/allOf/1/properties/code/enum";
            let codes = response.pointer(of_code).and_then(Value::as_array).into_iter().flatten();
            let codes: Vec<_> = codes.filter(|code| own.contains(code)).map(text).collect();
            (status, codes)
        });
    let errors = errors.filter(|(_, codes)| !codes.is_empty());
    let errors: Vec<_> = errors.map(|(status, codes)| format!("`{status}` {}", codes.join(", "))).collect();
    if !errors.is_empty() {
        let _ = writeln!(page, "\nErrors of its own: {}.", errors.join(" · "));
    }
}

fn write_type(page: &mut String, name: &str, schema: &Value) {
    let _ = write!(page, "\n### {name}\n\n");
    let about = match name {
        "Code" => "One of [these](errors.md#codes-of-the-api).".to_owned(),
        _ => description(schema),
    };
    if !about.is_empty() {
        let _ = writeln!(page, "{about}\n");
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if schema["properties"].is_object() {
        *page += "| field | type | |\n|---|---|---|\n";
        for (field, of) in object(&schema["properties"]) {
            let optional = if required.contains(&field.as_str()) { "" } else { ", optional" };
            let _ = writeln!(
                page,
                "| `{field}` | {}{optional} | {} |",
                kind(of).replace('|', "\\|"),
                description(of).replace('|', "\\|")
            );
        }
    } else if name != "Code" {
        let _ = writeln!(page, "Is {}.", kind(schema));
    }
}

/// A short form of a schema's type, with links to the types that it refers to.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for many in ["oneOf", "anyOf", "allOf"] {
        if let Some(variants) = schema[many].as_array() {
            let joint = if many == "allOf" { " with " } else { " or " };
            return variants.iter().map(kind).collect::<Vec<_>>().join(joint);
        }
    }
    if let Some(constant) = schema["const"].as_str() {
        return format!("`{constant}`");
    }
    if let Some(names) = schema["enum"].as_array() {
        return names.iter().map(|name| format!("`{}`", text(name))).collect::<Vec<_>>().join(", ");
    }
    let one = |name: &str| match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" if schema["properties"].is_object() => {
            let fields = object(&schema["properties"]).map(|(name, of)| match of["enum"][0].as_str() {
                Some(only) if of["enum"].as_array().is_some_and(|all| all.len() == 1) => {
                    format!("`{name}`: `{only}`")
                }
                _ => format!("`{name}`: {}", kind(of)),
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        "string" => schema["format"]
            .as_str()
            .map_or_else(|| "string".to_owned(), |format| format!("string ({format})")),
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => one(name),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

/// The description as one line.
fn description(of: &Value) -> String {
    text(&of["description"]).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&NONE).iter()
}
