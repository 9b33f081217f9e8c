//! What a declaration must be, beyond the types of its keys. Every mistake is found, not only the first. Must not know how
//! a declared tool is run.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::call::Effect;
use agent::limits;
use agent::port::Toolbox as _;
use agent::tool::SERVER_END;
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::Value;

use super::read::Wrong;
use super::{Declaration, HttpDeclaration, ToolKind};
use crate::arguments::Checker;
use crate::connector::{AllowedTarget, is_reserved};
use crate::template::{self, Slot};

/// The names of all prebuilt tools.
pub(super) fn prebuilt_names() -> Vec<String> {
    crate::prebuilt().names()
}

/// Mistakes, gathered under their keys.
#[derive(Default)]
struct Mistakes(Vec<Wrong>);

impl Mistakes {
    fn add(&mut self, key: impl Into<String>, why: impl Into<String>) {
        self.0.push((Some(key.into()), why.into()));
    }

    /// Adds a mistake unless `right`.
    fn unless(&mut self, right: bool, key: &str, why: impl FnOnce() -> String) {
        if !right {
            self.add(key, why());
        }
    }
}

/// Every mistake.
pub(crate) fn check(declaration: &Declaration, taken: &[String]) -> Vec<Wrong> {
    let mut mistakes = Mistakes::default();
    check_name(&declaration.name, taken, &mut mistakes);
    let of_server = declaration.name.contains(SERVER_END);
    mistakes.unless(!of_server || declaration.kind == ToolKind::Mcp, "name", || {
        format!("wanted a name without `{SERVER_END}`: such are those of tools of MCP servers")
    });
    if declaration.kind == ToolKind::Mcp {
        // Its description was checked when the server was asked, and is checked again where the tool is built.
        mistakes.unless(declaration.mcp.is_some(), "mcp", || {
            "wanted `server` and `approved`; they are written when the server's tools are approved".into()
        });
        return mistakes.0;
    }
    let description = declaration.description.trim();
    mistakes.unless(!description.is_empty(), "description", || {
        "wanted a sentence that tells a model when to call the tool and what it returns".into()
    });
    let max = limits::TOOL_DESCRIPTION_MAX_BYTES;
    mistakes.unless(description.len() <= max, "description", || {
        format!("wanted at most {max} bytes, got {}", description.len())
    });
    if let Err(why) = check_schema(&declaration.name, &declaration.input) {
        mistakes.add("input", why);
    }
    check_bounds(declaration, &mut mistakes);
    match (declaration.kind, &declaration.http) {
        (ToolKind::Http, Some(http)) => check_http(declaration, http, &mut mistakes),
        (ToolKind::Http, None) => {
            mistakes.add("http", "a tool of kind `http` needs a table `[http]` with `method` and `url`");
        }
        (ToolKind::Worker, Some(_)) => {
            mistakes.add("http", "a tool of kind `worker` sends no request of its own");
        }
        (ToolKind::Mcp | ToolKind::Worker, _) => {}
    }
    check_worker(declaration, &mut mistakes);
    mistakes.0
}

fn check_name(name: &str, taken: &[String], mistakes: &mut Mistakes) {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
        let got: String = name.chars().take(80).collect();
        let why = format!("wanted 1 to 64 characters from a-z, A-Z, 0-9, `_` and `-`, got `{got}`");
        mistakes.add("name", why);
    } else if taken.iter().chain(&prebuilt_names()).any(|other| other == name) {
        mistakes.add("name", format!("`{name}` is the name of another tool\nhint: give it another name"));
    }
}

/// Checks the schema of a tool's arguments. The error says what is wrong.
pub(crate) fn check_schema(name: &str, input: &Value) -> Result<Checker, String> {
    let bytes = input.to_string().len();
    let max = limits::TOOL_SCHEMA_MAX_BYTES;
    if input["type"] != "object" {
        Err("wanted a JSON Schema with `type = \"object\"`: arguments are named".to_owned())
    } else if !matches!(input.get("properties"), None | Some(Value::Object(_))) {
        Err("wanted an object of schemas as its `properties`".to_owned())
    } else if bytes > max {
        Err(format!("wanted at most {max} bytes of JSON Schema, got {bytes}"))
    } else {
        Checker::new(name, input).map_err(|error| format!("this is no valid JSON Schema: {error}"))
    }
}

fn check_bounds(declaration: &Declaration, mistakes: &mut Mistakes) {
    let least = Duration::from_millis(limits::TOOL_TIMEOUT_MIN_MS);
    let most = if declaration.asynchronous { limits::TOOL_TIMEOUT_MAX_MS } else { limits::LATE_MS };
    let most = Duration::from_millis(most);
    mistakes.unless((least..=most).contains(&declaration.timeout), "timeout", || {
        let hint =
            if declaration.asynchronous { "" } else { "\nhint: a tool with `async = true` may take a day" };
        format!("wanted {least:?} to {most:?}, got {:?}{hint}", declaration.timeout)
    });
    let max = limits::TOOL_CONCURRENCY_MAX;
    mistakes.unless((1..=max).contains(&declaration.concurrency), "concurrency", || {
        format!("wanted 1 to {max} calls at once, got {}", declaration.concurrency)
    });
    if let Some(rate) = declaration.rate {
        let max = limits::TOOL_RATE_MAX;
        mistakes.unless((1..=max).contains(&rate.count), "rate", || {
            format!("wanted 1 to {max} calls in a span, got `{rate}`")
        });
    }
}

fn check_worker(declaration: &Declaration, mistakes: &mut Mistakes) {
    if declaration.kind != ToolKind::Worker {
        return mistakes.unless(declaration.worker.is_none(), "worker", || {
            "a table `[worker]` needs `kind = \"worker\"`".into()
        });
    }
    let worker = declaration.worker.clone().unwrap_or_default();
    let max = limits::WORKER_VERSION_MAX_BYTES;
    mistakes.unless((1..=max).contains(&worker.version.len()), "worker.version", || {
        format!("wanted 1 to {max} bytes, got {}", worker.version.len())
    });
    let own = declaration.rate.is_none() && declaration.concurrency == limits::TOOL_CONCURRENCY;
    mistakes.unless(own, "concurrency", || {
        "a tool of kind `worker` has neither `concurrency` nor `rate`: its workers claim as many calls as they can run".into()
    });
}

fn check_http(declaration: &Declaration, http: &HttpDeclaration, mistakes: &mut Mistakes) {
    check_method(declaration.effect, http, mistakes);
    let known: BTreeSet<&str> = declaration.input["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect();
    let mut template = |key: String, text: &str, slot: Slot| {
        if let Err(why) = template::check(text, slot, &known) {
            mistakes.add(key, why);
        }
    };
    template("http.url".into(), &http.url, Slot::Url);
    for (name, text) in &http.query {
        template(format!("http.query.{name}"), text, Slot::Value);
    }
    for (name, text) in &http.headers {
        template(format!("http.headers.{name}"), text, Slot::Value);
    }
    if let Some(body) = &http.body {
        template("http.body".into(), body, body_slot(http));
    }
    if let Some(json) = &http.json {
        each_text(json, "http.json", &mut |key, text| template(key, text, Slot::Value));
    }
    if let Some(form) = &http.form {
        each_text(form, "http.form", &mut |key, text| template(key, text, Slot::Value));
        mistakes.unless(form.is_object() || form.is_string(), "http.form", || {
            "wanted a table of fields, or one template that writes an object".into()
        });
    }
    check_headers(http, mistakes);
    if let Some(pointer) = &http.outcome {
        mistakes.unless(pointer.is_empty() || pointer.starts_with('/'), "http.outcome", || {
            format!("wanted a JSON pointer such as `/data/items`, got `{pointer}`")
        });
    }
    for entry in &http.allow {
        if let Err(why) = entry.parse::<AllowedTarget>() {
            mistakes.add("http.allow", why);
        }
    }
}

/// How arguments are written into a text body, by the kind of text that the headers promise.
pub(crate) fn body_slot(http: &HttpDeclaration) -> Slot {
    let kind = http.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    match kind.map(|(_, kind)| kind.to_ascii_lowercase()) {
        Some(kind) if kind.contains("/json") || kind.contains("+json") => Slot::JsonText,
        Some(kind) if kind.contains("x-www-form-urlencoded") => Slot::Form,
        _ => Slot::Text,
    }
}

fn check_method(effect: Effect, http: &HttpDeclaration, mistakes: &mut Mistakes) {
    const KNOWN: [Method; 6] =
        [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let Some(method) = KNOWN.iter().find(|known| known.as_str() == http.method) else {
        let known = KNOWN.each_ref().map(Method::as_str).join("`, `");
        return mistakes.add("http.method", format!("wanted one of `{known}`, got `{}`", http.method));
    };
    let bodies = [http.body.is_some(), http.json.is_some(), http.form.is_some()];
    let bodies = bodies.into_iter().filter(|is_given| *is_given).count();
    let sends = bodies > 0;
    let reads = matches!(*method, Method::GET | Method::HEAD);
    mistakes.unless(!(sends && reads), "http.method", || {
        format!("a `{method}` request has no body\nhint: use `query`, or another method")
    });
    mistakes.unless(bodies < 2, if http.json.is_some() { "http.json" } else { "http.form" }, || {
        "wanted one of `body`, `json` and `form`, got several".into()
    });
    let changes = matches!(*method, Method::PUT | Method::PATCH | Method::DELETE);
    if changes && effect == Effect::ReadOnly {
        mistakes.add("effect", format!("a `{method}` request changes something, so it is not `read_only`"));
    }
}

fn check_headers(http: &HttpDeclaration, mistakes: &mut Mistakes) {
    let mut seen = BTreeSet::new();
    for (name, value) in &http.headers {
        let key = format!("http.headers.{name}");
        let lower = name.to_ascii_lowercase();
        if HeaderName::try_from(name.as_str()).is_err() {
            mistakes.add(&key, "this is no name of a header");
        } else if is_reserved(&lower) {
            mistakes.add(&key, "this header is set by the connection itself\nhint: leave it out");
        }
        if HeaderValue::try_from(value.as_str()).is_err() {
            mistakes.add(&key, "the value has characters that no header may have, such as a line break");
        }
        if lower == "content-type" && http.json.is_some() && !value.contains("json") {
            mistakes.add(&key, format!("the body is `json`, but this promises `{value}`"));
        }
        if lower == "content-type" && http.form.is_some() && !value.contains("x-www-form-urlencoded") {
            mistakes.add(&key, format!("the body is a `form`, but this promises `{value}`"));
        }
        if !seen.insert(lower) {
            mistakes.add(&key, "this header is given twice");
        }
    }
}

/// Calls `visit` with every text in a JSON value and its path.
pub(super) fn each_text(value: &Value, path: &str, visit: &mut dyn FnMut(String, &str)) {
    match value {
        Value::String(text) => visit(path.to_owned(), text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each_text(item, &format!("{path}[{index}]"), visit);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                each_text(value, &format!("{path}.{key}"), visit);
            }
        }
        _ => {}
    }
}
