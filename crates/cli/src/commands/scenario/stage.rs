//! Puts a world together for one run: SQLite in memory, the tools of every server, and a model.

use std::sync::Arc;
use std::time::Duration;

use agent::port::{Clock, Ids, Models};
use jiff::Timestamp;
use runtime::Ports;
use runtime::clock::{SystemClock, SystemIds};
use scenario::clock::{SimClock, SimIds};
use scenario::model::Scripts;
use scenario::play::{Minds, PlayResult, play};
use scenario::scene::Scenario;
use scenario::world::World;
use storage::sqlite::Sqlite;

use crate::errors::{Exit, Failure, Result};

/// Every simulated world begins at this second (2026-01-01T09:00:00Z) and with this seed.
const BEGINNING: i64 = 1_767_258_000;
const SEED: u64 = 7;
/// Simulated time costs nothing: what bounds it is how long a world may be restless.
const SIMULATED: Duration = Duration::from_secs(7 * 86_400);

/// Plays with the scripts of the file. `most` is real time.
pub(super) async fn simulated(scenario: Arc<Scenario>, most: Duration) -> Result<PlayResult> {
    // Simulated time wants a thread of its own on which nothing else runs.
    let playing = tokio::task::spawn_blocking(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(|error| {
                Failure::new(Exit::Failed, "no_runtime", format!("cannot start a thread: {error}"))
            })?;
        runtime.block_on(async {
            let clock = SimClock::new(Timestamp::from_second(BEGINNING).unwrap_or(Timestamp::UNIX_EPOCH));
            let time: Arc<dyn Clock> = Arc::new(clock.clone());
            let scripts: Arc<dyn Models> = Arc::new(Scripts::of(&scenario, &time));
            let ids = Arc::new(SimIds::new(SEED, clock.clone()));
            let world = World::new(ports(time, ids, scripts)?, clock);
            let played = tokio::time::timeout(most, play(&scenario, world, Minds::Scripts, SIMULATED)).await;
            played.map_err(|_| too_long(&scenario.name, most))
        })
    });
    playing.await.map_err(|error| Failure::new(Exit::Failed, "broke", format!("the run failed: {error}")))?
}

/// Plays with a real model, in real time.
pub(super) async fn real(scenario: &Scenario, models: Arc<dyn Models>, most: Duration) -> Result<PlayResult> {
    let world = World::real(ports(Arc::new(SystemClock::new()), Arc::new(SystemIds), models)?);
    Ok(play(scenario, world, Minds::Model, most).await)
}

fn ports(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>, models: Arc<dyn Models>) -> Result<Ports> {
    let store = Sqlite::in_memory(Arc::clone(&clock)).map_err(|error| {
        Failure::new(Exit::Failed, "store_unusable", format!("cannot open a store in memory: {error}"))
    })?;
    Ok(Ports::new(Arc::new(store), models, Arc::new(tools::prebuilt()), clock, ids))
}

fn too_long(name: &str, most: Duration) -> Failure {
    let message = format!("the scenario `{name}` is not at its end after {} s", most.as_secs());
    Failure::new(Exit::TimedOut, "timed_out", message)
        .hint("does its story ever end? give it more with --timeout")
}
