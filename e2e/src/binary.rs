//! One process of the binary: start it, wait until it is ready, pause it, stop it, kill it.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::faults::Variant;
use crate::{HarnessError, Result};

/// The timeout of a start; far longer than any observed start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval of checks whether a process has ended.
const POLL: Duration = Duration::from_millis(4);

/// How the binary is started; the same for every process.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The binary.
    pub viv: PathBuf,
    /// The data directory.
    pub data_dir: PathBuf,
    /// Base URL of the model.
    pub model_url: String,
    /// The log file, to which all processes append.
    pub log: PathBuf,
    /// Whether it must be the build that is shipped: one with `failpoints` dies at its first point.
    pub shipped: bool,
}

/// The faults injected into one process: environment variables.
pub type Faults = Vec<(&'static str, String)>;

/// The line that the binary prints when it is ready.
#[derive(Clone, Debug, Deserialize)]
pub struct ReadyLine {
    /// Whether the server is ready.
    pub ready: bool,
    /// The server's URL.
    pub url: String,
    /// The admin key; printed only at the first start.
    pub admin_key: Option<String>,
}

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    line: Option<oneshot::Receiver<String>>,
    started: Instant,
    log: PathBuf,
}

/// Finds the binary of that kind of world.
pub fn of(variant: Variant) -> Result<PathBuf> {
    match variant {
        Variant::Plain => find(),
        Variant::Points | Variant::Power => find_failpoints(),
    }
}

/// Whether the plain binary is another build than the one with `failpoints`. Where tests are run, one build serves both; where
/// what is shipped is tortured, each is its own.
pub fn are_two() -> Result<bool> {
    Ok(find()? != find_failpoints()?)
}

/// Finds the build with the feature `failpoints`: `VIV_FAILPOINTS_BIN`, else `viv-failpoints` next to the binary.
pub fn find_failpoints() -> Result<PathBuf> {
    let named = std::env::var_os("VIV_FAILPOINTS_BIN").map(PathBuf::from);
    let viv = match named {
        Some(named) => named,
        None => find()?.with_file_name("viv-failpoints"),
    };
    let shown = viv.display().to_string();
    existing(viv).map_err(|_| {
        HarnessError::new(format!(
            "wanted a build with `failpoints` at `{shown}`: build it with `make viv-failpoints`"
        ))
    })
}

/// Finds the binary: `VIV_BIN`, else `viv` in the target directory of this test.
pub fn find() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("VIV_BIN") {
        return existing(PathBuf::from(named));
    }
    let own = std::env::current_exe()
        .map_err(|error| HarnessError::new(format!("cannot find this executable: {error}")))?;
    // This executable is target/debug/deps/main-…
    existing(own.ancestors().nth(2).unwrap_or(Path::new(".")).join("viv"))
}

fn existing(viv: PathBuf) -> Result<PathBuf> {
    if viv.is_file() {
        return Ok(viv);
    }
    let shown = viv.display();
    Err(HarnessError::new(format!(
        "wanted the binary at `{shown}`: build it with `cargo build --bin viv`, or set `VIV_BIN`"
    )))
}

impl Launch {
    /// Starts the binary; it is not ready yet.
    pub fn start(&self, faults: &Faults) -> Result<ServerProcess> {
        let error_of = |what: &str, error: std::io::Error| HarnessError::new(format!("{what}: {error}"));
        let log = append(&self.log).map_err(|error| error_of("cannot open the log", error))?;
        let mut child = Command::new(&self.viv)
            .args(["up", "--listen", "127.0.0.1:0", "--model", "openai/stub", "--json"])
            .args(["--context-window", "32768", "--base-url", &self.model_url, "--data-dir"])
            .arg(&self.data_dir)
            .env("OPENAI_API_KEY", "test")
            .env("VIV_LOG", std::env::var("VIV_LOG").unwrap_or_else(|_| "warn".to_owned()))
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("VIV_URL")
            .env_remove("VIV_KEY")
            .envs(self.shipped.then_some(("VIV_FAILPOINT", "the shipped build has no points")))
            .envs(faults.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| error_of("cannot start the binary", error))?;
        let started = Instant::now();
        let (sender, line) = oneshot::channel();
        if let Some(out) = child.stdout.take() {
            thread::spawn(move || {
                let mut line = String::new();
                // If the process dies before it prints the line, the dropped sender notifies the receiver.
                if BufReader::new(out).read_line(&mut line).is_ok_and(|read| read > 0) {
                    let _ = sender.send(line);
                }
            });
        }
        Ok(ServerProcess { child, line: Some(line), started, log: self.log.clone() })
    }
}

impl Launch {
    /// The output of `viv verify` if it finds errors in the data directory.
    pub fn verify(&self) -> Result<Option<String>> {
        let mut verify = Command::new(&self.viv);
        verify.args(["verify", "--data-dir"]).arg(&self.data_dir).stdin(Stdio::null());
        let done =
            verify.output().map_err(|error| HarnessError::new(format!("cannot verify the data: {error}")))?;
        let output = [done.stdout, done.stderr].concat();
        Ok((!done.status.success()).then(|| String::from_utf8_lossy(&output).trim().to_owned()))
    }
}

fn append(log: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(log)
}

impl ServerProcess {
    /// Waits for the ready line; returns it with the time since the start. `None` if the process ended before.
    pub async fn ready(&mut self) -> Result<Option<(ReadyLine, Duration)>> {
        let line = self.line.take().ok_or_else(|| HarnessError::new("`ready` was called twice"))?;
        let line = match tokio::time::timeout(START_TIMEOUT, line).await {
            Ok(Ok(line)) => line,
            Ok(Err(_)) => return Ok(None),
            Err(_) => return Err(self.error_with_log("it was not ready in time")),
        };
        let took = self.started.elapsed();
        let ready: ReadyLine = serde_json::from_str(&line)
            .map_err(|error| self.error_with_log(&format!("not a ready line: `{}`: {error}", line.trim())))?;
        if !ready.ready {
            return Err(self.error_with_log(&format!("it is not ready: `{}`", line.trim())));
        }
        Ok(Some((ready, took)))
    }

    /// SIGSTOP: pauses the process.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT: continues the process.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM: asks the process to stop.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| HarnessError::new("the binary has no process number"))?;
        // The process was not reaped yet, so its number is not reused.
        kill_process(pid, signal)
            .map_err(|error| HarnessError::new(format!("cannot signal the binary: {error}")))
    }

    /// Waits for the end of the process; `None` after the timeout.
    pub async fn wait_for_end(&mut self, timeout: Duration) -> Result<Option<ExitStatus>> {
        let begun = Instant::now();
        let mut poll = tokio::time::interval(POLL);
        loop {
            poll.tick().await;
            let ended = self.child.try_wait();
            let ended =
                ended.map_err(|error| HarnessError::new(format!("cannot wait for the binary: {error}")))?;
            if ended.is_some() || begun.elapsed() > timeout {
                return Ok(ended);
            }
        }
    }

    /// SIGKILL; waits until the process has ended. Returns how it ended, which may have been by itself before.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        let gone = self.child.kill().and_then(|()| self.child.wait());
        gone.map_err(|error| HarnessError::new(format!("cannot kill the binary: {error}")))
    }

    /// An error with the end of the process's log.
    pub fn error_with_log(&self, what: &str) -> HarnessError {
        HarnessError::new(format!("{what}; the end of its log:\n{}", tail(&self.log)))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines of a log.
pub fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
