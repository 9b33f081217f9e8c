//! Durable cycles per second with a model that costs nothing: a message is accepted, the agent is
//! activated, posts a message and sleeps again, with everything on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use models::scripted::Script;
use serde_json::json;
use tokio::task::JoinSet;

use crate::Bench;
use crate::instant;
use crate::machine::Disk;
use crate::measure::{Samples, process_cpu_us, short};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, Home};

/// Agents that work at the same time.
const AGENTS: usize = 32;
/// About the number of log frames that a group of commands writes.
const FRAMES: usize = 64;
/// The time before the first counted cycle.
const WARM_UP: Duration = Duration::from_secs(1);
/// The length of one slice of the measurement.
const SLICE: Duration = Duration::from_secs(1);
/// Number of slices.
const SLICES: usize = 8;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let mut disk = Disk::open(dir.path())?;
    let mut fsync = Samples::default();
    let mut look = |times: usize| -> Result<()> {
        for _ in 0..times {
            fsync.push(disk.fsync(FRAMES)?);
        }
        Ok(())
    };
    look(200)?;
    let (speed, groups, cpu) = threads.block_on(run(dir.path()))?;
    look(200)?;
    // The limit of the disk alone: one fsync for each transaction and nothing else.
    let floor = 1e6 / (groups.median() * fsync.median());
    let note = format!(
        "{AGENTS} agents, two steps (send_message, end), slices of 1 s ({}); {} transactions and {} us of CPU a \
         cycle; floor: the disk alone, that many fsyncs of {} us",
        speed.spread(),
        short(groups.median()),
        short(cpu.median()),
        short(fsync.median()),
    );
    let value = (speed.median(), "cycles/s");
    Ok(vec![Metric::new(
        "core.cycles_per_s",
        value,
        Floor::Ceiling(floor),
        Goal::ValueAtLeast(1_500.0),
        note,
    )])
}

async fn run(dir: &std::path::Path) -> Result<(Samples, Samples, Samples)> {
    let server = Arc::new(BenchServer::build(&dir.join("data"), |clock| instant::models(clock, two_steps))?);
    let (stop, cycles_done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut producers = JoinSet::new();
    for n in 0..AGENTS {
        let home = server.home(&format!("agent{n}"), server::config()).await?;
        producers.spawn(post_repeatedly(
            Arc::clone(&server),
            home,
            Arc::clone(&stop),
            Arc::clone(&cycles_done),
        ));
    }
    tokio::time::sleep(WARM_UP).await;
    let (mut speed, mut groups, mut cpu) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..SLICES {
        let before =
            (cycles_done.load(Ordering::Relaxed), server.stats().groups, process_cpu_us(), Instant::now());
        tokio::time::sleep(SLICE).await;
        let cycles = (cycles_done.load(Ordering::Relaxed) - before.0) as f64;
        speed.push(cycles / before.3.elapsed().as_secs_f64());
        groups.push((server.stats().groups - before.1) as f64 / cycles);
        cpu.push((process_cpu_us() - before.2) / cycles);
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = producers.join_next().await {
        ended.context("a producer failed")??;
    }
    Arc::into_inner(server).context("a producer is still running")?.stop().await?;
    Ok((speed, groups, cpu))
}

fn two_steps(step: usize) -> Script {
    match step {
        0 => {
            Script::new().call("send_message", &json!({"text": "I have read it, and I will think about it."}))
        }
        _ => Script::new().text("That is all for now."),
    }
}

/// Posts a message each time the agent's cycle has ended.
async fn post_repeatedly(
    server: Arc<BenchServer>,
    home: Home,
    stop: Arc<AtomicBool>,
    cycles_done: Arc<AtomicU64>,
) -> Result<()> {
    let mut listener = server.listen(home.agent);
    while !stop.load(Ordering::Relaxed) {
        server.post(&home, "What do you make of this, and what would you do next?").await?;
        listener.ended().await?;
        cycles_done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
