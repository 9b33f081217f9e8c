//! Which characters a terminal may be sent: which of them control it, and how characters that it cannot
//! show are written in ASCII. Must not know the screen.

use std::borrow::Cow;

use serde_json::Value;

/// Whether a character changes what a terminal shows elsewhere: C1 controls, direction overrides, invisible
/// line joins.
pub(crate) fn is_terminal_control(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Writes a character in ASCII: what it sounds or looks like, else a question mark.
pub(crate) fn push_ascii(c: char, out: &mut String) {
    match any_ascii::any_ascii_char(c) {
        _ if c == '→' => out.push_str("->"),
        "" => out.push('?'),
        ascii => out.push_str(ascii),
    }
}

/// Our own or a library's text in ASCII; control characters are kept.
pub(crate) fn in_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push_ascii(c, &mut out));
    Cow::Owned(out)
}

/// JSON text in which characters that control a terminal are escaped, including those that JSON permits.
pub(crate) fn terminal_safe_json(value: &Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_terminal_control(c) || c == '\u{7f}' {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a terminal with these settings supports UTF-8: the first setting that is not empty decides.
pub(crate) fn supports_utf8(settings: [Option<String>; 3]) -> bool {
    match settings.into_iter().flatten().find(|value| !value.is_empty()) {
        // No setting, as in many containers: terminals support UTF-8 today.
        None => true,
        Some(locale) => {
            let locale = locale.to_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_cannot_control_the_terminal_and_parses_to_the_same_value() {
        let value = serde_json::json!({"text": "\u{9b}31m\u{7f}\x1b"});
        let line = terminal_safe_json(&value);
        assert!(line.is_ascii() && !line.contains('\u{7f}') && !line.contains('\x1b'));
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }
}
