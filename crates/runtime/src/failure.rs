//! The one table from class of failure to behaviour. What the rules decide afterwards is in
//! `agent::cycle`. Each row is played: in `tests/living/table.rs` what a provider fails with, in
//! `tests/living/ambiguous.rs` what it fails with again and again, in `tests/living/garbage.rs` what is
//! wrong with a reply.
//!
//! | class | within the activation | the provider's breaker | afterwards |
//! |---|---|---|---|
//! | rate limited, overloaded | again after `retry-after` or a growing pause | opens at once | parks; counts nothing |
//! | network, connect time-out | again after a growing pause | opens at once | parks; counts nothing |
//! | auth | — | opens at once | parks; counts nothing |
//! | first-byte, idle, total time-out | again after a growing pause | stays closed | parks; counts nothing |
//! | cut stream, failed server | again after a growing pause | stays closed | parks; counts nothing |
//! | the same, in the eighth activation in a row and later | again after a growing pause | stays closed | counts; tried alone, then dead |
//! | no such model, unsupported | — | stays closed | parks; counts nothing |
//! | behind an open breaker | not asked | is open | parks until then; counts nothing |
//! | garbage | again after a growing pause | stays closed | counts; tried alone, then dead |
//! | context too long | again with half of the view, 3 times | stays closed | counts; tried alone, then dead |
//! | invalid history | again with a rebuilt transcript, once | stays closed | counts; tried alone, then dead |
//! | the last three, of a model that has never answered | the same | stays closed | parks for about a day; counts until tried alone, then nothing |
//! | malformed arguments, unknown tool | — | — | an error outcome; the model reads it |
//! | too many calls | — | — | those above the bound get an error outcome |
//! | duplicate call ids | — | — | our own ids are sent back |
//! | refused by policy | — | — | an error outcome; commits again without that call |
//! | store busy | again after a growing pause | — | the activation ends; the sweep finds it |
//! | record damaged | — | — | the agent is quarantined until an operator resumes it; others continue |
//! | store full, broken | — | — | the activation ends; the operator is told |
//!
//! Whatever parks may be asked of the models under `fallback` before.

use std::time::Duration;

use agent::limits;
use agent::port::{Ids, ModelError, StoreError, TimeoutKind};

/// How a class of failure is met, as the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// Whether the very same request is sent again within the activation.
    pub(crate) again: bool,
    /// Whether it would meet everybody, so that the breaker of its provider opens. What one request may
    /// cause never opens it.
    pub(crate) opens: bool,
}

/// The rows of the table that are about the provider.
pub(crate) fn behaviour(error: &ModelError) -> Behaviour {
    let opens = match error {
        ModelError::RateLimited { .. } | ModelError::Overloaded { .. } | ModelError::Auth(_) => true,
        ModelError::Network(_) | ModelError::TimedOut(TimeoutKind::Connect) => true,
        ModelError::TimedOut(TimeoutKind::FirstByte | TimeoutKind::Idle | TimeoutKind::Total) => false,
        ModelError::Cut(_) | ModelError::Failed { .. } => false,
        ModelError::NoModel(_) | ModelError::Unsupported(_) | ModelError::Unasked { .. } => false,
        ModelError::TooLong(_) | ModelError::Invalid(_) | ModelError::Garbage(_) => false,
    };
    Behaviour { again: error.retryable(), opens }
}

/// The pause before attempt number `attempt + 1`, or `None` where another attempt within this activation
/// is of no use. `attempt` counts from 1.
pub(crate) fn retry_model(error: &ModelError, attempt: u32, retries: u32, ids: &dyn Ids) -> Option<Duration> {
    if !behaviour(error).again || attempt > retries {
        return None;
    }
    match error.retry_after() {
        // A long wait is slept through, not sat out with the lease in progress.
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
pub(crate) mod tests {
    use super::*;
    use uuid::Uuid;

    pub(crate) struct NoJitter;
    impl Ids for NoJitter {
        fn uuid(&self) -> Uuid {
            Uuid::nil()
        }
        fn jitter(&self, _: u64) -> u64 {
            0
        }
    }

    #[test]
    fn each_class_does_to_the_breaker_what_the_table_says() {
        let after = |message: &str| (message.to_owned(), None::<Duration>);
        let (message, retry_after) = after("x");
        let rows = [
            (ModelError::RateLimited { message: message.clone(), retry_after }, true, true),
            (ModelError::Overloaded { message: message.clone(), retry_after }, true, true),
            (ModelError::Network("x".into()), true, true),
            (ModelError::TimedOut(TimeoutKind::Connect), true, true),
            (ModelError::Auth("x".into()), false, true),
            (ModelError::TimedOut(TimeoutKind::FirstByte), true, false),
            (ModelError::TimedOut(TimeoutKind::Idle), true, false),
            (ModelError::TimedOut(TimeoutKind::Total), true, false),
            (ModelError::Cut("x".into()), true, false),
            (ModelError::Failed { message, retry_after }, true, false),
            (ModelError::NoModel("x".into()), false, false),
            (ModelError::Unasked { message: "x".into(), retry_after: Duration::ZERO }, false, false),
            (ModelError::Unsupported("x".into()), false, false),
            (ModelError::Garbage("x".into()), true, false),
            (ModelError::TooLong("x".into()), false, false),
            (ModelError::Invalid("x".into()), false, false),
        ];
        for (error, again, opens) in rows {
            assert_eq!(behaviour(&error), Behaviour { again, opens }, "{error}");
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
        check(ModelError::TimedOut(TimeoutKind::Idle), 3, Some(4_000));
        check(ModelError::Cut(String::new()), 4, None);
        check(ModelError::Auth(String::new()), 1, None);
        check(ModelError::Invalid(String::new()), 1, None);
    }
}
