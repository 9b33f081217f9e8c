//! A million agents in one data directory, of whom almost all sleep: making them, what they weigh, a
//! start among them, an activation among them, and ten thousand activations at once. The server is the process
//! `viv up`; the models behind it answer at once, and with `skip`, so that histories stay empty.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::town::{Town, agent};
use crate::Bench;
use crate::measure::{Samples, short, us};
use crate::process::{self, REST, Running};
use crate::report::{Goal, Metric};
use crate::server;
use crate::stub::{Say, Stub};
use crate::talk::Line;

/// Agents among whom a restart is measured, and how many of them have something to do.
const MANY: usize = 100_000;
const PENDING: usize = 1_000;
/// Agents in the end.
const ALL: usize = 1_000_000;
/// Agents that are few.
const FEW: usize = 100;
/// Starts that are timed.
const STARTS: usize = 9;
/// Processes whose memory is looked at.
const LOOKS: usize = 3;
/// Activations that are timed, one at a time.
const WAKES: usize = 300;
/// Agents that are due at once, and those that come before them where memory is compared.
const RUSH: usize = 10_000;
const BEFORE: usize = 1_000;
/// What an Erlang process weighs, in bytes: the floor of one that sleeps.
const ERLANG_PROCESS: f64 = 2_616.0;
/// What a warm actor of a well-known engine weighs, in bytes: the reference of one that is warm.
const WARM_ACTOR: f64 = 72_400.0;

struct SleeperStore {
    viv: PathBuf,
    stub: Stub,
    /// A data directory with nobody but who is founded, one with few, one with all.
    empty: PathBuf,
    few: PathBuf,
    all: PathBuf,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let place = |name: &str| dir.path().join(name).join("data");
    let skip = Say::Call("skip", json!({"reason": "nothing of it is mine"}));
    let (viv, stub) = (process::viv(bench)?, Stub::saying(skip)?);
    let scene = SleeperStore { viv, stub, empty: place("empty"), few: place("few"), all: place("all") };
    for data in [&scene.empty, &scene.few, &scene.all] {
        std::fs::create_dir_all(data.parent().context("a place")?)?;
        drop(scene.up(data)?);
    }
    let few = Town::open(&threads, &scene.few)?;
    few.settle(0, FEW)?;
    few.close()?;
    let first = made(&threads, &scene, 0, MANY)?;
    let restarts = restarts(&threads, &scene)?;
    let rest = made(&threads, &scene, MANY, ALL)?;
    let made = format!(
        "{ALL} made through the registry, {} us each up to {MANY} and {} us each from then on, {:.2} GB on disk",
        short(first),
        short(rest),
        std::fs::metadata(scene.all.join("vivarium.db"))?.len() as f64 / 1e9
    );
    let mut metrics = vec![asleep(&scene, &made)?, wake_among(&scene)?];
    metrics.extend(rush(&threads, &scene)?);
    metrics.extend(restarts);
    Ok(metrics)
}

impl SleeperStore {
    fn up(&self, data: &Path) -> Result<Running> {
        let url = self.stub.url();
        let model = ["--model", "openai-compatible/stub", "--base-url", &url, "--context-window", "100000"];
        process::up_with(&self.viv, data, &model)
    }

    /// Requests that are on their way are none of what comes next.
    fn nobody_asks(&self) {
        while self.stub.arrival_within(Duration::from_millis(200)).is_some() {}
    }
}

/// Makes agents; microseconds for each.
fn made(threads: &Runtime, scene: &SleeperStore, from: usize, to: usize) -> Result<f64> {
    let town = Town::open(threads, &scene.all)?;
    let began = Instant::now();
    town.settle(from, to)?;
    let took = us(began.elapsed());
    town.close()?;
    Ok(took / (to - from) as f64)
}

/// After a death among very many that sleep and some that have something to do, against one with nobody.
fn restarts(threads: &Runtime, scene: &SleeperStore) -> Result<Vec<Metric>> {
    let (mut alone, mut among) = (Samples::default(), Samples::default());
    let (mut first, mut last) = (Samples::default(), Samples::default());
    for round in 0..STARTS {
        alone.push(scene.up(&scene.empty)?.ready_ms);
        let town = Town::open(threads, &scene.all)?;
        town.ring(round * PENDING, (round + 1) * PENDING)?;
        town.abandon();
        scene.nobody_asks();
        let running = scene.up(&scene.all)?;
        among.push(running.ready_ms);
        for n in 0..PENDING {
            let arrival = scene.stub.arrival().context("one that has something to do is not served")?;
            let since = us(arrival.at.saturating_duration_since(running.began)) / 1e3;
            if n == 0 {
                first.push(since);
            } else if n == PENDING - 1 {
                last.push(since);
            }
        }
    }
    let note = format!(
        "from the start of `viv up` to its word that it is ready, after a death, with {MANY} agents of whom \
         {PENDING} have something to do ({}); floor: the same with nobody ({})",
        among.spread(),
        alone.spread()
    );
    let floor = alone.median();
    let ready =
        Metric::new("density.restart_ready", (among.median(), "ms"), floor, Goal::RatioAtMost(2.0), note);
    let note = format!(
        "from the start of the process to the first request at the model in the same runs ({}); all {PENDING} \
         are served after {} ms, suspects a few at a time; floor: ready",
        first.spread(),
        short(last.median())
    );
    let goal = Goal::ValueAtMost(1_000.0);
    let served = Metric::new("density.restart_served", (first.median(), "ms"), among.median(), goal, note);
    Ok(vec![ready, served])
}

/// What one that sleeps weighs.
fn asleep(scene: &SleeperStore, made: &str) -> Result<Metric> {
    let (mut none, mut all, mut ready) = (Samples::default(), Samples::default(), Samples::default());
    let (mut threads, mut threads_all) = (0, 0);
    for _ in 0..LOOKS {
        for (data, bytes) in [(&scene.empty, &mut none), (&scene.all, &mut all)] {
            let running = scene.up(data)?;
            std::thread::sleep(REST);
            bytes.push(running.own_bytes()?);
            if data == &scene.all {
                ready.push(running.ready_ms);
                threads_all = running.threads()?;
            } else {
                threads = running.threads()?;
            }
        }
    }
    let bytes = (all.median() - none.median()) / ALL as f64;
    let note = format!(
        "memory of `viv up` that is no page of a file: {} MB with {ALL} agents ({}), {} MB with one; threads {threads_all} \
         and {threads}; ready after {} ms; {made}; floor: an Erlang process",
        short(all.median() / 1e6),
        all.spread(),
        short(none.median() / 1e6),
        short(ready.median()),
    );
    Ok(Metric::new("density.sleeping_bytes", (bytes, "B"), ERLANG_PROCESS, Goal::RatioAtMost(0.2), note))
}

/// An activation of a random agent among all against one among few.
fn wake_among(scene: &SleeperStore) -> Result<Metric> {
    let mut wakes = [Samples::default(), Samples::default()];
    let mut bells = [Bells::at(scene, &scene.few, FEW)?, Bells::at(scene, &scene.all, ALL)?];
    scene.nobody_asks();
    for n in 0..WAKES {
        for (bells, wakes) in bells.iter_mut().zip(&mut wakes) {
            let took = bells.ring(&scene.stub, n)?;
            // The first ones open connections and load what all share.
            if n >= WAKES / 10 {
                wakes.push(took);
            }
        }
    }
    let [few, all] = wakes;
    let note = format!(
        "from the first byte of an event's POST to the first byte of the request at the model, a random agent \
         among {ALL} ({}), p99 {}; floor: one among {FEW} ({}), p99 {}",
        all.spread(),
        short(all.quantile(0.99)),
        few.spread(),
        short(few.quantile(0.99)),
    );
    let floor = few.median();
    Ok(Metric::new("density.wake_among", (all.median(), "us"), floor, Goal::RatioAtMost(2.0), note))
}

/// A running server and a line to it.
struct Bells {
    _running: Running,
    line: Line,
    key: String,
    agents: usize,
}

impl Bells {
    fn at(scene: &SleeperStore, data: &Path, agents: usize) -> Result<Self> {
        let running = scene.up(data)?;
        let file = std::fs::read_to_string(data.join("credentials.json")).context("no credentials")?;
        let file: Value = serde_json::from_str(&file)?;
        let url = file["url"].as_str().context("no address")?;
        let line = Line::open(url.trim_start_matches("http://").parse()?)?;
        let key = file["key"].as_str().context("no key")?.to_owned();
        Ok(Self { _running: running, line, key, agents })
    }

    /// Wakes the n-th of a random order; microseconds until the model is asked.
    fn ring(&mut self, stub: &Stub, n: usize) -> Result<f64> {
        let whom = agent((n * 7_919_777 + 13) % self.agents);
        let body = json!({"service": "bell", "payload": {"ring": n}}).to_string();
        let request = self.line.post(&format!("/v1/agents/{whom}/events"), &self.key, &body);
        let began = self.line.send(&request)?;
        let arrival = stub.arrival()?;
        self.line.answer()?;
        std::thread::sleep(Duration::from_millis(5));
        Ok(us(arrival.at.duration_since(began)))
    }
}

/// Very many that are due at once, and what those who are warm afterwards weigh.
fn rush(threads: &Runtime, scene: &SleeperStore) -> Result<Vec<Metric>> {
    let (_, before) = served(threads, scene, ALL / 2, BEFORE)?;
    let (waits, after) = served(threads, scene, ALL / 2 + BEFORE, BEFORE + RUSH)?;
    let note = format!(
        "{} of {ALL} agents have something to do when `viv up` starts; the longest time until the model is \
         asked for one of them, as many at once as may be awake ({}); floor: the time of the one in the middle",
        BEFORE + RUSH,
        waits.spread()
    );
    let (last, middle) = (waits.quantile(1.0), waits.median());
    let fair = Metric::new("density.rush", (last, "s"), middle, Goal::RatioAtMost(2.0), note);
    let note = format!(
        "memory of `viv up` that is no page of a file after {} wakings of different agents, each skipped, less \
         that after {BEFORE}, for each of {RUSH} more; {} MB and {} MB; reference: a warm actor of a well-known \
         engine, 72.4 KB",
        BEFORE + RUSH,
        short(after / 1e6),
        short(before / 1e6)
    );
    let bytes = (after - before) / RUSH as f64;
    let warm = Metric::new("density.warm_bytes", (bytes, "B"), WARM_ACTOR, Goal::RatioAtMost(0.15), note);
    Ok(vec![fair, warm])
}

/// So many agents from `from` on are due when the server starts: when each was served, in seconds since
/// the start, and the memory afterwards.
fn served(threads: &Runtime, scene: &SleeperStore, from: usize, count: usize) -> Result<(Samples, f64)> {
    let town = Town::open(threads, &scene.all)?;
    town.ring(from, from + count)?;
    town.close()?;
    scene.nobody_asks();
    let running = scene.up(&scene.all)?;
    let waits = (0..count).map(|_| {
        let arrival = scene.stub.arrival().context("one that has something to do is not served")?;
        Ok(arrival.at.saturating_duration_since(running.began).as_secs_f64())
    });
    let waits = waits.collect::<Result<Samples>>()?;
    std::thread::sleep(REST);
    Ok((waits, running.own_bytes()?))
}
