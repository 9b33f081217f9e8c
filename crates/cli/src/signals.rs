//! The signals that end a process which serves or follows something. Must not know what it does.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::errors::{Exit, Failure, Result};

/// SIGINT, SIGTERM and SIGHUP, which no longer end the process by themselves.
pub(crate) struct Signals([Signal; 3]);

impl Signals {
    pub(crate) fn new() -> Result<Self> {
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        let all = interrupt.and_then(|interrupt| Ok(Self([interrupt, terminate?, hangup?])));
        all.map_err(|error| {
            Failure::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
                .hint("run it on its own, without a wrapper that blocks signals")
        })
    }

    /// Waits for the next one. May be dropped while it waits.
    pub(crate) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
