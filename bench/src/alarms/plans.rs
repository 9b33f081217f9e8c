//! A million plans: what each weighs in the process `viv up`, beside a timer of Tokio.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use crate::Bench;
use crate::density::population::Population;
use crate::measure::{Samples, short};
use crate::process::{self, IDLE, my_bytes};
use crate::report::{Floor, Goal, Metric};
use crate::server;

/// Agents, and plans of each: as many as one may set.
const AGENTS: usize = 10_000;
const EACH: usize = agent::limits::PLANS_MAX;
const PLANS: f64 = (AGENTS * EACH) as f64;
/// Processes whose memory is measured.
const MEMORY_RUNS: usize = 3;
/// How long their idle CPU is measured, in idle times.
const IDLE_TIMES: u32 = 5;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let data = dir.path().join("data");
    let population = Population::open(&threads, &data)?;
    population.create_agents(0, AGENTS)?;
    population.close()?;
    let without = weigh(bench, &data)?;
    let on_disk = file_bytes(&data)?;
    let population = Population::open(&threads, &data)?;
    population.set_plans(AGENTS, EACH)?;
    population.close()?;
    let on_disk = (file_bytes(&data)? - on_disk) / PLANS;
    let with = weigh(bench, &data)?;
    let timer = timer_bytes(&threads)?;
    let note = format!(
        "anonymous memory of `viv up` per plan of {AGENTS} agents with {EACH} each: {} MB with them ({}), {} MB without; {} B each \
         on disk; ready after {} ms, {} ms of CPU in {} s of idleness; floor: a task of Tokio that sleeps",
        short(with.bytes.median() / 1e6),
        with.bytes.spread(),
        short(without.bytes.median() / 1e6),
        short(on_disk),
        short(with.ready_ms.median()),
        short(with.idle_cpu_ms.median()),
        (IDLE * IDLE_TIMES).as_secs(),
    );
    let each = (with.bytes.median() - without.bytes.median()) / PLANS;
    Ok(vec![Metric::new(
        "alarms.plan_bytes",
        (each, "B"),
        Floor::Residue(timer),
        Goal::RatioAtMost(0.15),
        note,
    )])
}

/// Processes on one data directory.
#[derive(Default)]
pub(super) struct Weight {
    pub(super) bytes: Samples,
    pub(super) ready_ms: Samples,
    pub(super) idle_cpu_ms: Samples,
}

/// Starts `viv up` on this data directory a few times, and weighs it when it is idle.
pub(super) fn weigh(bench: &Bench, data: &Path) -> Result<Weight> {
    let viv = process::viv(bench)?;
    let mut weight = Weight::default();
    for _ in 0..MEMORY_RUNS {
        let running = process::up_with(&viv, data, &["--model", "demo"])?;
        std::thread::sleep(IDLE);
        weight.bytes.push(running.own_bytes()?);
        weight.ready_ms.push(running.ready_ms);
        let before = running.cpu_us()?;
        std::thread::sleep(IDLE * IDLE_TIMES);
        weight.idle_cpu_ms.push((running.cpu_us()? - before) / 1e3);
    }
    Ok(weight)
}

fn file_bytes(data: &Path) -> Result<f64> {
    Ok(std::fs::metadata(data.join("vivarium.db")).context("there is no store")?.len() as f64)
}

/// Bytes of this process per sleeping task. Memory that it has freed before is used first, which makes it look lighter.
fn timer_bytes(threads: &Runtime) -> Result<f64> {
    const TIMERS: usize = 200_000;
    let before = my_bytes()?;
    let sleeps = || async { tokio::time::sleep(Duration::from_secs(3_600)).await };
    let tasks: Vec<_> = (0..TIMERS).map(|_| threads.spawn(sleeps())).collect();
    let bytes = (my_bytes()? - before) / TIMERS as f64;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(bytes)
}
