//! Shows that the command is waiting: one line on standard error, shown after one second and erased at the
//! end. Only on a terminal, and not with `--json` or `--quiet`. Must not know what the command waits for.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::output::{Screen, error_width, shortened};

/// Shorter waits show no line.
const DELAY: Duration = Duration::from_secs(1);
/// Time between two frames.
const FRAME: Duration = Duration::from_millis(120);

const UTF8: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ASCII: [&str; 4] = ["|", "/", "-", "\\"];

/// A line that shows what the command waits for, until this is dropped.
#[derive(Debug)]
pub(crate) struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// Starts to show `what`, such as `waiting for ada`.
    pub(crate) fn start(screen: &Screen, what: impl Into<String>) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if screen.json || screen.quiet || dumb || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let utf8 = screen.utf8;
        let what = screen.clean_line(&what.into());
        let (sender, ended) = mpsc::channel::<()>();
        let draw = move || {
            let began = Instant::now();
            let (mut wait, mut tick) = (DELAY, 0);
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let line = frame(utf8, tick, &what, began.elapsed(), error_width());
                show(&format!("\r{line}\x1b[K"));
                (wait, tick) = (FRAME, tick + 1);
            }
            if tick > 0 {
                show("\r\x1b[K");
            }
        };
        Self(Some((sender, std::thread::spawn(draw))))
    }
}

impl Drop for Progress {
    /// Waits until the line is erased.
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

fn show(text: &str) {
    let mut out = std::io::stderr().lock();
    // A failure to write is ignored: the line is only decoration.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn frame(utf8: bool, tick: usize, what: &str, elapsed: Duration, columns: usize) -> String {
    let glyphs: &[&str] = if utf8 { &UTF8 } else { &ASCII };
    let line = format!("{} {what} ({} s)", glyphs[tick % glyphs.len()], elapsed.as_secs());
    shortened(&line, columns.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_shows_what_is_waited_for_and_for_how_long() {
        let after = Duration::from_millis(3_900);
        assert_eq!(frame(true, 1, "waiting for ada", after, 80), "⠙ waiting for ada (3 s)");
        assert_eq!(frame(false, 5, "waiting for ada", after, 80), "/ waiting for ada (3 s)");
        assert_eq!(frame(false, 0, "waiting for ada", after, 12), "| waitin...");
    }
}
