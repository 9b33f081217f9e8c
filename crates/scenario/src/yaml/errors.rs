//! Error messages for invalid YAML, rewritten because those of the parser are made for programmers.

use serde_saphyr::granit_parser::ErrorKind;
use serde_saphyr::localizer::ExternalMessageSource;
use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter};

use crate::flaw::{FileFlaw, FilePosition};

/// The hint for plain texts that YAML reads as something else.
const QUOTES: &str = "a text with `: ` or ` #` in it, or one that begins with `@`, `*` or `&`, needs quotes";
/// The hint for keys or items with wrong indentation.
const COLUMN: &str = "keys or items that belong together start in the same column";

/// Turns an error of the parser into a flaw at its position.
pub(super) fn flaw(error: &Error) -> FileFlaw {
    let location = error.location();
    let place = location.map(|at| FilePosition { line: at.line(), column: at.column() }).unwrap_or_default();
    let (message, hint) = explain(error);
    FileFlaw::new(place, message).hint(hint)
}

/// The message, and the hint.
fn explain(error: &Error) -> (String, String) {
    let (message, hint) = match error {
        Error::AliasError { error, .. } => return explain(error),
        Error::ExternalMessage { source, .. } => match &**source {
            ExternalMessageSource::Parser(error) => return explain_parser_error(error.kind()),
            _ => return other_error(&error.to_string()),
        },
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            return (format!("the key `{key}` is given twice"), "merge the two".to_owned());
        }
        Error::UnsupportedTag { tag, .. } => {
            let hint = "a text that begins with `!` needs quotes";
            return (format!("expected no tag, got `{tag}`"), hint.to_owned());
        }
        Error::DuplicateMappingKey { .. } => ("a key is given twice", "merge the two"),
        Error::MultipleDocuments { .. } => {
            ("expected one document, but a second one begins", "remove the line `---`")
        }
        Error::Budget { .. } => ("it is too large or nested too deeply", "split it"),
        Error::UnknownAnchor { .. } => ("expected a name after `*` that a `&` has defined before", QUOTES),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            ("a `*` refers to the value that contains it", QUOTES)
        }
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            ("expected a mapping after `<<`", "put the key in quotes if it is meant as a text")
        }
        Error::NullIntoString { .. } => ("expected a text as a key, got nothing", "put the key in quotes"),
        Error::Unexpected { .. } => ("expected a text as a key, got a list or a mapping", QUOTES),
        Error::NonFiniteFloat { .. } => {
            ("expected a finite number", "put it in quotes if it is meant as a text")
        }
        other => return other_error(&DefaultMessageFormatter.format_message(other)),
    };
    (message.to_owned(), hint.to_owned())
}

fn explain_parser_error(kind: &ErrorKind) -> (String, String) {
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
            let message = format!("expected printable characters, got the character with the code {code:x}");
            let hint = "delete it, or write it as `\\u` with four digits in double quotes";
            return (message, hint.to_owned());
        }
        E::UnexpectedCharacter { character } => {
            let hint = format!("a text that begins with `{character}` needs quotes");
            return (format!("expected a value that does not begin with `{character}`"), hint);
        }
        E::SimpleKeyExpected => {
            ("expected a `:` after this", "a key ends with `:`, even if no value follows")
        }
        E::MappingValueNotAllowed => ("expected no `:` here", QUOTES),
        E::InvalidColonPlacement => ("expected no `:` here", "is a `[` before this not closed by a `]`?"),
        E::ExpectedBlockSequenceEntry => ("expected another `- ` of the list above", COLUMN),
        E::ExpectedBlockMappingKey => ("expected a key", COLUMN),
        E::ExpectedFlowMappingSeparator => ("expected `,` or `}`", "the mapping before this is not closed"),
        E::ExpectedFlowSequenceSeparator => ("expected `,` or `]`", "the list before this is not closed"),
        E::MisplacedFlowCollectionEnd => ("a bracket closes what was never opened", QUOTES),
        E::TabInBlockIndentation | E::TabInIndentation | E::TabNotAllowed => {
            ("expected spaces as indentation, got a tab", "indent with spaces only")
        }
        E::InvalidQuotedScalarIndent | E::UnclosedQuotedScalar => {
            ("expected the closing quote of a text", "close it, or indent its further lines")
        }
        E::InvalidTrailingSingleQuotedScalar | E::InvalidTrailingDoubleQuotedScalar => (
            "expected nothing after the closing quote",
            "write a quote inside single quotes twice, inside double quotes as `\\\"`",
        ),
        E::UnknownQuotedScalarEscape => {
            ("expected a valid character after `\\`", "write `\\\\` for one backslash, or use single quotes")
        }
        E::BlockSequenceEntryNotAllowed => {
            ("expected no list after a key in the same line", "start it in the next line, or write `[a, b]`")
        }
        E::InvalidBlockScalarHeader => {
            ("expected nothing after `|` or `>`", "start the text in the next line")
        }
        E::CommentInterceptedScalar => {
            ("expected no comment inside a text", "put the comment above the text")
        }
        E::UnexpectedEofBlockMapping | E::UnexpectedEof => ("expected a value", QUOTES),
        E::RecursionLimitExceeded => ("it is nested too deeply", "use fewer levels"),
        other => return other_error(&other.to_string()),
    };
    (message.to_owned(), hint.to_owned())
}

/// Rare errors keep the message of the parser.
fn other_error(message: &str) -> (String, String) {
    (format!("this is not valid YAML: {message}"), QUOTES.to_owned())
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
    fn common_mistakes_are_reported_in_plain_words_with_their_position() {
        for (text, expected) in [
            ("a: 1\nb: [1,\nc: }\n", "2:4: expected a `]` that closes this `[`, got `}`"),
            ("a: {b: 1", "1:4: expected a `}` that closes this `{`"),
            ("a: x\na: y\n", "2:1: the key `a` is given twice"),
            ("a: \"open\nb: 1\n", "2:1: expected the closing quote of a text"),
            ("a:\n\tb: 1\n", "2:2: expected spaces as indentation, got a tab"),
            ("a: 1\n b: 2", "2:3: expected no `:` here"),
            ("a: b: c\n", "1:5: expected no `:` here"),
            ("a: *x", "1:4: expected a name after `*` that a `&` has defined before"),
            ("a: @x\n", "1:4: expected a value that does not begin with `@`"),
            ("a: \u{7}x\n", "1:4: expected printable characters, got the character with the code 7"),
            ("- a\nb: 1\n", "2:1: expected another `- ` of the list above"),
            ("a:\n    b: 1\n  c: 2\n", "3:3: expected a key"),
            ("a: 1\nb\n", "2:1: expected a `:` after this"),
            ("a: \"\\q\"\n", "1:4: expected a valid character after `\\`"),
            ("a: 1\n---\nb: 2\n", "3:1: expected one document, but a second one begins"),
            ("a: !foo 1\n", "1:9: expected no tag, got `!foo`"),
            ("a: |x\n  b\n", "1:4: expected nothing after `|` or `>`"),
            ("a: ]\n", "1:4: a bracket closes what was never opened"),
            ("people: [a\nagents:\n  x: 1\n", "2:7: expected no `:` here"),
            ("a: - b\n", "1:4: expected no list after a key in the same line"),
            ("a: 'it's'\n", "1:8: expected nothing after the closing quote"),
            ("a: # c\n b: 1 # d\n  c: 1\n", "2:7: expected no comment inside a text"),
            ("a: {x: 1\nb: 2\n", "2:2: expected `,` or `}`"),
            ("a: , b\n", "1:4: expected a value"),
        ] {
            assert_eq!(explain(text), expected, "{text:?}");
        }
    }
}
