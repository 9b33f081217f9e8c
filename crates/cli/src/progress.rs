//! Shows that the command is waiting: one line on standard error, shown after one second and erased at the
//! end. Only on a terminal, and not with `--json` or `--quiet`. Must not know what the command waits for.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::output::{Screen, error_width, shortened};

/// Shorter waits show no line.
const DELAY: Duration = Duration::from_secs(1);
/// Time between two frames.
const FRAME: Duration = Duration::from_millis(120);

const UTF8: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ASCII: [&str; 4] = ["|", "/", "-", "\\"];

/// A line that shows what the command waits for, until this is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    state: Arc<Mutex<State>>,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    ended: bool,
    drawn: bool,
}

impl Progress {
    /// Starts to show `what`, such as `waiting for ada`.
    pub(crate) fn start(screen: &Screen, what: impl Into<String>) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if screen.json || screen.quiet || dumb || !std::io::stderr().is_terminal() {
            return Self { state, task: None };
        }
        let utf8 = screen.utf8;
        let what = screen.clean_line(&what.into());
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let began = Instant::now();
            tokio::time::sleep(DELAY).await;
            for tick in 0.. {
                draw(&shared, &frame(utf8, tick, &what, began.elapsed(), error_width()));
                tokio::time::sleep(FRAME).await;
            }
        });
        Self { state, task: Some(task) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        // A frame that is being drawn is finished before this gets the lock; none is drawn after it.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended = true;
        if state.drawn {
            show("\r\x1b[K");
        }
    }
}

fn draw(state: &Mutex<State>, line: &str) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if !state.ended {
        state.drawn = true;
        show(&format!("\r{line}\x1b[K"));
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

    #[test]
    fn nothing_is_drawn_after_the_end() {
        let state = Mutex::new(State { ended: true, drawn: false });
        draw(&state, "late");
        assert!(!state.lock().unwrap().drawn);
    }
}
