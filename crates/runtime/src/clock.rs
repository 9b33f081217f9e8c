//! Real time and real entropy, for processes that are not simulated.

use std::time::{Duration, Instant};

use agent::port::{BoxFuture, Clock, Ids};
use jiff::Timestamp;
use uuid::Uuid;

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts the monotonic clock at zero.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        // The store keeps milliseconds; a time that is read back must equal the one written.
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// UUIDs v7 from the operating system's randomness.
#[derive(Debug, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn uuid(&self) -> Uuid {
        let millis = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        let mut random = [0u8; 10];
        fill(&mut random);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    fn jitter(&self, bound: u64) -> u64 {
        let mut bytes = [0u8; 8];
        fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound.max(1)
    }
}

fn fill(bytes: &mut [u8]) {
    // Without randomness no key and no id can be generated: stop this task.
    getrandom::fill(bytes).expect("the operating system provides randomness");
}
