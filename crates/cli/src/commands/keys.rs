//! `viv keys`: the admin key of a data directory whose server is stopped. It opens the store directly:
//! without a key a server cannot be asked.

use runtime::clock::{SystemClock, SystemIds};
use serde_json::json;
use std::sync::Arc;
use storage::sqlite::{self, OpenError, Sqlite};

use super::up::cannot_open;
use super::upkeep;
use crate::args::{Global, KeysVerb};
use crate::errors::{Exit, Failure, Result};
use crate::listen;
use crate::output::Screen;
use crate::settings;
use crate::world;

/// Runs a verb of `viv keys`.
pub(crate) async fn run(global: &Global, screen: Screen, verb: KeysVerb) -> Result<Exit> {
    let KeysVerb::Admin { reset: _ } = verb;
    reset(global, screen).await
}

/// Replaces the admin key. The key is alone on standard output, so that it can be piped.
async fn reset(global: &Global, screen: Screen) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    // Opening would create a store if there is none.
    sqlite::look(&dir, 0).map_err(|error| upkeep::failure(&dir, error))?;
    let clock = Arc::new(SystemClock::new());
    let store = Sqlite::open(&dir, clock.clone()).map_err(|error| match error {
        OpenError::Locked { .. } => {
            listen::in_use(&dir).hint("stop viv first, then run this again; no key was changed")
        }
        error => cannot_open(&dir, error),
    })?;
    let key = world::new_admin_key(&store, &*clock, &SystemIds).await;
    let closed = store.close().await;
    // The new key is durable by now and valid, even if the store does not close cleanly.
    let key = key?;
    if screen.json {
        screen.json_line(&json!({"admin_key": key.open()}));
    } else {
        screen.line(key.open());
        screen.note(&screen.clean_line(&format!(
            "The new admin key of `{}`, shown only this once and stored as a hash. The old one no longer works; \
             the keys of people still work.",
            dir.display()
        )));
    }
    closed.map_err(|error| {
        Failure::new(Exit::Failed, "store_failed", format!("the store did not close cleanly: {error}"))
            .hint("the new key is valid; `viv verify` checks whether the store is intact")
    })?;
    Ok(Exit::Answered)
}
