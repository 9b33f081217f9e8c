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
    // Simulated time needs its own thread on which nothing else runs.
    let run = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| SimulationError::Broke(error.to_string()))?;
        runtime.block_on(async {
            let clock = SimClock::new(Timestamp::from_second(START).unwrap_or(Timestamp::UNIX_EPOCH));
            let time: Arc<dyn Clock> = Arc::new(clock.clone());
            let scripts = Arc::new(Scripts::of(&scenario, &time));
            let ids = Arc::new(SimIds::new(SEED, clock.clone()));
            let world = World::new(make_ports(time, ids, scripts).map_err(SimulationError::Broke)?, clock);
            tokio::time::timeout(max, play(&scenario, world, ReplySource::Scripts, BUSY_MAX))
                .await
                .map_err(|_| SimulationError::TimedOut { name: scenario.name.clone(), max })
        })
    });
    run.await.map_err(|error| SimulationError::Broke(error.to_string()))?
}
