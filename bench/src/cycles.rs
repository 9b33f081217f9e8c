//! Durable think cycles per second with a model that costs nothing: a message is accepted, the
//! agent wakes, says something in its space, ends, sleeps; all of it on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agent::config::AgentConfig;
use anyhow::{Context, Result};
use models::scripted::Script;
use serde_json::json;
use tokio::task::JoinSet;

use crate::Bench;
use crate::instant;
use crate::machine::Disk;
use crate::measure::{Samples, process_cpu_us, short};
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer, Home};

/// Agents that live at once.
const AGENTS: usize = 32;
/// Frames of the log that a group of commands writes, about.
const FRAMES: usize = 64;
/// Before the first cycle that counts.
const WARM_UP: Duration = Duration::from_secs(1);
/// One slice of the measuring.
const SLICE: Duration = Duration::from_secs(1);
/// Slices.
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
    // What the disk alone would allow: as many fsyncs as there were transactions, and nothing else.
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
    Ok(vec![Metric::new("core.cycles_per_s", value, floor, Goal::ValueAtLeast(1_500.0), note)])
}

async fn run(dir: &std::path::Path) -> Result<(Samples, Samples, Samples)> {
    let house = Arc::new(BenchServer::build(&dir.join("data"), |clock| instant::models(clock, two_steps))?);
    let (over, lived) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut speakers = JoinSet::new();
    for n in 0..AGENTS {
        let home = house.home(&format!("agent{n}"), AgentConfig::default()).await?;
        speakers.spawn(speak(Arc::clone(&house), home, Arc::clone(&over), Arc::clone(&lived)));
    }
    tokio::time::sleep(WARM_UP).await;
    let (mut speed, mut groups, mut cpu) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..SLICES {
        let before = (lived.load(Ordering::Relaxed), house.stats().groups, process_cpu_us(), Instant::now());
        tokio::time::sleep(SLICE).await;
        let cycles = (lived.load(Ordering::Relaxed) - before.0) as f64;
        speed.push(cycles / before.3.elapsed().as_secs_f64());
        groups.push((house.stats().groups - before.1) as f64 / cycles);
        cpu.push((process_cpu_us() - before.2) / cycles);
    }
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = speakers.join_next().await {
        ended.context("a speaker broke")??;
    }
    Arc::into_inner(house).context("a speaker is left")?.stop().await?;
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

/// Says something each time the agent has come to rest.
async fn speak(
    house: Arc<BenchServer>,
    home: Home,
    over: Arc<AtomicBool>,
    lived: Arc<AtomicU64>,
) -> Result<()> {
    let mut ears = house.listen(home.agent);
    while !over.load(Ordering::Relaxed) {
        house.say(&home, "What do you make of this, and what would you do next?").await?;
        ears.ended().await?;
        lived.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
