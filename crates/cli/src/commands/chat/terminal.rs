//! The terminal of a chat: redraws a few rows at the bottom while the rows above only grow. Knows rows, not their
//! content. Also reads the keyboard, for every command that takes keys.

use std::io::{Write, stdout};

use ratatui::crossterm::event::{self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use tokio::sync::mpsc;

use crate::errors::{Exit, Failure, Result};
use crate::output::columns;

/// Maximum number of keys that wait.
const KEYS: usize = 64;

/// A terminal that delivers single keys; restored when this is dropped.
pub(crate) struct Terminal {
    /// Rows of the bottom part above the cursor's row.
    above: usize,
    /// Columns of each row of the bottom part above the cursor, needed after a change of width.
    drawn: Vec<usize>,
}

impl Terminal {
    /// Switches the terminal to single keys, with pasted text marked, so that its line ends do not send it.
    pub(crate) fn take() -> Result<Self> {
        let taken = enable_raw_mode().and_then(|()| execute!(stdout(), EnableBracketedPaste));
        taken.map_err(|error| {
            Failure::new(Exit::Failed, "no_terminal", format!("cannot set up the terminal: {error}"))
        })?;
        Ok(Self { above: 0, drawn: Vec::new() })
    }

    /// Columns and rows that may be used. The last column stays free, because terminals wrap differently there.
    pub(crate) fn size() -> (usize, usize) {
        let (width, height) = ratatui::crossterm::terminal::size().unwrap_or((80, 24));
        (usize::from(width).saturating_sub(1).max(8), usize::from(height).max(4))
    }

    /// Adds `rows` above and draws `bottom` below them, with the cursor in it.
    pub(crate) fn draw(&mut self, rows: &[String], bottom: &[String], cursor: (usize, usize)) {
        let mut out = String::from("\x1b[?25l\r");
        if self.above > 0 {
            out.push_str(&format!("\x1b[{}A", self.above));
        }
        out.push_str("\x1b[J");
        for row in rows {
            out.push_str(row);
            out.push_str("\r\n");
        }
        out.push_str(&bottom.join("\r\n"));
        let below = bottom.len().saturating_sub(1).saturating_sub(cursor.0);
        if below > 0 {
            out.push_str(&format!("\x1b[{below}A"));
        }
        out.push('\r');
        if cursor.1 > 0 {
            out.push_str(&format!("\x1b[{}C", cursor.1));
        }
        out.push_str("\x1b[?25h");
        put(&out);
        self.above = cursor.0;
        self.drawn = bottom.iter().take(cursor.0).map(|row| columns(row)).collect();
    }

    /// Recomputes the height after a change of width: the terminal may have folded rows.
    pub(crate) fn resized(&mut self) {
        let (width, _) = Self::size();
        self.above = self.drawn.iter().map(|columns| columns.div_ceil(width + 1).max(1)).sum();
    }

    /// Clears the screen.
    pub(crate) fn clear(&mut self) {
        put("\x1b[2J\x1b[H");
        self.above = 0;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        put("\r\x1b[J");
        // If even this fails, nothing more can be done.
        let _ = execute!(stdout(), DisableBracketedPaste);
        let _ = disable_raw_mode();
    }
}

fn put(text: &str) {
    let mut out = stdout().lock();
    // If the terminal is gone, the keys end too, and with them the chat.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Keys, pastes and changed sizes as they arrive; closed if the terminal is gone.
pub(crate) fn keyboard() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(KEYS);
    // A blocked read of the terminal cannot be canceled, so it has its own thread, which ends with the process.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let release = matches!(&event, Event::Key(key) if key.kind == KeyEventKind::Release);
            if !release && sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}
