//! A server as a process: few variables, behind a wall if this machine has one. Must not know the protocol.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::limits;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::config::McpServerConfig;
use super::gate::{Gate, lock};
use super::host::McpHost;
use super::values::OpenedValue;
use crate::child::HeldChild;
use crate::secret::Mask;

/// How long an end of the output may come before the end of the process, or after it.
const EXIT_WAIT: Duration = Duration::from_millis(200);

/// What a process is started with.
pub(super) struct Program<'a> {
    pub(super) server: &'a str,
    pub(super) config: &'a McpServerConfig,
    pub(super) env: &'a [OpenedValue],
    pub(super) home: &'a Path,
    pub(super) host: &'a McpHost,
    pub(super) mask: Arc<Mask>,
    pub(super) gate: Arc<Gate>,
}

impl Program<'_> {
    async fn start(&self, words: &[String]) -> io::Result<HeldChild> {
        let words: Vec<_> = words.iter().map(Into::into).collect();
        let mut command = self.host.command(&words, self.home, &self.config.write).await?;
        command.envs(self.env.iter().map(|variable| (&variable.name, &variable.value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn()
    }
}

/// A process and all that it started. Dropping it ends them.
pub(super) struct ServerProcess {
    child: Arc<HeldChild>,
    /// The end of its standard error, without secrets.
    errors: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
    watching: JoinHandle<()>,
    /// Whether all of it was read.
    is_read: Arc<Notify>,
}

impl ServerProcess {
    /// Starts it. The error is for people, and names no secret.
    pub(super) async fn start(program: &Program<'_>) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let words = program.config.command.as_deref().unwrap_or_default();
        let name = words.first().ok_or("no program is named")?;
        let mut child = program.start(words).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                format!("there is no program `{name}`\nhint: install it, or give its whole path")
            }
            _ => format!("`{name}` cannot be started: {error}"),
        })?;
        let ends = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(stderr)) = ends else {
            return Err(format!("`{name}` ended at once"));
        };
        let child = Arc::new(child);
        let (errors, is_read) = (Arc::new(Mutex::default()), Arc::new(Notify::new()));
        let reading = {
            let (server, mask) = (program.server.to_owned(), Arc::clone(&program.mask));
            let (errors, is_read) = (Arc::clone(&errors), Arc::clone(&is_read));
            async move {
                read_errors(server, stderr, mask, errors).await;
                is_read.notify_one();
            }
        };
        let (watched, gate) = (Arc::clone(&child), Arc::clone(&program.gate));
        let watching = tokio::spawn(async move {
            let ended = watched.ended().await;
            // What it said last is still read; but somebody else may hold its output open.
            tokio::time::sleep(EXIT_WAIT).await;
            gate.end(ended.to_string());
        });
        Ok((Self { child, errors, reading: tokio::spawn(reading), watching, is_read }, output, input))
    }

    /// Ends it and all that it started.
    pub(super) fn end(&self) {
        self.child.end();
    }

    /// How it ended, after its output has ended.
    pub(super) async fn how_it_ended(&self) -> String {
        let ended = timeout(EXIT_WAIT, self.child.ended()).await;
        ended.map_or_else(|_| "it closed its output".to_owned(), |ended| ended.to_string())
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
        self.watching.abort();
        self.reading.abort();
    }
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
