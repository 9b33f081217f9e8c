//! What a place of a text can be read as: a character as it is, or encoded for a URL, JSON or HTML, also several times. Each look
//! takes a bounded number of steps, whatever the text says. Must not know what is searched for.

/// How often an encoded text may be encoded again: a body that was JSON is often repeated as a text within JSON.
pub(super) const NESTED: usize = 3;
/// Longest way to write a character, in bytes, with the line breaks in it.
pub(super) const READING_MAX_BYTES: usize = 255;
/// Line breaks that may follow each other within the spelling of one character, and the indent behind them.
const BREAKS_WITHIN: usize = 2;
const INDENT_WITHIN: usize = 8;
/// Digits of a character's number.
const DIGITS_MAX: usize = 7;

/// Characters that HTML writes by name.
const NAMED: [(&str, char); 8] = [
    ("amp;", '&'),
    ("lt;", '<'),
    ("gt;", '>'),
    ("quot;", '"'),
    ("apos;", '\''),
    ("newline;", '\n'),
    ("tab;", '\t'),
    ("shy;", '\u{ad}'),
];

/// A character that the text can be read as, and where the text goes on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) character: char,
    pub(super) end: usize,
}

impl Reading {
    /// Whether it ends a line, or says where one may end: a program that wraps lines breaks a secret like any other word.
    pub(super) fn is_break(self) -> bool {
        let ends = matches!(self.character, '\t'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
        ends || matches!(self.character, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
    }
}

/// Writes into `found` all that stands at that place. `true` if the text ends within something that may be a character.
pub(super) fn readings(text: &str, place: usize, found: &mut Vec<Reading>) -> bool {
    found.clear();
    let mut reader = Reader { text, is_over: false, breaks: true };
    reader.encoded(place, found);
    found.retain(|reading| reading.end - place <= READING_MAX_BYTES);
    if let Some(character) = text.get(place..).and_then(|rest| rest.chars().next()) {
        let end = place + character.len_utf8();
        found.push(Reading { character, end });
        // What a cut left of a character.
        reader.is_over |= character == char::REPLACEMENT_CHARACTER && end == text.len();
    }
    reader.is_over
}

struct Reader<'a> {
    text: &'a str,
    /// Whether it came to the end of the text.
    is_over: bool,
    /// Whether a line may break within a spelling.
    breaks: bool,
}

impl Reader<'_> {
    fn encoded(&mut self, place: usize, found: &mut Vec<Reading>) {
        match self.text.as_bytes().get(place) {
            // As in URLs: `%2f`, and encoded again `%252f`.
            Some(b'%') => found.extend((0..NESTED).filter_map(|level| {
                self.hexadecimal(place, |reader, at| {
                    reader.word(at, "%")?;
                    (0..level).try_for_each(|_| reader.word(at, "25"))
                })
            })),
            Some(b'&') => found.extend((0..NESTED).filter_map(|level| self.entity(place, level))),
            Some(b'\\') => self.escapes(place, found),
            Some(b'<') => found.extend(self.line_tag(place)),
            Some(b'=') => {
                found.extend(self.soft_break(place));
                found.extend(self.hexadecimal(place, |reader, at| reader.word(at, "=")));
            }
            Some(b'+') => found.push(Reading { character: ' ', end: place + 1 }),
            _ => {}
        }
    }

    /// Goes over a byte that fits, at once or behind a line break.
    fn take(&mut self, at: &mut usize, fits: impl Fn(u8) -> bool) -> Option<u8> {
        super::step();
        let bytes = self.text.as_bytes();
        let mut place = *at;
        if self.breaks && bytes.get(place).is_some_and(|byte| !fits(*byte)) {
            place = self.behind_break(place)?;
        }
        let byte = bytes.get(place).copied();
        self.is_over |= byte.is_none();
        let byte = byte.filter(|byte| fits(*byte))?;
        *at = place + 1;
        Some(byte)
    }

    fn word(&mut self, at: &mut usize, word: &str) -> Option<()> {
        word.bytes().try_for_each(|own| self.take(at, |byte| byte.eq_ignore_ascii_case(&own)).map(drop))
    }

    fn hex(&mut self, at: &mut usize, digits: usize) -> Option<u32> {
        (0..digits).try_fold(0, |number, _| {
            let digit = self.take(at, |byte| byte.is_ascii_hexdigit())?;
            Some(number * 16 + char::from(digit).to_digit(16)?)
        })
    }

    /// Where the text goes on behind the line breaks at that place.
    fn behind_break(&mut self, place: usize) -> Option<usize> {
        let mut within = Reader { text: self.text, is_over: false, breaks: false };
        let (mut end, mut found) = (place, Vec::new());
        for _ in 0..BREAKS_WITHIN {
            found.clear();
            match within.text.as_bytes().get(end) {
                Some(b'\n' | b'\r') => found.push(Reading { character: '\n', end: end + 1 }),
                _ => within.encoded(end, &mut found),
            }
            let ends = found.iter().filter(|reading| reading.is_break()).map(|reading| reading.end);
            let Some(next) = ends.max() else { break };
            end = next;
        }
        self.is_over |= within.is_over;
        let rest = self.text.as_bytes().get(end..).filter(|_| end > place)?;
        let indent = rest.iter().take(INDENT_WITHIN).take_while(|byte| matches!(byte, b' ' | b'\t'));
        Some(end + indent.count())
    }

    /// A character by its bytes, in front of each of which stands this.
    fn hexadecimal(
        &mut self,
        place: usize,
        front: impl Fn(&mut Self, &mut usize) -> Option<()>,
    ) -> Option<Reading> {
        let (mut bytes, mut end) = ([0; 4], place);
        for count in 0..bytes.len() {
            front(self, &mut end)?;
            bytes[count] = u8::try_from(self.hex(&mut end, 2)?).ok()?;
            match std::str::from_utf8(&bytes[..=count]) {
                Ok(text) => return text.chars().next().map(|character| Reading { character, end }),
                Err(error) if error.error_len().is_some() => return None,
                Err(_) => {}
            }
        }
        None
    }

    /// As in HTML: `&amp;`, `&#38;`, `&#x26;`, and encoded again `&amp;amp;`.
    fn entity(&mut self, place: usize, level: usize) -> Option<Reading> {
        let mut start = place;
        self.word(&mut start, "&")?;
        (0..level).try_for_each(|_| self.word(&mut start, "amp;"))?;
        let mut end = start;
        if self.word(&mut end, "#").is_none() {
            return NAMED.iter().find_map(|(name, character)| {
                let mut end = start;
                self.word(&mut end, name)?;
                Some(Reading { character: *character, end })
            });
        }
        let radix = if self.word(&mut end, "x").is_some() { 16 } else { 10 };
        let (mut number, mut digits) = (0, 0);
        while digits < DIGITS_MAX
            && let Some(digit) = self.take(&mut end, |byte| char::from(byte).is_digit(radix))
        {
            number = number * radix + char::from(digit).to_digit(radix)?;
            digits += 1;
        }
        self.word(&mut end, ";")?;
        char::from_u32(number).filter(|_| digits > 0).map(|character| Reading { character, end })
    }

    /// As in JSON and in programs: `\u002f`, `\/`, `\n`, `\"`, `\x2f`, and encoded again with more backslashes.
    fn escapes(&mut self, place: usize, found: &mut Vec<Reading>) {
        let mut at = place;
        for count in 1..=1 << NESTED {
            if self.word(&mut at, "\\").is_none() {
                return;
            }
            if count > 1 && usize::is_power_of_two(count) {
                found.push(Reading { character: '\\', end: at });
            }
            if usize::is_power_of_two(count) {
                found.extend(self.hexadecimal(place, |reader, at| {
                    (0..count).try_for_each(|_| reader.word(at, "\\"))?;
                    reader.word(at, "x")
                }));
            }
            // Each time, a quotation mark and every backslash before it get one more.
            let known: &[u8] = match count {
                1 => b"unrt/\"'",
                _ if usize::is_power_of_two(count) => b"unrt/",
                _ if usize::is_power_of_two(count + 1) => b"\"'",
                _ => continue,
            };
            let mut end = at;
            let letter = self.take(&mut end, |byte| known.contains(&byte.to_ascii_lowercase()));
            let character = match letter.map(|letter| letter.to_ascii_lowercase()) {
                Some(b'u') => self.unicode(&mut end, count),
                Some(b'n') => Some('\n'),
                Some(b'r') => Some('\r'),
                Some(b't') => Some('\t'),
                other => other.map(char::from),
            };
            found.extend(character.map(|character| Reading { character, end }));
        }
    }

    /// The character whose number stands there, behind so many backslashes and a `u`. Some have two numbers.
    fn unicode(&mut self, end: &mut usize, backslashes: usize) -> Option<char> {
        let first = u16::try_from(self.hex(end, 4)?).ok()?;
        let mut units = vec![first];
        if (0xD800..0xDC00).contains(&first) {
            (0..backslashes).try_for_each(|_| self.word(end, "\\"))?;
            self.word(end, "u")?;
            units.push(u16::try_from(self.hex(end, 4)?).ok()?);
        }
        char::decode_utf16(units).next()?.ok()
    }

    fn line_tag(&mut self, place: usize) -> Option<Reading> {
        let mut end = place;
        self.word(&mut end, "<")?;
        let _ = self.word(&mut end, "w");
        self.word(&mut end, "br")?;
        let _ = self.word(&mut end, " ");
        let _ = self.word(&mut end, "/");
        self.word(&mut end, ">")?;
        Some(Reading { character: '\n', end })
    }

    /// The soft break of mails.
    fn soft_break(&mut self, place: usize) -> Option<Reading> {
        let next = self.text.as_bytes().get(place + 1);
        self.is_over |= next.is_none();
        matches!(next, Some(b'\r' | b'\n')).then_some(Reading { character: '\n', end: place + 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_everything_that_can_stand_there() {
        let read = |text: &str| {
            let mut found = Vec::new();
            let is_over = readings(text, 0, &mut found);
            found.sort_by_key(|reading| (reading.end, reading.character == ' '));
            let found: Vec<_> = found.into_iter().map(|reading| (reading.character, reading.end)).collect();
            (found, is_over)
        };
        for (text, wanted) in [
            ("a.", vec![('a', 1)]),
            ("ä.", vec![('ä', 2)]),
            ("%2fx", vec![('%', 1), ('/', 3)]),
            ("%2\r\n\tfx", vec![('%', 1), ('/', 6)]),
            ("%252Fx", vec![('%', 1), ('%', 3), ('/', 5)]),
            ("%c3%A4x", vec![('%', 1), ('ä', 6)]),
            ("%ff%ffx", vec![('%', 1)]),
            ("&amp;lt;x", vec![('&', 1), ('&', 5), ('<', 8)]),
            ("&#x2f;x", vec![('&', 1), ('/', 6)]),
            ("&#10;x", vec![('&', 1), ('\n', 5)]),
            ("\\u00E4.", vec![('\\', 1), ('ä', 6)]),
            ("\\\\\\\\ud83d\\\\\\\\ude00.", vec![('\\', 1), ('\\', 2), ('\\', 4), ('😀', 18)]),
            ("\\\\\"x", vec![('\\', 1), ('\\', 2)]),
            ("\\\\\\\"x", vec![('\\', 1), ('\\', 2), ('"', 4)]),
            ("\\Nx", vec![('\\', 1), ('\n', 2)]),
            ("<BR />x", vec![('<', 1), ('\n', 6)]),
            ("<wbr>x", vec![('<', 1), ('\n', 5)]),
            ("=\r\nx", vec![('=', 1), ('\n', 2)]),
            ("=3Dx", vec![('=', 1), ('=', 3)]),
            ("=c3=A4x", vec![('=', 1), ('ä', 6)]),
            ("\\x2fx", vec![('\\', 1), ('/', 4)]),
            ("\\\\xc3\\\\xa4x", vec![('\\', 1), ('\\', 2), ('ä', 10)]),
            ("&shy;x", vec![('&', 1), ('\u{ad}', 5)]),
            ("\u{2028}x", vec![('\u{2028}', 3)]),
            ("+x", vec![('+', 1), (' ', 1)]),
        ] {
            assert_eq!(read(text), (wanted, false), "{text}");
        }
        for text in
            ["%2", "%", "&am", "\\u00", "\\x2", "\\", "<b", "<wb", "=", "=3", "%2\n", "%c3%", "\u{fffd}"]
        {
            assert!(read(text).1, "{text}");
        }
    }
}
