//! What is wrong with a text that is no YAML, in our words: its parser's are made for programmers.
//! This module must not know what the text says.

use serde_saphyr::Error;

use crate::file::{Flaw, Place};

/// What helps with most texts that were not meant to be anything else.
const QUOTES: &str = "a text with `: ` or ` #` in it, or one that begins with `@`, `*` or `&`, needs quotes";

/// What the parser says, what we say of it, and what to do.
const WORDS: &[(&str, &str, &str)] = &[
    (
        "simple key expected",
        "expected a `:` behind this",
        "a sentence that stands beside others ends with `:`, also where nothing follows",
    ),
    (
        "mapping values are not allowed",
        "expected no `:` here",
        "a text with `: ` in it needs quotes; keys that belong together stand in one column",
    ),
    ("expected '-' indicator", "expected another `- ` of the list above", "items stand in one column"),
    ("did not find expected key", "expected a key", "keys that belong together stand in one column"),
    ("expected ',' or '}'", "expected `,` or `}`", "the mapping before this is not closed"),
    ("expected ',' or ']'", "expected `,` or `]`", "the list before this is not closed"),
    ("illegal placement of ':'", "expected no `:` here", "is a `[` before this not closed by a `]`?"),
    ("tabs disallowed", "expected spaces before what stands here, got a tab", "indent with spaces alone"),
    (
        "multiline quoted scalar",
        "expected the closing quote of a text",
        "close it, or indent its further lines",
    ),
    (
        "trailing content after",
        "expected nothing behind the closing quote",
        "a quote inside of single quotes is written twice, inside of double quotes as `\\\"`",
    ),
    (
        "unknown escape",
        "expected another sign behind a `\\`",
        "write `\\\\` for one backslash, or use single quotes",
    ),
    ("misplaced bracket", "a bracket closes what was never opened", QUOTES),
    ("unknown anchor", "expected a name behind `*` that some `&` gave before", QUOTES),
    ("recursive references", "a `*` refers to what it stands in", QUOTES),
    (
        "block sequence entries",
        "expected no list behind a key in the same line",
        "begin it in the next line, or write `[a, b]`",
    ),
    (
        "while scanning a block scalar",
        "expected nothing behind `|` or `>`",
        "such a text begins in the next line",
    ),
    ("comment intercepting", "expected no comment inside of a text", "put the comment above the text"),
    ("expected string scalar", "expected a text as a key, got a list or a mapping", QUOTES),
    ("null into string", "expected a text as a key, got nothing", "put the key in quotes"),
    ("merge value", "expected a mapping behind `<<`", "put the key in quotes if it is none"),
    ("non-finite", "expected a finite number", "put it in quotes if it is a text"),
    ("recursion limit", "it is nested too deeply", "write it flatter"),
    ("unexpected EOF", "expected a value", QUOTES),
    ("unexpected end of", "expected more, got the end", QUOTES),
];

/// The flaw that a parser's error is, at its place.
pub fn flaw(error: &Error) -> Flaw {
    let location = error.location();
    let place = location.map(|at| Place { line: at.line(), column: at.column() }).unwrap_or_default();
    let told = error.without_snippet();
    match told {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            return Flaw::new(place, format!("`{key}` stands here twice")).hint("put both into one");
        }
        Error::DuplicateMappingKey { .. } => {
            return Flaw::new(place, "a key stands here twice").hint("put both into one");
        }
        Error::MultipleDocuments { .. } => {
            let hint = "leave the line `---` out";
            return Flaw::new(place, "expected one document, and a second one begins").hint(hint);
        }
        Error::UnsupportedTag { tag, .. } => {
            let hint = "a text that begins with `!` needs quotes";
            return Flaw::new(place, format!("expected no tag, got `{tag}`")).hint(hint);
        }
        Error::Budget { .. } => {
            return Flaw::new(place, "it is too large or nested too deeply").hint("split it");
        }
        _ => {}
    }
    let told = told.to_string();
    if let Some((message, hint)) = of_one_sign(&told) {
        return Flaw::new(place, message).hint(hint);
    }
    let known = WORDS.iter().find(|(theirs, ..)| told.to_lowercase().contains(&theirs.to_lowercase()));
    match known {
        Some((_, ours, hint)) => Flaw::new(place, *ours).hint(*hint),
        None => Flaw::new(place, format!("this is no YAML: {}", bare(&told))).hint(QUOTES),
    }
}

/// Errors that name signs.
fn of_one_sign(told: &str) -> Option<(String, String)> {
    let between = |from: &str, to: char| {
        let (_, rest) = told.split_once(from)?;
        rest.chars().next().filter(|_| rest.chars().nth(1) == Some(to))
    };
    let closing = |open: char| if open == '[' { ']' } else { '}' };
    if let Some(open) = between("unclosed bracket '", '\'') {
        let close = closing(open);
        return Some((format!("expected a `{close}` that closes this `{open}`"), QUOTES.to_owned()));
    }
    if let Some(open) = between("mismatched bracket '", '\'') {
        let (got, close) = (between("closed by '", '\'')?, closing(open));
        let message = format!("expected a `{close}` that closes this `{open}`, got `{got}`");
        return Some((message, QUOTES.to_owned()));
    }
    if let Some(sign) = between("unexpected character: `", '\'') {
        let hint = format!("a text that begins with `{sign}` needs quotes");
        return Some((format!("expected a value that does not begin with `{sign}`"), hint));
    }
    let (_, rest) = told.split_once("unexpected character: `\\u{")?;
    let (code, _) = rest.split_once('}')?;
    let message =
        format!("expected signs that can be shown, got the one with the number {code} (hexadecimal)");
    Some((message, "delete it, or write it as `\\u` with four digits in double quotes".to_owned()))
}

/// The parser's words without the place, which is said before them, on one line.
fn bare(told: &str) -> &str {
    let told = told.lines().next().unwrap_or_default();
    let told = told.strip_prefix("error: ").unwrap_or(told);
    let told = match told.split_once(": ") {
        Some((place, rest)) if place.starts_with("line ") => rest,
        _ => told,
    };
    let told = told.split(" at line ").next().unwrap_or(told);
    told.trim_end_matches(['.', ':', ','])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn told(text: &str) -> String {
        let options = serde_saphyr::options! { with_snippet: false, reject_unsupported_tags: true };
        let error = match serde_saphyr::from_str_with_options::<Value>(text, options) {
            Ok(value) => panic!("`{text}` is {value}"),
            Err(error) => error,
        };
        let flaw = flaw(&error);
        assert!(flaw.hint.is_some(), "{flaw:?}");
        format!("{}:{}: {flaw}", flaw.place.line, flaw.place.column)
    }

    #[test]
    fn what_people_write_wrong_is_told_in_our_words_with_its_place() {
        for (text, expected) in [
            ("a: 1\nb: [1,\nc: }\n", "2:4: expected a `]` that closes this `[`, got `}`"),
            ("a: {b: 1", "1:4: expected a `}` that closes this `{`"),
            ("a: x\na: y\n", "2:1: `a` stands here twice"),
            ("a: \"open\nb: 1\n", "2:1: expected the closing quote of a text"),
            ("a:\n\tb: 1\n", "2:2: expected spaces before what stands here, got a tab"),
            ("a: 1\n b: 2", "2:3: expected no `:` here"),
            ("a: b: c\n", "1:5: expected no `:` here"),
            ("a: *x", "1:4: expected a name behind `*` that some `&` gave before"),
            ("a: @x\n", "1:4: expected a value that does not begin with `@`"),
            (
                "a: \u{7}x\n",
                "1:4: expected signs that can be shown, got the one with the number 7 (hexadecimal)",
            ),
            ("- a\nb: 1\n", "2:1: expected another `- ` of the list above"),
            ("a:\n    b: 1\n  c: 2\n", "3:3: expected a key"),
            ("a: 1\nb\n", "2:1: expected a `:` behind this"),
            ("a: \"\\q\"\n", "1:4: expected another sign behind a `\\`"),
            ("a: 1\n---\nb: 2\n", "3:1: expected one document, and a second one begins"),
            ("a: !foo 1\n", "1:9: expected no tag, got `!foo`"),
            ("a: |x\n  b\n", "1:4: expected nothing behind `|` or `>`"),
            ("a: ]\n", "1:4: a bracket closes what was never opened"),
            ("people: [a\nagents:\n  x: 1\n", "2:7: expected no `:` here"),
            ("a: - b\n", "1:4: expected no list behind a key in the same line"),
            ("a: 'it's'\n", "1:8: expected nothing behind the closing quote"),
            ("a: # c\n b: 1 # d\n  c: 1\n", "2:7: expected no comment inside of a text"),
            ("a: {x: 1\nb: 2\n", "2:2: expected `,` or `}`"),
            ("a: , b\n", "1:4: expected a value"),
        ] {
            assert_eq!(told(text), expected, "{text:?}");
        }
    }
}
