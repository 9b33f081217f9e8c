//! An incremental parser for argument strings that are still being generated. For display only: arguments are never
//! executed before they are complete.
//!
//! It reads the string fields of the top-level object and skips everything else. At the first input that is not JSON it
//! stops without an error; the complete string is validated elsewhere.

const REPLACEMENT: &str = "\u{FFFD}";

/// A piece of the value of a top-level string field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The field's name.
    pub field: String,
    /// Decoded text to append to its value.
    pub text: String,
    /// Whether the value is complete.
    pub end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
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
    /// Inside another value: depth of brackets, and whether inside a string in it.
    Other { depth: u32, quoted: bool, escaped: bool },
    /// Nothing more is read.
    End,
}

/// A parser of one growing argument string.
#[derive(Clone, Debug)]
pub struct Partial {
    position: Position,
    key: String,
    /// An incomplete escape: the characters after the backslash.
    escape: Option<String>,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

impl Default for Partial {
    fn default() -> Self {
        Self { position: Position::Start, key: String::new(), escape: None, high: None }
    }
}

impl Partial {
    /// Reads `more`; returns the new pieces of string fields, in order. The cost depends only on the length of `more`.
    pub fn feed(&mut self, more: &str) -> Vec<Fragment> {
        let mut found: Vec<Fragment> = Vec::new();
        let mut unread = more;
        while let Some(c) = unread.chars().next() {
            let plain = if self.in_string() { plain_len(unread) } else { 0 };
            if plain > 0 {
                self.flush_half(&mut found);
                self.push(&unread[..plain], &mut found);
                unread = &unread[plain..];
            } else {
                self.read(c, &mut found);
                unread = &unread[c.len_utf8()..];
            }
            if self.position == Position::End {
                break;
            }
        }
        found.retain(|fragment| fragment.end || !fragment.text.is_empty());
        found
    }

    /// Whether the object has ended, or is none.
    pub fn is_at_end(&self) -> bool {
        self.position == Position::End
    }

    /// Whether it is inside a string and not inside an escape.
    fn in_string(&self) -> bool {
        matches!(self.position, Position::InKey | Position::InText) && self.escape.is_none()
    }

    fn read(&mut self, c: char, found: &mut Vec<Fragment>) {
        match self.position {
            Position::Start if c == '{' => self.position = Position::Key,
            Position::Key if c == '"' => {
                self.key.clear();
                self.position = Position::InKey;
            }
            Position::Colon if c == ':' => self.position = Position::Value,
            Position::Value if c == '"' => {
                self.position = Position::InText;
                found.push(self.fragment(false));
            }
            Position::Start | Position::Colon | Position::Key | Position::Value
                if c.is_ascii_whitespace() => {}
            Position::Key if c == ',' => {}
            Position::Value => {
                let depth = u32::from(c == '{' || c == '[');
                self.position = Position::Other { depth, quoted: false, escaped: false };
            }
            Position::InKey | Position::InText => self.read_string(c, found),
            Position::Other { depth, quoted, escaped } => self.skip_value(c, depth, quoted, escaped),
            Position::Start | Position::Key | Position::Colon | Position::End => {
                self.position = Position::End
            }
        }
    }

    fn read_string(&mut self, c: char, found: &mut Vec<Fragment>) {
        if let Some(escape) = self.escape.take() {
            return self.read_escape(escape, c, found);
        }
        match c {
            '\\' => self.escape = Some(String::new()),
            '"' => {
                self.flush_half(found);
                if self.position == Position::InKey {
                    self.position = Position::Colon;
                    return;
                }
                self.position = Position::Key;
                match found.last_mut() {
                    Some(last) if !last.end && last.field == self.key => last.end = true,
                    _ => found.push(self.fragment(true)),
                }
            }
            // An unescaped control character, which JSON does not allow in strings.
            _ => self.position = Position::End,
        }
    }

    fn read_escape(&mut self, mut escape: String, c: char, found: &mut Vec<Fragment>) {
        if escape.is_empty() && c != 'u' {
            let plain = match c {
                'n' => "\n",
                't' => "\t",
                'r' => "\r",
                'b' => "\u{8}",
                'f' => "\u{c}",
                '"' => "\"",
                '\\' => "\\",
                '/' => "/",
                _ => {
                    self.position = Position::End;
                    return;
                }
            };
            self.flush_half(found);
            return self.push(plain, found);
        }
        if !escape.is_empty() && !c.is_ascii_hexdigit() {
            self.position = Position::End;
            return;
        }
        escape.push(c);
        if escape.len() < 5 {
            self.escape = Some(escape);
            return;
        }
        match u16::from_str_radix(&escape[1..], 16) {
            Ok(unit) => self.push_unit(unit, found),
            Err(_) => self.position = Position::End,
        }
    }

    fn push_unit(&mut self, unit: u16, found: &mut Vec<Fragment>) {
        let low = (0xDC00..0xE000).contains(&unit);
        if !low {
            self.flush_half(found);
        }
        if (0xD800..0xDC00).contains(&unit) {
            self.high = Some(unit);
            return;
        }
        for decoded in char::decode_utf16(self.high.take().into_iter().chain([unit])) {
            let c = decoded.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.push(c.encode_utf8(&mut [0; 4]), found);
        }
    }

    /// The first half of a surrogate pair without its second is replaced by U+FFFD.
    fn flush_half(&mut self, found: &mut Vec<Fragment>) {
        if self.high.take().is_some() {
            self.push(REPLACEMENT, found);
        }
    }

    fn push(&mut self, text: &str, found: &mut Vec<Fragment>) {
        if self.position == Position::InKey {
            return self.key.push_str(text);
        }
        match found.last_mut() {
            Some(last) if !last.end && last.field == self.key => last.text.push_str(text),
            _ => {
                let mut fragment = self.fragment(false);
                fragment.text.push_str(text);
                found.push(fragment);
            }
        }
    }

    fn skip_value(&mut self, c: char, depth: u32, quoted: bool, escaped: bool) {
        self.position = match (quoted, c) {
            (true, _) if escaped => Position::Other { depth, quoted, escaped: false },
            (true, '\\') => Position::Other { depth, quoted, escaped: true },
            (true, '"') => Position::Other { depth, quoted: false, escaped: false },
            (true, _) => Position::Other { depth, quoted, escaped: false },
            (false, '"') => Position::Other { depth, quoted: true, escaped: false },
            (false, '{' | '[') => Position::Other { depth: depth + 1, quoted, escaped },
            (false, ',') if depth == 0 => Position::Key,
            (false, '}') if depth == 0 => Position::End,
            (false, '}' | ']') => Position::Other { depth: depth.saturating_sub(1), quoted, escaped },
            (false, _) => Position::Other { depth, quoted, escaped },
        };
    }

    fn fragment(&self, end: bool) -> Fragment {
        Fragment { field: self.key.clone(), text: String::new(), end }
    }
}

/// Number of bytes at the beginning of `text` that need no decoding in a string.
fn plain_len(text: &str) -> usize {
    let special = |byte: u8| byte == b'"' || byte == b'\\' || byte < b' ';
    text.bytes().position(special).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` in pieces of `size` characters; returns its fields.
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
    fn the_fields_do_not_depend_on_how_the_input_is_split() {
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
    fn an_incomplete_input_yields_the_text_read_so_far() {
        assert_eq!(read(r#"{"text":"hel"#, 3), [("text".into(), "hel".into(), false)]);
        assert_eq!(read(r#"{"text":"a\ud83d"#, 3), [("text".into(), "a".into(), false)]);
    }

    #[test]
    fn input_that_is_not_json_ends_the_reading_without_an_error() {
        assert!(read("not json at all {\"text\":\"x\"}", 4).is_empty());
        assert_eq!(read(r#"{"text":"\uzzzz and more"}"#, 2), []);
    }

    /// A reproducible random generator (SplitMix64).
    struct Random(u64);

    impl Random {
        fn number(&mut self, below: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            usize::try_from((z ^ (z >> 31)) % (below as u64)).unwrap()
        }

        fn text(&mut self) -> String {
            const CHARS: [char; 16] = [
                'a', 'b', ' ', '"', '\\', '/', '\n', '\t', '\u{8}', '\u{1}', 'é', 'ß', '…', '😀', '𝄞',
                '\u{FFFD}',
            ];
            (0..self.number(12)).map(|_| CHARS[self.number(CHARS.len())]).collect()
        }

        /// A string literal as any vendor might write it: each character plain or as one of its escapes.
        fn quoted(&mut self, text: &str) -> String {
            let mut quoted = String::from("\"");
            for c in text.chars() {
                let units = |c: char| -> String {
                    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
                };
                match (c, self.number(3)) {
                    (_, 0) => quoted.push_str(&units(c)),
                    ('"' | '\\' | '/', _) => quoted.extend(['\\', c]),
                    ('\n', _) => quoted.push_str("\\n"),
                    (c, _) if c < ' ' => quoted.push_str(&units(c).to_uppercase().replace("\\U", "\\u")),
                    _ => quoted.push(c),
                }
            }
            quoted.push('"');
            quoted
        }

        fn value(&mut self, depth: usize) -> String {
            match self.number(if depth > 2 { 3 } else { 6 }) {
                0 => ["1", "-2.5e3", "true", "null"][self.number(4)].to_owned(),
                1 | 2 => {
                    let text = self.text();
                    self.quoted(&text)
                }
                3 => format!("[{},{}]", self.value(depth + 1), self.value(depth + 1)),
                _ => self.object(depth + 1),
            }
        }

        fn object(&mut self, depth: usize) -> String {
            let fields: Vec<String> = (0..self.number(5))
                .map(|n| {
                    let key = format!("{n}{}", self.text());
                    format!("{}{}:{}", [" ", "", "\n"][self.number(3)], self.quoted(&key), self.value(depth))
                })
                .collect();
            format!("{{{}}}", fields.join(", "))
        }

        fn split<'a>(&mut self, text: &'a str) -> Vec<&'a str> {
            let mut pieces = Vec::new();
            let mut from = 0;
            for (at, _) in text.char_indices().skip(1) {
                if self.number(4) == 0 {
                    pieces.push(&text[from..at]);
                    from = at;
                }
            }
            pieces.push(&text[from..]);
            pieces
        }
    }

    fn read_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Vec<(String, String, bool)> {
        let mut partial = Partial::default();
        let mut fields: Vec<(String, String, bool)> = Vec::new();
        for fragment in pieces.into_iter().flat_map(|piece| partial.feed(piece)) {
            match fields.last_mut().filter(|(name, _, end)| !end && *name == fragment.field) {
                Some((_, value, end)) => {
                    value.push_str(&fragment.text);
                    *end = fragment.end;
                }
                None => fields.push((fragment.field, fragment.text, fragment.end)),
            }
        }
        fields
    }

    #[test]
    fn random_objects_in_random_pieces_are_read_like_the_whole() {
        for seed in 0..3_000 {
            let mut random = Random(seed);
            let text = random.object(0);
            let whole: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
            let fields = read_pieces(random.split(&text));
            let expected = whole.iter().filter(|(_, value)| value.is_string()).count();
            assert_eq!(fields.len(), expected, "seed {seed}: {text}");
            for (name, value, end) in fields {
                assert!(end && whole[&name] == value, "seed {seed}: {name}: {value} of {text}");
            }
        }
    }

    #[test]
    fn an_incomplete_input_yields_a_prefix_of_the_text() {
        for seed in 0..300 {
            let mut random = Random(seed);
            let whole = random.text();
            let text = format!("{{\"text\":{}}}", random.quoted(&whole));
            for (at, _) in text.char_indices() {
                let shown: String =
                    read_pieces([&text[..at]]).into_iter().map(|(_, value, _)| value).collect();
                assert!(
                    whole.starts_with(&shown),
                    "seed {seed}: {shown:?} of {whole:?}, cut at {at} of {text}"
                );
            }
        }
    }

    #[test]
    fn garbage_is_read_the_same_in_any_pieces_and_never_panics() {
        const BITS: [&str; 18] = [
            "{", "}", "[", "]", ",", ":", "\"", "\\", "u", "d83d", "DE00", "\"text\"", "é", " ", "\n",
            "+12f", "null", "\\ud83d",
        ];
        for seed in 0..5_000 {
            let mut random = Random(seed);
            let mut text = String::from(if random.number(2) == 0 { "{\"text\":\"" } else { "" });
            (0..random.number(30)).for_each(|_| text.push_str(BITS[random.number(BITS.len())]));
            let whole = read_pieces([text.as_str()]);
            assert_eq!(read_pieces(random.split(&text)), whole, "seed {seed}: {text}");
            assert_eq!(read_pieces(text.split_inclusive(|_| true)), whole, "seed {seed}: {text}");
        }
    }

    #[test]
    fn an_invalid_escape_ends_the_reading() {
        for text in [r#"{"text":"a\q b"}"#, r#"{"text":"a\u+123 b"}"#, "{\"text\":\"a\nb\"}"] {
            assert_eq!(read_pieces([text]), [("text".into(), "a".into(), false)], "{text}");
        }
    }
}
