//! Activating an agent whose long history is not in memory: the time from the signal to the first byte of
//! the request at the model, with the pages in the page cache and without. The floor reads and parses the
//! same bytes once and makes one round trip over the loopback.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use agent::config::{AgentConfig, Limits};
use agent::message::ModelMessage;
use anyhow::{Context, Result};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use rusqlite::Connection;
use rustix::fs::{Advice, fadvise};
use tokio::runtime::Runtime;

use crate::Bench;
use crate::floor::BareWake;
use crate::history::prose;
use crate::measure::{Samples, short, us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer};
use crate::stub::{Answer, Stub};
use crate::watched::Point;

/// Cycles of the long history, about a thousand tokens each.
const CYCLES: usize = 100;
/// Words of a message and of its answer.
const WORDS: usize = 450;
/// Activations of each kind.
const ROUNDS: usize = 12;
/// The agent with the long history, and the one that is activated before it, so that shared data is loaded.
const OLD: &str = "old";
const OTHER: &str = "other";

/// The stages of an activation.
const STAGES: [(&str, Point, Point); 4] = [
    ("signal to wake", Point::Accepted, Point::WakeAsked),
    ("wake read", Point::WakeAsked, Point::Woken),
    ("rules", Point::Woken, Point::Asked),
    ("encoding", Point::Asked, Point::Encoded),
];

/// Activations and their floor.
#[derive(Default)]
struct Kind {
    stages: [Samples; STAGES.len()],
    wakes: Samples,
    floors: Samples,
    reads: Samples,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let data = dir.path().join("data");
    let threads = server::threads()?;
    let stub = Stub::start()?;
    let (old, tokens) = build_history(&threads, &stub, &data)?;
    let mut floor = BareWake::start(&threads, "nothing much")?;
    let (mut warm, mut cold) = (Kind::default(), Kind::default());
    for _ in 0..ROUNDS {
        for (kind, is_cold) in [(&mut warm, false), (&mut cold, true)] {
            old.wake(&threads, &stub, &data, is_cold, kind)?;
            let read = read(&data, &old.row, is_cold)?;
            kind.reads.push(read);
            kind.floors.push(read + floor.round_trip()?);
        }
    }
    let metric = |name, words: &str, kind: &Kind| {
        let note = format!(
            "from the wake signal of an agent with {:.0}k tokens of history, none of it in memory, to the \
             first byte of the request at the model, {words} ({}); {}; floor: reading and parsing these entries once, \
             {} us, and one round trip ({})",
            tokens / 1e3,
            kind.wakes.spread(),
            kind.describe(),
            short(kind.reads.median()),
            kind.floors.spread()
        );
        let value = (kind.wakes.median(), "us");
        Metric::new(name, value, Floor::Bound(kind.floors.median()), Goal::RatioAtMost(2.0), note)
    };
    Ok(vec![
        metric("density.wake_warm_pages", "its pages in the page cache", &warm),
        metric("density.wake_cold_pages", "its pages on disk", &cold),
    ])
}

/// The old agent and the other one, to be activated in servers that have not loaded them yet.
struct OldAgent {
    old: server::Home,
    other: server::Home,
    /// The rowid of the old agent.
    row: i64,
}

fn build(threads: &Runtime, stub: &Stub, data: &Path) -> Result<BenchServer> {
    let _in = threads.enter();
    BenchServer::build(data, |clock| {
        let model = ModelConfig {
            base_url: Some(stub.url()),
            context_window: Some(1_000_000),
            ..ModelConfig::named("openai-compatible/stub")
        };
        Arc::new(ModelBook::new(model, KeyRing::default(), clock))
    })
}

/// Runs cycles until the history is long; returns the agents and the tokens of the history.
fn build_history(threads: &Runtime, stub: &Stub, data: &Path) -> Result<(OldAgent, f64)> {
    let server = build(threads, stub, data)?;
    let limits = Limits { token_budget: 10_000_000, ..Limits::default() };
    let config = AgentConfig { limits, ..server::config() };
    let old = threads.block_on(server.home(OLD, config.clone()))?;
    let other = threads.block_on(server.home(OTHER, config))?;
    let mut listener = server.listen(old.agent);
    for cycle in 0..CYCLES {
        stub.script([Answer::Text(prose(2 * cycle, WORDS))]);
        let began = Instant::now();
        threads.block_on(server.post(&old, &prose(2 * cycle + 1, WORDS)))?;
        threads.block_on(listener.ended())?;
        stub.arrivals(began, 1)?;
    }
    threads.block_on(server.stop())?;
    let db = Connection::open(data.join("vivarium.db"))?;
    let sql = "SELECT e.id, CAST(sum(n.tokens) AS REAL) FROM entity e JOIN entry n ON n.agent = e.id \
               WHERE e.name = ?";
    let (row, tokens) = db.query_row(sql, [OLD], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((OldAgent { old, other, row }, tokens))
}

impl OldAgent {
    /// One activation in a server that has just started.
    fn wake(&self, threads: &Runtime, stub: &Stub, data: &Path, cold: bool, kind: &mut Kind) -> Result<()> {
        let server = build(threads, stub, data)?;
        let (mut first, mut listener) = (server.listen(self.other.agent), server.listen(self.old.agent));
        let began = Instant::now();
        threads.block_on(server.post(&self.other, "Good morning."))?;
        threads.block_on(first.ended())?;
        stub.arrivals(began, 1)?;
        if cold {
            drop_page_cache(data)?;
        }
        drop(server.marks.take());
        let began = Instant::now();
        threads.block_on(server.post(&self.old, "Do you remember?"))?;
        let arrival = stub.arrival(began)?;
        threads.block_on(listener.ended())?;
        let marks = server.marks.take();
        threads.block_on(server.stop())?;
        let at = |point| marks.iter().find(|mark| mark.point == point).map(|mark| mark.at);
        for (times, (_, from, to)) in kind.stages.iter_mut().zip(STAGES) {
            if let (Some(from), Some(to)) = (at(from), at(to)) {
                times.push(us(to.saturating_duration_since(from)));
            }
        }
        let accepted = at(Point::Accepted).context("nothing was accepted")?;
        let took = arrival.at.checked_duration_since(accepted);
        kind.wakes.push(us(took.context("the model was asked before the message was accepted")?));
        Ok(())
    }
}

impl Kind {
    fn describe(&self) -> String {
        let stages = self.stages.iter().zip(STAGES);
        let words = stages.map(|(times, (name, ..))| format!("{name} {} us", short(times.median())));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Reads and parses the entries once over a new connection; returns microseconds.
fn read(data: &Path, row: &i64, cold: bool) -> Result<f64> {
    let db = Connection::open(data.join("vivarium.db"))?;
    // The schema is read before the measurement, as in a server.
    let sql = "SELECT message FROM entry WHERE agent = ? ORDER BY seq";
    let mut entries = db.prepare(sql)?;
    if cold {
        drop_page_cache(data)?;
    }
    let began = Instant::now();
    let mut found = entries.query([row])?;
    let mut kept: Vec<ModelMessage> = Vec::new();
    while let Some(entry) = found.next()? {
        kept.push(serde_json::from_slice(entry.get_ref(0)?.as_bytes()?)?);
    }
    let took = us(began.elapsed());
    drop(kept);
    Ok(took)
}

/// Drops the store's files from the page cache.
fn drop_page_cache(data: &Path) -> Result<()> {
    let files: Vec<PathBuf> = ["vivarium.db", "vivarium.db-wal"].iter().map(|name| data.join(name)).collect();
    for file in files.iter().filter(|file| file.exists()) {
        let file = File::open(file)?;
        // Dirty pages cannot be dropped.
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed).context("the page cache cannot be dropped")?;
    }
    Ok(())
}
