//! The process `viv up` as a person starts it: time to ready, resident memory at rest, its size.
//! The floor is this very program doing nothing but having threads.
#![allow(clippy::print_stdout, reason = "the floor is ready when it says so")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::Bench;
use crate::measure::{Samples, short};
use crate::report::{Goal, Metric};

/// Makes this program the floor instead.
pub(crate) const FLOOR_ARGUMENT: &str = "--be-the-floor";
/// Starts that are timed.
const STARTS: usize = 15;
/// Processes whose memory is looked at.
const LOOKS: usize = 5;
/// How long a process rests before anyone looks.
pub(crate) const REST: Duration = Duration::from_secs(2);

/// A process that is ready, ended when dropped.
pub(crate) struct Running {
    child: Child,
    /// When it was started.
    pub(crate) began: Instant,
    /// How long it took from then on to say that it is ready.
    pub(crate) ready_ms: f64,
    /// The line with which it said so; `null` where that is no JSON.
    pub(crate) said: Value,
}

impl Running {
    /// A line of the process's state, in megabytes.
    pub(crate) fn resident_mb(&self, name: &str) -> Result<f64> {
        let state = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .context("the process is gone")?;
        let line = state.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        Ok(kib.with_context(|| format!("no `{name}` is stated"))? * 1024.0 / 1e6)
    }

    /// Its memory that is no page of a file, in bytes: what reading files leaves in the page cache is
    /// not counted.
    pub(crate) fn own_bytes(&self) -> Result<f64> {
        Ok(self.resident_mb("RssAnon")? * 1e6)
    }

    /// Threads that it has.
    pub(crate) fn threads(&self) -> Result<usize> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        Ok(tasks.context("the process is gone")?.count())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already, or gone now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let viv = viv(bench)?;
    let size = std::fs::metadata(&viv).context("no size of the binary")?.len() as f64 / 1e6;
    let (mut first, mut again, mut bare) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..STARTS {
        let dir = bench.scratch()?;
        first.push(up(&viv, dir.path())?.ready_ms);
        again.push(up(&viv, dir.path())?.ready_ms);
        bare.push(floor()?.ready_ms);
    }
    let ready_note = format!(
        "first start, founding a world ({}); a later one, after a kill: {} ms ({}); floor: a program with threads \
         and nothing else",
        first.spread(),
        short(again.median()),
        again.spread(),
    );
    let goal = Goal::ValueBelow(150.0);
    let ready = Metric::new("core.ready_ms", (first.median(), "ms"), bare.median(), goal, ready_note);

    let (mut idle, mut own, mut after, mut least) =
        (Samples::default(), Samples::default(), Samples::default(), Samples::default());
    for _ in 0..LOOKS {
        let dir = bench.scratch()?;
        let running = up(&viv, dir.path())?;
        std::thread::sleep(REST);
        idle.push(running.resident_mb("VmRSS")?);
        own.push(running.resident_mb("RssAnon")?);
        say(&viv, dir.path())?;
        std::thread::sleep(REST);
        after.push(running.resident_mb("VmRSS")?);
        let bare = floor()?;
        least.push(bare.resident_mb("VmRSS")?);
    }
    let rss_note = format!(
        "resident memory of `viv up` at rest ({}), {} MB of it not pages of files; floor: a program with threads and \
         nothing else",
        idle.spread(),
        short(own.median()),
    );
    let goal = Goal::ValueBelow(30.0);
    let rss = Metric::new("core.idle_rss_mb", (idle.median(), "MB"), least.median(), goal, rss_note);
    let note = format!("the same after its first answer ({}), the token table loaded", after.spread());
    let goal = Goal::ValueBelow(45.0);
    let answered = Metric::new("core.answered_rss_mb", (after.median(), "MB"), least.median(), goal, note);
    let note = "the file `viv`; floor: none".to_owned();
    let binary = Metric::new("core.binary_mb", (size, "MB"), size, Goal::ValueBelow(30.0), note);
    Ok(vec![rss, answered, binary, ready])
}

/// The release binary: built by `make bench` beforehand.
pub(crate) fn viv(bench: &Bench) -> Result<PathBuf> {
    let viv = std::env::var_os("VIV_BIN").map_or_else(|| bench.target.join("release/viv"), PathBuf::from);
    if !viv.exists() {
        bail!("wanted the binary `{}`; build it with `cargo build --release --bin viv`", viv.display());
    }
    Ok(viv)
}

/// `viv up` on a directory of its own, ready.
pub(crate) fn up(viv: &Path, dir: &Path) -> Result<Running> {
    up_with(viv, &dir.join("data"), &["--model", "demo"])
}

/// `viv up` on that data directory, ready.
pub(crate) fn up_with(viv: &Path, data: &Path, arguments: &[&str]) -> Result<Running> {
    let mut command = Command::new(viv);
    command.args(["up", "--listen", "127.0.0.1:0", "--json"]).args(arguments);
    start(command.arg("--data-dir").arg(data), |running, _| running.said["ready"] == true)
}

fn floor() -> Result<Running> {
    let me = std::env::current_exe().context("this program cannot be found")?;
    start(Command::new(me).arg(FLOOR_ARGUMENT), |_, line| line.trim() == "ready")
}

/// Starts a process and waits for the line that says that it is ready.
fn start(command: &mut Command, is_ready: impl Fn(&Running, &str) -> bool) -> Result<Running> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().context("a process cannot be started")?;
    let output = child.stdout.take().context("a process without output")?;
    let mut running = Running { child, began, ready_ms: 0.0, said: Value::Null };
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("a process that says nothing")?;
    running.ready_ms = began.elapsed().as_secs_f64() * 1e3;
    running.said = serde_json::from_str(&line).unwrap_or_default();
    if !is_ready(&running, &line) {
        bail!("wanted a process that is ready, got `{}`", line.trim());
    }
    Ok(running)
}

/// One exchange, so that tokens are counted.
fn say(viv: &Path, dir: &Path) -> Result<()> {
    let mut command = Command::new(viv);
    command
        .args(["say", "--wait", "--json", "Hello, how are you?"])
        .env_remove("VIV_URL")
        .env_remove("VIV_KEY");
    let said =
        command.env("VIV_DATA_DIR", dir.join("data")).output().context("`viv say` cannot be started")?;
    if !said.status.success() {
        bail!("`viv say` failed: {}", String::from_utf8_lossy(&said.stderr).trim());
    }
    Ok(())
}

/// The floor: threads, a word, and waiting to be ended.
pub(crate) fn be_the_floor() -> Result<()> {
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no threads")?;
    threads.block_on(async { tokio::task::yield_now().await });
    println!("ready");
    // Ends with whoever started it.
    std::io::stdin().read_to_end(&mut Vec::new()).context("no input")?;
    Ok(())
}
