//! Searching a large archive: 1 000 000 entries of 1 000 agents, the largest with 100 000; and how far the index is behind
//! while entries are committed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::id::AgentId;
use agent::port::{Clock, Recall, RecallQuery};
use anyhow::{Result, bail};
use runtime::clock::SystemClock;
use storage::sqlite::Sqlite;

use super::archive::{Writing, text_of};
use crate::Bench;
use crate::measure::{Samples, short, us};
use crate::report::{Floor, Goal, Metric};
use crate::server;

const AGENTS: usize = 1_000;
const LARGEST: usize = 100_000;
const ENTRIES: usize = 1_000_000;
/// Entries of one commit.
const TOGETHER: usize = 500;
const QUERIES: usize = 600;
const QUERY_MOST_US: f64 = 50_000.0;
/// Commits of five entries, a hundred a second.
const COMMITS: usize = 1_000;
const ENTRIES_PER_COMMIT: usize = 5;
const COMMIT_EVERY: Duration = Duration::from_millis(10);
const LAG_MOST_MS: f64 = 2_000.0;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    server::threads()?.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = Sqlite::open(&dir.path().join("archive"), Arc::clone(&clock))?;
        let mut largest = Writing::of(&store, &clock, "largest").await?;
        for from in (0..LARGEST).step_by(TOGETHER) {
            largest.write(from, TOGETHER).await?;
        }
        let each = (ENTRIES - LARGEST) / (AGENTS - 1);
        for n in 1..AGENTS {
            Writing::of(&store, &clock, &format!("agent-{n}")).await?.write(n * each, each).await?;
        }
        caught_up(&store, largest.agent).await?;
        let metrics = vec![queries(&store, largest.agent).await?, lag(&store, &*clock, &mut largest).await?];
        store.close().await?;
        Ok(metrics)
    })
}

async fn queries(store: &Sqlite, agent: AgentId) -> Result<Metric> {
    let mut times = Samples::default();
    for n in 0..QUERIES {
        let entry = n * 131 % LARGEST;
        let text = match n % 3 {
            0 => format!("rare{entry}"),
            1 => "river winter lanterns".to_owned(),
            _ => text_of(entry),
        };
        let begin = Instant::now();
        let found = store.recall(agent, RecallQuery { text, limit: 8, ..RecallQuery::default() }).await?;
        times.push(us(begin.elapsed()));
        if found.excerpts.is_empty() {
            bail!("query {n} finds nothing");
        }
    }
    let note = format!(
        "p99 of {QUERIES} queries, a third each rare words, common words and whole sentences, in an agent with {LARGEST} \
         of {ENTRIES} entries; p50 {} us, at most {} us",
        short(times.median()),
        short(times.quantile(1.0))
    );
    let value = (times.quantile(0.99), "us");
    Ok(Metric::new("mind.recall", value, Floor::Named(QUERY_MOST_US), Goal::ValueAtMost(QUERY_MOST_US), note))
}

async fn lag(store: &Sqlite, clock: &dyn Clock, largest: &mut Writing) -> Result<Metric> {
    let mut behind = Samples::default();
    let mut ticks = tokio::time::interval(COMMIT_EVERY);
    let begin = Instant::now();
    for n in 0..COMMITS {
        ticks.tick().await;
        largest.write(LARGEST + n * ENTRIES_PER_COMMIT, ENTRIES_PER_COMMIT).await?;
        let since = store.unindexed_since().await?;
        behind.push(since.map_or(0, |since| clock.now().duration_since(since).as_millis()).max(0) as f64);
    }
    let rate = (COMMITS * ENTRIES_PER_COMMIT) as f64 / begin.elapsed().as_secs_f64();
    let note = format!(
        "the longest that a committed entry could not be found, at {} entries/s; p50 {} ms",
        short(rate),
        short(behind.median())
    );
    let value = (behind.quantile(1.0), "ms");
    Ok(Metric::new("mind.index_lag", value, Floor::Named(LAG_MOST_MS), Goal::ValueAtMost(LAG_MOST_MS), note))
}

/// Waits until everything is indexed.
async fn caught_up(store: &Sqlite, agent: AgentId) -> Result<()> {
    let query = RecallQuery { text: "rare1".into(), limit: 1, ..RecallQuery::default() };
    while store.unindexed_since().await?.is_some() || store.recall(agent, query.clone()).await?.building {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
