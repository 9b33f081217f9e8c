//! The cost of wake signals: accepts per second with signals to the keeper and without. No agent is
//! admitted, because all debounce for longer than the measurement takes.

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
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, Home};

/// Producers that post at the same time, each to its own agent.
const PRODUCERS: usize = 64;
/// Messages of each in one round.
const MESSAGES: usize = 8;
/// Rounds of each kind, in turns; the first pair is a warm-up.
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
    Ok(vec![Metric::new("density.signals", value, Floor::Ceiling(silent.median()), goal, note)])
}

/// Accepts per second.
#[derive(Default)]
struct Speeds {
    silent: Samples,
    signalled: Samples,
    /// The ratio of speeds, with signals to without, of two consecutive rounds.
    pairs: Samples,
}

async fn all(dir: &Path) -> Result<Speeds> {
    let server = BenchServer::build(&dir.join("data"), |clock| {
        instant::models(clock, |_| Script::new().text("Noted."))
    })?;
    let server = Arc::new(server);
    let limits = Limits { inbox_max: 1_000_000, ..Limits::default() };
    // About as long as all rounds together: a timer is set, but it does not fire.
    let debouncing = AgentConfig { debounce: 60_000, limits, ..AgentConfig::default() };
    let mut homes = Vec::new();
    for n in 0..PRODUCERS {
        homes.push(server.home(&format!("agent{n}"), debouncing.clone()).await?);
    }
    let mut speeds = Speeds::default();
    for n in 0..ROUNDS {
        let mut pair = [0.0; 2];
        // The second round of a pair has a longer log, so each kind is second equally often.
        for signals in [n % 2 == 0, n % 2 == 1] {
            pair[usize::from(signals)] = round(&server, &homes, signals).await?;
        }
        if n > 0 {
            speeds.silent.push(pair[0]);
            speeds.signalled.push(pair[1]);
            speeds.pairs.push(pair[1] / pair[0]);
        }
    }
    Arc::into_inner(server).context("a producer is still running")?.stop().await?;
    Ok(speeds)
}

async fn round(server: &Arc<BenchServer>, homes: &[Home], signals: bool) -> Result<f64> {
    let began = Instant::now();
    let mut producers = JoinSet::new();
    for home in homes {
        let (server, home) = (Arc::clone(server), *home);
        producers.spawn(async move {
            for _ in 0..MESSAGES {
                match server.accept(server.message(&home, "Is anybody there?")).await? {
                    Accepted::Fresh { wake, .. } if signals => server.signal(&wake),
                    Accepted::Fresh { .. } => {}
                    other => bail!("wanted a fresh message, got {other:?}"),
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = producers.join_next().await {
        ended.context("a producer failed")??;
    }
    Ok((homes.len() * MESSAGES) as f64 / began.elapsed().as_secs_f64())
}
