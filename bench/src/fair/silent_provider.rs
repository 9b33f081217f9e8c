//! A provider that accepts requests and does not answer: how long an agent at another provider waits.

use std::time::{Duration, Instant};

use agent::config::AgentConfig;
use agent::limits;
use anyhow::{Context, Result};

use super::{HEALTHY, paced};
use crate::Bench;
use crate::measure::{Samples, short, us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, CycleListener, Home};

/// Messages of each kind.
const SAMPLES: usize = 40;
/// Enough time for all agents that may to ask the silent provider.
const SETTLED: Duration = Duration::from_secs(1);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let (models, requests) = paced(None);
    let _in = threads.enter();
    let server = BenchServer::build(&dir.path().join("data"), models)?;
    let (alone, beside) = threads.block_on(async {
        let config = AgentConfig { model: Some(HEALTHY.to_owned()), ..server::config() };
        let home = server.home("quick", config).await?;
        let mut silent = Vec::new();
        for n in 0..limits::AWAKE_MAX {
            silent.push(server.home(&format!("silent{n}"), server::config()).await?);
        }
        let mut listener = server.listen(home.agent);
        let alone = round(&server, &home, &mut listener).await?;
        for home in &silent {
            server.post(home, "What do you make of this?").await?;
        }
        tokio::time::sleep(SETTLED).await;
        anyhow::Ok((alone, round(&server, &home, &mut listener).await?))
    })?;
    let asked = requests.try_iter().filter(|asked| !asked.system.contains("@quick")).count();
    // Killed, because the generations never end.
    threads.block_on(server.kill());
    drop(threads);
    let note = format!(
        "from a message to the end of its cycle with a model of 20 ms, while {} agents have something to do at a \
         provider that does not answer, {asked} of them with a running request ({}); floor: the same before ({})",
        limits::AWAKE_MAX,
        beside.spread(),
        alone.spread(),
    );
    anyhow::ensure!(asked > 0, "no agent asked the silent provider");
    let (value, floor) = (beside.median() / 1e3, alone.median() / 1e3);
    let note = format!("{note}; p90 {} ms", short(beside.quantile(0.9) / 1e3));
    Ok(vec![Metric::new(
        "fair.silent_provider",
        (value, "ms"),
        Floor::Twin(floor),
        Goal::RatioAtMost(2.0),
        note,
    )])
}

async fn round(server: &BenchServer, home: &Home, listener: &mut CycleListener) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..SAMPLES {
        let began = Instant::now();
        server.post(home, "What do you make of this?").await?;
        listener.ended().await.context("the healthy agent was not served")?;
        samples.push(us(began.elapsed()));
    }
    Ok(samples)
}
