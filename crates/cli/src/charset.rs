//! Letters that a terminal may be sent: which of them steer it, and how those that it has not got are
//! written with those that it has. Knows no screen.

use std::borrow::Cow;

use serde_json::Value;

/// Characters that change what a terminal shows elsewhere: C1 controls, direction overrides,
/// invisible joins of lines.
pub(crate) fn steers(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A character in ASCII: punctuation and Latin letters by their plain kin, what has none by a question mark.
pub(crate) fn spell(c: char, out: &mut String) {
    let kin = match c {
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' => " ",
        '‘' | '’' | '‚' | '‛' | '‹' | '›' => "'",
        '“' | '”' | '„' | '‟' | '«' | '»' => "\"",
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' => "-",
        '…' => "...",
        '→' => "->",
        '•' | '·' => "*",
        'À'..='Ã' | 'Å' | 'Ą' => "A",
        'à'..='ã' | 'å' | 'ą' => "a",
        'Ä' | 'Æ' => "Ae",
        'ä' | 'æ' => "ae",
        'Ç' | 'Ć' | 'Č' => "C",
        'ç' | 'ć' | 'č' => "c",
        'È'..='Ë' | 'Ę' | 'Ě' => "E",
        'è'..='ë' | 'ę' | 'ě' => "e",
        'Ì'..='Ï' | 'İ' => "I",
        'ì'..='ï' | 'ı' => "i",
        'Ł' => "L",
        'ł' => "l",
        'Ñ' | 'Ń' | 'Ň' => "N",
        'ñ' | 'ń' | 'ň' => "n",
        'Ò'..='Õ' | 'Ő' => "O",
        'ò'..='õ' | 'ő' => "o",
        'Ö' | 'Ø' | 'Œ' => "Oe",
        'ö' | 'ø' | 'œ' => "oe",
        'Ř' => "R",
        'ř' => "r",
        'Ś' | 'Š' | 'Ş' => "S",
        'ś' | 'š' | 'ş' => "s",
        'ß' => "ss",
        'Ù'..='Û' | 'Ů' | 'Ű' => "U",
        'ù'..='û' | 'ů' | 'ű' => "u",
        'Ü' => "Ue",
        'ü' => "ue",
        'Ý' => "Y",
        'ý' | 'ÿ' => "y",
        'Ź' | 'Ż' | 'Ž' => "Z",
        'ź' | 'ż' | 'ž' => "z",
        _ => "?",
    };
    out.push_str(kin);
}

/// Text of ours or of a library in ASCII; what steers stays.
pub(crate) fn in_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            spell(c, &mut out);
        }
    }
    Cow::Owned(out)
}

/// JSON text in which also what JSON lets pass cannot steer a terminal.
pub(crate) fn harmless_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.chars().any(|c| steers(c) || c == '\u{7f}') {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) || c == '\u{7f}' {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a terminal of these settings understands UTF-8: the first that says something decides.
pub(crate) fn speaks_utf8(settings: [Option<String>; 3]) -> bool {
    match settings.into_iter().flatten().find(|value| !value.is_empty()) {
        // Nothing is set, as in many containers: terminals of today speak UTF-8.
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
    fn json_cannot_steer_the_terminal_and_says_the_same() {
        let value = serde_json::json!({"text": "\u{9b}31m\u{7f}\x1b"});
        let line = harmless_json(&value);
        assert!(line.is_ascii() && !line.contains('\u{7f}') && !line.contains('\x1b'));
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }
}
