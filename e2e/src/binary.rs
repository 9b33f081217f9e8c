//! One life of the binary: started, ready, halted, told to stop, killed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::{Result, Trouble};

/// How long a start may take before the harness gives up: far above any start that was seen.
const START: Duration = Duration::from_secs(30);
/// How often a process is asked whether it is gone.
const ASK: Duration = Duration::from_millis(4);

/// How the binary is started, the same for every life.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The binary.
    pub viv: PathBuf,
    /// Where it keeps everything.
    pub data_dir: PathBuf,
    /// Base URL of the model.
    pub model_url: String,
    /// Where its log goes, all lives behind each other.
    pub log: PathBuf,
    /// The server that counts effects, for a build with `failpoints`.
    pub counter: Option<String>,
}

/// What befalls one life from within: variables of its environment.
pub type Faults = Vec<(&'static str, String)>;

/// What the binary prints once it serves.
#[derive(Clone, Debug, Deserialize)]
pub struct ReadyLine {
    /// Whether it does.
    pub ready: bool,
    /// Its address.
    pub url: String,
    /// The administrator's key; only ever printed at the first start.
    pub admin_key: Option<String>,
}

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct ServerLife {
    child: Child,
    line: Option<oneshot::Receiver<String>>,
    started: Instant,
    log: PathBuf,
}

/// Finds the binary with `failpoints`: `VIV_FAILPOINTS_BIN`, else beside the other under the name
/// `viv-failpoints`.
pub fn find_failpoints() -> Result<PathBuf> {
    let named = std::env::var_os("VIV_FAILPOINTS_BIN").map(PathBuf::from);
    let viv = match named {
        Some(named) => named,
        None => find()?.with_file_name("viv-failpoints"),
    };
    let shown = viv.display().to_string();
    there(viv).map_err(|_| {
        Trouble::new(format!(
            "wanted a build with `failpoints` at `{shown}`: make it with `make viv-failpoints`"
        ))
    })
}

/// Finds the binary: `VIV_BIN`, else beside this test's own.
pub fn find() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("VIV_BIN") {
        return there(PathBuf::from(named));
    }
    let own =
        std::env::current_exe().map_err(|error| Trouble::new(format!("cannot find myself: {error}")))?;
    // target/debug/deps/main-… stands two below the binaries.
    there(own.ancestors().nth(2).unwrap_or(Path::new(".")).join("viv"))
}

fn there(viv: PathBuf) -> Result<PathBuf> {
    if viv.is_file() {
        return Ok(viv);
    }
    let shown = viv.display();
    Err(Trouble::new(format!(
        "wanted the binary at `{shown}`: build it with `cargo build --bin viv`, or name it in `VIV_BIN`"
    )))
}

impl Launch {
    /// Starts it; it is not ready yet.
    pub fn start(&self, faults: &Faults) -> Result<ServerLife> {
        let trouble = |what: &str, error: std::io::Error| Trouble::new(format!("{what}: {error}"));
        let log = append(&self.log).map_err(|error| trouble("cannot open the log", error))?;
        let mut child = Command::new(&self.viv)
            .args(["up", "--listen", "127.0.0.1:0", "--model", "openai/stub", "--json"])
            .args(["--context-window", "32768", "--base-url", &self.model_url, "--data-dir"])
            .arg(&self.data_dir)
            .env("OPENAI_API_KEY", "test")
            .env("VIV_LOG", std::env::var("VIV_LOG").unwrap_or_else(|_| "warn".to_owned()))
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("VIV_URL")
            .env_remove("VIV_KEY")
            .envs(self.counter.iter().map(|url| ("VIV_COUNTER", url)))
            .envs(faults.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| trouble("cannot start the binary", error))?;
        let started = Instant::now();
        let (sender, line) = oneshot::channel();
        if let Some(out) = child.stdout.take() {
            thread::spawn(move || {
                let mut first = String::new();
                // A process that dies before its line closes the pipe: the receiver is told by the drop.
                if BufReader::new(out).read_line(&mut first).is_ok_and(|read| read > 0) {
                    let _ = sender.send(first);
                }
            });
        }
        Ok(ServerLife { child, line: Some(line), started, log: self.log.clone() })
    }
}

impl Launch {
    /// What `viv verify` finds wrong in the data directory, in its words.
    pub fn verify(&self) -> Result<Option<String>> {
        let mut verify = Command::new(&self.viv);
        verify.args(["verify", "--data-dir"]).arg(&self.data_dir).stdin(Stdio::null());
        let done =
            verify.output().map_err(|error| Trouble::new(format!("cannot verify the data: {error}")))?;
        let said = [done.stdout, done.stderr].concat();
        Ok((!done.status.success()).then(|| String::from_utf8_lossy(&said).trim().to_owned()))
    }
}

fn append(log: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(log)
}

impl ServerLife {
    /// Waits for the line that says it serves; how long it took since the start. `None` where it
    /// ended before.
    pub async fn ready(&mut self) -> Result<Option<(ReadyLine, Duration)>> {
        let line = self.line.take().ok_or_else(|| Trouble::new("its readiness was asked for twice"))?;
        let line = match tokio::time::timeout(START, line).await {
            Ok(Ok(line)) => line,
            Ok(Err(_)) => return Ok(None),
            Err(_) => return Err(self.trouble("it was not ready in time")),
        };
        let took = self.started.elapsed();
        let ready: ReadyLine = serde_json::from_str(&line)
            .map_err(|error| self.trouble(&format!("its ready line `{}` is none: {error}", line.trim())))?;
        if !ready.ready {
            return Err(self.trouble(&format!("it is not ready: `{}`", line.trim())));
        }
        Ok(Some((ready, took)))
    }

    /// SIGSTOP: it stands still as it is.
    pub fn halt(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT: it goes on.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM: it is to stop in peace.
    pub fn ask_to_stop(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Trouble::new("the binary has no process number"))?;
        // It is not waited for before it is gone, so the number is still its own.
        kill_process(pid, signal).map_err(|error| Trouble::new(format!("cannot signal the binary: {error}")))
    }

    /// How it ended, once it has; waits so long for that.
    pub async fn gone(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let begun = Instant::now();
        let mut ask = tokio::time::interval(ASK);
        loop {
            ask.tick().await;
            let ended = self.child.try_wait();
            let ended = ended.map_err(|error| Trouble::new(format!("cannot ask for the binary: {error}")))?;
            if ended.is_some() || begun.elapsed() > patience {
                return Ok(ended);
            }
        }
    }

    /// SIGKILL, and waits until the process is gone. How it ended: maybe by itself before.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        let gone = self.child.kill().and_then(|()| self.child.wait());
        gone.map_err(|error| Trouble::new(format!("cannot kill the binary: {error}")))
    }

    /// The same with the end of its log.
    pub fn trouble(&self, what: &str) -> Trouble {
        Trouble::new(format!("{what}; its log ends so:\n{}", tail(&self.log)))
    }
}

impl Drop for ServerLife {
    fn drop(&mut self) {
        // Fails only where it is gone already.
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
