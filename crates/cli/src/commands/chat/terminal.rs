//! A terminal of which a few rows at the bottom are drawn anew while the rows above only grow, and its keyboard. Knows
//! rows, not their content.

use std::io::{self, Write, stdout};

use ratatui::crossterm::event::{self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use tokio::sync::mpsc;

use crate::errors::{Exit, Failure, Result};
use crate::output::columns;

/// Maximum number of keys that wait.
const KEYS: usize = 64;

/// Columns and rows that may be used. The last column stays free, because terminals wrap differently there.
pub(crate) fn size() -> (usize, usize) {
    let (width, height) = ratatui::crossterm::terminal::size().unwrap_or((80, 24));
    (usize::from(width).saturating_sub(1).max(8), usize::from(height).max(4))
}

/// Rows at the bottom of the terminal that are drawn anew each time.
#[derive(Default)]
pub(crate) struct Bottom {
    /// Columns of each of its rows above the cursor.
    above: Vec<usize>,
    /// Its rows and the cursor, as drawn last.
    drawn: (Vec<String>, (usize, usize)),
}

impl Bottom {
    /// Adds `rows` above and draws `bottom` below them, with the cursor in it. Without a bottom, before and now, it only
    /// prints the rows.
    ///
    /// # Errors
    /// If nobody reads the output any more.
    pub(crate) fn draw(
        &mut self,
        rows: &[String],
        bottom: &[String],
        cursor: (usize, usize),
    ) -> io::Result<()> {
        if rows.is_empty() && self.drawn.0 == bottom && self.drawn.1 == cursor {
            return Ok(());
        }
        let mut out = String::new();
        if !self.drawn.0.is_empty() {
            out.push('\r');
            // A narrower terminal may have folded them.
            let (width, _) = size();
            let above: usize = self.above.iter().map(|columns| columns.div_ceil(width + 1).max(1)).sum();
            if above > 0 {
                out.push_str(&format!("\x1b[{above}A"));
            }
            out.push_str("\x1b[J");
        }
        let end = if bottom.is_empty() { "\n" } else { "\r\n" };
        rows.iter().for_each(|row| out.extend([row, end]));
        out.push_str(&bottom.join("\r\n"));
        if !bottom.is_empty() {
            let below = bottom.len() - 1 - cursor.0.min(bottom.len() - 1);
            let up = if below > 0 { format!("\x1b[{below}A") } else { String::new() };
            let right = if cursor.1 > 0 { format!("\x1b[{}C", cursor.1) } else { String::new() };
            out.extend([up.as_str(), "\r", &right]);
        }
        self.above = bottom.iter().take(cursor.0).map(|row| columns(row)).collect();
        self.drawn = (bottom.to_vec(), cursor);
        // A cursor that jumps from row to row would flicker.
        put(&if bottom.is_empty() { out } else { format!("\x1b[?25l{out}\x1b[?25h") })
    }

    pub(crate) fn clear(&mut self) {
        // If the terminal is gone, the keys end too.
        let _ = put("\x1b[2J\x1b[H");
        *self = Self::default();
    }
}

/// A terminal that delivers single keys; restored when this is dropped.
pub(crate) struct SingleKeys;

impl SingleKeys {
    /// Switches the terminal to single keys, with pasted text marked, so that its line ends do not send it.
    pub(crate) fn take() -> Result<Self> {
        let taken = enable_raw_mode().and_then(|()| execute!(stdout(), EnableBracketedPaste));
        taken.map(|()| Self).map_err(|error| {
            Failure::new(Exit::Failed, "no_terminal", format!("cannot set up the terminal: {error}"))
        })
    }
}

impl Drop for SingleKeys {
    fn drop(&mut self) {
        // If even this fails, nothing more can be done.
        let _ = put("\r\x1b[J");
        let _ = execute!(stdout(), DisableBracketedPaste);
        let _ = disable_raw_mode();
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
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
