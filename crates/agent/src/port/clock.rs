//! The only sources of time and entropy.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::BoxFuture;

/// Time. Every wait of the runtime goes through it, so that a simulated clock moves them all.
pub trait Clock: Send + Sync {
    /// The wall clock, in whole milliseconds.
    fn now(&self) -> Timestamp;
    /// Milliseconds since an arbitrary start; never goes back, whatever the wall clock does.
    fn monotonic_ms(&self) -> u64;
    /// How many milliseconds the wall clock is ahead of the one that never goes back: less than before where it was
    /// set back.
    fn lead(&self) -> i64 {
        self.now().as_millisecond().saturating_sub_unsigned(self.monotonic_ms())
    }
    /// Waits.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Novelty.
pub trait Ids: Send + Sync {
    /// A fresh UUID v7.
    fn uuid(&self) -> Uuid;
    /// A number in `0..bound`, for jitter.
    fn jitter(&self, bound: u64) -> u64;
}
