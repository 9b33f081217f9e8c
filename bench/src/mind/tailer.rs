//! What the search index costs those who write: commits while a thread feeds the index from them, against commits that nobody
//! indexes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::port::Clock;
use anyhow::Result;
use runtime::clock::SystemClock;
use storage::sqlite::Sqlite;
use tokio::task::JoinSet;

use super::archive::Writing;
use crate::Bench;
use crate::measure::Samples;
use crate::report::{Floor, Goal, Metric};
use crate::server;

/// Agents that commit at the same time, each as fast as it can.
const AGENTS: usize = 8;
/// As a step writes: the decision and the outcomes.
const ENTRIES_PER_COMMIT: usize = 2;
/// Pairs of blocks, after one that is not counted. The thread gathers and reads several times in a block.
const PAIRS: usize = 12;
const BLOCK: Duration = Duration::from_secs(2);
const LEAST: f64 = 0.95;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    server::threads()?.block_on(async {
        let mut fed = Side::open(&dir.path().join("fed"), true).await?;
        let mut bare = Side::open(&dir.path().join("bare"), false).await?;
        let (mut ratios, mut floors) = (Samples::default(), Samples::default());
        for pair in 0..=PAIRS {
            // Each is first in every other pair, so that a machine that slows down affects both.
            let (with, without) = if pair % 2 == 0 {
                let with = fed.block().await?;
                (with, bare.block().await?)
            } else {
                let without = bare.block().await?;
                (fed.block().await?, without)
            };
            if pair > 0 {
                ratios.push(with / without);
                floors.push(without);
            }
        }
        fed.store.close().await?;
        bare.store.close().await?;
        let note = format!(
            "commits of {AGENTS} agents while the index is fed, by the median of {PAIRS} pairs of {} s each; pairs {}; floor: \
             nothing is indexed",
            BLOCK.as_secs(),
            ratios.spread(),
        );
        let floor = floors.median();
        let value = (ratios.median() * floor, "commits/s");
        Ok(vec![Metric::new("mind.tailer", value, Floor::Ceiling(floor), Goal::RatioAtLeast(LEAST), note)])
    })
}

/// A store with agents that write to it.
struct Side {
    store: Sqlite,
    is_fed: bool,
    writers: Vec<Writing>,
    written: usize,
}

impl Side {
    async fn open(dir: &Path, is_fed: bool) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = Sqlite::open(dir, Arc::clone(&clock))?;
        if !is_fed {
            store.stop_indexing();
        }
        let mut writers = Vec::new();
        for n in 0..AGENTS {
            writers.push(Writing::of(&store, &clock, &format!("agent-{n}")).await?);
        }
        Ok(Self { store, is_fed, writers, written: 0 })
    }

    /// Commits per second of one block. What is left to index afterwards is not paid by the other side.
    async fn block(&mut self) -> Result<f64> {
        let (begin, from) = (Instant::now(), self.written);
        let mut writing = JoinSet::new();
        for (nth, mut writer) in self.writers.drain(..).enumerate() {
            writing.spawn(async move {
                let mut commits = 0;
                while begin.elapsed() < BLOCK {
                    let n = from + (commits * AGENTS + nth) * ENTRIES_PER_COMMIT;
                    writer.write(n, ENTRIES_PER_COMMIT).await?;
                    commits += 1;
                }
                anyhow::Ok((writer, commits))
            });
        }
        let mut commits = 0;
        while let Some(ended) = writing.join_next().await {
            let (writer, written) = ended??;
            self.writers.push(writer);
            commits += written;
        }
        let rate = commits as f64 / begin.elapsed().as_secs_f64();
        self.written += commits * ENTRIES_PER_COMMIT;
        while self.is_fed && self.store.unindexed_since().await?.is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(rate)
    }
}
