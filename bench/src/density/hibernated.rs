//! Waking an agent with a long history of which nothing is in memory: from the signal to the first byte of
//! the request at the model, with its pages in the page cache and without. The floor reads and parses
//! the same bytes once, and makes one round trip over the loopback.

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
use crate::floor::Floor;
use crate::history::prose;
use crate::measure::{Samples, short, us};
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer};
use crate::stub::{Say, Stub};
use crate::watched::Point;

/// Cycles of the long life, about a thousand tokens each.
const CYCLES: usize = 100;
/// Words of a message and of its answer.
const WORDS: usize = 450;
/// Activations of each kind.
const ROUNDS: usize = 12;
/// Who has the long history, and who wakes before it, so that what all share is there.
const OLD: &str = "old";
const OTHER: &str = "other";

/// Where the time of an activation goes, stage by stage.
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
    let (old, tokens) = live_long(&threads, &stub, &data)?;
    let mut floor = Floor::start(&threads, "nothing much")?;
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
            "from the wake signal of an agent with {:.0}k tokens of history, of which nothing is in memory, to the \
             first byte of the request at the model, {words} ({}); {}; floor: reading and parsing these entries once, \
             {} us, and one round trip ({})",
            tokens / 1e3,
            kind.wakes.spread(),
            kind.words(),
            short(kind.reads.median()),
            kind.floors.spread()
        );
        let value = (kind.wakes.median(), "us");
        Metric::new(name, value, kind.floors.median(), Goal::RatioAtMost(2.0), note)
    };
    Ok(vec![
        metric("density.wake_warm_pages", "its pages in the page cache", &warm),
        metric("density.wake_cold_pages", "its pages on disk", &cold),
    ])
}

/// The old agent and the other one, to be woken in servers that know nothing of them yet.
struct Old {
    old: server::Home,
    other: server::Home,
    /// The old one's rowid.
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

/// Lives until the history is long; who lived, and tokens of it.
fn live_long(threads: &Runtime, stub: &Stub, data: &Path) -> Result<(Old, f64)> {
    let house = build(threads, stub, data)?;
    let limits = Limits { token_budget: 10_000_000, ..Limits::default() };
    let config = AgentConfig { limits, ..AgentConfig::default() };
    let old = threads.block_on(house.home(OLD, config.clone()))?;
    let other = threads.block_on(house.home(OTHER, config))?;
    let mut ears = house.listen(old.agent);
    for cycle in 0..CYCLES {
        stub.script([Say::Text(prose(2 * cycle, WORDS))]);
        threads.block_on(house.say(&old, &prose(2 * cycle + 1, WORDS)))?;
        threads.block_on(ears.ended())?;
        stub.arrival()?;
    }
    threads.block_on(house.stop())?;
    let db = Connection::open(data.join("vivarium.db"))?;
    let sql = "SELECT e.id, CAST(sum(n.tokens) AS REAL) FROM entity e JOIN entry n ON n.agent = e.id \
               WHERE e.name = ?";
    let (row, tokens) = db.query_row(sql, [OLD], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((Old { old, other, row }, tokens))
}

impl Old {
    /// One activation in a server that has just begun.
    fn wake(&self, threads: &Runtime, stub: &Stub, data: &Path, cold: bool, kind: &mut Kind) -> Result<()> {
        let house = build(threads, stub, data)?;
        let (mut first, mut ears) = (house.listen(self.other.agent), house.listen(self.old.agent));
        threads.block_on(house.say(&self.other, "Good morning."))?;
        threads.block_on(first.ended())?;
        stub.arrival()?;
        if cold {
            forget(data)?;
        }
        drop(house.marks.take());
        threads.block_on(house.say(&self.old, "Do you remember?"))?;
        let arrival = stub.arrival()?;
        threads.block_on(ears.ended())?;
        let marks = house.marks.take();
        threads.block_on(house.stop())?;
        let at = |point| marks.iter().find(|mark| mark.point == point).map(|mark| mark.at);
        for (times, (_, from, to)) in kind.stages.iter_mut().zip(STAGES) {
            if let (Some(from), Some(to)) = (at(from), at(to)) {
                times.push(us(to.saturating_duration_since(from)));
            }
        }
        let accepted = at(Point::Accepted).context("nothing was accepted")?;
        kind.wakes.push(us(arrival.at.duration_since(accepted)));
        Ok(())
    }
}

impl Kind {
    fn words(&self) -> String {
        let stages = self.stages.iter().zip(STAGES);
        let words = stages.map(|(times, (name, ..))| format!("{name} {} us", short(times.median())));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Reads and parses the entries once, over a connection that has just been opened, in microseconds.
fn read(data: &Path, row: &i64, cold: bool) -> Result<f64> {
    let db = Connection::open(data.join("vivarium.db"))?;
    // The schema is read before, as it is in a server.
    let sql = "SELECT message FROM entry WHERE agent = ? ORDER BY seq";
    let mut entries = db.prepare(sql)?;
    if cold {
        forget(data)?;
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
fn forget(data: &Path) -> Result<()> {
    let files: Vec<PathBuf> = ["vivarium.db", "vivarium.db-wal"].iter().map(|name| data.join(name)).collect();
    for file in files.iter().filter(|file| file.exists()) {
        let file = File::open(file)?;
        // What is not on disk yet cannot be dropped.
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed).context("the page cache keeps what it has")?;
    }
    Ok(())
}
