//! The floor of a wake: one round trip over the loopback and one hop between two tasks, with the same
//! connection code, the same client and the same threads.

use std::time::Instant;

use anyhow::{Context, Result};
use axum::Router;
use axum::routing::post;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::measure::us;
use crate::server;
use crate::talk::HttpConnection;

/// Measures the floor repeatedly.
pub(crate) struct BareWake {
    connection: HttpConnection,
    request: Vec<u8>,
    /// Asks the first task to send to the second, which returns how long it took.
    hop: (mpsc::Sender<()>, mpsc::Receiver<f64>),
}

impl BareWake {
    /// Serves a route that reads the body and sends a short answer, and starts two tasks.
    pub(crate) fn start(threads: &Runtime, body: &str) -> Result<Self> {
        let router = Router::new().route("/", post(|body: String| async move { body.len().to_string() }));
        let address = threads.block_on(server::serve(router, CancellationToken::new()))?;
        let connection = HttpConnection::open(address)?;
        let request = connection.post("/", "none", body);
        let (ask, mut asked) = mpsc::channel::<()>(1);
        let (send, mut sent) = mpsc::channel::<Instant>(1);
        let (tell, took) = mpsc::channel::<f64>(1);
        threads.spawn(async move {
            while asked.recv().await.is_some() {
                if send.send(Instant::now()).await.is_err() {
                    return;
                }
            }
        });
        threads.spawn(async move {
            while let Some(at) = sent.recv().await {
                if tell.send(us(at.elapsed())).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self { connection, request, hop: (ask, took) })
    }

    /// One round trip, in microseconds.
    pub(crate) fn round_trip(&mut self) -> Result<f64> {
        let began = self.connection.send(&self.request)?;
        self.connection.answer()?;
        Ok(us(began.elapsed()))
    }

    /// One hop from task to task, in microseconds.
    pub(crate) fn hop(&mut self) -> Result<f64> {
        self.hop.0.blocking_send(()).context("the task has ended")?;
        self.hop.1.blocking_recv().context("the task has ended")
    }
}
