//! Safe repairs of the name and arguments of a call that the model wrote slightly wrong. The repaired call is run and
//! stored in the call row; the log keeps what the model wrote.
//!
//! Nothing is guessed. Input that is incomplete or ambiguous is left unchanged and is refused later with an error.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::limits;

/// Prefixes that some models write before the name of a tool, because of their training.
const NAMESPACES: [&str; 2] = ["functions", "default_api"];
/// Separators between such a prefix and the name. `_` is what a `.` or `:` becomes when the name is sent back.
const SEPARATORS: [char; 3] = ['.', ':', '_'];

/// A call after repairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairedCall<'a> {
    /// The tool.
    pub name: &'a str,
    /// The argument string.
    pub arguments: Cow<'a, str>,
    /// What was repaired; `None` if nothing was.
    pub repaired: Option<String>,
}

/// Repairs a call. `known` says whether a tool of that name exists.
pub fn repair<'a>(name: &'a str, arguments: &'a str, known: impl Fn(&str) -> bool) -> RepairedCall<'a> {
    let mut notes = Vec::new();
    let bare = without_namespace(name).filter(|bare| !known(name) && known(bare));
    let name = bare.unwrap_or(name);
    if bare.is_some() {
        notes.push("prefix of the name");
    }
    let arguments = match object_of(arguments, &mut notes) {
        Some(object) => Cow::Owned(object),
        None => Cow::Borrowed(arguments),
    };
    let repaired = (!notes.is_empty()).then(|| notes.join(", "));
    RepairedCall { name, arguments, repaired }
}

fn without_namespace(name: &str) -> Option<&str> {
    let without_prefix = NAMESPACES.iter().find_map(|namespace| name.strip_prefix(namespace))?;
    without_prefix.strip_prefix(SEPARATORS)
}

type RepairStep = fn(&str) -> Option<String>;

/// The JSON object inside arguments that are not an object themselves. Each repair that found it is added to `notes`.
fn object_of(arguments: &str, notes: &mut Vec<&'static str>) -> Option<String> {
    if arguments.len() > limits::ARGUMENTS_MAX_BYTES || arguments.trim().is_empty() || is_object(arguments) {
        return None;
    }
    let steps: [(&str, RepairStep); 4] = [
        ("code fence", without_fence),
        ("double encoding", decoded),
        ("code fence", without_fence),
        ("trailing comma", without_trailing_commas),
    ];
    let mut text = arguments.trim().to_owned();
    let mut done = Vec::new();
    for (note, step) in steps {
        if let (false, Some(next)) = (is_object(&text), step(&text)) {
            next.trim().clone_into(&mut text);
            done.push(note);
        }
    }
    is_object(&text).then(|| {
        notes.extend(done);
        text
    })
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<Map<String, Value>>(text).is_ok()
}

/// The content of the code block, if the text is exactly one fenced code block.
fn without_fence(text: &str) -> Option<String> {
    let inside = text.strip_prefix("```")?.strip_suffix("```")?;
    let body = inside.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    (!inside.contains("```")).then(|| body.to_owned())
}

/// The content of a JSON string.
fn decoded(text: &str) -> Option<String> {
    text.starts_with('"').then(|| serde_json::from_str(text).ok())?
}

/// The text without the commas between a value and the end of its object or list.
fn without_trailing_commas(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped, mut before) = (false, false, '{');
    for (at, c) in text.char_indices() {
        if !in_string && c == ',' && !"{[,:".contains(before) {
            let following = text[at + 1..].trim_start();
            if following.starts_with(['}', ']']) {
                continue;
            }
        }
        in_string = if c == '"' && !escaped { !in_string } else { in_string };
        escaped = in_string && c == '\\' && !escaped;
        if !c.is_whitespace() {
            before = c;
        }
        out.push(c);
    }
    (out.len() < text.len()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(arguments: &str) -> (String, Option<String>) {
        let call = repair("note", arguments, |name| name == "note");
        assert_eq!(call.name, "note");
        (call.arguments.into_owned(), call.repaired)
    }

    #[test]
    fn unambiguous_mistakes_are_repaired_and_each_repair_is_named() {
        for (written, expected, notes) in [
            ("```json\n{\"a\": 1.0}\n```", r#"{"a": 1.0}"#, "code fence"),
            ("\n```\n{\"a\":1}```\n", r#"{"a":1}"#, "code fence"),
            ("```json{\"a\":1}```", r#"{"a":1}"#, "code fence"),
            (r#""{\"a\":\"é \\\"x\\\"\"}""#, r#"{"a":"é \"x\""}"#, "double encoding"),
            (r#""```json\n{\"a\":1}\n```""#, r#"{"a":1}"#, "double encoding, code fence"),
            (r#"{"a":[1,2, ],"b":{"c":"x",} , }"#, r#"{"a":[1,2 ],"b":{"c":"x"}  }"#, "trailing comma"),
            (r#"{"a":"no ,} here\\","b":",]\"",}"#, r#"{"a":"no ,} here\\","b":",]\""}"#, "trailing comma"),
            ("```\n{\"a\":1,}\n```", r#"{"a":1}"#, "code fence, trailing comma"),
        ] {
            assert_eq!(repaired(written), (expected.to_owned(), Some(notes.to_owned())), "{written}");
            assert_eq!(
                repaired(expected),
                (expected.to_owned(), None),
                "a repaired call needs no further repair"
            );
        }
    }

    #[test]
    fn valid_empty_incomplete_or_ambiguous_arguments_are_left_unchanged() {
        for written in [
            "",
            "  ",
            r#" {"a": 1} "#,
            r#"{"a":"b"#,
            r#"{"a":1,"#,
            r#""{\"a\":1""#,
            "```json\n{\"a\":1",
            r#"{"a":1}{"b":2}"#,
            r#"{"a":1},"#,
            r#"{"a":1},{"b":2}"#,
            "```json\n{\"a\":1}\n```\n```json\n{\"b\":2}\n```",
            "Here it is: ```json\n{\"a\":1}\n```",
            r#"{"a":1,,}"#,
            "{,}",
            r#"{"a":[,]}"#,
            r#"{"a":,}"#,
            r#"[{"a":1},]"#,
            r#"["a"]"#,
            r#""a text""#,
            "null",
            "7",
            "{'a': 1}",
            r#"{"a":1}}"#,
            r#"{"a":1"#,
        ] {
            assert_eq!(repaired(written), (written.to_owned(), None));
        }
        let long = format!("```\n{{\"a\":\"{}\"}}\n```", "x".repeat(limits::ARGUMENTS_MAX_BYTES));
        assert_eq!(repaired(&long).1, None);
    }

    #[test]
    fn a_namespace_is_removed_only_if_a_tool_with_the_remaining_name_exists() {
        let known = |name: &str| ["note", "functions.own", "own"].contains(&name);
        for (written, name) in [
            ("functions.note", "note"),
            ("default_api.note", "note"),
            ("default_api:note", "note"),
            ("functions_note", "note"),
            ("functions.own", "functions.own"),
            ("functions.nothing", "functions.nothing"),
            ("functionsnote", "functionsnote"),
            ("functions.functions.note", "functions.functions.note"),
            ("note", "note"),
            ("", ""),
        ] {
            let call = repair(written, "{}", known);
            assert_eq!((call.name, call.repaired.is_some()), (name, name != written), "{written}");
        }
        let both = repair("functions.note", "{\"a\":1,}", known);
        assert_eq!(both.repaired.as_deref(), Some("prefix of the name, trailing comma"));
    }
}
