//! The line being typed, with history and completion. Pure apart from the history file; must not know the terminal or
//! the server.
//!
//! The text and the history are rustyline's. Its loop is not used: it prints the typed text again, in full, with every
//! row that is added above it, so that a pasted page would fill the screen with each piece of a draft, and its prompt
//! cannot hold rows that change, as those of agents that write at once do.

use std::path::PathBuf;

use agent::limits::MESSAGE_MAX_BYTES;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rustyline::completion::longest_common_prefix;
use rustyline::config::Config;
use rustyline::history::{FileHistory, History, SearchDirection};
use rustyline::line_buffer::{ChangeListener, DeleteListener, Direction, LineBuffer};
use rustyline::{At, Word};

use crate::output::{Screen, columns};

const HISTORY_MAX: usize = 1_000;
/// Maximum number of bytes that can be typed: more than can be sent, so that a paste that is too long can be shortened.
const TYPED_MAX: usize = 16 * MESSAGE_MAX_BYTES;
/// Maximum number of completions that are listed.
const LISTED: usize = 20;
const PROMPT: &str = "> ";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EditorAction {
    Send(String),
    /// Ctrl-C on an empty line.
    Interrupt,
    Leave,
    Redraw,
    Note(String),
}

/// A search in the history, begun with Ctrl-R.
struct Search {
    term: String,
    /// Position of the line that was found.
    at: usize,
    /// What was typed before.
    before: String,
}

pub(crate) struct Editor {
    line: LineBuffer,
    history: FileHistory,
    /// Where the history is kept; `None` if it is not.
    file: Option<PathBuf>,
    /// Position in the history; its length while a new line is typed.
    position: usize,
    /// The new line, while an older one is shown.
    draft: String,
    search: Option<Search>,
    words: Vec<String>,
    /// Calls that wait, which Tab completes, too.
    calls: Vec<String>,
}

/// The line as rows of a terminal, with the cursor's row and column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// The rows; at least one.
    pub(crate) rows: Vec<String>,
    pub(crate) cursor: (usize, usize),
}

/// Nobody needs to know each change of the line.
struct Unheard;

impl DeleteListener for Unheard {
    fn delete(&mut self, _at: usize, _text: &str, _direction: Direction) {}
}

impl ChangeListener for Unheard {
    fn insert_char(&mut self, _at: usize, _c: char) {}
    fn insert_str(&mut self, _at: usize, _text: &str) {}
    fn replace(&mut self, _at: usize, _old: &str, _new: &str) {}
}

impl Editor {
    /// An empty line. Earlier lines are read from `file`, and later ones added to it.
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        // A history of that size without duplicates is always valid.
        let config = Config::builder().max_history_size(HISTORY_MAX).unwrap_or_default().build();
        let mut history = FileHistory::with_config(&config);
        // There is no file at first; one that cannot be read costs only its lines.
        let _ = file.as_deref().map(|file| history.load(file));
        let (line, position) = (LineBuffer::with_capacity(TYPED_MAX), history.len());
        Self {
            line,
            history,
            file,
            position,
            draft: String::new(),
            search: None,
            words: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Sets what Tab completes: commands, which begin with a slash, and names.
    pub(crate) fn set_words(&mut self, words: impl Iterator<Item = String>) {
        self.words = words.collect();
        self.words.sort();
        self.words.dedup();
    }

    /// Sets which calls wait.
    pub(crate) fn set_calls(&mut self, calls: impl Iterator<Item = String>) {
        self.calls = calls.collect();
    }

    /// Whether nothing is typed.
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.search.is_none()
    }

    /// Puts back a text that could not be sent, unless something new was typed.
    pub(crate) fn restore(&mut self, text: &str) {
        if self.line.is_empty() {
            self.set(text);
        }
    }

    /// Inserts pasted text: all of it, or nothing and a note.
    pub(crate) fn paste(&mut self, text: &str) -> Option<EditorAction> {
        self.search = None;
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if self.line.len() + text.len() > TYPED_MAX {
            let note =
                format!("(nothing was pasted: at most {TYPED_MAX} bytes can be typed, got {})", text.len());
            return Some(EditorAction::Note(note));
        }
        self.line.yank(&text, 1, &mut Unheard);
        None
    }

    pub(crate) fn press(&mut self, key: KeyEvent) -> Option<EditorAction> {
        if self.search.is_some() && self.press_in_search(key) {
            return None;
        }
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let other_enter = key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Char('c') if ctrl && self.line.is_empty() => return Some(EditorAction::Interrupt),
            KeyCode::Char('c') if ctrl => self.set(""),
            KeyCode::Char('d') if ctrl && self.line.is_empty() => return Some(EditorAction::Leave),
            KeyCode::Char('l') if ctrl => return Some(EditorAction::Redraw),
            KeyCode::Char('r') if ctrl => {
                let before = self.line.as_str().to_owned();
                self.search = Some(Search { term: String::new(), at: self.history.len(), before });
            }
            KeyCode::Enter if other_enter => return self.paste("\n"),
            KeyCode::Char('j') if ctrl => return self.paste("\n"),
            KeyCode::Enter => return self.send(),
            KeyCode::Tab => return self.complete(),
            KeyCode::Up => self.recall(self.position.checked_sub(1)),
            KeyCode::Char('p') if ctrl => self.recall(self.position.checked_sub(1)),
            KeyCode::Down => self.recall(Some(self.position + 1)),
            KeyCode::Char('n') if ctrl => self.recall(Some(self.position + 1)),
            code => self.edit(code, key.modifiers),
        }
        None
    }

    fn edit(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        let (line, ctrl) = (&mut self.line, modifiers.contains(KeyModifiers::CONTROL));
        let word = ctrl || modifiers.contains(KeyModifiers::ALT);
        // Each says whether it changed anything, which the next drawing shows.
        let _changed = match code {
            KeyCode::Left if word => line.move_to_prev_word(Word::Emacs, 1),
            KeyCode::Right if word => line.move_to_next_word(At::AfterEnd, Word::Emacs, 1),
            KeyCode::Backspace if word => line.delete_prev_word(Word::Emacs, 1, &mut Unheard),
            KeyCode::Left => line.move_backward(1),
            KeyCode::Right => line.move_forward(1),
            KeyCode::Home => line.move_home(),
            KeyCode::End => line.move_end(),
            KeyCode::Backspace => line.backspace(1, &mut Unheard),
            KeyCode::Delete => line.delete(1, &mut Unheard).is_some(),
            KeyCode::Char('a') if ctrl => line.move_home(),
            KeyCode::Char('e') if ctrl => line.move_end(),
            KeyCode::Char('b') if ctrl => line.move_backward(1),
            KeyCode::Char('f') if ctrl => line.move_forward(1),
            KeyCode::Char('h') if ctrl => line.backspace(1, &mut Unheard),
            KeyCode::Char('d') if ctrl => line.delete(1, &mut Unheard).is_some(),
            KeyCode::Char('w') if ctrl => line.delete_prev_word(Word::Big, 1, &mut Unheard),
            KeyCode::Char('u') if ctrl => line.discard_line(&mut Unheard),
            KeyCode::Char('k') if ctrl => line.kill_line(&mut Unheard),
            KeyCode::Char('t') if ctrl => line.transpose_chars(&mut Unheard),
            KeyCode::Char('b') if word => line.move_to_prev_word(Word::Emacs, 1),
            KeyCode::Char('f') if word => line.move_to_next_word(At::AfterEnd, Word::Emacs, 1),
            KeyCode::Char('d') if word => line.delete_word(At::AfterEnd, Word::Emacs, 1, &mut Unheard),
            KeyCode::Char(c) if !word => line.insert(c, 1, &mut Unheard).is_some(),
            _ => false,
        };
    }

    fn put(&mut self, text: &str) {
        self.line.update(text, text.len(), &mut Unheard);
    }

    fn set(&mut self, text: &str) {
        self.put(text);
        self.position = self.history.len();
    }

    fn send(&mut self) -> Option<EditorAction> {
        let text = self.line.as_str().to_owned();
        if text.trim().is_empty() {
            return None;
        }
        if text.len() > MESSAGE_MAX_BYTES {
            return Some(EditorAction::Note(format!(
                "(not sent: a message has at most {MESSAGE_MAX_BYTES} bytes, this text has {}; \
                shorten it, or Ctrl-C clears it)",
                text.len()
            )));
        }
        // The conversation goes on if the history cannot be written, as on a full disk.
        if self.history.add(&text).is_ok_and(|added| added)
            && let Some(file) = &self.file
        {
            let _ = self.history.append(file);
        }
        self.set("");
        Some(EditorAction::Send(text))
    }

    fn recall(&mut self, to: Option<usize>) {
        let Some(to) = to.filter(|to| *to <= self.history.len()) else { return };
        if self.position == self.history.len() {
            self.draft = self.line.as_str().to_owned();
        }
        let found = self.history.get(to, SearchDirection::Forward).ok().flatten();
        let text = found.map(|found| found.entry.into_owned());
        let text = text.unwrap_or_else(|| std::mem::take(&mut self.draft));
        self.put(&text);
        self.position = to;
    }

    /// Handles a key while the history is searched; `false` if the key ends the search and has its usual meaning.
    fn press_in_search(&mut self, key: KeyEvent) -> bool {
        let Some(mut search) = self.search.take() else { return false };
        let last = self.history.len().checked_sub(1);
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if key.code == KeyCode::Esc || ctrl && matches!(key.code, KeyCode::Char('c' | 'g')) {
            self.set(&search.before);
            return true;
        }
        let from = match key.code {
            KeyCode::Char('r') if ctrl => search.at.checked_sub(1),
            KeyCode::Backspace => {
                search.term.pop();
                last
            }
            KeyCode::Char(c) if !ctrl => {
                search.term.push(c);
                last.map(|last| last.min(search.at))
            }
            _ => return false,
        };
        let found =
            from.and_then(|from| self.history.search(&search.term, from, SearchDirection::Reverse).ok()?);
        if let Some((at, text)) = found.map(|found| (found.idx, found.entry.into_owned())) {
            search.at = at;
            self.put(&text);
            self.position = at;
        }
        self.search = Some(search);
        true
    }

    /// Completes the word before the cursor as far as it is certain; lists the choices if it is not.
    fn complete(&mut self) -> Option<EditorAction> {
        let end = self.line.pos();
        let before = &self.line.as_str()[..end];
        let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        let command = word.starts_with('/') && word.len() == before.trim_start().len();
        let typed = word.trim_start_matches('@').to_owned();
        if typed.is_empty() {
            return None;
        }
        let fits = |known: &&String| {
            known.starts_with('/') == command && known.to_lowercase().starts_with(&typed.to_lowercase())
        };
        let fitting: Vec<&String> = self.words.iter().chain(&self.calls).filter(fits).collect();
        let mut text = longest_common_prefix(&fitting).unwrap_or_default().to_owned();
        match fitting[..] {
            [] => return None,
            [_] => text.push(' '),
            _ if text.len() <= typed.len() => {
                let listed: Vec<&str> = fitting.iter().take(LISTED).map(|word| word.as_str()).collect();
                return Some(EditorAction::Note(listed.join("  ")));
            }
            _ => {}
        }
        self.line.replace(end - typed.len()..end, &text, &mut Unheard);
        None
    }

    /// The line in rows of at most `width` columns; of a long line the `max` rows around the cursor.
    pub(crate) fn rows(&self, screen: &Screen, width: usize, max: usize) -> Rows {
        let prompt = match &self.search {
            Some(search) => format!("(search: {}) ", screen.clean_line(&search.term)),
            None => PROMPT.to_owned(),
        };
        let mut used = columns(&prompt);
        let mut rows = vec![prompt];
        let mut cursor = (0, used);
        for (at, c) in self.line.as_str().char_indices() {
            let shown = match c {
                '\n' => "^J".to_owned(),
                c => screen.clean(c.encode_utf8(&mut [0; 4])),
            };
            // A variation selector makes the character before it wider.
            let needed = if c == '\u{fe0f}' { 1 } else { columns(&shown) };
            if used + needed > width {
                rows.push(String::new());
                used = 0;
            }
            if at == self.line.pos() {
                cursor = (rows.len() - 1, used);
            }
            // There is always a last row: it started with one.
            if let Some(row) = rows.last_mut() {
                row.push_str(&shown);
            }
            used += needed;
        }
        if self.line.is_cursor_at_end() {
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
mod tests;
