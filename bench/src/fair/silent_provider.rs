//! A provider that accepts and says nothing: what an agent at another one waits.

use std::time::{Duration, Instant};

use agent::config::AgentConfig;
use agent::limits;
use anyhow::{Context, Result};

use super::{HEALTHY, paced};
use crate::Bench;
use crate::measure::{Samples, short, us};
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer, Ears, Home};

/// Messages of each kind.
const SAMPLES: usize = 40;
/// Until whoever can has asked the provider that says nothing.
const SETTLED: Duration = Duration::from_secs(1);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let (models, hears) = paced(None);
    let _in = threads.enter();
    let house = BenchServer::build(&dir.path().join("data"), models)?;
    let (alone, beside) = threads.block_on(async {
        let config = AgentConfig { model: Some(HEALTHY.to_owned()), ..AgentConfig::default() };
        let home = house.home("quick", config).await?;
        let mut silent = Vec::new();
        for n in 0..limits::AWAKE_MAX {
            silent.push(house.home(&format!("silent{n}"), AgentConfig::default()).await?);
        }
        let mut ears = house.listen(home.agent);
        let alone = round(&house, &home, &mut ears).await?;
        for home in &silent {
            house.say(home, "What do you make of this?").await?;
        }
        tokio::time::sleep(SETTLED).await;
        anyhow::Ok((alone, round(&house, &home, &mut ears).await?))
    })?;
    let asked = hears.try_iter().filter(|asked| !asked.system.contains("@quick")).count();
    // Nobody waits for generations that never end.
    threads.block_on(house.kill());
    drop(threads);
    let note = format!(
        "from a message to the end of its cycle at a model of 20 ms, while {} agents have something to do at a \
         provider that says nothing, {asked} of them with a request under way ({}); floor: the same before ({})",
        limits::AWAKE_MAX,
        beside.spread(),
        alone.spread(),
    );
    anyhow::ensure!(asked > 0, "nobody asked the provider that says nothing");
    let (value, floor) = (beside.median() / 1e3, alone.median() / 1e3);
    let note = format!("{note}; p90 {} ms", short(beside.quantile(0.9) / 1e3));
    Ok(vec![Metric::new("fair.silent_provider", (value, "ms"), floor, Goal::RatioAtMost(2.0), note)])
}

async fn round(house: &BenchServer, home: &Home, ears: &mut Ears) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..SAMPLES {
        let began = Instant::now();
        house.say(home, "What do you make of this?").await?;
        ears.ended().await.context("the healthy agent was not served")?;
        samples.push(us(began.elapsed()));
    }
    Ok(samples)
}
