//! The terminal of a chat: delivers single keys, and redraws a few rows at the bottom while the rows above
//! only grow. Knows rows, not their content.

use std::io::Write;
use std::time::Duration;

use rustix::termios::{self, InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use tokio::sync::mpsc;

use crate::errors::{Exit, Failure, Result};
use crate::output::{columns, terminal_width};

/// Maximum number of input pieces that wait for the chat.
const INPUT_BUFFER: usize = 64;

/// A terminal in raw mode; restored when this is dropped.
pub(crate) struct Terminal {
    before: Termios,
    /// Rows of the bottom part above the cursor's row.
    above: usize,
    /// Columns of each row of the bottom part above the cursor, needed after a change of width.
    drawn: Vec<usize>,
}

impl Terminal {
    /// Switches the terminal to raw mode.
    pub(crate) fn take() -> Result<Self> {
        let broken =
            |error| Failure::new(Exit::Failed, "no_terminal", format!("cannot set up the terminal: {error}"));
        let before = termios::tcgetattr(std::io::stdin()).map_err(broken)?;
        let mut ours = before.clone();
        ours.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        ours.input_modes -= InputModes::IXON;
        ours.special_codes[SpecialCodeIndex::VMIN] = 1;
        ours.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &ours).map_err(broken)?;
        let terminal = Self { before, above: 0, drawn: Vec::new() };
        // Marks pasted text, so that its line ends do not send it.
        put("\x1b[?2004h");
        Ok(terminal)
    }

    /// Columns that rows may use: the last one stays free, because terminals wrap differently there.
    pub(crate) fn width() -> usize {
        terminal_width().saturating_sub(1).max(8)
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
        self.drawn = bottom.iter().take(cursor.0).map(|row| columns(&plain(row))).collect();
    }

    /// Recomputes the height after a change of width: the terminal may have folded rows.
    pub(crate) fn resized(&mut self) {
        let width = terminal_width().max(1);
        self.above = self.drawn.iter().map(|columns| columns.div_ceil(width).max(1)).sum();
    }

    /// Clears the screen.
    pub(crate) fn clear(&mut self) {
        put("\x1b[2J\x1b[H");
        self.above = 0;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        put("\x1b[?2004l\r\x1b[J");
        // If even this fails, nothing more can be done.
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Input in pieces as they arrive; closed at its end.
pub(crate) fn input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(INPUT_BUFFER);
    // A blocked read of the terminal cannot be canceled, so it has its own thread, which ends with the
    // process.
    std::thread::spawn(move || {
        let mut buffer = [0u8; 4096];
        loop {
            match rustix::io::read(std::io::stdin(), &mut buffer) {
                Ok(0) => return,
                Ok(n) => {
                    if sender.blocking_send(buffer[..n].to_vec()).is_err() {
                        return;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => std::thread::sleep(Duration::from_millis(20)),
                Err(_) => return,
            }
        }
    });
    receiver
}

fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    // If the terminal is gone, the input ends too, and with it the chat.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The row without our colour codes.
fn plain(row: &str) -> String {
    let mut out = String::with_capacity(row.len());
    let mut rest = row;
    while let Some(at) = rest.find("\x1b[") {
        out.push_str(&rest[..at]);
        rest = rest[at..].find('m').map_or("", |end| &rest[at + end + 1..]);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_columns() {
        assert_eq!(plain("\x1b[1;36mada\x1b[0m: hi"), "ada: hi");
        assert_eq!(plain("none"), "none");
    }
}
