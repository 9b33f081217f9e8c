//! The line being typed: text, cursor, history. Pure; must not know the terminal or the server.

use agent::limits;

use super::keys::Keystroke;
use crate::output::char_columns;

/// Maximum number of lines in the history.
const HISTORY_MAX: usize = 200;

/// What a key requests in addition to editing the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EditorAction {
    /// Send this text.
    Send(String),
    /// Ctrl-C on an empty line.
    Interrupt,
    /// Quit.
    Leave,
    /// Draw everything again.
    Redraw,
}

/// The line being typed.
#[derive(Debug, Default)]
pub(crate) struct Editor {
    text: Vec<char>,
    at: usize,
    history: Vec<String>,
    /// Position in the history; its length while a new line is typed.
    position: usize,
    /// The new line, while an older one is shown.
    draft: Vec<char>,
}

/// The line as rows of a terminal, with the cursor's row and column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// The rows; at least one.
    pub(crate) rows: Vec<String>,
    /// The cursor's row and column.
    pub(crate) cursor: (usize, usize),
}

impl Editor {
    /// Whether the line is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Puts back a text that could not be sent, unless something new was typed.
    pub(crate) fn restore(&mut self, text: &str) {
        if self.is_empty() {
            self.set(text.chars().collect());
        }
    }

    /// Handles a key.
    pub(crate) fn press(&mut self, key: Keystroke) -> Option<EditorAction> {
        match key {
            Keystroke::Enter => return self.send(),
            Keystroke::Interrupt if self.is_empty() => return Some(EditorAction::Interrupt),
            Keystroke::Interrupt => self.set(Vec::new()),
            Keystroke::Eof if self.is_empty() => return Some(EditorAction::Leave),
            Keystroke::Eof | Keystroke::Delete => {
                if self.at < self.text.len() {
                    self.text.remove(self.at);
                }
            }
            Keystroke::Redraw => return Some(EditorAction::Redraw),
            Keystroke::Char(c) => self.insert(c),
            Keystroke::NewLine => self.insert('\n'),
            Keystroke::Paste(text) => text.chars().for_each(|c| self.insert(c)),
            Keystroke::Backspace if self.at > 0 => {
                self.at -= 1;
                self.text.remove(self.at);
            }
            Keystroke::Backspace => {}
            Keystroke::Left => self.at = self.at.saturating_sub(1),
            Keystroke::Right => self.at = (self.at + 1).min(self.text.len()),
            Keystroke::Home => self.at = 0,
            Keystroke::End => self.at = self.text.len(),
            Keystroke::Up => self.recall(self.position.checked_sub(1)),
            Keystroke::Down => self.recall(Some(self.position + 1)),
            Keystroke::KillEnd => self.text.truncate(self.at),
            Keystroke::KillStart => {
                self.text.drain(..self.at);
                self.at = 0;
            }
            Keystroke::KillWord => {
                let before = &self.text[..self.at];
                let word_end = before.iter().rposition(|c| !c.is_whitespace()).map_or(0, |i| i + 1);
                let from = before[..word_end].iter().rposition(|c| c.is_whitespace()).map_or(0, |i| i + 1);
                self.text.drain(from..self.at);
                self.at = from;
            }
        }
        None
    }

    fn insert(&mut self, c: char) {
        // A text that is too long to send is not accepted; the longest character has four bytes.
        if self.text.len() < limits::MESSAGE_MAX_BYTES / 4 && (c == '\n' || !c.is_control()) {
            self.text.insert(self.at, c);
            self.at += 1;
        }
    }

    fn set(&mut self, text: Vec<char>) {
        self.at = text.len();
        self.text = text;
        self.position = self.history.len();
    }

    fn send(&mut self) -> Option<EditorAction> {
        let text: String = self.text.iter().collect();
        if text.trim().is_empty() {
            return None;
        }
        if self.history.last() != Some(&text) {
            self.history.push(text.clone());
        }
        if self.history.len() > HISTORY_MAX {
            self.history.remove(0);
        }
        self.set(Vec::new());
        Some(EditorAction::Send(text))
    }

    fn recall(&mut self, to: Option<usize>) {
        let Some(to) = to.filter(|to| *to <= self.history.len()) else { return };
        if self.position == self.history.len() {
            self.draft = std::mem::take(&mut self.text);
        }
        self.text = match self.history.get(to) {
            Some(line) => line.chars().collect(),
            None => std::mem::take(&mut self.draft),
        };
        self.position = to;
        self.at = self.text.len();
    }

    /// The line after `prompt`, in rows of at most `width` columns; of a long line the `max` rows around
    /// the cursor.
    pub(crate) fn rows(&self, prompt: &str, width: usize, max: usize) -> Rows {
        let mut rows = vec![prompt.to_owned()];
        let mut used = prompt.len();
        let mut cursor = (0, used);
        for (i, c) in self.text.iter().enumerate() {
            let needed = if *c == '\n' { 2 } else { char_columns(*c) };
            if used + needed > width {
                rows.push(String::new());
                used = 0;
            }
            if i == self.at {
                cursor = (rows.len() - 1, used);
            }
            // There is always a last row: it started with one.
            if let Some(row) = rows.last_mut() {
                if *c == '\n' { row.push_str("^J") } else { row.push(*c) }
            }
            used += needed;
        }
        if self.at == self.text.len() {
            if used >= width {
                rows.push(String::new());
                used = 0;
            }
            cursor = (rows.len() - 1, used);
        }
        let max = max.max(1);
        let first = (cursor.0 + 1).saturating_sub(max).min(rows.len().saturating_sub(max));
        Rows { rows: rows.into_iter().skip(first).take(max).collect(), cursor: (cursor.0 - first, cursor.1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Editor {
        let mut editor = Editor::default();
        for c in text.chars() {
            editor.press(Keystroke::Char(c));
        }
        editor
    }

    fn text(editor: &Editor) -> String {
        editor.text.iter().collect()
    }

    #[test]
    fn keys_edit_the_line_at_the_cursor() {
        let mut editor = typed("one two three");
        for key in [
            Keystroke::KillWord,
            Keystroke::Home,
            Keystroke::Delete,
            Keystroke::Char('O'),
            Keystroke::End,
            Keystroke::Backspace,
        ] {
            assert_eq!(editor.press(key), None);
        }
        assert_eq!(text(&editor), "One two");
        editor.press(Keystroke::Left);
        editor.press(Keystroke::KillStart);
        assert_eq!(text(&editor), "o");
    }

    #[test]
    fn an_interrupt_clears_the_line_first() {
        let mut editor = typed("x");
        assert_eq!(editor.press(Keystroke::Interrupt), None);
        assert_eq!(editor.press(Keystroke::Interrupt), Some(EditorAction::Interrupt));
        assert_eq!(editor.press(Keystroke::Eof), Some(EditorAction::Leave));
        assert_eq!(editor.press(Keystroke::Enter), None);
    }

    #[test]
    fn sent_lines_can_be_recalled_and_the_new_one_is_kept() {
        let mut editor = typed("first");
        assert_eq!(editor.press(Keystroke::Enter), Some(EditorAction::Send("first".into())));
        editor.press(Keystroke::Char('n'));
        editor.press(Keystroke::Up);
        assert_eq!(text(&editor), "first");
        editor.press(Keystroke::Up);
        editor.press(Keystroke::Down);
        assert_eq!(text(&editor), "n");
    }

    #[test]
    fn a_paste_with_line_ends_is_one_text() {
        let mut editor = Editor::default();
        editor.press(Keystroke::Paste("a\nb\x1b[2J".into()));
        assert_eq!(editor.press(Keystroke::Enter), Some(EditorAction::Send("a\nb[2J".into())));
    }

    #[test]
    fn a_long_line_wraps_and_the_cursor_stays_in_sight() {
        let rows = typed("abcdef").rows("> ", 4, 10);
        assert_eq!(rows, Rows { rows: vec!["> ab".into(), "cdef".into(), String::new()], cursor: (2, 0) });
        let rows = typed("漢字").rows("> ", 5, 10);
        assert_eq!(rows, Rows { rows: vec!["> 漢".into(), "字".into()], cursor: (1, 2) });
        let mut long = typed(&"x".repeat(100));
        assert_eq!(long.rows("> ", 10, 3).rows.len(), 3);
        long.press(Keystroke::Home);
        assert_eq!(long.rows("> ", 10, 3).cursor, (0, 2));
    }
}
