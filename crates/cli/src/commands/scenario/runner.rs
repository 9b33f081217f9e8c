//! Assembles a world for one run: SQLite in memory, the tools that every server has, and a model.

use std::sync::Arc;
use std::time::Duration;

use agent::port::{Clock, Hooks, Ids, Models};
use runtime::Ports;
use runtime::clock::{SystemClock, SystemIds};
use scenario::play::{PlayResult, ReplySource, play};
use scenario::scene::Scenario;
use scenario::simulate::{SimulationError, simulate};
use scenario::world::World;
use storage::sqlite::Sqlite;
use tools::hook::ServerHooks;
use tools::secret::NoSecrets;

use crate::errors::{Exit, Failure, Result};

/// Runs with the scripts in the file. `max` is real time.
pub(super) async fn simulated(scenario: Arc<Scenario>, max: Duration) -> Result<PlayResult> {
    simulate(scenario, ports, max).await.map_err(|error| match &error {
        SimulationError::TimedOut { .. } => Failure::new(Exit::TimedOut, "timed_out", error.to_string())
            .hint("does its story end? allow more time with --timeout"),
        SimulationError::Broke(why) => Failure::new(Exit::Failed, "broke", format!("the run failed: {why}")),
    })
}

pub(super) async fn real(scenario: &Scenario, models: Arc<dyn Models>, max: Duration) -> Result<PlayResult> {
    let ports = ports(Arc::new(SystemClock::new()), Arc::new(SystemIds), models).map_err(|error| {
        Failure::new(Exit::Failed, "store_unusable", format!("cannot make a world: {error}"))
    })?;
    Ok(play(scenario, World::real(ports), ReplySource::Model, max).await)
}

fn ports(
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    models: Arc<dyn Models>,
) -> std::result::Result<Ports, String> {
    let store = Sqlite::in_memory(Arc::clone(&clock))
        .map_err(|error| format!("cannot open a store in memory: {error}"))?;
    let hooks = hooks(Arc::clone(&clock));
    let ports = Ports::new(Arc::new(store), models, Arc::new(tools::prebuilt()), clock, ids);
    Ok(Ports { hooks, ..ports })
}

/// What verifies and reads the deliveries of a story. Their senders have keys, so no secret is needed.
pub(super) fn hooks(clock: Arc<dyn Clock>) -> Arc<dyn Hooks> {
    Arc::new(ServerHooks::new(Arc::new(NoSecrets), clock))
}
