//! Whether the store takes commits, as all activations of a node last saw it: while it does not, nobody
//! thinks before what opens its cycle is durable, so that no request is paid in vain.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// What is known of the store.
#[derive(Debug, Default)]
pub(crate) struct Health {
    refuses: AtomicBool,
    /// Told when it takes commits again.
    works: Notify,
}

impl Health {
    /// It refused, although it was asked again.
    pub(crate) fn refused(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }

    /// It took a commit.
    pub(crate) fn took(&self) {
        // Read before it is written: every commit of every agent comes by.
        if self.refuses.load(Ordering::SeqCst) && self.refuses.swap(false, Ordering::SeqCst) {
            self.works.notify_one();
        }
    }

    /// Whether it refused, and took none since.
    pub(crate) fn refuses(&self) -> bool {
        self.refuses.load(Ordering::SeqCst)
    }

    /// Waits until it takes commits again.
    pub(crate) async fn works(&self) {
        self.works.notified().await;
    }
}
