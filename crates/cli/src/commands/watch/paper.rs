//! Where a live log is written: rows that stay, and at the bottom of a terminal one row that is
//! written again and again. Knows rows, not what they say.

use std::io::Write;

use crate::output::{Screen, terminal_width};

/// The end of a reader: nobody wants more.
pub(crate) struct Closed;

/// Standard output as a live log needs it.
pub(crate) struct Paper {
    /// Whether the last row can be written again.
    terminal: bool,
    last: Option<String>,
}

impl Paper {
    /// The paper of this process.
    pub(crate) fn of(screen: &Screen) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { terminal: screen.width.is_some() && !screen.json && !dumb, last: None }
    }

    /// Columns that a row may take: the last one stays free, where terminals disagree on wrapping.
    pub(crate) fn width(&self) -> usize {
        terminal_width().saturating_sub(1).max(8)
    }

    /// Adds rows, and writes the last one again.
    pub(crate) fn write(&mut self, rows: &[String], last: Option<String>) -> Result<(), Closed> {
        let last = last.filter(|_| self.terminal);
        if rows.is_empty() && last == self.last {
            return Ok(());
        }
        let mut out = String::new();
        if self.last.is_some() {
            out.push_str("\r\x1b[2K");
        }
        for row in rows {
            out.push_str(row);
            out.push('\n');
        }
        out.push_str(last.as_deref().unwrap_or_default());
        self.last = last;
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush()).map_err(|_| Closed)
    }
}

impl Drop for Paper {
    fn drop(&mut self) {
        // Where nobody reads any more there is nothing to tidy.
        let _ = self.write(&[], None);
    }
}
