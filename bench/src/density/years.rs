//! A long life: what one more cycle writes after ten, a hundred and four hundred thousand tokens of
//! history, beside a snapshot of that history; and whether the thousandth cycle costs what the first did.

use std::time::Instant;

use agent::config::{AgentConfig, Limits};
use anyhow::{Context, Result};
use models::scripted::Script;
use rusqlite::Connection;
use tokio::runtime::Runtime;

use crate::Bench;
use crate::history::prose;
use crate::instant;
use crate::measure::{Samples, process_cpu_us, short, us};
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer, Ears, Home};

/// Words of a message and of its answer; a cycle comes to about four hundred tokens.
const WORDS: usize = 170;
/// Cycles of this life before its last ones are compared with the first ones of another.
const CYCLES: usize = 900;
const COMPARED: usize = 100;
/// The very first of these load what all share.
const WARM_UP: usize = 5;
/// Where the life is looked at: behind so many cycles, over so many of them.
const LOOKS: [usize; 3] = [25, 226, CYCLES];
const SPAN: usize = 20;
/// Bytes of a page of the store.
const PAGE: f64 = 4_096.0;

/// What one cycle wrote, on average over a span.
struct Look {
    tokens: f64,
    pages: f64,
    commits: f64,
    payload: f64,
    /// The whole history as JSON, so far.
    snapshot: f64,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let data = dir.path().join("data");
    let threads = server::threads()?;
    let house = {
        let _in = threads.enter();
        BenchServer::build(&data, |clock| instant::models(clock, |_| Script::new().text(prose(7, WORDS))))?
    };
    let mut old = LongLife::begin(&threads, &house, "old")?;
    let db = Connection::open(data.join("vivarium.db"))?;
    let (mut looks, mut before) = (Vec::new(), None);
    for n in 1..=CYCLES {
        if LOOKS.contains(&(n + SPAN - 1)) {
            before = Some(state(&house, &db)?);
        }
        old.cycle(n)?;
        if LOOKS.contains(&n) {
            looks.push(state(&house, &db)?.since(&before.take().context("a span without a beginning")?));
        }
    }
    let mut metrics = written(&looks)?;
    metrics.push(late(&mut old, &mut LongLife::begin(&threads, &house, "young")?)?);
    threads.block_on(house.stop())?;
    Ok(metrics)
}

/// The last cycles of a long life against the first ones of another, in turns, so that whatever else the
/// machine does falls on both alike.
fn late(old: &mut LongLife<'_>, young: &mut LongLife<'_>) -> Result<Metric> {
    let mut times = [Samples::default(), Samples::default(), Samples::default(), Samples::default()];
    for n in 1..=COMPARED {
        let (late, early) = (old.cycle(CYCLES + n)?, young.cycle(n)?);
        if n > WARM_UP {
            for (times, time) in times.iter_mut().zip([late.0, early.0, late.1, early.1]) {
                times.push(time);
            }
        }
    }
    let [late, early, late_wall, early_wall] = times;
    let note = format!(
        "CPU of the process per cycle, cycles {} to {} of one life ({}) against {} to {COMPARED} of another, in turns \
         ({}); wall clock {} us against {} us; the model costs nothing",
        CYCLES + WARM_UP + 1,
        CYCLES + COMPARED,
        late.spread(),
        WARM_UP + 1,
        early.spread(),
        short(late_wall.median()),
        short(early_wall.median()),
    );
    let value = (late.median(), "us");
    Ok(Metric::new("density.late_cycles", value, early.median(), Goal::RatioAtMost(1.2), note))
}

fn written(looks: &[Look]) -> Result<Vec<Metric>> {
    let [young, grown, old] = looks else { anyhow::bail!("wanted three looks at a life") };
    let words = |look: &Look| {
        format!(
            "{:.0}k tokens: {} pages in {} commits, {} each",
            look.tokens / 1e3,
            short(look.pages),
            short(look.commits),
            short(look.pages / look.commits)
        )
    };
    let note = format!(
        "pages of {PAGE} B written to the log per cycle of about {} tokens; {}; {}; {}; floor: the shortest history",
        short(old.tokens / CYCLES as f64),
        words(young),
        words(grown),
        words(old)
    );
    let value = (old.pages * PAGE, "B");
    let flat = Metric::new("density.cycle_bytes", value, young.pages * PAGE, Goal::RatioAtMost(1.2), note);
    let against = |name, look: &Look, part: f64| {
        let note = format!(
            "what all rows grow by per cycle, with the two rows that each commit writes anew, behind {:.0}k tokens \
             of history; floor: that history as one JSON text",
            look.tokens / 1e3
        );
        Metric::new(name, (look.payload, "B"), look.snapshot, Goal::RatioAtMost(part), note)
    };
    Ok(vec![
        flat,
        against("density.payload_100k", grown, 1.0 / 20.0),
        against("density.payload_400k", old, 1.0 / 80.0),
    ])
}

/// An agent that lives for long.
struct LongLife<'a> {
    threads: &'a Runtime,
    house: &'a BenchServer,
    home: Home,
    ears: Ears,
}

/// Where a life stands: all sums since its beginning.
struct State {
    cycles: f64,
    tokens: f64,
    pages: f64,
    commits: f64,
    rows: f64,
    /// The rows that each commit writes anew.
    head: f64,
    snapshot: f64,
}

impl State {
    /// Per cycle since then.
    fn since(&self, before: &Self) -> Look {
        let cycles = self.cycles - before.cycles;
        let commits = (self.commits - before.commits) / cycles;
        Look {
            tokens: self.tokens,
            pages: (self.pages - before.pages) / cycles,
            commits,
            payload: (self.rows - before.rows) / cycles + commits * self.head,
            snapshot: self.snapshot,
        }
    }
}

impl<'a> LongLife<'a> {
    fn begin(threads: &'a Runtime, house: &'a BenchServer, name: &str) -> Result<Self> {
        let limits = Limits { token_budget: 10_000_000, ..Limits::default() };
        let home = threads.block_on(house.home(name, AgentConfig { limits, ..AgentConfig::default() }))?;
        let ears = house.listen(home.agent);
        Ok(Self { threads, house, home, ears })
    }

    /// One cycle: its CPU and its time, in microseconds.
    fn cycle(&mut self, n: usize) -> Result<(f64, f64)> {
        let message = self.house.message(&self.home, &prose(n, WORDS));
        let (cpu, began) = (process_cpu_us(), Instant::now());
        self.threads.block_on(async {
            self.house.send(message).await?;
            self.ears.ended().await
        })?;
        Ok((process_cpu_us() - cpu, us(began.elapsed())))
    }
}

fn state(house: &BenchServer, db: &Connection) -> Result<State> {
    let stats = house.stats();
    let one = |sql: &str| db.query_row(sql, [], |row| row.get::<_, f64>(0));
    Ok(State {
        cycles: one("SELECT CAST(sum(cycles) AS REAL) FROM life")?,
        tokens: one("SELECT CAST(coalesce(sum(tokens), 0) AS REAL) FROM entry")?,
        pages: stats.pages as f64,
        commits: stats.groups as f64,
        rows: rows(db, None)?,
        head: rows(db, Some(&["life", "inbox_head"]))?,
        snapshot: one("SELECT CAST(coalesce(sum(length(CAST(message AS BLOB))), 0) AS REAL) FROM entry")?,
    })
}

/// Bytes of the values of all rows, numbers as their digits; of these tables, or of all.
fn rows(db: &Connection, only: Option<&[&str]>) -> Result<f64> {
    let mut tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let tables = tables.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    let mut bytes = 0.0;
    for table in tables.iter().filter(|name| only.is_none_or(|only| only.contains(&name.as_str()))) {
        let mut columns = db.prepare("SELECT name FROM pragma_table_info(?)")?;
        let columns = columns.query_map([table], |row| row.get(0))?;
        let columns = columns.collect::<rusqlite::Result<Vec<String>>>()?;
        let length = |name: &String| format!("coalesce(length(CAST(\"{name}\" AS BLOB)), 0)");
        let row = columns.iter().map(length).collect::<Vec<_>>().join(" + ");
        let sql = format!("SELECT CAST(coalesce(sum({row}), 0) AS REAL) FROM \"{table}\"");
        bytes += db.query_row(&sql, [], |row| row.get::<_, f64>(0))?;
    }
    Ok(bytes)
}
