//! From the first byte of a message's POST to the first byte of the request at the model: the number of
//! fsyncs between them, and the time without the disk.

use std::time::Duration;

use agent::config::{AgentConfig, HistoryLimit, SummaryBy};
use anyhow::{Context, Result};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::Bench;
use crate::floor::BareWake;
use crate::machine::Disk;
use crate::measure::{Samples, short, us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, CycleListener, Home};
use crate::stub::Stub;
use crate::talk::HttpConnection;
use crate::watched::{Mark, Point};

/// Wakes before the first counted one: enough for the log to reach its full length, after which it is
/// overwritten.
const WARM_UP: usize = 300;
/// Timed wakes.
const SAMPLES: usize = 400;
/// Wakes whose fsyncs are counted while the opening commit is held back.
const COUNTED: usize = 40;
/// Frames of the log that one accept writes.
const FRAMES: usize = 9;
/// Goal of the time without the disk, in floors.
const RATIO: f64 = 4.0;

struct WakeSetup<'a> {
    threads: &'a Runtime,
    server: BenchServer,
    stub: Stub,
    connection: HttpConnection,
    request: Vec<u8>,
    listener: CycleListener,
}

/// The stages of a wake.
const STAGES: [(&str, Point, Point); 7] = [
    ("API to accept", Point::Began, Point::AcceptAsked),
    ("accept durable", Point::AcceptAsked, Point::Accepted),
    ("signal to wake", Point::Accepted, Point::WakeAsked),
    ("wake read", Point::WakeAsked, Point::Woken),
    ("rules", Point::Woken, Point::Asked),
    ("encoding", Point::Asked, Point::Encoded),
    ("request to first byte", Point::Encoded, Point::Arrived),
];

/// The time of each stage, in microseconds.
#[derive(Default)]
struct Stages([Samples; STAGES.len()]);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let mut setup = WakeSetup::new(&threads, dir.path())?;
    for _ in 0..WARM_UP {
        setup.wake()?;
    }
    let fsyncs = fsyncs(&mut setup)?;
    let ratio = ratio(&mut setup, dir.path())?;
    threads.block_on(setup.server.stop())?;
    Ok(vec![fsyncs, ratio])
}

impl<'a> WakeSetup<'a> {
    fn new(threads: &'a Runtime, dir: &std::path::Path) -> Result<Self> {
        let stub = Stub::start()?;
        let base_url = Some(stub.url());
        let _in = threads.enter();
        let server = BenchServer::build(&dir.join("data"), |clock| {
            let model = ModelConfig { base_url, ..ModelConfig::named("openai-compatible/stub") };
            std::sync::Arc::new(ModelBook::new(model, KeyRing::default(), clock))
        })?;
        // Its history becomes longer than a view, and a summary would be one more request.
        let history = HistoryLimit { summary: SummaryBy::Off, ..HistoryLimit::default() };
        let home = threads.block_on(server.home("ada", AgentConfig { history, ..server::config() }))?;
        let Home { agent, space, .. } = home;
        let (address, key) = threads.block_on(server.serve_api(&home))?;
        let connection = HttpConnection::open(address)?;
        let request = connection.post(&format!("/v1/spaces/{space}/messages"), &key, &message());
        let listener = server.listen(agent);
        Ok(Self { threads, server, stub, connection, request, listener })
    }

    /// One wake; returns its time in microseconds and its marks.
    fn wake(&mut self) -> Result<(f64, Vec<Mark>)> {
        drop(self.server.marks.take());
        let began = self.connection.send(&self.request)?;
        let arrival = self.stub.arrival(began)?;
        self.connection.answer()?;
        self.wait_until_asleep()?;
        let began = Mark { point: Point::Began, at: began, cpu_us: None };
        let arrived = Mark { point: Point::Arrived, at: arrival.at, cpu_us: None };
        let mut marks = vec![began, arrived];
        marks.extend(self.server.marks.take());
        Ok((us(arrival.at.duration_since(began.at)), marks))
    }

    /// Waits until the agent sleeps again and its last writes are done.
    fn wait_until_asleep(&mut self) -> Result<()> {
        self.threads.block_on(self.listener.ended())?;
        pause();
        Ok(())
    }
}

/// A pause before each measurement, of the floor too, so that caches, threads and cores are as cold as for
/// an unexpected message.
fn pause() {
    std::thread::sleep(Duration::from_millis(2));
}

fn message() -> String {
    json!({"text": "What do you make of this? ".repeat(8)}).to_string()
}

/// Counts the fsyncs of a wake. Opening commits are held back until the request is at the model, so that
/// exactly the commits that the request waits for are counted.
fn fsyncs(setup: &mut WakeSetup<'_>) -> Result<Metric> {
    let mut counts = Samples::default();
    for _ in 0..COUNTED {
        setup.server.watched.hold_openings(true);
        let before = setup.server.stats().groups;
        let began = setup.connection.send(&setup.request)?;
        setup.stub.arrival(began).context("the request waits for more than its accept")?;
        counts.push((setup.server.stats().groups - before) as f64);
        setup.server.watched.hold_openings(false);
        setup.connection.answer()?;
        setup.wait_until_asleep()?;
    }
    let note = format!(
        "transactions committed between the POST and the request at the model, with the opening held back \
         until then; worst of {COUNTED} wakes; floor: the accept alone"
    );
    Ok(Metric::new(
        "core.wake_fsyncs",
        (counts.quantile(1.0), "fsyncs"),
        Floor::Bound(1.0),
        Goal::ValueIs(1.0),
        note,
    ))
}

fn ratio(setup: &mut WakeSetup<'_>, dir: &std::path::Path) -> Result<Metric> {
    let mut disk = Disk::open(dir)?;
    let mut floor = BareWake::start(setup.threads, &message())?;
    let (mut wakes, mut fsyncs) = (Samples::default(), Samples::default());
    let (mut trips, mut hops) = (Samples::default(), Samples::default());
    let mut stages = Stages::default();
    for _ in 0..SAMPLES {
        // In turns, so that other load on the machine affects all equally.
        let (wake, marks) = setup.wake()?;
        wakes.push(wake);
        stages.add(&marks);
        fsyncs.push(disk.fsync(FRAMES)?);
        pause();
        trips.push(floor.round_trip()?);
        pause();
        hops.push(floor.hop()?);
    }
    let value = wakes.median() - fsyncs.median();
    let note = format!(
        "wake {} us ({}) less fsync {} us ({}); floor: round trip {} us ({}) + hop {} us ({}); stages of a wake, \
         us: {}",
        short(wakes.median()),
        wakes.spread(),
        short(fsyncs.median()),
        fsyncs.spread(),
        short(trips.median()),
        trips.spread(),
        short(hops.median()),
        hops.spread(),
        stages.describe(),
    );
    let floor = trips.median() + hops.median();
    Ok(Metric::new("core.wake_ratio", (value, "us"), Floor::Bound(floor), Goal::RatioAtMost(RATIO), note))
}

impl Stages {
    fn add(&mut self, marks: &[Mark]) {
        let at = |point| marks.iter().find(|mark| mark.point == point).map(|mark| mark.at);
        for (times, (_, from, to)) in self.0.iter_mut().zip(STAGES) {
            if let (Some(from), Some(to)) = (at(from), at(to)) {
                times.push(us(to.saturating_duration_since(from)));
            }
        }
    }

    fn describe(&self) -> String {
        let stages = self.0.iter().zip(STAGES);
        let words = stages.map(|(times, (name, ..))| format!("{name} {}", short(times.median())));
        words.collect::<Vec<_>>().join(", ")
    }
}
