//! A server as a process: a group of its own, few variables, behind a wall if this machine has one. Must not know the
//! protocol.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::limits;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::gate::lock;
use super::values::OpenedValue;
use crate::secret::Mask;

/// How long an end of the output may come before the end of the process.
const EXIT_WAIT: Duration = Duration::from_millis(200);
const PROBE_WAIT: Duration = Duration::from_secs(5);
/// If this process has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Bubblewrap, and what it hides from servers.
pub(super) struct Wall {
    program: PathBuf,
    hidden: Vec<PathBuf>,
}

impl Wall {
    /// The wall, if bubblewrap is there and may do its work on this machine.
    pub(super) async fn find(hidden: &[PathBuf]) -> Option<Self> {
        let program = std::env::split_paths(&search_path())
            .map(|path| path.join("bwrap"))
            .find(|path| path.is_file())?;
        let hidden = hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let wall = Self { program, hidden };
        let mut probe = wall.command(Path::new("/"));
        probe.arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let ended = timeout(PROBE_WAIT, async { probe.status().await }).await;
        matches!(ended, Ok(Ok(status)) if status.success()).then_some(wall)
    }

    /// A command to which the program and its arguments are added. It sees the files of this machine without those that
    /// are hidden, and no process but its own, whose memory or variables it could read.
    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc"]);
        for path in &self.hidden {
            if path.is_dir() {
                command.arg("--tmpfs").arg(path);
            } else {
                command.args(["--ro-bind", "/dev/null"]).arg(path);
            }
        }
        if home != Path::new("/") {
            // It may be inside what is hidden.
            command.arg("--bind").arg(home).arg(home);
        }
        command.arg("--chdir").arg(home).arg("--");
        command
    }
}

/// What a process is started with.
pub(super) struct Program<'a> {
    pub(super) server: &'a str,
    pub(super) command: &'a [String],
    pub(super) env: &'a [OpenedValue],
    pub(super) home: &'a Path,
    pub(super) wall: Option<&'a Wall>,
    pub(super) mask: Arc<Mask>,
}

/// A process and all that it started. Dropping it ends them.
pub(super) struct ServerProcess {
    /// Never waited for, so that its number stays its own until the group is ended.
    _child: Child,
    group: Pid,
    is_ended: AtomicBool,
    /// The end of its standard error, without secrets.
    errors: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
    /// Whether all of it was read.
    is_read: Arc<Notify>,
}

impl ServerProcess {
    /// Starts it. The error is for people, and names no secret.
    pub(super) fn start(program: &Program<'_>) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let (name, arguments) = program.command.split_first().ok_or("no program is named")?;
        let mut command = match program.wall {
            Some(wall) => {
                let mut command = wall.command(program.home);
                command.arg(name);
                command
            }
            None => Command::new(name),
        };
        command.args(arguments).env_clear().current_dir(program.home);
        command.env("PATH", search_path()).env("HOME", program.home);
        command.env("LANG", std::env::var_os("LANG").unwrap_or_else(|| "C.UTF-8".into()));
        command.envs(program.env.iter().map(|variable| (&variable.name, &variable.value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                format!("there is no program `{name}`\nhint: install it, or give its whole path")
            }
            _ => format!("`{name}` cannot be started: {error}"),
        })?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let ends = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(group), (Some(input), Some(output), Some(stderr))) = (group, ends) else {
            return Err(format!("`{name}` ended at once"));
        };
        let (errors, is_read) = (Arc::new(Mutex::default()), Arc::new(Notify::new()));
        let reading = {
            let (server, mask) = (program.server.to_owned(), Arc::clone(&program.mask));
            let (errors, is_read) = (Arc::clone(&errors), Arc::clone(&is_read));
            async move {
                read_errors(server, stderr, mask, errors).await;
                is_read.notify_one();
            }
        };
        let reading = tokio::spawn(reading);
        let is_ended = AtomicBool::new(false);
        Ok((Self { _child: child, group, is_ended, errors, reading, is_read }, output, input))
    }

    /// Ends it and all that it started.
    pub(super) fn end(&self) {
        if !self.is_ended.swap(true, Ordering::AcqRel) {
            // It fails only if nobody is left.
            let _ = kill_process_group(self.group, Signal::KILL);
        }
    }

    /// How it ended, after its output has ended.
    pub(super) async fn how_it_ended(&self) -> String {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let step = EXIT_WAIT / 20;
        for _ in 0..20 {
            if let Ok(Some(status)) = waitid(WaitId::Pid(self.group), options) {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => format!("it ended with status {code}"),
                    (None, Some(signal)) => format!("it was ended by signal {signal}"),
                    (None, None) => "it ended".to_owned(),
                };
            }
            sleep(step).await;
        }
        "it closed its output".to_owned()
    }

    /// The end of its standard error, without secrets, after its output has ended.
    pub(super) async fn last_words(&self) -> String {
        self.end();
        if timeout(EXIT_WAIT, self.is_read.notified()).await.is_ok() {
            // For others that ask.
            self.is_read.notify_one();
        }
        lock(&self.errors).clone()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.end();
        self.reading.abort();
    }
}

fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())
}

/// Logs the lines of standard error, each bounded, up to a number of bytes; the rest is only read, so that the process is
/// not held up.
async fn read_errors(
    server: String,
    stderr: impl AsyncRead + Unpin,
    mask: Arc<Mask>,
    errors: Arc<Mutex<String>>,
) {
    let mut reader = BufReader::new(stderr);
    let (mut line, mut is_cut, mut logged) = (Vec::new(), false, 0);
    loop {
        let Ok(available) = reader.fill_buf().await else { return };
        let is_over = available.is_empty();
        let end = available.iter().position(|byte| *byte == b'\n');
        let (text, taken) = match end {
            Some(end) => (&available[..end], end + 1),
            None => (available, available.len()),
        };
        let room = limits::MCP_STDERR_LINE_BYTES - line.len();
        is_cut |= text.len() > room;
        line.extend_from_slice(&text[..text.len().min(room)]);
        reader.consume(taken);
        if (end.is_some() || is_over) && !line.is_empty() && logged < limits::MCP_STDERR_MAX_BYTES {
            logged += line.len();
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            let text = if is_cut { mask.hide_cut(text) } else { mask.hide(text) };
            tracing::debug!(server, ?text, "standard error of an MCP server");
            keep_end(&mut lock(&errors), &text);
        }
        if is_over {
            return;
        }
        if end.is_some() {
            line.clear();
            is_cut = false;
        }
    }
}

fn keep_end(kept: &mut String, line: &str) {
    kept.push_str(line);
    kept.push('\n');
    let over = kept.len().saturating_sub(limits::FAILURE_SHOWN_BYTES);
    let cut = (over..kept.len()).find(|at| kept.is_char_boundary(*at)).unwrap_or(kept.len());
    kept.drain(..cut);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::SecretValue;

    #[tokio::test]
    async fn of_standard_error_the_end_is_kept_without_secrets() {
        let errors = Arc::new(Mutex::new(String::new()));
        let mask = Arc::new(Mask::of([("key", &SecretValue::new("canary-123"))].into_iter()));
        let sent = format!(
            "first\nusing canary-123\n{}canary-123\nlast",
            "x".repeat(limits::MCP_STDERR_LINE_BYTES - 6)
        );
        read_errors("x".into(), sent.as_bytes(), Arc::clone(&mask), Arc::clone(&errors)).await;
        let kept = lock(&errors).clone();
        assert!(kept.len() <= limits::FAILURE_SHOWN_BYTES && kept.ends_with("x•••\nlast\n"), "{kept}");

        lock(&errors).clear();
        read_errors("x".into(), b"using canary-123".as_slice(), mask, Arc::clone(&errors)).await;
        assert_eq!(*lock(&errors), "using [secret key]\n");
    }
}
