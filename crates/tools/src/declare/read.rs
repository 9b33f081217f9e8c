//! From text or JSON to a declaration, or to every mistake in it. Must not know what a valid value of a key is.

use std::collections::BTreeMap;

use agent::config::nearest;
use agent::limits;
use serde_json::{Map, Value};
use toml::de::DeTable;

use super::check::{check, prebuilt_names};
use super::{Declaration, DeclarationMistake};

const KEYS: &[&str] = &[
    "name",
    "kind",
    "description",
    "input",
    "effect",
    "visible",
    "async",
    "timeout",
    "concurrency",
    "rate",
    "labels",
    "http",
    "worker",
    "mcp",
];
const HTTP_KEYS: &[&str] = &["method", "url", "query", "headers", "body", "json", "form", "outcome", "allow"];

/// A key with its path, and what is wrong with it.
pub(super) type Wrong = (Option<String>, String);

/// Reads the declaration of one file. `taken` are the names that it may not have. The list of mistakes is never empty.
pub fn read_toml(file: &str, text: &str, taken: &[String]) -> Result<Declaration, Vec<DeclarationMistake>> {
    let in_file = |(key, why): Wrong| {
        let line = key.as_ref().and_then(|key| line_of(text, key));
        let file = line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"));
        DeclarationMistake { file: Some(file), key, why }
    };
    let whole = |why: String| vec![in_file((None, why))];
    if text.len() > limits::DECLARATION_MAX_BYTES {
        let max = limits::DECLARATION_MAX_BYTES;
        return Err(whole(format!("wanted at most {max} bytes, got {}", text.len())));
    }
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| whole(not_toml(text, &error)))?;
    let value = to_json(toml::Value::Table(table));
    read(&value, taken).map_err(|wrong| wrong.into_iter().map(in_file).collect())
}

/// Reads a declaration from JSON. `taken` are the names that it may not have. The list of mistakes is never empty.
pub fn read_json(value: &Value, taken: &[String]) -> Result<Declaration, Vec<DeclarationMistake>> {
    read(value, taken).map_err(|wrong| {
        wrong.into_iter().map(|(key, why)| DeclarationMistake { file: None, key, why }).collect()
    })
}

/// Reads several files, given by name and text: the declarations that are right, in the order of the files, and every
/// mistake. Of two that have one name, the second is a mistake.
pub fn read_files(files: &[(String, String)]) -> (Vec<Declaration>, Vec<DeclarationMistake>) {
    let (mut found, mut mistakes) = (Vec::new(), Vec::new());
    let taken = prebuilt_names();
    let mut homes: BTreeMap<String, &str> = BTreeMap::new();
    for (file, text) in files {
        match read_toml(file, text, &taken) {
            Ok(declaration) => match homes.insert(declaration.name.clone(), file) {
                None => found.push(declaration),
                Some(first) => {
                    let why = format!(
                        "`{}` is declared in {first} already\nhint: give it another name",
                        declaration.name
                    );
                    let (file, key) = (Some(file.clone()), Some("name".to_owned()));
                    mistakes.push(DeclarationMistake { file, key, why });
                    homes.insert(declaration.name, first);
                }
            },
            Err(wrong) => mistakes.extend(wrong),
        }
    }
    (found, mistakes)
}

fn read(value: &Value, taken: &[String]) -> Result<Declaration, Vec<Wrong>> {
    let Value::Object(given) = value else {
        return Err(vec![(None, "wanted the keys of a tool: `name`, `description`, …".to_owned())]);
    };
    let mut wrong = Vec::new();
    let mut rest = given.clone();
    drop_unknown(&mut rest, KEYS, "", &mut wrong);
    if let Some(Value::Object(http)) = rest.get_mut("http") {
        drop_unknown(http, HTTP_KEYS, "http.", &mut wrong);
    }
    let declaration = drop_mistyped(rest, &mut wrong);
    let known_wrong: Vec<String> = wrong.iter().filter_map(|(key, _)| key.clone()).collect();
    // A key that could not be read has its default here; what follows from that is no mistake of its own.
    let further = check(&declaration, taken).into_iter();
    wrong.extend(further.filter(|(key, _)| key.as_ref().is_none_or(|key| !known_wrong.contains(key))));
    if wrong.is_empty() { Ok(declaration) } else { Err(wrong) }
}

fn drop_unknown(map: &mut Map<String, Value>, known: &[&str], path: &str, wrong: &mut Vec<Wrong>) {
    map.retain(|key, _| {
        let is_known = known.contains(&key.as_str());
        if !is_known {
            let hint = match nearest(key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are `{}`", known.join("`, `")),
            };
            wrong.push((Some(format!("{path}{key}")), format!("there is no such key\nhint: {hint}")));
        }
        is_known
    });
}

/// Reads the values; each that has the wrong type is reported and left out.
fn drop_mistyped(mut map: Map<String, Value>, wrong: &mut Vec<Wrong>) -> Declaration {
    for _ in 0..KEYS.len() + HTTP_KEYS.len() {
        let error = match serde_path_to_error::deserialize::<_, Declaration>(Value::Object(map.clone())) {
            Ok(declaration) => return declaration,
            Err(error) => error,
        };
        let path = error.path().to_string();
        let mut parts = path.split(['.', '[']);
        let first = parts.next().unwrap_or_default();
        let second = parts.next().filter(|_| first == "http");
        wrong.push((Some(path.clone()), error.inner().to_string()));
        let removed = match (second, map.get_mut(first)) {
            (Some(second), Some(Value::Object(http))) => http.shift_remove(second),
            _ => map.shift_remove(first),
        };
        if removed.is_none() {
            break;
        }
    }
    Declaration::default()
}

fn not_toml(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start);
    format!("line {}: this is not TOML: {}", line_at(text, at), error.message())
}

fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The line of a key with its path, such as `http.url`, or of as much of the path as is there; `None` if nothing is.
pub(crate) fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let (mut table, mut line) = (table.get_ref(), None);
    for name in key.split(['.', '[']) {
        let Some((found, value)) = table.iter().find(|(found, _)| found.get_ref().as_ref() == name) else {
            break;
        };
        line = Some(line_at(text, found.span().start));
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => break,
        }
    }
    line
}

fn to_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(value) => value.into(),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => items.into_iter().map(to_json).collect(),
        toml::Value::Table(table) => {
            Value::Object(table.into_iter().map(|(key, value)| (key, to_json(value))).collect())
        }
    }
}
