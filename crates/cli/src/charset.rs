//! Which characters a terminal may be sent: which of them control it, and how characters that it cannot
//! show are written in ASCII. Must not know the screen.

use std::borrow::Cow;

use agent::quote::{is_escaped, push_units};
use serde_json::Value;

/// Whether a character changes what a terminal shows elsewhere, or is not seen itself: C1 controls, direction overrides,
/// fillers. What emoji and several scripts need is neither.
pub(crate) fn is_terminal_control(c: char) -> bool {
    !c.is_ascii() && is_escaped(c)
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
            push_units(c, &mut out);
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
        let value = serde_json::json!({"text": "\u{9b}31m\u{7f}\x1b\u{e0041}\u{3164}"});
        let line = terminal_safe_json(&value);
        assert!(line.is_ascii() && !line.contains('\u{7f}') && !line.contains('\x1b'));
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }
}
