//! A quiet agent beside one that is flooded: how much longer its activations take.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use agent::config::AgentConfig;
use agent::port::{BoxStream, Model, ModelError, ModelInfo, ModelRequest, Models, Piece};
use anyhow::{Context, Result};
use models::scripted::Script;
use tokio::task::JoinSet;

use crate::Bench;
use crate::instant;
use crate::measure::{Samples, short, us};
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer, Ears, Home};

/// Who floods at once, each as fast as its messages are accepted.
const FLOODERS: usize = 4;
/// Rounds of each kind, in turns; the first pair warms up.
const ROUNDS: usize = 9;
/// Activations of one round.
const WAKES: usize = 100;
/// What the quiet one is called.
const QUIET: &str = "quiet";

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let Found { alone, beside, flood } = server::threads()?.block_on(all(dir.path()))?;
    let note = format!(
        "p99 from a message to the question to the model, another agent flooded by {FLOODERS} people with {} \
         messages/s ({}); floor: p99 while nobody else has anything to do ({})",
        short(flood.median()),
        beside.spread(),
        alone.spread()
    );
    let (value, floor) = (beside.quantile(0.99), alone.quantile(0.99));
    Ok(vec![Metric::new("density.neighbour", (value, "us"), floor, Goal::RatioAtMost(2.0), note)])
}

/// Models that tell when the quiet agent's model is asked.
struct Overheard {
    inner: Arc<dyn Models>,
    heard: Sender<Instant>,
}

impl Models for Overheard {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(OverheardModel { inner: self.inner.model(name)?, heard: self.heard.clone() }))
    }
}

struct OverheardModel {
    inner: Arc<dyn Model>,
    heard: Sender<Instant>,
}

impl Model for OverheardModel {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        if request.prompt.system.contains(&format!("@{QUIET}")) {
            // Nobody listens any more once the measuring is over.
            let _ = self.heard.send(Instant::now());
        }
        self.inner.stream(request)
    }
}

#[derive(Default)]
struct Found {
    alone: Samples,
    beside: Samples,
    /// Messages of the flood per second.
    flood: Samples,
}

async fn all(dir: &Path) -> Result<Found> {
    let (heard, hears) = channel();
    let house = BenchServer::build(&dir.join("data"), |clock| {
        let inner = instant::models(clock, |_| Script::new().text("That is all for now."));
        Arc::new(Overheard { inner, heard })
    })?;
    let house = Arc::new(house);
    let quiet = house.home(QUIET, AgentConfig::default()).await?;
    let flooded = house.home("flooded", AgentConfig::default()).await?;
    let mut ears = house.listen(quiet.agent);
    let mut found = Found::default();
    for n in 0..ROUNDS {
        let alone = round(&house, &quiet, &mut ears, &hears).await?;
        let flood = Flood::start(&house, &flooded);
        let beside = round(&house, &quiet, &mut ears, &hears).await?;
        let speed = flood.stop().await?;
        if n > 0 {
            found.alone.extend(&alone);
            found.beside.extend(&beside);
            found.flood.push(speed);
        }
    }
    Arc::into_inner(house).context("a flooder is left")?.stop().await?;
    Ok(found)
}

async fn round(
    house: &BenchServer,
    quiet: &Home,
    ears: &mut Ears,
    hears: &Receiver<Instant>,
) -> Result<Samples> {
    let mut wakes = Samples::default();
    for _ in 0..WAKES {
        let began = Instant::now();
        house.say(quiet, "What do you make of this?").await?;
        ears.ended().await?;
        let heard = hears.try_recv().context("a cycle without a question to the model")?;
        wakes.push(us(heard.duration_since(began)));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(wakes)
}

/// People who speak to one agent without a pause.
struct Flood {
    over: Arc<AtomicBool>,
    flooders: JoinSet<Result<usize>>,
    began: Instant,
}

impl Flood {
    fn start(house: &Arc<BenchServer>, home: &Home) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let mut flooders = JoinSet::new();
        for _ in 0..FLOODERS {
            let (house, home, over) = (Arc::clone(house), *home, Arc::clone(&over));
            flooders.spawn(async move {
                let mut said = 0;
                while !over.load(Ordering::Relaxed) {
                    house.say(&home, "And another thing, and another, and one more after that.").await?;
                    said += 1;
                }
                Ok(said)
            });
        }
        Self { over, flooders, began: Instant::now() }
    }

    /// Ends it; messages per second.
    async fn stop(mut self) -> Result<f64> {
        self.over.store(true, Ordering::Relaxed);
        let mut said = 0;
        while let Some(ended) = self.flooders.join_next().await {
            said += ended.context("a flooder broke")??;
        }
        Ok(said as f64 / self.began.elapsed().as_secs_f64())
    }
}
