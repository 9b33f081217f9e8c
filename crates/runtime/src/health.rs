//! Whether the store accepts commits, as the activations of a node last saw it. While it does not, no model is
//! called before the opening of its cycle is durable, so that no request is paid in vain.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// What is known of the store.
#[derive(Debug, Default)]
pub(crate) struct Health {
    refuses: AtomicBool,
    /// Notified when it accepts commits again.
    recovered: Notify,
}

impl Health {
    /// It refused a commit, also after retries.
    pub(crate) fn refused(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }

    /// It accepted a commit.
    pub(crate) fn accepted(&self) {
        // A cheap read first: every commit of every agent passes here.
        if self.refuses.load(Ordering::SeqCst) && self.refuses.swap(false, Ordering::SeqCst) {
            self.recovered.notify_one();
        }
    }

    /// Whether it refused a commit, and has accepted none since.
    pub(crate) fn refuses(&self) -> bool {
        self.refuses.load(Ordering::SeqCst)
    }

    /// Waits until it accepts commits again.
    pub(crate) async fn recovered(&self) {
        self.recovered.notified().await;
    }
}
