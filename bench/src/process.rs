//! The process `viv up`: time until it is ready, resident memory when idle, size of the binary. The floor
//! is this program with threads that do nothing.
#![allow(clippy::print_stdout, reason = "the floor prints when it is ready")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::Bench;
use crate::measure::{Samples, short};
use crate::report::{Floor, Goal, Metric};

/// The argument that makes this program the floor.
pub(crate) const FLOOR_ARGUMENT: &str = "--floor";
/// Starts that are timed.
const STARTS: usize = 15;
/// Processes whose memory is measured.
const MEMORY_RUNS: usize = 5;
/// Goals: milliseconds until ready, megabytes at rest and after the first answer, megabytes of the file.
const READY_MS: f64 = 45.0;
const IDLE_MB: f64 = 30.0;
const ANSWERED_MB: f64 = 45.0;
const BINARY_MB: f64 = 32.0;
/// How long a process is idle before its memory is measured.
pub(crate) const IDLE: Duration = Duration::from_secs(2);

/// A process that is ready. It is killed when dropped.
pub(crate) struct Running {
    child: Child,
    /// When it was started.
    pub(crate) began: Instant,
    /// Milliseconds from then until it reported that it is ready.
    pub(crate) ready_ms: f64,
    /// The line that it reported this with; `null` if it is not JSON.
    pub(crate) ready_line: Value,
}

impl Running {
    /// A value of `/proc/PID/status`, in megabytes.
    pub(crate) fn resident_mb(&self, name: &str) -> Result<f64> {
        memory_mb(&self.child.id().to_string(), name)
    }

    /// Its anonymous memory, in bytes. Pages of files, which belong to the page cache, are not counted.
    pub(crate) fn own_bytes(&self) -> Result<f64> {
        Ok(self.resident_mb("RssAnon")? * 1e6)
    }

    /// The CPU that it has used, in microseconds; counted by the kernel in hundredths of a second.
    pub(crate) fn cpu_us(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))
            .context("the process has ended")?;
        // The name in brackets may have spaces.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        let ticks: f64 = ticks.sum::<std::result::Result<_, _>>().context("`/proc/PID/stat` has no times")?;
        Ok(ticks * 1e4)
    }

    /// The number of its threads.
    pub(crate) fn threads(&self) -> Result<usize> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        Ok(tasks.context("the process has ended")?.count())
    }
}

/// Anonymous memory of this process, in bytes.
pub(crate) fn my_bytes() -> Result<f64> {
    Ok(memory_mb("self", "RssAnon")? * 1e6)
}

/// A value of `/proc/PROCESS/status`, in megabytes.
fn memory_mb(process: &str, name: &str) -> Result<f64> {
    let state =
        std::fs::read_to_string(format!("/proc/{process}/status")).context("the process has ended")?;
    let line = state.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    Ok(kib.with_context(|| format!("`/proc/{process}/status` has no `{name}`"))? * 1024.0 / 1e6)
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let viv = viv(bench)?;
    let size = std::fs::metadata(&viv).context("the size of the binary cannot be read")?.len() as f64 / 1e6;
    let (mut first, mut again, mut bare) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..STARTS {
        let dir = bench.scratch()?;
        first.push(up(&viv, dir.path())?.ready_ms);
        again.push(up(&viv, dir.path())?.ready_ms);
        bare.push(floor()?.ready_ms);
    }
    let ready_note = format!(
        "first start, creating the data directory ({}); a later one, after a kill: {} ms ({}); floor: a program with threads \
         and nothing else",
        first.spread(),
        short(again.median()),
        again.spread(),
    );
    let goal = Goal::ValueBelow(READY_MS);
    let ready =
        Metric::new("core.ready_ms", (first.median(), "ms"), Floor::Bound(bare.median()), goal, ready_note);

    let (mut idle, mut own, mut after, mut least) =
        (Samples::default(), Samples::default(), Samples::default(), Samples::default());
    for _ in 0..MEMORY_RUNS {
        let dir = bench.scratch()?;
        let running = up(&viv, dir.path())?;
        std::thread::sleep(IDLE);
        idle.push(running.resident_mb("VmRSS")?);
        own.push(running.resident_mb("RssAnon")?);
        exchange_message(&viv, dir.path())?;
        std::thread::sleep(IDLE);
        after.push(running.resident_mb("VmRSS")?);
        let bare = floor()?;
        least.push(bare.resident_mb("VmRSS")?);
    }
    let rss_note = format!(
        "resident memory of idle `viv up` ({}), {} MB of it anonymous; floor: a program with threads and \
         nothing else",
        idle.spread(),
        short(own.median()),
    );
    let goal = Goal::ValueBelow(IDLE_MB);
    let rss =
        Metric::new("core.idle_rss_mb", (idle.median(), "MB"), Floor::Bound(least.median()), goal, rss_note);
    let note = format!("the same after its first answer ({}), the token table loaded", after.spread());
    let goal = Goal::ValueBelow(ANSWERED_MB);
    let answered =
        Metric::new("core.answered_rss_mb", (after.median(), "MB"), Floor::Bound(least.median()), goal, note);
    let note = "the file `viv`; floor: none".to_owned();
    let binary =
        Metric::new("core.binary_mb", (size, "MB"), Floor::Named(size), Goal::ValueBelow(BINARY_MB), note);
    Ok(vec![rss, answered, binary, ready])
}

/// The release binary, which `make bench` builds first.
pub(crate) fn viv(bench: &Bench) -> Result<PathBuf> {
    let viv = std::env::var_os("VIV_BIN").map_or_else(|| bench.target.join("release/viv"), PathBuf::from);
    if !viv.exists() {
        bail!("wanted the binary `{}`; build it with `cargo build --release --bin viv`", viv.display());
    }
    Ok(viv)
}

/// Starts `viv up` on a new data directory and waits until it is ready.
pub(crate) fn up(viv: &Path, dir: &Path) -> Result<Running> {
    up_with(viv, &dir.join("data"), &["--model", "demo"])
}

/// Starts `viv up` on this data directory and waits until it is ready.
pub(crate) fn up_with(viv: &Path, data: &Path, arguments: &[&str]) -> Result<Running> {
    let mut command = Command::new(viv);
    command.args(["up", "--listen", "127.0.0.1:0", "--json"]).args(arguments);
    start(command.arg("--data-dir").arg(data), |running, _| running.ready_line["ready"] == true)
}

fn floor() -> Result<Running> {
    let me = std::env::current_exe().context("this program cannot be found")?;
    start(Command::new(me).arg(FLOOR_ARGUMENT), |_, line| line.trim() == "ready")
}

/// Starts a process and waits for the line that reports that it is ready.
fn start(command: &mut Command, is_ready: impl Fn(&Running, &str) -> bool) -> Result<Running> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().context("a process cannot be started")?;
    let output = child.stdout.take().context("the process has no output")?;
    let mut running = Running { child, began, ready_ms: 0.0, ready_line: Value::Null };
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("the process printed nothing")?;
    running.ready_ms = began.elapsed().as_secs_f64() * 1e3;
    running.ready_line = serde_json::from_str(&line).unwrap_or_default();
    if !is_ready(&running, &line) {
        bail!("wanted a ready process, got `{}`", line.trim());
    }
    Ok(running)
}

/// Exchanges one message, so that the token table is loaded.
fn exchange_message(viv: &Path, dir: &Path) -> Result<()> {
    let mut command = Command::new(viv);
    command
        .args(["say", "--wait", "--json", "Hello, how are you?"])
        .env_remove("VIV_URL")
        .env_remove("VIV_KEY");
    let output =
        command.env("VIV_DATA_DIR", dir.join("data")).output().context("`viv say` cannot be started")?;
    if !output.status.success() {
        bail!("`viv say` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Runs the floor: starts threads, prints `ready`, and waits until its input is closed.
pub(crate) fn run_floor() -> Result<()> {
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no threads")?;
    threads.block_on(async { tokio::task::yield_now().await });
    println!("ready");
    // The input is closed when the parent process ends.
    std::io::stdin().read_to_end(&mut Vec::new()).context("no input")?;
    Ok(())
}
