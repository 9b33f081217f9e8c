//! Runs a scenario with the replies of its scripts, in simulated time. This module must not know which store or
//! tools the world uses.

use std::sync::Arc;
use std::time::Duration;

use agent::port::{Clock, Ids, Models};
use jiff::Timestamp;
use runtime::Ports;

use crate::clock::{SimClock, SimIds};
use crate::model::Scripts;
use crate::play::{PlayResult, ReplySource, play};
use crate::scene::Scenario;
use crate::world::World;

/// Every simulated world starts at this time (2026-01-01T09:00:00Z) and with this seed.
const START: i64 = 1_767_258_000;
const SEED: u64 = 7;
/// Limit of simulated time in which a world may stay busy. Simulated time itself costs nothing.
const BUSY_MAX: Duration = Duration::from_secs(7 * 86_400);

/// The time at which every simulated world starts.
pub(crate) fn start() -> Timestamp {
    Timestamp::from_second(START).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Why a simulation has no result.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// It took longer than it may.
    #[error("the scenario `{name}` did not end within {} s", max.as_secs())]
    TimedOut {
        /// The name of the scenario.
        name: String,
        /// How long it may take, in real time.
        max: Duration,
    },
    /// Its thread, or the world on it, could not be set up or broke.
    #[error("the run failed: {0}")]
    Broke(String),
}

/// Makes the ports of a world with this clock, these ids and these models, or says why it cannot.
pub type MakePorts = fn(Arc<dyn Clock>, Arc<dyn Ids>, Arc<dyn Models>) -> Result<Ports, String>;

/// Runs a scenario once. Every run is the same. `max` is real time. Must be called on a tokio runtime.
pub async fn simulate(
    scenario: Arc<Scenario>,
    make_ports: MakePorts,
    max: Duration,
) -> Result<PlayResult, SimulationError> {
    let scripted = Arc::clone(&scenario);
    let make = move |clock: Arc<dyn Clock>, ids| {
        let scripts = Arc::new(Scripts::of(&scripted, &clock));
        make_ports(clock, ids, scripts)
    };
    let name = scenario.name.clone();
    let story = async move |world| play(&scenario, world, ReplySource::Scripts, BUSY_MAX).await;
    in_world(&name, make, max, story).await
}

/// Lets `story` happen in a new simulated world. Simulated time needs its own thread on which nothing else runs.
pub async fn in_world<T: Send + 'static>(
    name: &str,
    make: impl FnOnce(Arc<dyn Clock>, Arc<dyn Ids>) -> Result<Ports, String> + Send + 'static,
    max: Duration,
    story: impl AsyncFnOnce(World) -> T + Send + 'static,
) -> Result<T, SimulationError> {
    let name = name.to_owned();
    let run = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| SimulationError::Broke(error.to_string()))?;
        runtime.block_on(async {
            let clock = SimClock::new(start());
            let ids = Arc::new(SimIds::new(SEED, clock.clone()));
            let ports = make(Arc::new(clock.clone()), ids).map_err(SimulationError::Broke)?;
            tokio::time::timeout(max, story(World::new(ports, clock)))
                .await
                .map_err(|_| SimulationError::TimedOut { name, max })
        })
    });
    run.await.map_err(|error| SimulationError::Broke(error.to_string()))?
}
