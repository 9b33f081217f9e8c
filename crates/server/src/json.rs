//! Reads untrusted JSON: bounds the depth on the raw bytes before parsing, and names the path of every mistake.
//! Must not know requests.

use agent::config::nearest;
use agent::limits;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::problem::{Code, Problem};

/// Reads a body of type `T`.
pub(crate) fn read<T: DeserializeOwned>(raw: &[u8]) -> Result<T, Problem> {
    let text = std::str::from_utf8(raw).map_err(|error| {
        Problem::new(Code::NotUtf8, format!("the body is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    check_depth(raw)?;
    only_object(text)?;
    let mut from = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut from).map_err(|error| {
        let path = error.path().to_string();
        describe_error::<T>(text, &path, &error.into_inner())
    })?;
    from.end().map_err(|error| bad_json(&error))?;
    Ok(read)
}

/// Reads any value.
pub(crate) fn value(text: &str) -> Result<Value, Problem> {
    check_depth(text.as_bytes())?;
    serde_json::from_str(text).map_err(|error| bad_json(&error))
}

fn check_depth(raw: &[u8]) -> Result<(), Problem> {
    if too_deep(raw) {
        let detail = format!("the body is nested deeper than {} levels", limits::JSON_DEPTH_MAX);
        return Err(Problem::new(Code::TooDeep, detail));
    }
    Ok(())
}

/// Rejects JSON that is not an object: serde would read an array as the fields in their order.
fn only_object(text: &str) -> Result<(), Problem> {
    // JSON white space. An empty body and invalid JSON are left to serde to reject.
    if text.trim_start_matches([' ', '\n', '\t', '\r']).starts_with('{') {
        return Ok(());
    }
    let got = match serde_json::from_str::<Value>(text).map_err(|error| bad_json(&error))? {
        Value::Object(_) => return Ok(()),
        Value::Array(_) => "an array",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Bool(_) => "`true` or `false`",
        Value::Null => "`null`",
    };
    Err(Problem::new(Code::WrongType, format!("the body: wanted a JSON object, got {got}")))
}

/// Whether the text nests deeper than the limit; works on invalid JSON too.
fn too_deep(raw: &[u8]) -> bool {
    let mut depth = 0usize;
    let mut in_text = false;
    let mut escaped = false;
    for byte in raw {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                if depth > limits::JSON_DEPTH_MAX {
                    return true;
                }
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

fn bad_json(error: &serde_json::Error) -> Problem {
    Problem::new(Code::BadJson, format!("the body is not JSON: {error}"))
}

/// Describes why the text cannot be read as a `T`.
fn describe_error<T: DeserializeOwned>(text: &str, path: &str, error: &serde_json::Error) -> Problem {
    if error.classify() != Category::Data {
        return bad_json(error);
    }
    // serde stopped at the first mistake; invalid JSON further on is reported first.
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return bad_json(&error),
    };
    if let (Value::Object(given), Some(known)) = (&value, fields::<T>())
        && let Some(problem) = unknown_field(given, known)
    {
        return problem;
    }
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or(&reason);
    let location = if path == "." { "the body".to_owned() } else { format!("`{path}`") };
    Problem::new(Code::WrongType, format!("{location}: {reason}"))
}

fn unknown_field(given: &Map<String, Value>, known: &[&'static str]) -> Option<Problem> {
    let unknown = given.keys().find(|key| !known.contains(&key.as_str()))?;
    Some(unknown_name(unknown, known))
}

/// The error for an unknown field or parameter.
pub(crate) fn unknown_name(name: &str, known: &[&'static str]) -> Problem {
    let shown: String = name.chars().take(80).collect();
    let problem = Problem::new(Code::UnknownField, format!("unknown field `{shown}`"));
    match nearest(name, known.iter().copied()) {
        Some(nearest) => problem.hint(format!("did you mean `{nearest}`?")),
        None if known.is_empty() => problem.hint("no fields are accepted here"),
        None => problem.hint(format!("known are `{}`", known.join("`, `"))),
    }
}

/// The names of the fields of a struct, as serde reads them.
pub(crate) fn fields<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    T::deserialize(Probe).err().and_then(|found| found.0)
}

/// A deserializer that only records which fields a type asks for.
struct Probe;

#[derive(Debug)]
struct Found(Option<&'static [&'static str]>);

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("asked for its fields")
    }
}

impl std::error::Error for Found {}

impl de::Error for Found {
    fn custom<M: std::fmt::Display>(_: M) -> Self {
        Self(None)
    }
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Found;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Found> {
        Err(Found(None))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Found> {
        Err(Found(Some(fields)))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Order {
        text: String,
        #[serde(rename = "count")]
        number: Option<u32>,
        #[serde(default)]
        places: Vec<u32>,
    }

    fn check(input: &[u8], code: Code, detail: &str) {
        let problem = read::<Order>(input).unwrap_err();
        assert_eq!(problem.code(), code, "{problem:?}");
        assert!(format!("{problem:?}").contains(detail), "{problem:?} does not say `{detail}`");
    }

    #[test]
    fn every_mistake_is_reported_with_its_path() {
        check(b"{\"text\": 1}", Code::WrongType, "`text`: invalid type: integer `1`, expected a string");
        check(b"{\"text\": \"a\", \"places\": [1, \"b\"]}", Code::WrongType, "`places[1]`");
        check(b"{}", Code::WrongType, "missing field `text`");
        check(b"{\"text\": \"a\", \"cuont\": 1}", Code::UnknownField, "did you mean `count`?");
        check(b"{\"text\": \"a\"", Code::BadJson, "not JSON");
        check(b"{\"text\": \"a\"} x", Code::BadJson, "trailing");
        check(b"\xff", Code::NotUtf8, "byte 0");
        check(b"", Code::BadJson, "EOF");
        check(b" [\"a\", 1, []]", Code::WrongType, "wanted a JSON object, got an array");
        check(b"null", Code::WrongType, "wanted a JSON object, got `null`");
        check(b"[1", Code::BadJson, "EOF");
        assert!(read::<Order>(b"\r\n\t {\"text\": \"a\"}").is_ok());
    }

    #[test]
    fn depth_counts_outside_of_strings_only() {
        let deep = "[".repeat(65);
        check(deep.as_bytes(), Code::TooDeep, "64 levels");
        let text = format!("{{\"text\": \"{}\\\"[\"}}", "[".repeat(500));
        assert!(read::<Order>(text.as_bytes()).is_ok());
    }
}
