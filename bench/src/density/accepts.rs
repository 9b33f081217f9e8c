//! What telling the keeper adds to accepting: as many accepts per second with the signals sent as
//! without. Nobody is admitted: all agents wait longer than the measuring takes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use agent::config::{AgentConfig, Limits};
use agent::port::Accepted;
use anyhow::{Context, Result, bail};
use models::scripted::Script;
use tokio::task::JoinSet;

use crate::Bench;
use crate::instant;
use crate::measure::Samples;
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer, Home};

/// Who speaks at once, each to an agent of its own.
const PRODUCERS: usize = 64;
/// Messages of each in one round.
const MESSAGES: usize = 8;
/// Rounds of each kind, in turns; the first pair warms up.
const ROUNDS: usize = 61;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let Speeds { silent, signalled, pairs } = server::threads()?.block_on(all(dir.path()))?;
    let note = format!(
        "{PRODUCERS} producers, each accept followed by its wake signal, no agent admitted ({}); floor: no \
         signals ({}); in turns, ratio pair by pair {}",
        signalled.spread(),
        silent.spread(),
        pairs.spread()
    );
    let value = (signalled.median(), "1/s");
    let goal = Goal::RatioAtLeast(0.95);
    Ok(vec![Metric::new("density.signals", value, silent.median(), goal, note)])
}

/// Accepts per second.
#[derive(Default)]
struct Speeds {
    silent: Samples,
    signalled: Samples,
    /// Of two rounds one after the other, what the signals left of the speed.
    pairs: Samples,
}

async fn all(dir: &Path) -> Result<Speeds> {
    let house = BenchServer::build(&dir.join("data"), |clock| {
        instant::models(clock, |_| Script::new().text("Noted."))
    })?;
    let house = Arc::new(house);
    let limits = Limits { inbox_max: 1_000_000, ..Limits::default() };
    // About as long as all rounds together: an alarm is set, and it does not come.
    let patient = AgentConfig { debounce: 60_000, limits, ..AgentConfig::default() };
    let mut homes = Vec::new();
    for n in 0..PRODUCERS {
        homes.push(house.home(&format!("agent{n}"), patient.clone()).await?);
    }
    let mut speeds = Speeds::default();
    for n in 0..ROUNDS {
        let mut pair = [0.0; 2];
        // Whoever is second finds a longer log: each kind is as often the second one.
        for signals in [n % 2 == 0, n % 2 == 1] {
            pair[usize::from(signals)] = round(&house, &homes, signals).await?;
        }
        if n > 0 {
            speeds.silent.push(pair[0]);
            speeds.signalled.push(pair[1]);
            speeds.pairs.push(pair[1] / pair[0]);
        }
    }
    Arc::into_inner(house).context("a producer is left")?.stop().await?;
    Ok(speeds)
}

async fn round(house: &Arc<BenchServer>, homes: &[Home], signals: bool) -> Result<f64> {
    let began = Instant::now();
    let mut producers = JoinSet::new();
    for home in homes {
        let (house, home) = (Arc::clone(house), *home);
        producers.spawn(async move {
            for _ in 0..MESSAGES {
                match house.accept(house.message(&home, "Is anybody there?")).await? {
                    Accepted::Fresh { wake, .. } if signals => house.signal(&wake),
                    Accepted::Fresh { .. } => {}
                    other => bail!("wanted a fresh message, got {other:?}"),
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = producers.join_next().await {
        ended.context("a producer broke")??;
    }
    Ok((homes.len() * MESSAGES) as f64 / began.elapsed().as_secs_f64())
}
