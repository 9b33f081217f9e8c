//! Shows that the command is waiting: one line on standard error, shown after one second and erased at the
//! end. Only on a terminal, and not with `--json` or `--quiet`. Must not know what the command waits for.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::output::{Screen, shortened, width_of};

/// Time until the line is shown, and between its updates.
const UPDATE: Duration = Duration::from_secs(1);

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
        let what = screen.clean_line(&what.into());
        let (sender, ended) = mpsc::channel::<()>();
        let draw = move || {
            let began = Instant::now();
            let mut shown = false;
            while ended.recv_timeout(UPDATE) == Err(RecvTimeoutError::Timeout) {
                let line = format!("{what} ({} s)", began.elapsed().as_secs());
                show(&format!("\r{}\x1b[K", shortened(&line, width_of(std::io::stderr()).saturating_sub(1))));
                shown = true;
            }
            if shown {
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
