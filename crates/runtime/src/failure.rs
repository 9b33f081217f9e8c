//! The one table from class of failure to behaviour (what the rules decide afterwards is in
//! `agent::cycle`).
//!
//! | class | within the waking | afterwards |
//! |---|---|---|
//! | rate limited, overloaded, failed | again after `retry-after` or a growing pause | parks; counts nothing |
//! | network, time-outs, cut stream | again after a growing pause | parks; counts nothing |
//! | auth, no such model | — | parks; counts nothing |
//! | garbage | again after a growing pause | counts; batch halved, then dead |
//! | too long, invalid request | — | counts; batch halved, then dead |
//! | store busy | again after a growing pause | the waking ends; the sweep finds it |
//! | store full, damaged, broken | — | the waking ends; the operator is told |

use std::time::Duration;

use agent::limits;
use agent::port::{Ids, ModelError, StoreError};

/// The pause before attempt number `attempt + 1`, or `None` where another attempt within this waking
/// is of no use. `attempt` counts from 1.
pub(crate) fn retry_model(error: &ModelError, attempt: u32, retries: u32, ids: &dyn Ids) -> Option<Duration> {
    if !error.retryable() || attempt > retries {
        return None;
    }
    match error.retry_after() {
        // A long wait is slept through, not sat out with the lease in hand.
        Some(after) if after > Duration::from_millis(limits::BACKOFF_MAX_MS) => None,
        Some(after) => Some(after + jitter(ids, limits::BACKOFF_BASE_MS / 4)),
        None => Some(growing(attempt, ids)),
    }
}

/// The pause before a store is tried again, or `None` where that is of no use.
pub(crate) fn retry_store(error: &StoreError, attempt: u32, ids: &dyn Ids) -> Option<Duration> {
    match error {
        StoreError::Busy(_) if attempt <= limits::STORE_RETRIES => Some(growing(attempt, ids) / 10),
        _ => None,
    }
}

fn growing(attempt: u32, ids: &dyn Ids) -> Duration {
    let doubled = limits::BACKOFF_BASE_MS << attempt.saturating_sub(1).min(10);
    let pause = doubled.min(limits::BACKOFF_MAX_MS);
    Duration::from_millis(pause) + jitter(ids, pause / 4)
}

fn jitter(ids: &dyn Ids, bound: u64) -> Duration {
    Duration::from_millis(ids.jitter(bound.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::port::Wait;
    use uuid::Uuid;

    struct NoJitter;
    impl Ids for NoJitter {
        fn uuid(&self) -> Uuid {
            Uuid::nil()
        }
        fn jitter(&self, _: u64) -> u64 {
            0
        }
    }

    #[test]
    fn each_class_has_its_pause() {
        let check = |error: ModelError, attempt, expected: Option<u64>| {
            let pause = retry_model(&error, attempt, 3, &NoJitter);
            assert_eq!(pause, expected.map(Duration::from_millis), "{error} at attempt {attempt}");
        };
        let limited = |seconds: Option<u64>| ModelError::RateLimited {
            message: String::new(),
            retry_after: seconds.map(Duration::from_secs),
        };
        check(limited(Some(7)), 1, Some(7_000));
        check(limited(Some(3_600)), 1, None);
        check(limited(None), 1, Some(1_000));
        check(ModelError::TimedOut(Wait::Idle), 3, Some(4_000));
        check(ModelError::Cut(String::new()), 4, None);
        check(ModelError::Auth(String::new()), 1, None);
        check(ModelError::Invalid(String::new()), 1, None);
    }
}
