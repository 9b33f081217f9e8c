//! Argument strings that are still being generated, read as they grow. For display only: arguments
//! are never executed before they are complete.
//!
//! Reads the string fields of the top-level object and passes everything else over. Whatever is not
//! JSON ends the reading quietly; the complete string is judged elsewhere.

/// A piece of a top-level string field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The field's name.
    pub field: String,
    /// What is appended to its value, decoded.
    pub text: String,
    /// Whether the value is complete.
    pub end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the object.
    Start,
    /// Before a key (or the end of the object).
    Key,
    /// Inside a key.
    InKey,
    /// Between a key and its value.
    Colon,
    /// Before a value.
    Value,
    /// Inside a string value.
    InText,
    /// Inside another value: depth of brackets, and whether inside a string there.
    Other { depth: u32, quoted: bool, escaped: bool },
    /// Nothing more is read.
    Over,
}

/// A reader of one growing argument string.
#[derive(Clone, Debug)]
pub struct Partial {
    place: Place,
    key: String,
    /// An escape that is not complete: what follows the backslash.
    escape: Option<String>,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

impl Default for Partial {
    fn default() -> Self {
        Self { place: Place::Start, key: String::new(), escape: None, high: None }
    }
}

impl Partial {
    /// Reads on; returns what became known of string fields, in order.
    pub fn feed(&mut self, more: &str) -> Vec<Fragment> {
        let mut found: Vec<Fragment> = Vec::new();
        for c in more.chars() {
            self.read(c, &mut found);
        }
        found.retain(|fragment| fragment.end || !fragment.text.is_empty());
        found
    }

    fn read(&mut self, c: char, found: &mut Vec<Fragment>) {
        match self.place {
            Place::Start if c == '{' => self.place = Place::Key,
            Place::Key if c == '"' => {
                self.key.clear();
                self.place = Place::InKey;
            }
            Place::Colon if c == ':' => self.place = Place::Value,
            Place::Value if c == '"' => {
                self.place = Place::InText;
                found.push(self.fragment(false));
            }
            Place::Start | Place::Colon | Place::Key | Place::Value if c.is_whitespace() => {}
            Place::Key if c == ',' => {}
            Place::Value => {
                let depth = u32::from(c == '{' || c == '[');
                self.place = Place::Other { depth, quoted: false, escaped: false };
            }
            Place::InKey | Place::InText => self.read_string(c, found),
            Place::Other { depth, quoted, escaped } => self.pass_over(c, depth, quoted, escaped),
            Place::Start | Place::Key | Place::Colon | Place::Over => self.place = Place::Over,
        }
    }

    fn read_string(&mut self, c: char, found: &mut Vec<Fragment>) {
        if let Some(escape) = self.escape.take() {
            self.read_escape(escape, c, found);
        } else if c == '\\' {
            self.escape = Some(String::new());
        } else if c == '"' {
            self.flush_half(found);
            if self.place == Place::InKey {
                self.place = Place::Colon;
            } else {
                self.place = Place::Key;
                match found.last_mut() {
                    Some(last) if !last.end && last.field == self.key => last.end = true,
                    _ => found.push(self.fragment(true)),
                }
            }
        } else {
            self.flush_half(found);
            self.push(c, found);
        }
    }

    fn read_escape(&mut self, mut escape: String, c: char, found: &mut Vec<Fragment>) {
        if escape.is_empty() && c != 'u' {
            self.flush_half(found);
            let plain = match c {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                other => other,
            };
            return self.push(plain, found);
        }
        escape.push(c);
        if escape.len() < 5 {
            self.escape = Some(escape);
            return;
        }
        match u16::from_str_radix(escape.get(1..).unwrap_or(""), 16) {
            Ok(unit) => self.push_unit(unit, found),
            Err(_) => self.place = Place::Over,
        }
    }

    fn push_unit(&mut self, unit: u16, found: &mut Vec<Fragment>) {
        let units: Vec<u16> = self.high.take().into_iter().chain([unit]).collect();
        if units.len() == 1 && (0xD800..0xDC00).contains(&unit) {
            self.high = Some(unit);
            return;
        }
        for decoded in char::decode_utf16(units) {
            self.push(decoded.unwrap_or(char::REPLACEMENT_CHARACTER), found);
        }
    }

    /// A first half without its second stands for nothing.
    fn flush_half(&mut self, found: &mut Vec<Fragment>) {
        if self.high.take().is_some() {
            self.push(char::REPLACEMENT_CHARACTER, found);
        }
    }

    fn push(&mut self, c: char, found: &mut Vec<Fragment>) {
        if self.place == Place::InKey {
            return self.key.push(c);
        }
        match found.last_mut() {
            Some(last) if !last.end && last.field == self.key => last.text.push(c),
            _ => {
                let mut fragment = self.fragment(false);
                fragment.text.push(c);
                found.push(fragment);
            }
        }
    }

    fn pass_over(&mut self, c: char, depth: u32, quoted: bool, escaped: bool) {
        self.place = match (quoted, c) {
            (true, _) if escaped => Place::Other { depth, quoted, escaped: false },
            (true, '\\') => Place::Other { depth, quoted, escaped: true },
            (true, '"') => Place::Other { depth, quoted: false, escaped: false },
            (true, _) => Place::Other { depth, quoted, escaped: false },
            (false, '"') => Place::Other { depth, quoted: true, escaped: false },
            (false, '{' | '[') => Place::Other { depth: depth + 1, quoted, escaped },
            (false, ',') if depth == 0 => Place::Key,
            (false, '}') if depth == 0 => Place::Over,
            (false, '}' | ']') => Place::Other { depth: depth.saturating_sub(1), quoted, escaped },
            (false, _) => Place::Other { depth, quoted, escaped },
        };
    }

    fn fragment(&self, end: bool) -> Fragment {
        Fragment { field: self.key.clone(), text: String::new(), end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields as read in pieces of `size` characters.
    fn read(text: &str, size: usize) -> Vec<(String, String, bool)> {
        let mut partial = Partial::default();
        let mut fields: Vec<(String, String, bool)> = Vec::new();
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            for fragment in partial.feed(&piece.iter().collect::<String>()) {
                match fields.iter_mut().find(|(name, ..)| *name == fragment.field) {
                    Some((_, value, end)) => {
                        value.push_str(&fragment.text);
                        *end |= fragment.end;
                    }
                    None => fields.push((fragment.field, fragment.text, fragment.end)),
                }
            }
        }
        fields
    }

    #[test]
    fn however_it_is_cut_the_fields_are_the_same() {
        let text = r#"{ "space":"home", "n":[1,{"text":"no, \"not\" this"}], "text":"a\n\u00e9\ud83d\ude00 \"q\" é" , "x":null}"#;
        let whole: serde_json::Value = serde_json::from_str(text).unwrap();
        for size in 1..text.chars().count() {
            let fields = read(text, size);
            assert_eq!(fields.len(), 2, "pieces of {size}");
            for (name, value, end) in fields {
                assert_eq!(whole[&name].as_str().unwrap(), value);
                assert!(end);
            }
        }
    }

    #[test]
    fn what_is_cut_short_shows_what_there_is() {
        assert_eq!(read(r#"{"text":"hel"#, 3), [("text".into(), "hel".into(), false)]);
        assert_eq!(read(r#"{"text":"a\ud83d"#, 3), [("text".into(), "a".into(), false)]);
    }

    #[test]
    fn what_is_no_json_ends_the_reading_quietly() {
        assert!(read("not json at all {\"text\":\"x\"}", 4).is_empty());
        assert_eq!(read(r#"{"text":"\uzzzz and more"}"#, 2), []);
    }
}
