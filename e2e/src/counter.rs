//! Stands for the outside world: a server on loopback that counts the effects of tools by the key of each call. It
//! survives every kill of the binary, and its counts are never undone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::{HarnessError, Result};

/// Tools that had an effect, by the key of the call, in order.
pub type Effects = BTreeMap<String, Vec<String>>;

/// The longest time before an effect happens, and the longest time from the effect to the response.
const TAKES_MS: u64 = 6;

#[derive(Debug, Deserialize)]
struct Effect {
    tool: String,
    key: String,
}

type CounterState = Arc<Mutex<Effects>>;

/// A running counter. Dropping it stops it.
#[derive(Debug)]
pub struct Counter {
    url: String,
    effects: CounterState,
    task: JoinHandle<()>,
}

impl Counter {
    /// Starts a counter on a free loopback port.
    pub async fn start() -> Result<Self> {
        let error_of =
            |error: std::io::Error| HarnessError::new(format!("no loopback port for the counter: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(error_of)?;
        let url = format!("http://{}/effects", listener.local_addr().map_err(error_of)?);
        let effects = CounterState::default();
        let router = Router::new().route("/effects", post(count)).with_state(Arc::clone(&effects));
        let task = tokio::spawn(async move {
            // Runs as long as the counter; an earlier error appears as refused connections.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, effects, task })
    }

    /// The URL to which tools report their effects.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The effects so far.
    pub fn effects(&self) -> Effects {
        lock(&self.effects).clone()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(effects: &CounterState) -> MutexGuard<'_, Effects> {
    effects.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn count(State(effects): State<CounterState>, Json(effect): Json<Effect>) -> StatusCode {
    // The delays give kills a chance to hit before and after the effect; they are derived from the key.
    let takes = effect.key.bytes().map(u64::from).sum::<u64>();
    tokio::time::sleep(Duration::from_millis(takes % TAKES_MS)).await;
    lock(&effects).entry(effect.key).or_default().push(effect.tool);
    tokio::time::sleep(Duration::from_millis(takes / 7 % TAKES_MS)).await;
    StatusCode::OK
}
