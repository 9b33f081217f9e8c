//! A million agents in one data directory, almost all asleep: creating them, their memory, a start and an
//! activation among them, and ten thousand activations at once. The server is the process `viv up`; its
//! model answers at once with `skip`, so that histories stay empty.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::population::{Population, agent};
use crate::Bench;
use crate::measure::{Samples, short, us};
use crate::process::{self, IDLE, Running};
use crate::report::{Floor, Goal, Metric};
use crate::server;
use crate::stub::{Answer, Stub};
use crate::talk::HttpConnection;

/// Agents during the measured restarts, and how many of them have something to do.
const MANY: usize = 100_000;
const PENDING: usize = 1_000;
/// Agents at the end.
const ALL: usize = 1_000_000;
/// Agents in the small data directory.
const FEW: usize = 100;
/// Starts that are timed.
const STARTS: usize = 9;
/// Processes whose memory is measured.
const MEMORY_RUNS: usize = 3;
/// Activations that are timed, one at a time.
const WAKES: usize = 300;
/// Agents that are due at once, and the agents that are served before them when memory is compared.
const RUSH: usize = 10_000;
const BEFORE: usize = 1_000;
/// Memory of an Erlang process, in bytes: the floor of a sleeping agent.
const ERLANG_PROCESS: f64 = 2_616.0;
/// Memory of a warm actor of a well-known engine, in bytes: the reference of a warm agent.
const WARM_ACTOR: f64 = 72_400.0;

struct SleeperSetup {
    viv: PathBuf,
    stub: Stub,
    /// Data directories: one with only the initial agent, one with few agents, one with all.
    empty: PathBuf,
    few: PathBuf,
    all: PathBuf,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let data_dir = |name: &str| dir.path().join(name).join("data");
    let skip = Answer::Call("skip", json!({"reason": "nothing of it is mine"}));
    let (viv, stub) = (process::viv(bench)?, Stub::with_default(skip)?);
    let setup =
        SleeperSetup { viv, stub, empty: data_dir("empty"), few: data_dir("few"), all: data_dir("all") };
    for data in [&setup.empty, &setup.few, &setup.all] {
        std::fs::create_dir_all(data.parent().context("a data directory without a parent")?)?;
        drop(setup.up(data)?);
    }
    let few = Population::open(&threads, &setup.few)?;
    few.create_agents(0, FEW)?;
    few.close()?;
    let first = create_agents(&threads, &setup, 0, MANY)?;
    let restarts = restarts(&threads, &setup)?;
    let rest = create_agents(&threads, &setup, MANY, ALL)?;
    let creation = format!(
        "{ALL} created through the registry, {} us each up to {MANY} and {} us each after that, {:.2} GB on disk",
        short(first),
        short(rest),
        std::fs::metadata(setup.all.join("vivarium.db"))?.len() as f64 / 1e9
    );
    let mut metrics = vec![asleep(&setup, &creation)?, wake_among(&setup)?];
    metrics.extend(rush(&threads, &setup)?);
    metrics.extend(restarts);
    Ok(metrics)
}

impl SleeperSetup {
    fn up(&self, data: &Path) -> Result<Running> {
        let url = self.stub.url();
        let model = ["--model", "openai-compatible/stub", "--base-url", &url, "--context-window", "100000"];
        process::up_with(&self.viv, data, &model)
    }

    /// Discards requests until none arrives any more, so that the next measurement does not count them.
    fn discard_requests(&self) {
        while self.stub.any_within(Duration::from_millis(200)).is_some() {}
    }
}

/// Creates agents; returns microseconds for each.
fn create_agents(threads: &Runtime, setup: &SleeperSetup, from: usize, to: usize) -> Result<f64> {
    let population = Population::open(threads, &setup.all)?;
    let began = Instant::now();
    population.create_agents(from, to)?;
    let took = us(began.elapsed());
    population.close()?;
    Ok(took / (to - from) as f64)
}

/// Restarts after a crash with many sleeping and some due agents, compared with a server without agents.
fn restarts(threads: &Runtime, setup: &SleeperSetup) -> Result<Vec<Metric>> {
    let (mut alone, mut among) = (Samples::default(), Samples::default());
    let (mut first, mut last) = (Samples::default(), Samples::default());
    for round in 0..STARTS {
        alone.push(setup.up(&setup.empty)?.ready_ms);
        let population = Population::open(threads, &setup.all)?;
        population.send_events(round * PENDING, (round + 1) * PENDING)?;
        population.drop_unclosed();
        setup.discard_requests();
        let running = setup.up(&setup.all)?;
        among.push(running.ready_ms);
        for n in 0..PENDING {
            let arrival =
                setup.stub.arrival(running.began).context("an agent with something to do is not served")?;
            let since = us(arrival.at.saturating_duration_since(running.began)) / 1e3;
            if n == 0 {
                first.push(since);
            } else if n == PENDING - 1 {
                last.push(since);
            }
        }
    }
    let note = format!(
        "from the start of `viv up` until it reports ready, after a crash, with {MANY} agents of which \
         {PENDING} have something to do ({}); floor: the same without agents ({})",
        among.spread(),
        alone.spread()
    );
    let floor = alone.median();
    let ready = Metric::new(
        "density.restart_ready",
        (among.median(), "ms"),
        Floor::Twin(floor),
        Goal::RatioAtMost(2.0),
        note,
    );
    let note = format!(
        "from the start of the process to the first request at the model in the same runs ({}); all {PENDING} \
         are served after {} ms, suspects a few at a time; floor: ready",
        first.spread(),
        short(last.median())
    );
    let goal = Goal::ValueAtMost(1_000.0);
    let served = Metric::new(
        "density.restart_served",
        (first.median(), "ms"),
        Floor::Named(among.median()),
        goal,
        note,
    );
    Ok(vec![ready, served])
}

/// Memory of a sleeping agent.
fn asleep(setup: &SleeperSetup, creation: &str) -> Result<Metric> {
    let (mut none, mut all, mut ready) = (Samples::default(), Samples::default(), Samples::default());
    let (mut threads, mut threads_all) = (0, 0);
    for _ in 0..MEMORY_RUNS {
        for (data, bytes) in [(&setup.empty, &mut none), (&setup.all, &mut all)] {
            let running = setup.up(data)?;
            std::thread::sleep(IDLE);
            bytes.push(running.own_bytes()?);
            if data == &setup.all {
                ready.push(running.ready_ms);
                threads_all = running.threads()?;
            } else {
                threads = running.threads()?;
            }
        }
    }
    let bytes = (all.median() - none.median()) / ALL as f64;
    let note = format!(
        "anonymous memory of `viv up`: {} MB with {ALL} agents ({}), {} MB with one; threads {threads_all} \
         and {threads}; ready after {} ms; {creation}; floor: an Erlang process",
        short(all.median() / 1e6),
        all.spread(),
        short(none.median() / 1e6),
        short(ready.median()),
    );
    Ok(Metric::new(
        "density.sleeping_bytes",
        (bytes, "B"),
        Floor::Residue(ERLANG_PROCESS),
        Goal::RatioAtMost(0.2),
        note,
    ))
}

/// An activation of a random agent among all agents, compared with one among few.
fn wake_among(setup: &SleeperSetup) -> Result<Metric> {
    let mut wakes = [Samples::default(), Samples::default()];
    let mut senders = [EventSender::at(setup, &setup.few, FEW)?, EventSender::at(setup, &setup.all, ALL)?];
    setup.discard_requests();
    for n in 0..WAKES {
        for (senders, wakes) in senders.iter_mut().zip(&mut wakes) {
            let took = senders.send_event(&setup.stub, n)?;
            // The first activations open connections and load shared data.
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
    Ok(Metric::new(
        "density.wake_among",
        (all.median(), "us"),
        Floor::Twin(floor),
        Goal::RatioAtMost(2.0),
        note,
    ))
}

/// A running server and a connection to it.
struct EventSender {
    _running: Running,
    connection: HttpConnection,
    key: String,
    agents: usize,
}

impl EventSender {
    fn at(setup: &SleeperSetup, data: &Path, agents: usize) -> Result<Self> {
        let running = setup.up(data)?;
        let file = std::fs::read_to_string(data.join("credentials.json")).context("no credentials")?;
        let file: Value = serde_json::from_str(&file)?;
        let url = file["url"].as_str().context("no address")?;
        let connection = HttpConnection::open(url.trim_start_matches("http://").parse()?)?;
        let key = file["key"].as_str().context("no key")?.to_owned();
        Ok(Self { _running: running, connection, key, agents })
    }

    /// Sends an event to the n-th agent of a random order; returns microseconds until the model is asked.
    fn send_event(&mut self, stub: &Stub, n: usize) -> Result<f64> {
        let whom = agent((n * 7_919_777 + 13) % self.agents);
        let body = json!({"service": "bell", "payload": {"ring": n}}).to_string();
        let request = self.connection.post(&format!("/v1/agents/{whom}/events"), &self.key, &body);
        let began = self.connection.send(&request)?;
        let arrival = stub.arrival(began)?;
        self.connection.answer()?;
        std::thread::sleep(Duration::from_millis(5));
        Ok(us(arrival.at.duration_since(began)))
    }
}

/// Very many agents that are due at once, and the memory of the warm agents afterwards.
fn rush(threads: &Runtime, setup: &SleeperSetup) -> Result<Vec<Metric>> {
    let (_, before) = served(threads, setup, ALL / 2, BEFORE)?;
    let (waits, after) = served(threads, setup, ALL / 2 + BEFORE, BEFORE + RUSH)?;
    let note = format!(
        "{} of {ALL} agents have something to do when `viv up` starts; the longest time until the model is \
         asked for one of them, with as many awake at once as allowed ({}); floor: the median time",
        BEFORE + RUSH,
        waits.spread()
    );
    let (last, middle) = (waits.quantile(1.0), waits.median());
    let fair = Metric::new("density.rush", (last, "s"), Floor::Bound(middle), Goal::RatioAtMost(2.0), note);
    let note = format!(
        "anonymous memory of `viv up` after {} activations of different agents, each skipped, less \
         that after {BEFORE}, for each of {RUSH} more; {} MB and {} MB; reference: a warm actor of a well-known \
         engine, 72.4 KB",
        BEFORE + RUSH,
        short(after / 1e6),
        short(before / 1e6)
    );
    let bytes = (after - before) / RUSH as f64;
    let warm = Metric::new(
        "density.warm_bytes",
        (bytes, "B"),
        Floor::Named(WARM_ACTOR),
        Goal::RatioAtMost(0.15),
        note,
    );
    Ok(vec![fair, warm])
}

/// Starts the server with `count` due agents from number `from`. Returns when each was served, in seconds
/// since the start, and the memory afterwards.
fn served(threads: &Runtime, setup: &SleeperSetup, from: usize, count: usize) -> Result<(Samples, f64)> {
    let population = Population::open(threads, &setup.all)?;
    population.send_events(from, from + count)?;
    population.close()?;
    setup.discard_requests();
    let running = setup.up(&setup.all)?;
    let waits = (0..count).map(|_| {
        let arrival =
            setup.stub.arrival(running.began).context("an agent with something to do is not served")?;
        Ok(arrival.at.saturating_duration_since(running.began).as_secs_f64())
    });
    let waits = waits.collect::<Result<Samples>>()?;
    std::thread::sleep(IDLE);
    Ok((waits, running.own_bytes()?))
}
