//! JSON as others write it: what can be read of it is read. Half a character, numbers that are none, raw line breaks inside a
//! text and a mark at the beginning are common where a program cuts texts or writes JSON by hand.

use std::borrow::Cow;

use agent::limits;
use serde_json::Value;

/// What stands for values that are nested too deeply.
pub(crate) const TOO_DEEP: &str = "[nested too deep to be read]";
/// Deeper values are not kept; the parser has a bound of its own above it.
const DEPTH_MAX: usize = 100;
/// What stands for half a character.
const REPLACEMENT: &str = "\u{fffd}";

#[cfg(test)]
thread_local! {
    /// What was read in this thread.
    pub(crate) static READ_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// What is known of a text of JSON before it is read, or while it still comes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Scan {
    depth: i64,
    values: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Scan {
    /// What is known of this text.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut scan = Self::default();
        scan.over(text);
        scan
    }

    /// Goes on with what came.
    pub(crate) fn over(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b',' => self.values += 1,
                b'[' | b'{' => (self.values, self.depth) = (self.values + 1, self.depth + 1),
                b']' | b'}' => self.depth -= 1,
                _ => {}
            }
        }
    }

    /// Whether every bracket is closed.
    pub(crate) fn is_even(self) -> bool {
        self.depth <= 0 && !self.in_text
    }

    /// Whether it has so many values that reading them would take much more memory than the text.
    pub(crate) fn has_too_many_values(self) -> bool {
        self.values > limits::JSON_VALUES_MAX
    }
}

/// Reads a value. What has to be mended is, and only if it has to be.
pub(crate) fn read(text: &str) -> serde_json::Result<Value> {
    #[cfg(test)]
    READ_BYTES.set(READ_BYTES.get() + text.len());
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str(text).or_else(|error| match mended(text) {
        Cow::Owned(mended) => serde_json::from_str(&mended),
        Cow::Borrowed(_) => Err(error),
    })
}

/// The text with what no parser reads replaced; borrowed if there is no such thing.
pub(crate) fn mended(text: &str) -> Cow<'_, str> {
    let mut mending = Mending { text, done: 0, out: String::new() };
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut skipped) = (0, 0_usize, None);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = if skipped.is_some() { end_of_text(bytes, at) } else { mending.text_at(at) },
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX && skipped.is_none() {
                    skipped = Some(at);
                }
                at += 1;
            }
            b']' | b'}' => {
                if depth == DEPTH_MAX + 1
                    && let Some(from) = skipped.take()
                {
                    mending.replace(from, at + 1, &format!("\"{TOO_DEEP}\""));
                }
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b'N' | b'I' | b'-' if skipped.is_none() => {
                let rest = &text[at..];
                let name = ["NaN", "Infinity", "-Infinity"].into_iter().find(|name| rest.starts_with(name));
                if let Some(name) = name {
                    mending.replace(at, at + name.len(), "null");
                }
                at += name.map_or(1, str::len);
            }
            _ => at += 1,
        }
    }
    mending.end()
}

/// A text and what was made of its beginning.
struct Mending<'a> {
    text: &'a str,
    done: usize,
    out: String,
}

impl<'a> Mending<'a> {
    fn replace(&mut self, from: usize, to: usize, by: &str) {
        self.out.push_str(&self.text[self.done..from]);
        self.out.push_str(by);
        self.done = to;
    }

    /// Mends the text that begins there, and returns where it ends.
    fn text_at(&mut self, start: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => return at + 1,
                b'\\' => match unit(bytes, at) {
                    Some(0xD800..=0xDBFF) if matches!(unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
                    Some(0xD800..=0xDFFF) => {
                        self.replace(at, at + 6, REPLACEMENT);
                        at += 6;
                    }
                    _ => at += 2,
                },
                0..0x20 => {
                    self.replace(at, at + 1, &format!("\\u{byte:04x}"));
                    at += 1;
                }
                _ => at += 1,
            }
        }
        at
    }

    fn end(mut self) -> Cow<'a, str> {
        if self.done == 0 {
            return Cow::Borrowed(self.text);
        }
        self.out.push_str(&self.text[self.done..]);
        Cow::Owned(self.out)
    }
}

/// The code unit that is written there as `\u` and four digits.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u16::from_str_radix(digits, 16).ok()
}

fn end_of_text(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_can_be_read_is_read_and_the_rest_of_it_stays() {
        for (text, wanted) in [
            (r#"{"a": "cut \ud83d"}"#, json!({"a": "cut \u{fffd}"})),
            (r#"{"\udc00": "\ud83d\ud83d\ude00x"}"#, json!({"\u{fffd}": "\u{fffd}😀x"})),
            (r#"["\\ud83d", "\"NaN"]"#, json!(["\\ud83d", "\"NaN"])),
            (r#"[NaN, -Infinity, Infinity, -1, "\ud800"]"#, json!([null, null, null, -1, "\u{fffd}"])),
            ("[\"two\nlines\tand\u{1}more\"]", json!(["two\nlines\tand\u{1}more"])),
            ("\u{feff}{\"a\": 1}", json!({"a": 1})),
        ] {
            assert_eq!(read(text).unwrap(), wanted, "{text}");
        }
        for text in ["", "{", "[1,2", "{\"a\": \"\\ud83d", "NaN?", "\"\\ud8", "what?"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(matches!(mended(r#"{"a": ["\ud83d\ude00", -1, "\u00e4"]}"#), Cow::Borrowed(_)));
    }

    #[test]
    fn values_that_are_too_deep_are_named_and_the_others_stay() {
        let deep = |levels: usize| format!("{}[\"]\"]{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        let read = read(&format!("{{\"x\": {}, \"y\": {}, \"z\": 1}}", deep(200), deep(5))).unwrap();
        assert_eq!((&read["z"], read["x"].to_string().contains(TOO_DEEP)), (&json!(1), true));
        assert!(!read["y"].to_string().contains(TOO_DEEP));
        assert!(super::read(&"[".repeat(500_000)).is_err());
    }
}
