//! A hundred thousand agents that wait for a person: what they weigh in the process `viv up`, beside as many that sleep.

use std::time::{Duration, Instant};

use agent::config::AgentConfig;
use anyhow::{Result, ensure};
use models::scripted::Script;
use serde_json::json;

use super::plans::weigh;
use crate::density::population::Population;
use crate::measure::short;
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer};
use crate::{Bench, instant};

/// The agents.
const AGENTS: usize = 100_000;
/// Longest wait until all have asked.
const PATIENCE: Duration = Duration::from_secs(900);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let data = dir.path().join("data");
    let population = Population::open(&threads, &data)?;
    let tools = Some(vec!["ask_person".to_owned()]);
    let config = AgentConfig { tools, ..AgentConfig::default() };
    population.create_agents_with(0, AGENTS, &config)?;
    population.close()?;
    let asleep = weigh(bench, &data)?;
    let population = Population::open(&threads, &data)?;
    population.send_events(0, AGENTS)?;
    population.close()?;
    let _in = threads.enter();
    let asks = |_| Script::new().call("ask_person", &json!({"kind": "text", "question": "Which color?"}));
    let server = BenchServer::build(&data, |clock| instant::models(clock, asks))?;
    let began = Instant::now();
    threads.block_on(async {
        while server.ports().reader.totals().await?.waiting > 0 {
            ensure!(began.elapsed() < PATIENCE, "not all agents have asked within {} s", PATIENCE.as_secs());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        anyhow::Ok(())
    })?;
    let took = began.elapsed();
    ensure!(threads.block_on(server.open_cycles())? == AGENTS as u64, "wanted every cycle open");
    threads.block_on(server.stop())?;
    let paused = weigh(bench, &data)?;
    let note = format!(
        "anonymous memory of `viv up` with {AGENTS} agents that are paused ({}), ready after {} ms, {} ms of CPU in 10 s of idleness; \
         they had asked within {:.0} s; floor: the same agents asleep ({}), ready after {} ms, {} ms of CPU",
        paused.bytes.spread(),
        short(paused.ready_ms.median()),
        short(paused.idle_cpu_ms.median()),
        took.as_secs_f64(),
        asleep.bytes.spread(),
        short(asleep.ready_ms.median()),
        short(asleep.idle_cpu_ms.median()),
    );
    let value = (paused.bytes.median() / 1e6, "MB");
    let floor = asleep.bytes.median() / 1e6;
    Ok(vec![Metric::new("alarms.paused_mb", value, Floor::Twin(floor), Goal::RatioAtMost(1.1), note)])
}
