//! Parses the bytes of a keyboard into keys. Knows the sequences that terminals send, not what keys do.

/// A key, or pasted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keystroke {
    /// A printable character.
    Char(char),
    /// Text pasted at once; its line ends do not send it.
    Paste(String),
    /// Send.
    Enter,
    /// A line end within the text.
    NewLine,
    /// Delete to the left.
    Backspace,
    /// Delete under the cursor.
    Delete,
    /// Move one character to the left.
    Left,
    /// Move one character to the right.
    Right,
    /// Move to the beginning.
    Home,
    /// Move to the end.
    End,
    /// Recall an older line.
    Up,
    /// Recall a newer line.
    Down,
    /// Delete the word to the left.
    KillWord,
    /// Delete to the beginning.
    KillStart,
    /// Delete to the end.
    KillEnd,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    Eof,
    /// Ctrl-L.
    Redraw,
}

const ESC: u8 = 0x1b;
const PASTE_BEGIN: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";
/// Maximum length of an escape sequence; a longer one is not a key.
const SEQUENCE_MAX: usize = 16;

/// Parses keys from pieces of input, split anywhere.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pending: Vec<u8>,
}

impl Keys {
    /// The keys that `bytes` complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Keystroke> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut at = 0;
        while at < self.pending.len() {
            match next(&self.pending[at..]) {
                Some((used, key)) => {
                    at += used;
                    keys.extend(key);
                }
                None => break,
            }
        }
        self.pending.drain(..at);
        // An escape key alone has no meaning here; keeping it would swallow the next key.
        if self.pending == [ESC] {
            self.pending.clear();
        }
        keys
    }
}

/// The first key in `bytes` and how many bytes it took; `None` if more bytes are needed.
fn next(bytes: &[u8]) -> Option<(usize, Option<Keystroke>)> {
    if bytes.starts_with(PASTE_BEGIN) {
        let body = &bytes[PASTE_BEGIN.len()..];
        let end = body.windows(PASTE_END.len()).position(|window| window == PASTE_END)?;
        let text = String::from_utf8_lossy(&body[..end]).replace("\r\n", "\n").replace('\r', "\n");
        return Some((PASTE_BEGIN.len() + end + PASTE_END.len(), Some(Keystroke::Paste(text))));
    }
    match bytes[0] {
        ESC => escape(bytes),
        b'\n' | b'\r' => Some((1, Some(Keystroke::Enter))),
        b'\t' => Some((1, Some(Keystroke::Char(' ')))),
        0x7f | 0x08 => Some((1, Some(Keystroke::Backspace))),
        byte @ 0..=0x1f => Some((1, control(byte))),
        _ => character(bytes),
    }
}

fn control(byte: u8) -> Option<Keystroke> {
    Some(match byte {
        1 => Keystroke::Home,
        2 => Keystroke::Left,
        3 => Keystroke::Interrupt,
        4 => Keystroke::Eof,
        5 => Keystroke::End,
        6 => Keystroke::Right,
        11 => Keystroke::KillEnd,
        12 => Keystroke::Redraw,
        14 => Keystroke::Down,
        16 => Keystroke::Up,
        21 => Keystroke::KillStart,
        23 => Keystroke::KillWord,
        _ => return None,
    })
}

fn character(bytes: &[u8]) -> Option<(usize, Option<Keystroke>)> {
    let wanted = match bytes[0] {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        // No character starts with this byte: skip it.
        _ => return Some((1, None)),
    };
    let piece = bytes.get(..wanted)?;
    match std::str::from_utf8(piece) {
        Ok(text) => Some((wanted, text.chars().next().map(Keystroke::Char))),
        Err(_) => Some((1, None)),
    }
}

fn escape(bytes: &[u8]) -> Option<(usize, Option<Keystroke>)> {
    match bytes.get(1)? {
        b'\r' | b'\n' => Some((2, Some(Keystroke::NewLine))),
        b'[' | b'O' => {
            let rest = &bytes[2..];
            let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                return (rest.len() > SEQUENCE_MAX).then_some((bytes.len(), None));
            };
            let key = match (&rest[..end], rest[end]) {
                (_, b'A') => Some(Keystroke::Up),
                (_, b'B') => Some(Keystroke::Down),
                (_, b'C') => Some(Keystroke::Right),
                (_, b'D') => Some(Keystroke::Left),
                (_, b'H') | (b"1" | b"7", b'~') => Some(Keystroke::Home),
                (_, b'F') | (b"4" | b"8", b'~') => Some(Keystroke::End),
                (b"3", b'~') => Some(Keystroke::Delete),
                _ => None,
            };
            Some((2 + end + 1, key))
        }
        0x7f => Some((2, Some(Keystroke::KillWord))),
        _ => Some((2, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expected: &[Keystroke]) {
        let all = Keys::default().feed(input);
        assert_eq!(all, expected, "{input:?}");
    }

    #[test]
    fn the_sequences_of_terminals_are_parsed() {
        check(b"a\r", &[Keystroke::Char('a'), Keystroke::Enter]);
        check("é漢".as_bytes(), &[Keystroke::Char('é'), Keystroke::Char('漢')]);
        check(
            b"\x1b[A\x1bOB\x1b[3~\x1b[1~",
            &[Keystroke::Up, Keystroke::Down, Keystroke::Delete, Keystroke::Home],
        );
        check(
            b"\x03\x04\x17\x7f",
            &[Keystroke::Interrupt, Keystroke::Eof, Keystroke::KillWord, Keystroke::Backspace],
        );
        check(b"\x1b\r\x1b[31mx", &[Keystroke::NewLine, Keystroke::Char('x')]);
        check(b"\xff\xfeok", &[Keystroke::Char('o'), Keystroke::Char('k')]);
    }

    #[test]
    fn a_key_split_across_two_pieces_is_one_key() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(&"é".as_bytes()[..1]), []);
        assert_eq!(keys.feed(&"é".as_bytes()[1..]), [Keystroke::Char('é')]);
        assert_eq!(keys.feed(b"\x1b[200~two\r"), []);
        assert_eq!(
            keys.feed(b"lines\x1b[201~!"),
            [Keystroke::Paste("two\nlines".into()), Keystroke::Char('!')]
        );
    }

    #[test]
    fn the_escape_key_swallows_nothing() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\x1b"), []);
        assert_eq!(keys.feed(b"q"), [Keystroke::Char('q')]);
    }
}
