//! The only sources of time and entropy.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::BoxFuture;

/// Time. All waits of the runtime use it, so a simulated clock controls them.
pub trait Clock: Send + Sync {
    /// The wall clock, in whole milliseconds.
    fn now(&self) -> Timestamp;
    /// Milliseconds since an arbitrary start. Never goes back, even if the wall clock does.
    fn monotonic_ms(&self) -> u64;
    /// How many milliseconds the wall clock is ahead of the monotonic one. The value drops if the wall clock is set
    /// back.
    fn lead(&self) -> i64 {
        self.now().as_millisecond().saturating_sub_unsigned(self.monotonic_ms())
    }
    /// Waits for `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Entropy.
pub trait Ids: Send + Sync {
    /// A fresh UUID v7.
    fn uuid(&self) -> Uuid;
    /// A number in `0..bound`, for jitter.
    fn jitter(&self, bound: u64) -> u64;
}
