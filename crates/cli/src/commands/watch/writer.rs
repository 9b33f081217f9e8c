//! Writes a live log to standard output: rows that stay, and on a terminal one last row that is rewritten.
//! Knows rows, not their content.

use std::io::Write;

use crate::output::{Screen, terminal_width};

/// The reader of the output is gone.
pub(crate) struct Closed;

/// Standard output for a live log.
pub(crate) struct LogWriter {
    /// Whether the last row can be rewritten.
    terminal: bool,
    last: Option<String>,
}

impl LogWriter {
    /// The output of this process.
    pub(crate) fn of(screen: &Screen) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { terminal: screen.width.is_some() && !screen.json && !dumb, last: None }
    }

    /// Columns that a row may use: the last one stays free, because terminals wrap differently there.
    pub(crate) fn width(&self) -> usize {
        terminal_width().saturating_sub(1).max(8)
    }

    /// Adds rows and rewrites the last one.
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

impl Drop for LogWriter {
    fn drop(&mut self) {
        // If nobody reads any more, there is nothing to clean up.
        let _ = self.write(&[], None);
    }
}
