//! From the first byte of a message's POST to the first byte of the request at the model: how many
//! fsyncs stand between, and what the way costs beside the disk.

use std::time::Duration;

use agent::config::AgentConfig;
use anyhow::{Context, Result};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::Bench;
use crate::floor::Floor;
use crate::machine::Disk;
use crate::measure::{Samples, short, us};
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer, Ears, Home};
use crate::stub::Stub;
use crate::talk::Line;
use crate::watched::{Mark, Point};

/// Wakes before the first that counts: as many as it takes the log to reach its full length, from
/// when on it is written over and over.
const WARM_UP: usize = 300;
/// Wakes that are timed.
const SAMPLES: usize = 400;
/// Wakes whose fsyncs are counted, the opening held back.
const COUNTED: usize = 40;
/// Frames of the log that one accept writes.
const FRAMES: usize = 9;
/// Longest way of the non-disk part, in floors.
const RATIO: f64 = 4.0;

struct WakeStore<'a> {
    threads: &'a Runtime,
    house: BenchServer,
    stub: Stub,
    line: Line,
    request: Vec<u8>,
    ears: Ears,
}

/// Where the time of a wake goes, stage by stage.
const STAGES: [(&str, Point, Point); 7] = [
    ("doors to accept", Point::Began, Point::AcceptAsked),
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
    let mut scene = WakeStore::set(&threads, dir.path())?;
    for _ in 0..WARM_UP {
        scene.wake()?;
    }
    let fsyncs = fsyncs(&mut scene)?;
    let ratio = ratio(&mut scene, dir.path())?;
    threads.block_on(scene.house.stop())?;
    Ok(vec![fsyncs, ratio])
}

impl<'a> WakeStore<'a> {
    fn set(threads: &'a Runtime, dir: &std::path::Path) -> Result<Self> {
        let stub = Stub::start()?;
        let base_url = Some(stub.url());
        let _in = threads.enter();
        let house = BenchServer::build(&dir.join("data"), |clock| {
            let model = ModelConfig { base_url, ..ModelConfig::named("openai-compatible/stub") };
            std::sync::Arc::new(ModelBook::new(model, KeyRing::default(), clock))
        })?;
        let home = threads.block_on(house.home("ada", AgentConfig::default()))?;
        let Home { agent, space, .. } = home;
        let (address, key) = threads.block_on(house.open_doors(&home))?;
        let line = Line::open(address)?;
        let request = line.post(&format!("/v1/spaces/{space}/messages"), &key, &message());
        let ears = house.listen(agent);
        Ok(Self { threads, house, stub, line, request, ears })
    }

    /// One wake; its length in microseconds and what passed on its way.
    fn wake(&mut self) -> Result<(f64, Vec<Mark>)> {
        drop(self.house.marks.take());
        let began = self.line.send(&self.request)?;
        let arrival = self.stub.arrival()?;
        self.line.answer()?;
        self.rest()?;
        let began = Mark { point: Point::Began, at: began, cpu_us: None };
        let arrived = Mark { point: Point::Arrived, at: arrival.at, cpu_us: None };
        let mut marks = vec![began, arrived];
        marks.extend(self.house.marks.take());
        Ok((us(arrival.at.duration_since(began.at)), marks))
    }

    /// Waits until the agent sleeps again and its last traces are dry.
    fn rest(&mut self) -> Result<()> {
        self.threads.block_on(self.ears.ended())?;
        pause();
        Ok(())
    }
}

/// Everything is measured from rest, the floor too: caches, threads and cores are as cold for it as
/// for a message that comes out of the blue.
fn pause() {
    std::thread::sleep(Duration::from_millis(2));
}

fn message() -> String {
    json!({"text": "What do you make of this? ".repeat(8)}).to_string()
}

/// Openings are held back until the request is at the model: so what it did not wait for cannot be
/// counted, and what it waited for cannot be missed.
fn fsyncs(scene: &mut WakeStore<'_>) -> Result<Metric> {
    let mut counts = Samples::default();
    for _ in 0..COUNTED {
        scene.house.watched.hold_openings(true);
        let before = scene.house.stats().groups;
        scene.line.send(&scene.request)?;
        scene.stub.arrival().context("the request waits for more than its accept")?;
        counts.push((scene.house.stats().groups - before) as f64);
        scene.house.watched.hold_openings(false);
        scene.line.answer()?;
        scene.rest()?;
    }
    let note = format!(
        "transactions committed between the POST and the request at the model, the opening held back \
         until then; worst of {COUNTED} wakes; floor: the accept alone"
    );
    Ok(Metric::new("core.wake_fsyncs", (counts.quantile(1.0), "fsyncs"), 1.0, Goal::ValueIs(1.0), note))
}

fn ratio(scene: &mut WakeStore<'_>, dir: &std::path::Path) -> Result<Metric> {
    let mut disk = Disk::open(dir)?;
    let mut floor = Floor::start(scene.threads, &message())?;
    let (mut wakes, mut fsyncs) = (Samples::default(), Samples::default());
    let (mut trips, mut hops) = (Samples::default(), Samples::default());
    let mut stages = Stages::default();
    for _ in 0..SAMPLES {
        // Side by side, so that whatever else the machine does falls on all alike.
        let (wake, marks) = scene.wake()?;
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
        "wake {} us ({}) less fsync {} us ({}); floor: round trip {} us ({}) + hop {} us ({}); where a wake \
         goes, us: {}",
        short(wakes.median()),
        wakes.spread(),
        short(fsyncs.median()),
        fsyncs.spread(),
        short(trips.median()),
        trips.spread(),
        short(hops.median()),
        hops.spread(),
        stages.words(),
    );
    let floor = trips.median() + hops.median();
    Ok(Metric::new("core.wake_ratio", (value, "us"), floor, Goal::RatioAtMost(RATIO), note))
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

    fn words(&self) -> String {
        let stages = self.0.iter().zip(STAGES);
        let words = stages.map(|(times, (name, ..))| format!("{name} {}", short(times.median())));
        words.collect::<Vec<_>>().join(", ")
    }
}
