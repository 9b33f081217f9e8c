//! Assembles a world for one run: SQLite in memory, the tools that every server has, and a model.

use std::sync::Arc;
use std::time::Duration;

use agent::port::{Clock, Ids, Models};
use jiff::Timestamp;
use runtime::Ports;
use runtime::clock::{SystemClock, SystemIds};
use scenario::clock::{SimClock, SimIds};
use scenario::model::Scripts;
use scenario::play::{PlayResult, ReplySource, play};
use scenario::scene::Scenario;
use scenario::world::World;
use storage::sqlite::Sqlite;

use crate::errors::{Exit, Failure, Result};

/// Every simulated world starts at this time (2026-01-01T09:00:00Z) and with this seed.
const START: i64 = 1_767_258_000;
const SEED: u64 = 7;
/// Limit of simulated time in which a world may stay busy. Simulated time itself costs nothing.
const SIMULATED: Duration = Duration::from_secs(7 * 86_400);

/// Runs with the scripts in the file. `max` is real time.
pub(super) async fn simulated(scenario: Arc<Scenario>, max: Duration) -> Result<PlayResult> {
    // Simulated time needs its own thread on which nothing else runs.
    let run = tokio::task::spawn_blocking(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(|error| {
                Failure::new(Exit::Failed, "no_runtime", format!("cannot start a thread: {error}"))
            })?;
        runtime.block_on(async {
            let clock = SimClock::new(Timestamp::from_second(START).unwrap_or(Timestamp::UNIX_EPOCH));
            let time: Arc<dyn Clock> = Arc::new(clock.clone());
            let scripts: Arc<dyn Models> = Arc::new(Scripts::of(&scenario, &time));
            let ids = Arc::new(SimIds::new(SEED, clock.clone()));
            let world = World::new(ports(time, ids, scripts)?, clock);
            let played =
                tokio::time::timeout(max, play(&scenario, world, ReplySource::Scripts, SIMULATED)).await;
            played.map_err(|_| timed_out(&scenario.name, max))
        })
    });
    run.await.map_err(|error| Failure::new(Exit::Failed, "broke", format!("the run failed: {error}")))?
}

/// Runs with a real model, in real time.
pub(super) async fn real(scenario: &Scenario, models: Arc<dyn Models>, max: Duration) -> Result<PlayResult> {
    let world = World::real(ports(Arc::new(SystemClock::new()), Arc::new(SystemIds), models)?);
    Ok(play(scenario, world, ReplySource::Model, max).await)
}

fn ports(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>, models: Arc<dyn Models>) -> Result<Ports> {
    let store = Sqlite::in_memory(Arc::clone(&clock)).map_err(|error| {
        Failure::new(Exit::Failed, "store_unusable", format!("cannot open a store in memory: {error}"))
    })?;
    Ok(Ports::new(Arc::new(store), models, Arc::new(tools::prebuilt()), clock, ids))
}

fn timed_out(name: &str, max: Duration) -> Failure {
    let message = format!("the scenario `{name}` did not end within {} s", max.as_secs());
    Failure::new(Exit::TimedOut, "timed_out", message)
        .hint("does its story end? allow more time with --timeout")
}
