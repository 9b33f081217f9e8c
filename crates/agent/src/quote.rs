//! How text of others is shown to a model: as data that cannot leave its quotation marks, end its line or contain
//! invisible characters. Names, texts, payloads and outcomes all pass through here.

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, PrependedConcatenationMark};
use icu_properties::{CodePointMapData, CodePointSetData};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::limits;

/// Upper bound for the bytes of a number in JSON.
const NUMBER_MAX_BYTES: usize = 24;

/// The text as a JSON string literal.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    text.chars().for_each(|c| escaped(c, &mut out));
    out.push('"');
    out
}

/// Number of bytes of the text as [`quoted`] writes it.
pub(crate) fn size(text: &str) -> usize {
    let written = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        c if is_escaped(c) => 6 * c.len_utf16(),
        c => c.len_utf8(),
    };
    2 + text.chars().map(written).sum::<usize>()
}

/// Upper bound for the bytes of a value as JSON, with its texts measured by `text`, without serializing it.
pub(crate) fn size_of(value: &Value, text: fn(&str) -> usize) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => NUMBER_MAX_BYTES,
        Value::String(string) => text(string),
        Value::Array(items) => 2 + items.iter().map(|item| size_of(item, text) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| text(name) + size_of(value, text) + 2).sum::<usize>()
        }
    }
}

/// The text on one line, with line breaks and hidden characters escaped, without quotation marks.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '"' | '\\') { out.push(c) } else { escaped(c, &mut out) }
    }
    out
}

/// The text with hidden characters escaped; it may have several lines.
pub fn escape_hidden(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '\n' | '\t') { out.push(c) } else { escaped(c, &mut out) }
    }
    out
}

/// Writes a character as in a JSON string. Characters that end a line, are invisible or change the direction of writing
/// become `\u` escapes.
fn escaped(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_escaped(c) => push_units(c, out),
        c => out.push(c),
    }
}

/// Writes a character as JSON writes one that it escapes.
pub fn push_units(c: char, out: &mut String) {
    let mut units = [0; 2];
    for unit in c.encode_utf16(&mut units) {
        out.push_str(&format!("\\u{unit:04x}"));
    }
}

/// The text as people and models can see all of it: everything [`is_hidden`] as escapes, also what emoji and scripts need,
/// and blanks that could push the rest out of sight. It may have several lines. For what people approve, for
/// descriptions that models read, and for names.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let end = rest.find(|c: char| !is_blank(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end.max(c.len_utf8()));
        let is_padding = run.chars().nth(limits::BLANK_SHOWN_MAX_CHARS).is_some();
        for c in run.chars() {
            match c {
                '\n' if is_padding => out.push_str("\\n"),
                '\t' if is_padding => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\n' | '\t' => out.push(c),
                c if is_padding || is_hidden(c) => push_units(c, &mut out),
                c => out.push(c),
            }
        }
        rest = after;
    }
    out
}

/// The same on one line.
pub fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// The value with all its texts as [`visible`] writes them, names of fields included.
pub fn visible_json(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible(text)),
        Value::Array(items) => items.iter().map(visible_json).collect(),
        Value::Object(map) => {
            let field = |(name, value): (&String, &Value)| (visible(name), visible_json(value));
            Value::Object(map.iter().map(field).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Arguments of a call as people approve them: without white space between them, which says nothing and can fill a page,
/// and with everything else as it is.
pub fn visible_arguments(json: &str) -> String {
    if serde_json::from_str::<IgnoredAny>(json).is_err() {
        return visible(json);
    }
    let mut out = String::with_capacity(json.len());
    let (mut in_text, mut after_backslash) = (false, false);
    for c in json.chars() {
        if in_text || !c.is_ascii_whitespace() {
            out.push(c);
        }
        in_text ^= c == '"' && !after_backslash;
        after_backslash = in_text && c == '\\' && !after_backslash;
    }
    visible(&out)
}

/// Whether the character takes a place and leaves it empty. No property of Unicode says so of those that are no white space: signs
/// of scripts without ink.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{2800}' | '\u{13441}' | '\u{13442}' | '\u{16fe4}' | '\u{1d159}')
}

/// Whether nothing of the character is seen where it stands, by Unicode's properties and not by a list of ours: controls,
/// marks of format and direction, ends of lines and paragraphs, and all that programs leave out if they do not know it
/// (`Default_Ignorable_Code_Point`: fillers, joiners, selectors of variants, tags, also those to come).
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    match CodePointMapData::<GeneralCategory>::new().get(c) {
        GeneralCategory::Control | GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator => {
            true
        }
        // What they look like, nobody knows who has not agreed about it.
        GeneralCategory::PrivateUse | GeneralCategory::Unassigned => true,
        // Some signs of Arabic and other scripts are marks of format with a shape.
        GeneralCategory::Format => !CodePointSetData::new::<PrependedConcatenationMark>().contains(c),
        _ => CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c),
    }
}

/// Whether the character is escaped where others' text is quoted: all that is hidden, but for the joiners and the choice
/// between sign and emoji, which emoji and several scripts need.
pub fn is_escaped(c: char) -> bool {
    is_hidden(c) && !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
}

/// The text as a JSON string literal. If that is too long: its beginning and end as two literals, and the id of the
/// event that has the full text. The text is cut before it is quoted.
pub(crate) fn bounded(text: &str, event: &str) -> String {
    let max = limits::EVENT_SHOWN_MAX_BYTES;
    let whole = quoted(text);
    if whole.len() <= max {
        return whole;
    }
    let (head, after) = text.split_at(fitting(text.chars(), max * 2 / 3));
    let (middle, tail) = after.split_at(after.len() - fitting(after.chars().rev(), max / 3));
    format!(
        "{} (… {} of {} bytes left out …) {} (event id: {})",
        quoted(head),
        middle.len(),
        text.len(),
        quoted(tail),
        quoted(event)
    )
}

/// The text as a JSON string literal; of a longer one only the beginning, with the number of bytes that are left out.
pub(crate) fn within(text: &str, max: usize) -> String {
    let (head, rest) = text.split_at(fitting(text.chars(), max));
    match rest.len() {
        0 => quoted(head),
        left => format!("{} (… {left} bytes left out)", quoted(head)),
    }
}

/// Number of bytes of the first characters that take at most `max` bytes when they are escaped.
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

/// A value as JSON on one line. If that is too long, it is shown as text and shortened like any other text.
pub(crate) fn payload(value: &Value, event: &str) -> String {
    let text = value.to_string();
    let shown = one_line(&text);
    if shown.len() <= limits::EVENT_SHOWN_MAX_BYTES { shown } else { bounded(&text, event) }
}

/// A display name: without quotation marks if it consists of plain words, else as a JSON string.
pub(crate) fn name(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() && !is_hidden(c) || matches!(c, ' ' | '-' | '_' | '.' | '\'');
    let ends = |end: Option<char>| end.is_some_and(char::is_alphanumeric);
    let is_plain = ends(name.chars().next()) && ends(name.chars().next_back()) && name.chars().all(plain);
    if is_plain { name.to_owned() } else { quoted_name(name) }
}

/// A name as a JSON string, with everything that is not seen as escapes.
pub(crate) fn quoted_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    out.push('"');
    for c in name.chars() {
        if is_hidden(c) && !c.is_ascii() { push_units(c, &mut out) } else { escaped(c, &mut out) }
    }
    out.push('"');
    out
}

/// The beginning of a text, with `…` if it is shortened.
pub fn beginning(text: &str) -> String {
    let cut: String = text.chars().take(limits::PREVIEW_CHARS).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

/// The beginning of a value: all of it as JSON if it is short, else the beginning of the JSON as a string.
pub(crate) fn payload_beginning(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= limits::PREVIEW_CHARS { one_line(&text) } else { quoted(&beginning(&text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_decodes_to_the_original_and_has_no_hidden_characters() {
        let all: String = ('\0'..=char::MAX).collect();
        let shown = quoted(&all);
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), all);
        assert_eq!(size(&all), shown.len());
        for c in ['\n', '\r', '\u{7f}', '\u{85}', '\u{9b}', '\u{2028}', '\u{202e}', '\u{200b}', '\u{e0041}'] {
            assert!(!shown.contains(c), "{c:?}");
        }
        assert_eq!(quoted("a\u{2028}b\u{85}\u{202e}"), r#""a\u2028b\u0085\u202e""#);
        assert_eq!(quoted("👩\u{200d}🚀 é 王"), "\"👩\u{200d}🚀 é 王\"", "emoji and letters are not escaped");
    }

    #[test]
    fn every_character_of_unicode_is_seen_or_escaped() {
        use icu_properties::props::{BidiControl, JoinControl, VariationSelector, WhiteSpace};
        let has = |set: icu_properties::CodePointSetDataBorrowed<'_>, c| set.contains(c);
        let mut hidden = 0;
        for c in '\0'..=char::MAX {
            let must_hide = c.is_control()
                || has(CodePointSetData::new::<DefaultIgnorableCodePoint>(), c)
                || has(CodePointSetData::new::<BidiControl>(), c)
                || has(CodePointSetData::new::<JoinControl>(), c)
                || has(CodePointSetData::new::<VariationSelector>(), c);
            let is_seen = c.is_alphanumeric() && !must_hide
                || has(CodePointSetData::new::<WhiteSpace>(), c)
                    && !must_hide
                    && !matches!(c, '\u{2028}' | '\u{2029}');
            assert!(!must_hide || is_hidden(c), "{c:?} is invisible");
            assert!(!is_seen || !is_hidden(c), "{c:?} is seen");
            let unknown = matches!(
                CodePointMapData::<GeneralCategory>::new().get(c),
                GeneralCategory::PrivateUse | GeneralCategory::Unassigned
            );
            assert!(!unknown || is_hidden(c), "{c:?} looks like anything");
            hidden += u32::from(is_hidden(c) && (!unknown || must_hide));
            // Whoever shows what people approve, shows it so.
            if must_hide && !matches!(c, '\n' | '\t') {
                let name = quoted_name(&c.to_string());
                let in_braces = visible_json(&serde_json::json!({c.to_string(): [c.to_string()]}));
                for shown in
                    [visible(&c.to_string()), visible_line(&c.to_string()), name, in_braces.to_string()]
                {
                    assert!(!shown.contains(c), "{c:?}: {shown}");
                }
            }
        }
        assert!((4_200..5_000).contains(&hidden), "{hidden}");
        for c in [
            '\u{34f}',
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{180b}',
            '\u{180f}',
            '\u{2065}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{ffa0}',
            '\u{fff0}',
            '\u{fffb}',
            '\u{13430}',
            '\u{1bca0}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0100}',
            '\u{e01ef}',
            '\u{e0fff}',
        ] {
            assert!(is_hidden(c), "{c:?}");
        }
        assert!(!is_hidden('\u{600}'), "a sign of Arabic has a shape");
    }

    #[test]
    fn what_people_approve_is_shown_whole_and_cannot_be_pushed_out_of_sight() {
        assert_eq!(visible("a\u{200d}\u{fe0f}\r\n\tb"), "a\\u200d\\ufe0f\\r\n\tb");
        assert_eq!(visible_line("a\n\tb"), "a\\n\\tb");
        let padded = format!("{{\"a\":{}1,\"b\": \"{} \\\" x\"}}", "\n".repeat(9_000), " ".repeat(500));
        let shown = visible_arguments(&padded);
        assert!(!shown.contains('\n') && !shown.contains("   "), "{shown}");
        assert_eq!(
            serde_json::from_str::<Value>(&shown).unwrap(),
            serde_json::from_str::<Value>(&padded).unwrap()
        );
        for exact in [r#"{"n":12345678901234567890123,"z":-0.0,"t":"a  b \\"}"#, "[]", r#"{"a":{"b":[1,2]}}"#]
        {
            assert_eq!(visible_arguments(exact), exact);
        }
        assert_eq!(visible_arguments("{ \"a\" : [ 1 ,\t2 ] }"), r#"{"a":[1,2]}"#);
        assert_eq!(visible(&"\n".repeat(9_000)).lines().count(), 1);
        for blank in ['\u{2800}', '\u{13441}', '\u{16fe4}', '\u{1d159}'] {
            for text in [blank.to_string(), format!("\n{blank}"), format!("{blank} \t\n\n")] {
                let shown = visible(&format!("good{}to evil", text.repeat(3_000)));
                assert!(!shown.contains(blank) && shown.lines().count() == 1, "{text:?}");
            }
            assert_eq!(visible(&format!("⠁{blank}⠃")), format!("⠁{blank}⠃"));
        }
        assert_eq!(visible("a\u{e000}\u{50000}b"), "a\\ue000\\ud900\\udc00b");
        assert_eq!(
            visible_json(&serde_json::json!({"a\u{3164}": "b\u{e0041}"})).to_string(),
            r#"{"a\\u3164":"b\\udb40\\udc41"}"#
        );
    }

    #[test]
    fn the_size_of_a_value_is_bounded_without_serializing_it() {
        let schema = serde_json::json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 65536},
            "mentions": {"type": "array", "items": {"type": "string"}}, "urgent": {"type": "boolean", "default": null}},
            "required": ["text"], "additionalProperties": false});
        let (guess, written) = (size_of(&schema, size), schema.to_string().len());
        assert!(guess >= written && guess < written + 60, "{guess} for {written}");
        let hidden = serde_json::json!({"a\u{202e}": ["\u{85}\n\u{7f}\u{1}", -1.7976931348623157e308]});
        assert!(size_of(&hidden, size) >= one_line(&hidden.to_string()).len());
    }

    #[test]
    fn a_long_text_is_cut_before_it_is_quoted_so_that_no_escape_is_split() {
        // If the text were cut after quoting, between a backslash and the next character, it could end its own string.
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
    fn a_name_of_plain_words_is_not_quoted_and_any_other_is() {
        for (given, shown) in [
            ("Husam", "Husam"),
            ("Anne-Marie O'Neil Jr", "Anne-Marie O'Neil Jr"),
            ("王小明", "王小明"),
            ("", "\"\""),
            (" Husam", "\" Husam\""),
            ("Boss (@boss, human)", "\"Boss (@boss, human)\""),
            ("a, just now: \"x\"", r#""a, just now: \"x\"""#),
            ("a\u{202e}b", r#""a\u202eb""#),
            ("👩\u{200d}🚀", r#""👩\u200d🚀""#),
            ("a\u{3164}", r#""a\u3164""#),
        ] {
            assert_eq!(name(given), shown);
        }
    }
}
