//! A start after a crash of a busy house: how soon somebody who had nothing to do with it is served.

use std::path::Path;
use std::time::{Duration, Instant};

use agent::config::AgentConfig;
use anyhow::{Result, bail};
use runtime::Bounds;
use serde_json::json;

use super::{PATIENCE, asked_by, paced};
use crate::Bench;
use crate::measure::us;
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer, Home};
use crate::talk::Line;

/// Cycles that are open when it dies.
const OPEN: usize = 300;
/// What one thought takes afterwards.
const THOUGHT: Duration = Duration::from_secs(3);
/// Longest from the message's first byte to the question to the model, in milliseconds.
const GOAL_MS: f64 = 2_000.0;
/// Who had nothing to do with it.
const HEALTHY: &str = "healthy";

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let data = dir.path().join("data");
    let (home, alone) = die(&data)?;
    let threads = server::threads()?;
    let _in = threads.enter();
    let (house, hears) = threads.block_on(async {
        let end = Instant::now() + PATIENCE;
        loop {
            let (models, hears) = paced(Some(THOUGHT));
            match BenchServer::build(&data, models) {
                Ok(house) => return anyhow::Ok((house, hears)),
                // The first life may hold the directory for a moment.
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })?;
    let left = threads.block_on(house.open_cycles())?;
    let (address, key) = threads.block_on(house.open_doors(&home))?;
    let mut line = Line::open(address)?;
    let began = line.send(&hello(&line, &home, &key))?;
    let asked = asked_by(&hears, HEALTHY)?;
    line.answer()?;
    threads.block_on(house.kill());
    drop(threads);
    let note = format!(
        "from a message's first byte to the question to its model ({} s a thought), right after an unclean start \
         with {left} cycles open; floor: the same message in the house before it died",
        THOUGHT.as_secs()
    );
    let (value, floor) = (us(asked.duration_since(began)) / 1e3, us(alone) / 1e3);
    Ok(vec![Metric::new("fair.after_crash", (value, "ms"), floor, Goal::ValueAtMost(GOAL_MS), note)])
}

fn hello(line: &Line, home: &Home, key: &str) -> Vec<u8> {
    let body = json!({"text": "What do you make of this?"}).to_string();
    line.post(&format!("/v1/spaces/{}/messages", home.space), key, &body)
}

/// A server that dies in the middle of many cycles; who had nothing to do then, and how soon it is served in
/// peace.
fn die(data: &Path) -> Result<(Home, Duration)> {
    let threads = server::threads()?;
    let _in = threads.enter();
    let (models, hears) = paced(None);
    let bounds = Bounds { awake: 2 * OPEN, requests_per_provider: 2 * OPEN };
    let house = BenchServer::within(data, bounds, models)?;
    let config = AgentConfig { model: Some(super::HEALTHY.to_owned()), ..AgentConfig::default() };
    let home = threads.block_on(house.home(HEALTHY, config))?;
    let (address, key) = threads.block_on(house.open_doors(&home))?;
    let mut line = Line::open(address)?;
    let mut ears = house.listen(home.agent);
    let began = line.send(&hello(&line, &home, &key))?;
    let alone = asked_by(&hears, HEALTHY)?.duration_since(began);
    line.answer()?;
    threads.block_on(async {
        ears.ended().await?;
        for n in 0..OPEN {
            let home = house.home(&format!("busy{n}"), AgentConfig::default()).await?;
            house.say(&home, "What do you make of this?").await?;
        }
        let end = Instant::now() + PATIENCE;
        while house.open_cycles().await? < OPEN as u64 {
            if Instant::now() > end {
                bail!("not all of {OPEN} cycles opened");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    })?;
    threads.block_on(house.kill());
    threads.shutdown_timeout(Duration::from_secs(5));
    Ok((home, alone))
}
