//! The workers of a world: programs of both libraries that serve the counted tools. They outlive the kills of the server,
//! and are killed and paused themselves.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api::KeyJson;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::binary;
use crate::client::HttpClient;
use crate::faults::WorkerEnd;
use crate::{HarnessError, Result};

/// The longest time from SIGTERM to the end of a worker whose server runs.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval of checks whether a process has ended.
const POLL: Duration = Duration::from_millis(20);
/// How long a worker that continues may run what it had before it is asked to stop.
const AFTER_PAUSE: Duration = Duration::from_millis(300);
const PYTHON: &str = "python3";

/// The workers of a world. Dropping them kills them.
#[derive(Debug)]
pub struct WorkerPool {
    programs: Vec<WorkerProgram>,
    /// The environment variables of all.
    settings: Vec<(&'static str, String)>,
    log: PathBuf,
    running: Vec<WorkerProcess>,
    paused: Vec<WorkerProcess>,
}

/// How a worker is started.
#[derive(Clone, Debug)]
struct WorkerProgram {
    program: PathBuf,
    arguments: Vec<PathBuf>,
}

/// A running worker. Dropping it kills it.
#[derive(Debug)]
struct WorkerProcess {
    program: WorkerProgram,
    child: Child,
}

impl WorkerPool {
    /// Finds the programs; none runs yet. They append to the log.
    pub fn new(server: &str, counter: &str, log: &Path) -> Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let library = here.join("../sdk/python").display().to_string();
        let script = here.join("src/counting_worker.py");
        let programs = vec![
            WorkerProgram { program: find()?, arguments: Vec::new() },
            WorkerProgram { program: PYTHON.into(), arguments: vec![script] },
        ];
        let settings = vec![
            ("VIV_URL", server.to_owned()),
            ("VIV_COUNTER", counter.to_owned()),
            ("PYTHONPATH", library),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ];
        Ok(Self { programs, settings, log: log.to_owned(), running: Vec::new(), paused: Vec::new() })
    }

    /// Starts one of each language, with a key that the server makes for them.
    pub async fn start(&mut self, client: &HttpClient) -> Result<()> {
        let key = client.create("/v1/keys", &json!({"scope": "worker:count_*", "label": "workers"})).await?;
        let key: KeyJson = serde_json::from_value(key)
            .map_err(|error| HarnessError::new(format!("the answer is no key: {error}")))?;
        self.settings.push(("VIV_KEY", key.secret.unwrap_or_default()));
        for program in self.programs.clone() {
            self.launch(program)?;
        }
        Ok(())
    }

    fn launch(&mut self, program: WorkerProgram) -> Result<()> {
        let cannot = |error: std::io::Error| HarnessError::new(format!("cannot start a worker: {error}"));
        let log = OpenOptions::new().create(true).append(true).open(&self.log).map_err(cannot)?;
        let mut command = Command::new(&program.program);
        command.args(&program.arguments).envs(self.settings.iter().map(|(name, value)| (name, value)));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.running.push(WorkerProcess { program, child: child.map_err(cannot)? });
        Ok(())
    }

    /// Kills or pauses one, another language each time, and starts a new one in its place.
    pub fn end_one(&mut self, end: WorkerEnd) -> Result<()> {
        if self.running.is_empty() {
            return Ok(());
        }
        self.all_run()?;
        let worker = self.running.remove(0);
        let program = worker.program.clone();
        match end {
            WorkerEnd::Kill => drop(worker),
            WorkerEnd::Pause => {
                worker.signal(Signal::STOP)?;
                self.paused.push(worker);
            }
        }
        self.launch(program)
    }

    /// No worker may end by itself, whatever becomes of the server.
    fn all_run(&mut self) -> Result<()> {
        for worker in &mut self.running {
            if let Some(status) = worker.child.try_wait().ok().flatten() {
                let (program, log) = (worker.program.program.display(), binary::tail(&self.log));
                return Err(HarnessError::new(format!(
                    "the worker `{program}` ended by itself with {status}; the end of the log:\n{log}"
                )));
            }
        }
        Ok(())
    }

    /// Lets the paused ones continue, whose calls others have by now, and waits until they have ended.
    pub async fn end_paused(&mut self) -> Result<()> {
        let paused = std::mem::take(&mut self.paused);
        paused.iter().try_for_each(|worker| worker.signal(Signal::CONT))?;
        if !paused.is_empty() {
            tokio::time::sleep(AFTER_PAUSE).await;
        }
        stop(paused, &self.log).await
    }

    /// Stops all: they must end by themselves in time.
    pub async fn end_all(&mut self) -> Result<()> {
        self.all_run()?;
        stop(std::mem::take(&mut self.running), &self.log).await
    }
}

/// SIGTERM; waits until they have ended successfully.
async fn stop(mut workers: Vec<WorkerProcess>, log: &Path) -> Result<()> {
    workers.iter().try_for_each(|worker| worker.signal(Signal::TERM))?;
    let begun = Instant::now();
    let mut poll = tokio::time::interval(POLL);
    for WorkerProcess { program, child } in &mut workers {
        let name = program.program.display();
        loop {
            poll.tick().await;
            let wrong = match child.try_wait() {
                Ok(Some(status)) if status.success() => break,
                Ok(Some(status)) => format!("ended with {status}"),
                Ok(None) if begun.elapsed() < STOP_TIMEOUT => continue,
                Ok(None) => format!("runs {} s after SIGTERM", STOP_TIMEOUT.as_secs()),
                Err(error) => format!("cannot be waited for: {error}"),
            };
            let log = binary::tail(log);
            return Err(HarnessError::new(format!(
                "the worker `{name}` {wrong}; the end of the log:\n{log}"
            )));
        }
    }
    Ok(())
}

impl WorkerProcess {
    fn signal(&self, signal: Signal) -> Result<()> {
        // The process was not reaped yet, so its number is not reused.
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|error| HarnessError::new(format!("cannot signal a worker: {error}")))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The worker in Rust: `counting-worker`, beside this executable or, if that is a test, in the directory above.
fn find() -> Result<PathBuf> {
    let own = std::env::current_exe()
        .map_err(|error| HarnessError::new(format!("cannot find this executable: {error}")))?;
    let mut places = own.ancestors().skip(1).take(2).map(|dir| dir.join("counting-worker"));
    let missing = || {
        HarnessError::new("wanted the worker `counting-worker`: build it with `cargo build -p e2e --bins`")
    };
    places.find(|place| place.is_file()).ok_or_else(missing)
}
