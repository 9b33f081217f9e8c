//! A long history: what one more cycle writes after ten, a hundred and four hundred thousand tokens,
//! compared with a snapshot of the history; and whether the thousandth cycle costs as much as the first.

use std::time::Instant;

use agent::config::{AgentConfig, Limits};
use anyhow::{Context, Result};
use models::scripted::Script;
use rusqlite::Connection;
use tokio::runtime::Runtime;

use crate::Bench;
use crate::history::prose;
use crate::instant;
use crate::measure::{Samples, know_threads, process_cpu_us, short, us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, CycleListener, Home};

/// Words of a message and of its answer; a cycle comes to about four hundred tokens.
const WORDS: usize = 170;
/// Cycles of the long history before its last cycles are compared with the first ones of a new agent.
const CYCLES: usize = 900;
const COMPARED: usize = 100;
/// The first of these cycles load shared data and are not counted.
const WARM_UP: usize = 5;
/// The cycles after which the history is measured, and the number of cycles of each measured span.
const SPAN_ENDS: [usize; 3] = [25, 226, CYCLES];
const SPAN_CYCLES: usize = 20;
/// Bytes of a page of the store.
const PAGE: f64 = 4_096.0;

/// What one cycle wrote, averaged over a span.
struct Span {
    tokens: f64,
    pages: f64,
    commits: f64,
    payload: f64,
    /// Bytes of the whole history so far as JSON.
    snapshot: f64,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let data = dir.path().join("data");
    let threads = server::threads()?;
    let server = {
        let _in = threads.enter();
        BenchServer::build(&data, |clock| instant::models(clock, |_| Script::new().text(prose(7, WORDS))))?
    };
    let mut old = LongHistory::begin(&threads, &server, "old")?;
    let db = Connection::open(data.join("vivarium.db"))?;
    let (mut spans, mut before) = (Vec::new(), None);
    for n in 1..=CYCLES {
        if SPAN_ENDS.contains(&(n + SPAN_CYCLES - 1)) {
            before = Some(totals(&server, &db)?);
        }
        old.cycle(n)?;
        if SPAN_ENDS.contains(&n) {
            spans.push(totals(&server, &db)?.since(&before.take().context("a span has no beginning")?));
        }
    }
    let mut metrics = written(&spans)?;
    metrics.push(late_cycles(&mut old, &mut LongHistory::begin(&threads, &server, "young")?)?);
    threads.block_on(server.stop())?;
    Ok(metrics)
}

/// The last cycles of the long history against the first ones of a new agent, in turns, so that other load
/// on the machine affects both equally.
fn late_cycles(old: &mut LongHistory<'_>, young: &mut LongHistory<'_>) -> Result<Metric> {
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
        "CPU of the process per cycle, cycles {} to {} of one agent ({}) against {} to {COMPARED} of another, in turns \
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
    Ok(Metric::new("density.late_cycles", value, Floor::Twin(early.median()), Goal::RatioAtMost(1.2), note))
}

fn written(spans: &[Span]) -> Result<Vec<Metric>> {
    let [young, grown, old] = spans else { anyhow::bail!("wanted three measured spans") };
    let describe = |span: &Span| {
        format!(
            "{:.0}k tokens: {} pages in {} commits, {} each",
            span.tokens / 1e3,
            short(span.pages),
            short(span.commits),
            short(span.pages / span.commits)
        )
    };
    let note = format!(
        "pages of {PAGE} B written to the log per cycle of about {} tokens; {}; {}; {}; floor: the shortest history",
        short(old.tokens / CYCLES as f64),
        describe(young),
        describe(grown),
        describe(old)
    );
    let value = (old.pages * PAGE, "B");
    let flat = Metric::new(
        "density.cycle_bytes",
        value,
        Floor::Twin(young.pages * PAGE),
        Goal::RatioAtMost(1.2),
        note,
    );
    let against = |name, span: &Span, part: f64| {
        let note = format!(
            "growth of all rows per cycle, with the two rows that each commit rewrites, after {:.0}k tokens \
             of history; floor: that history as one JSON text",
            span.tokens / 1e3
        );
        Metric::new(name, (span.payload, "B"), Floor::Named(span.snapshot), Goal::RatioAtMost(part), note)
    };
    Ok(vec![
        flat,
        against("density.payload_100k", grown, 1.0 / 20.0),
        against("density.payload_400k", old, 1.0 / 80.0),
    ])
}

/// An agent with a growing history.
struct LongHistory<'a> {
    threads: &'a Runtime,
    server: &'a BenchServer,
    home: Home,
    listener: CycleListener,
}

/// Sums since the beginning.
struct Totals {
    cycles: f64,
    tokens: f64,
    pages: f64,
    commits: f64,
    rows: f64,
    /// Bytes of the rows that each commit rewrites.
    head: f64,
    snapshot: f64,
}

impl Totals {
    /// Averages per cycle since `before`.
    fn since(&self, before: &Self) -> Span {
        let cycles = self.cycles - before.cycles;
        let commits = (self.commits - before.commits) / cycles;
        Span {
            tokens: self.tokens,
            pages: (self.pages - before.pages) / cycles,
            commits,
            payload: (self.rows - before.rows) / cycles + commits * self.head,
            snapshot: self.snapshot,
        }
    }
}

impl<'a> LongHistory<'a> {
    fn begin(threads: &'a Runtime, server: &'a BenchServer, name: &str) -> Result<Self> {
        let limits = Limits { token_budget: 10_000_000, ..Limits::default() };
        let home = threads.block_on(server.home(name, AgentConfig { limits, ..server::config() }))?;
        let listener = server.listen(home.agent);
        Ok(Self { threads, server, home, listener })
    }

    /// Runs one cycle; returns its CPU and its wall time, in microseconds.
    fn cycle(&mut self, n: usize) -> Result<(f64, f64)> {
        let message = self.server.message(&self.home, &prose(n, WORDS));
        know_threads()?;
        let (cpu, began) = (process_cpu_us(), Instant::now());
        self.threads.block_on(async {
            self.server.post_message(message).await?;
            self.listener.ended().await
        })?;
        Ok((process_cpu_us() - cpu, us(began.elapsed())))
    }
}

fn totals(server: &BenchServer, db: &Connection) -> Result<Totals> {
    let stats = server.stats();
    let one = |sql: &str| db.query_row(sql, [], |row| row.get::<_, f64>(0));
    Ok(Totals {
        cycles: one("SELECT CAST(sum(cycles) AS REAL) FROM life")?,
        tokens: one("SELECT CAST(coalesce(sum(tokens), 0) AS REAL) FROM entry")?,
        pages: stats.pages as f64,
        commits: stats.groups as f64,
        rows: rows(db, None)?,
        head: rows(db, Some(&["life", "inbox_head"]))?,
        snapshot: one("SELECT CAST(coalesce(sum(length(CAST(message AS BLOB))), 0) AS REAL) FROM entry")?,
    })
}

/// Bytes of the values of all rows, with numbers as digits, in these tables or in all.
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
