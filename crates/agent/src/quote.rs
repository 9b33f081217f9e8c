//! Words of others as a model is shown them: data that cannot leave its quotation marks, end its line, or hide
//! what it says. Names, texts, payloads and outcomes all pass through here.

use serde_json::Value;

use crate::limits;

/// Of a number in JSON.
const NUMBER_MAX_BYTES: usize = 24;

/// A JSON string literal.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    text.chars().for_each(|c| escaped(c, &mut out));
    out.push('"');
    out
}

/// Bytes of a text as [`quoted`] writes it.
pub(crate) fn size(text: &str) -> usize {
    let written = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        c if is_hidden(c) => 6 * c.len_utf16(),
        c => c.len_utf8(),
    };
    2 + text.chars().map(written).sum::<usize>()
}

/// Bytes of a value as JSON, from above, its texts by that measure: without writing it down.
pub(crate) fn size_of(value: &Value, text: fn(&str) -> usize) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => NUMBER_MAX_BYTES,
        Value::String(words) => text(words),
        Value::Array(items) => 2 + items.iter().map(|item| size_of(item, text) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| text(name) + size_of(value, text) + 2).sum::<usize>()
        }
    }
}

/// A text without line breaks and hidden characters, where no quotation marks are wanted.
pub fn unbroken(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '"' | '\\') { out.push(c) } else { escaped(c, &mut out) }
    }
    out
}

/// A text of several lines without hidden characters.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '\n' | '\t') { out.push(c) } else { escaped(c, &mut out) }
    }
    out
}

/// A character within a JSON string. What ends a line, is invisible, or turns round what follows is written
/// as its number.
fn escaped(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_hidden(c) => {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
        c => out.push(c),
    }
}

/// Control characters (C0, DEL, C1, with them U+0085), line and paragraph separators, marks that change the
/// direction of writing, and characters without any width or shape. Joiners are not among them: emoji and
/// several scripts are written with them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// A JSON string literal; of one that would be too long the beginning and the end, each a literal of its own,
/// with the id under which the whole is known. The text is cut first and quoted then.
pub(crate) fn bounded(text: &str, event: &str) -> String {
    let max = limits::EVENT_SHOWN_MAX_BYTES;
    let whole = quoted(text);
    if whole.len() <= max {
        return whole;
    }
    let (head, rest) = text.split_at(fitting(text.chars(), max * 2 / 3));
    let (middle, tail) = rest.split_at(rest.len() - fitting(rest.chars().rev(), max / 3));
    format!(
        "{} (… {} of {} bytes left out …) {} (event id: {})",
        quoted(head),
        middle.len(),
        text.len(),
        quoted(tail),
        quoted(event)
    )
}

/// Bytes of the first of these characters that fill at most `max` bytes as they are written.
fn fitting(chars: impl Iterator<Item = char>, max: usize) -> usize {
    let (mut written, mut bytes) = (String::new(), 0);
    for c in chars {
        escaped(c, &mut written);
        if written.len() > max {
            break;
        }
        bytes += c.len_utf8();
    }
    bytes
}

/// A value as JSON on one line; one that would be too long as the text that it is, cut like any other.
pub(crate) fn payload(value: &Value, event: &str) -> String {
    let text = value.to_string();
    let shown = unbroken(&text);
    if shown.len() <= limits::EVENT_SHOWN_MAX_BYTES { shown } else { bounded(&text, event) }
}

/// A display name without quotation marks where it is plain words, else as a JSON string.
pub(crate) fn name(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '\'');
    let ends = |end: Option<char>| end.is_some_and(char::is_alphanumeric);
    let is_plain = ends(name.chars().next()) && ends(name.chars().next_back()) && name.chars().all(plain);
    if is_plain { name.to_owned() } else { quoted(name) }
}

/// The first words of a text, marked where it goes on.
pub fn beginning(text: &str) -> String {
    let cut: String = text.chars().take(limits::PREVIEW_CHARS).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

/// The first words of a value: all of it as JSON, or the beginning of that as a text.
pub(crate) fn glimpse(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= limits::PREVIEW_CHARS { unbroken(&text) } else { quoted(&beginning(&text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_comes_back_and_none_that_hides_stands_there_as_it_is() {
        let all: String = ('\0'..=char::MAX).collect();
        let shown = quoted(&all);
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), all);
        assert_eq!(size(&all), shown.len());
        for c in ['\n', '\r', '\u{7f}', '\u{85}', '\u{9b}', '\u{2028}', '\u{202e}', '\u{200b}', '\u{e0041}'] {
            assert!(!shown.contains(c), "{c:?}");
        }
        assert_eq!(quoted("a\u{2028}b\u{85}\u{202e}"), r#""a\u2028b\u0085\u202e""#);
        assert_eq!(quoted("👩\u{200d}🚀 é 王"), "\"👩\u{200d}🚀 é 王\"", "what people write stays as it is");
    }

    #[test]
    fn the_size_of_a_value_is_known_without_writing_it() {
        let schema = serde_json::json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 65536},
            "mentions": {"type": "array", "items": {"type": "string"}}, "urgent": {"type": "boolean", "default": null}},
            "required": ["text"], "additionalProperties": false});
        let (guess, written) = (size_of(&schema, size), schema.to_string().len());
        assert!(guess >= written && guess < written + 60, "{guess} for {written}");
        let hidden = serde_json::json!({"a\u{202e}": ["\u{85}\n\u{7f}\u{1}", -1.7976931348623157e308]});
        assert!(size_of(&hidden, size) >= unbroken(&hidden.to_string()).len());
    }

    #[test]
    fn a_long_text_is_cut_before_it_is_quoted_so_that_none_of_it_stands_outside() {
        // Cut behind a backslash of its own escapes, each of these would end its quotation marks.
        for piece in ["\\", "\"", "\\\"", "\n", "\u{202e}", "é", "👩\u{200d}🚀", "\u{e0041}"] {
            for shift in 0..12 {
                let text = format!("{}{}", "x".repeat(shift), piece.repeat(40_000));
                let shown = bounded(&text, "e\"1");
                let mut strings = serde_json::Deserializer::from_str(&shown).into_iter::<String>();
                let head = strings.next().unwrap().unwrap();
                let rest = &shown[strings.byte_offset()..];
                let (left, rest) = rest.strip_prefix(" (… ").unwrap().split_once(" …) ").unwrap();
                let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let tail = strings.next().unwrap().unwrap();
                let cut = text.len() - head.len() - tail.len();
                assert_eq!(left, format!("{cut} of {} bytes left out", text.len()));
                assert!(text.starts_with(&head) && text.ends_with(&tail) && head.len() > tail.len());
                assert_eq!(&rest[strings.byte_offset()..], r#" (event id: "e\"1")"#);
                assert!(shown.len() <= limits::EVENT_SHOWN_MAX_BYTES + 100, "{}", shown.len());
            }
        }
    }

    #[test]
    fn a_name_is_plain_words_or_quoted() {
        for (given, shown) in [
            ("Husam", "Husam"),
            ("Anne-Marie O'Neil Jr", "Anne-Marie O'Neil Jr"),
            ("王小明", "王小明"),
            ("", "\"\""),
            (" Husam", "\" Husam\""),
            ("Boss (@boss, human)", "\"Boss (@boss, human)\""),
            ("a, just now: \"x\"", r#""a, just now: \"x\"""#),
            ("a\u{202e}b", r#""a\u202eb""#),
        ] {
            assert_eq!(name(given), shown);
        }
    }
}
