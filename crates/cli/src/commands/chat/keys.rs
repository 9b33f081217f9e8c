//! Bytes of a keyboard as keys. Knows the sequences that terminals send, not what keys do.

/// A key, or text that was pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A character that prints.
    Char(char),
    /// Text pasted in one go; its line ends do not send.
    Paste(String),
    /// Send.
    Enter,
    /// A line end within the text.
    NewLine,
    /// Delete to the left.
    Backspace,
    /// Delete under the cursor.
    Delete,
    /// One to the left.
    Left,
    /// One to the right.
    Right,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// Older.
    Up,
    /// Newer.
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
/// Longest escape sequence that is waited for; what is longer is no key.
const SEQUENCE_MAX: usize = 16;

/// Reads keys from pieces of input, wherever these are cut.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pending: Vec<u8>,
}

impl Keys {
    /// The keys that `bytes` complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
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
        // An escape key alone means nothing here; keeping it would swallow the next key.
        if self.pending == [ESC] {
            self.pending.clear();
        }
        keys
    }
}

/// The first key of `bytes` and how many bytes it took; `None` where more must come.
fn next(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    if bytes.starts_with(PASTE_BEGIN) {
        let body = &bytes[PASTE_BEGIN.len()..];
        let end = body.windows(PASTE_END.len()).position(|window| window == PASTE_END)?;
        let text = String::from_utf8_lossy(&body[..end]).replace("\r\n", "\n").replace('\r', "\n");
        return Some((PASTE_BEGIN.len() + end + PASTE_END.len(), Some(Key::Paste(text))));
    }
    match bytes[0] {
        ESC => escape(bytes),
        b'\n' | b'\r' => Some((1, Some(Key::Enter))),
        b'\t' => Some((1, Some(Key::Char(' ')))),
        0x7f | 0x08 => Some((1, Some(Key::Backspace))),
        byte @ 0..=0x1f => Some((1, control(byte))),
        _ => character(bytes),
    }
}

fn control(byte: u8) -> Option<Key> {
    Some(match byte {
        1 => Key::Home,
        2 => Key::Left,
        3 => Key::Interrupt,
        4 => Key::Eof,
        5 => Key::End,
        6 => Key::Right,
        11 => Key::KillEnd,
        12 => Key::Redraw,
        14 => Key::Down,
        16 => Key::Up,
        21 => Key::KillStart,
        23 => Key::KillWord,
        _ => return None,
    })
}

fn character(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let wanted = match bytes[0] {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        // No character begins so: pass over it.
        _ => return Some((1, None)),
    };
    let piece = bytes.get(..wanted)?;
    match std::str::from_utf8(piece) {
        Ok(text) => Some((wanted, text.chars().next().map(Key::Char))),
        Err(_) => Some((1, None)),
    }
}

fn escape(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    match bytes.get(1)? {
        b'\r' | b'\n' => Some((2, Some(Key::NewLine))),
        b'[' | b'O' => {
            let rest = &bytes[2..];
            let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                return (rest.len() > SEQUENCE_MAX).then_some((bytes.len(), None));
            };
            let key = match (&rest[..end], rest[end]) {
                (_, b'A') => Some(Key::Up),
                (_, b'B') => Some(Key::Down),
                (_, b'C') => Some(Key::Right),
                (_, b'D') => Some(Key::Left),
                (_, b'H') | (b"1" | b"7", b'~') => Some(Key::Home),
                (_, b'F') | (b"4" | b"8", b'~') => Some(Key::End),
                (b"3", b'~') => Some(Key::Delete),
                _ => None,
            };
            Some((2 + end + 1, key))
        }
        0x7f => Some((2, Some(Key::KillWord))),
        _ => Some((2, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expected: &[Key]) {
        let whole = Keys::default().feed(input);
        assert_eq!(whole, expected, "{input:?}");
    }

    #[test]
    fn keys_are_read_as_terminals_send_them() {
        check(b"a\r", &[Key::Char('a'), Key::Enter]);
        check("é漢".as_bytes(), &[Key::Char('é'), Key::Char('漢')]);
        check(b"\x1b[A\x1bOB\x1b[3~\x1b[1~", &[Key::Up, Key::Down, Key::Delete, Key::Home]);
        check(b"\x03\x04\x17\x7f", &[Key::Interrupt, Key::Eof, Key::KillWord, Key::Backspace]);
        check(b"\x1b\r\x1b[31mx", &[Key::NewLine, Key::Char('x')]);
        check(b"\xff\xfeok", &[Key::Char('o'), Key::Char('k')]);
    }

    #[test]
    fn what_is_cut_between_two_pieces_is_one_key() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(&"é".as_bytes()[..1]), []);
        assert_eq!(keys.feed(&"é".as_bytes()[1..]), [Key::Char('é')]);
        assert_eq!(keys.feed(b"\x1b[200~two\r"), []);
        assert_eq!(keys.feed(b"lines\x1b[201~!"), [Key::Paste("two\nlines".into()), Key::Char('!')]);
    }

    #[test]
    fn the_escape_key_swallows_nothing() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\x1b"), []);
        assert_eq!(keys.feed(b"q"), [Key::Char('q')]);
    }
}
