//! A quiet agent next to a flooded one: how much longer its activations take.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use agent::port::{BoxStream, Model, ModelError, ModelInfo, ModelRequest, Models, Piece};
use anyhow::{Context, Result, bail};
use models::scripted::Script;
use tokio::task::JoinSet;

use crate::Bench;
use crate::instant;
use crate::measure::{Samples, short, us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, CycleListener, Home};

/// People that flood at the same time, each as fast as its messages are accepted.
const FLOODERS: usize = 4;
/// Rounds of each kind, in turns; the first pair is a warm-up.
const ROUNDS: usize = 9;
/// Activations of one round.
const WAKES: usize = 100;
/// The name of the quiet agent.
const QUIET: &str = "quiet";

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let Latencies { alone, beside, flood } = server::threads()?.block_on(all(dir.path()))?;
    let note = format!(
        "p99 from a message to the request to the model, another agent flooded by {FLOODERS} people with {} \
         messages/s ({}); floor: p99 while no other agent has anything to do ({})",
        short(flood.median()),
        beside.spread(),
        alone.spread()
    );
    let (value, floor) = (beside.quantile(0.99), alone.quantile(0.99));
    Ok(vec![Metric::new(
        "density.neighbour",
        (value, "us"),
        Floor::Twin(floor),
        Goal::RatioAtMost(2.0),
        note,
    )])
}

/// Models that report when the quiet agent's model is asked.
struct ObservedModels {
    inner: Arc<dyn Models>,
    requests: Sender<Instant>,
}

impl Models for ObservedModels {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(ObservedModel { inner: self.inner.model(name)?, requests: self.requests.clone() }))
    }
}

struct ObservedModel {
    inner: Arc<dyn Model>,
    requests: Sender<Instant>,
}

impl Model for ObservedModel {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        if request.prompt.system.contains(&format!("@{QUIET}")) {
            // The receiver is dropped at the end of the measurement.
            let _ = self.requests.send(Instant::now());
        }
        self.inner.stream(request)
    }
}

#[derive(Default)]
struct Latencies {
    alone: Samples,
    beside: Samples,
    /// Messages of the flood per second.
    flood: Samples,
}

async fn all(dir: &Path) -> Result<Latencies> {
    let (sender, requests) = channel();
    let server = BenchServer::build(&dir.join("data"), |clock| {
        let inner = instant::models(clock, |_| Script::new().text("That is all for now."));
        Arc::new(ObservedModels { inner, requests: sender })
    })?;
    let server = Arc::new(server);
    let quiet = server.home(QUIET, server::config()).await?;
    let flooded = server.home("flooded", server::config()).await?;
    let mut listener = server.listen(quiet.agent);
    let mut latencies = Latencies::default();
    for n in 0..ROUNDS {
        let alone = round(&server, &quiet, &mut listener, &requests).await?;
        let flood = Flood::start(&server, &flooded);
        let beside = round(&server, &quiet, &mut listener, &requests).await?;
        let speed = flood.stop().await?;
        if n > 0 {
            latencies.alone.extend(&alone);
            latencies.beside.extend(&beside);
            latencies.flood.push(speed);
        }
    }
    Arc::into_inner(server).context("a flooder is still running")?.stop().await?;
    Ok(latencies)
}

async fn round(
    server: &BenchServer,
    quiet: &Home,
    listener: &mut CycleListener,
    requests: &Receiver<Instant>,
) -> Result<Samples> {
    let mut wakes = Samples::default();
    for _ in 0..WAKES {
        let began = Instant::now();
        server.post(quiet, "What do you make of this?").await?;
        listener.ended().await?;
        let asked: Vec<Instant> = requests.try_iter().collect();
        let [asked_at] = asked[..] else { bail!("wanted one request a cycle, got {}", asked.len()) };
        let took = asked_at.checked_duration_since(began);
        wakes.push(us(took.context("the model was asked before the message was sent")?));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(wakes)
}

/// People that post to one agent without a pause.
struct Flood {
    stop: Arc<AtomicBool>,
    flooders: JoinSet<Result<usize>>,
    began: Instant,
}

impl Flood {
    fn start(server: &Arc<BenchServer>, home: &Home) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut flooders = JoinSet::new();
        for _ in 0..FLOODERS {
            let (server, home, stop) = (Arc::clone(server), *home, Arc::clone(&stop));
            flooders.spawn(async move {
                let mut posted = 0;
                while !stop.load(Ordering::Relaxed) {
                    server.post(&home, "And another thing, and another, and one more after that.").await?;
                    posted += 1;
                }
                Ok(posted)
            });
        }
        Self { stop, flooders, began: Instant::now() }
    }

    /// Stops the flood; returns messages per second.
    async fn stop(mut self) -> Result<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut posted = 0;
        while let Some(ended) = self.flooders.join_next().await {
            posted += ended.context("a flooder failed")??;
        }
        Ok(posted as f64 / self.began.elapsed().as_secs_f64())
    }
}
