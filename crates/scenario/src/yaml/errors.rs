//! What is wrong with a text that is no YAML, in our words: its parser's are made for programmers.

use serde_saphyr::granit_parser::ErrorKind;
use serde_saphyr::localizer::ExternalMessageSource;
use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter};

use crate::flaw::{FileFlaw, FilePosition};

/// What helps with most texts that were not meant to be anything else.
const QUOTES: &str = "a text with `: ` or ` #` in it, or one that begins with `@`, `*` or `&`, needs quotes";
/// What helps where keys or items stand askew.
const COLUMN: &str = "what belongs together stands in one column";

/// The flaw that a parser's error is, at its place.
pub(super) fn flaw(error: &Error) -> FileFlaw {
    let location = error.location();
    let place = location.map(|at| FilePosition { line: at.line(), column: at.column() }).unwrap_or_default();
    let (message, hint) = explain(error);
    FileFlaw::new(place, message).hint(hint)
}

/// What we say of it, and what to do.
fn explain(error: &Error) -> (String, String) {
    let (message, hint) = match error {
        Error::AliasError { error, .. } => return explain(error),
        Error::ExternalMessage { source, .. } => match &**source {
            ExternalMessageSource::Parser(error) => return told_of_parser(error.kind()),
            _ => return foreign(&error.to_string()),
        },
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            return (format!("`{key}` stands here twice"), "put both into one".to_owned());
        }
        Error::UnsupportedTag { tag, .. } => {
            let hint = "a text that begins with `!` needs quotes";
            return (format!("expected no tag, got `{tag}`"), hint.to_owned());
        }
        Error::DuplicateMappingKey { .. } => ("a key stands here twice", "put both into one"),
        Error::MultipleDocuments { .. } => {
            ("expected one document, and a second one begins", "leave the line `---` out")
        }
        Error::Budget { .. } => ("it is too large or nested too deeply", "split it"),
        Error::UnknownAnchor { .. } => ("expected a name behind `*` that some `&` gave before", QUOTES),
        Error::RecursiveReferencesRequireWeakTypes { .. } => ("a `*` refers to what it stands in", QUOTES),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            ("expected a mapping behind `<<`", "put the key in quotes if it is none")
        }
        Error::NullIntoString { .. } => ("expected a text as a key, got nothing", "put the key in quotes"),
        Error::Unexpected { .. } => ("expected a text as a key, got a list or a mapping", QUOTES),
        Error::NonFiniteFloat { .. } => ("expected a finite number", "put it in quotes if it is a text"),
        other => return foreign(&DefaultMessageFormatter.format_message(other)),
    };
    (message.to_owned(), hint.to_owned())
}

fn told_of_parser(kind: &ErrorKind) -> (String, String) {
    use ErrorKind as E;
    let closing = |open: &char| if *open == '[' { ']' } else { '}' };
    let (message, hint) = match kind {
        E::UnclosedFlowCollection { open } => {
            let message = format!("expected a `{}` that closes this `{open}`", closing(open));
            return (message, QUOTES.to_owned());
        }
        E::MismatchedFlowCollectionEnd { open, close } => {
            let message = format!("expected a `{}` that closes this `{open}`, got `{close}`", closing(open));
            return (message, QUOTES.to_owned());
        }
        E::UnexpectedCharacter { character } if character.is_control() => {
            let code = u32::from(*character);
            let message = format!("expected signs that can be shown, got the one with the number {code:x}");
            let hint = "delete it, or write it as `\\u` with four digits in double quotes";
            return (message, hint.to_owned());
        }
        E::UnexpectedCharacter { character: sign } => {
            let hint = format!("a text that begins with `{sign}` needs quotes");
            return (format!("expected a value that does not begin with `{sign}`"), hint);
        }
        E::SimpleKeyExpected => (
            "expected a `:` behind this",
            "a sentence that stands beside others ends with `:`, also where nothing follows",
        ),
        E::MappingValueNotAllowed => ("expected no `:` here", QUOTES),
        E::InvalidColonPlacement => ("expected no `:` here", "is a `[` before this not closed by a `]`?"),
        E::ExpectedBlockSequenceEntry => ("expected another `- ` of the list above", COLUMN),
        E::ExpectedBlockMappingKey => ("expected a key", COLUMN),
        E::ExpectedFlowMappingSeparator => ("expected `,` or `}`", "the mapping before this is not closed"),
        E::ExpectedFlowSequenceSeparator => ("expected `,` or `]`", "the list before this is not closed"),
        E::MisplacedFlowCollectionEnd => ("a bracket closes what was never opened", QUOTES),
        E::TabInBlockIndentation | E::TabInIndentation | E::TabNotAllowed => {
            ("expected spaces before what stands here, got a tab", "indent with spaces alone")
        }
        E::InvalidQuotedScalarIndent | E::UnclosedQuotedScalar => {
            ("expected the closing quote of a text", "close it, or indent its further lines")
        }
        E::InvalidTrailingSingleQuotedScalar | E::InvalidTrailingDoubleQuotedScalar => (
            "expected nothing behind the closing quote",
            "a quote inside of single quotes is written twice, inside of double quotes as `\\\"`",
        ),
        E::UnknownQuotedScalarEscape => {
            ("expected another sign behind a `\\`", "write `\\\\` for one backslash, or use single quotes")
        }
        E::BlockSequenceEntryNotAllowed => {
            ("expected no list behind a key in the same line", "begin it in the next line, or write `[a, b]`")
        }
        E::InvalidBlockScalarHeader => {
            ("expected nothing behind `|` or `>`", "such a text begins in the next line")
        }
        E::CommentInterceptedScalar => {
            ("expected no comment inside of a text", "put the comment above the text")
        }
        E::UnexpectedEofBlockMapping | E::UnexpectedEof => ("expected a value", QUOTES),
        E::RecursionLimitExceeded => ("it is nested too deeply", "write it flatter"),
        other => return foreign(&other.to_string()),
    };
    (message.to_owned(), hint.to_owned())
}

/// What people hardly ever meet is told in the parser's words.
fn foreign(message: &str) -> (String, String) {
    (format!("this is no YAML: {message}"), QUOTES.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn explain(text: &str) -> String {
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
            ("a: \u{7}x\n", "1:4: expected signs that can be shown, got the one with the number 7"),
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
            assert_eq!(explain(text), expected, "{text:?}");
        }
    }
}
