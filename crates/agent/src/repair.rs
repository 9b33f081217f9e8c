//! A call as the model meant it, where it wrote it a little wrong: safe repairs of its name and arguments.
//! What is run and kept of the call is what comes out here; the log keeps what the model wrote.
//!
//! Nothing is guessed. What is cut, or could mean two things, stays as it is and is refused with words.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::limits;

/// What some models write before the name of a tool, as their training shows them tools.
const NAMESPACES: [&str; 2] = ["functions", "default_api"];
/// What stands between that and the name; the last is what a name has become when it is sent back.
const SEPARATORS: [char; 3] = ['.', ':', '_'];

/// A call with its repairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant<'a> {
    /// The tool.
    pub name: &'a str,
    /// The argument string.
    pub arguments: Cow<'a, str>,
    /// What was repaired, in words; none where the model wrote it well.
    pub repaired: Option<String>,
}

/// The call that is meant. `known` tells whether there is a tool of that name.
pub fn meant<'a>(name: &'a str, arguments: &'a str, known: impl Fn(&str) -> bool) -> Meant<'a> {
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
    Meant { name, arguments, repaired }
}

fn without_namespace(name: &str) -> Option<&str> {
    let behind = NAMESPACES.iter().find_map(|namespace| name.strip_prefix(namespace))?;
    behind.strip_prefix(SEPARATORS)
}

type RepairStep = fn(&str) -> Option<String>;

/// The object that the arguments hold, where they are none themselves. What was done to find it is noted.
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

/// What stands between the fences of the only block that the text is.
fn without_fence(text: &str) -> Option<String> {
    let inside = text.strip_prefix("```")?.strip_suffix("```")?;
    let body = inside.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    (!inside.contains("```")).then(|| body.to_owned())
}

/// The text that a JSON string holds.
fn decoded(text: &str) -> Option<String> {
    text.starts_with('"').then(|| serde_json::from_str(text).ok())?
}

/// The text without each comma that stands between a value and the end of its object or list.
fn without_trailing_commas(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped, mut before) = (false, false, '{');
    for (at, c) in text.char_indices() {
        if !in_string && c == ',' && !"{[,:".contains(before) {
            let behind = text[at + 1..].trim_start();
            if behind.starts_with(['}', ']']) {
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
        let meant = meant("note", arguments, |name| name == "note");
        assert_eq!(meant.name, "note");
        (meant.arguments.into_owned(), meant.repaired)
    }

    #[test]
    fn what_is_surely_meant_is_repaired_and_each_repair_is_named() {
        for (written, meant, notes) in [
            ("```json\n{\"a\": 1.0}\n```", r#"{"a": 1.0}"#, "code fence"),
            ("\n```\n{\"a\":1}```\n", r#"{"a":1}"#, "code fence"),
            ("```json{\"a\":1}```", r#"{"a":1}"#, "code fence"),
            (r#""{\"a\":\"é \\\"x\\\"\"}""#, r#"{"a":"é \"x\""}"#, "double encoding"),
            (r#""```json\n{\"a\":1}\n```""#, r#"{"a":1}"#, "double encoding, code fence"),
            (r#"{"a":[1,2, ],"b":{"c":"x",} , }"#, r#"{"a":[1,2 ],"b":{"c":"x"}  }"#, "trailing comma"),
            (r#"{"a":"no ,} here\\","b":",]\"",}"#, r#"{"a":"no ,} here\\","b":",]\""}"#, "trailing comma"),
            ("```\n{\"a\":1,}\n```", r#"{"a":1}"#, "code fence, trailing comma"),
        ] {
            assert_eq!(repaired(written), (meant.to_owned(), Some(notes.to_owned())), "{written}");
            assert_eq!(repaired(meant), (meant.to_owned(), None), "what is repaired once is well");
        }
    }

    #[test]
    fn what_is_well_empty_cut_or_could_mean_two_things_stays_as_it_is() {
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
    fn a_namespace_is_taken_off_only_where_that_makes_a_tool_of_it() {
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
            let meant = meant(written, "{}", known);
            assert_eq!((meant.name, meant.repaired.is_some()), (name, name != written), "{written}");
        }
        let both = meant("functions.note", "{\"a\":1,}", known);
        assert_eq!(both.repaired.as_deref(), Some("prefix of the name, trailing comma"));
    }
}
