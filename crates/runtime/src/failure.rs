//! The one table from class of failure to behaviour. `agent::cycle` decides what happens afterwards. Each row has
//! tests in `tests/activation/`: failures of a provider in `failure_table.rs`, repeated ones in `failing_server.rs`,
//! flaws of a reply in `garbage.rs`.
//!
//! "Again" means that the same request is sent again within the activation. An agent that parks backs off: it is
//! activated again later.
//!
//! | class | within the activation | the provider's breaker | afterwards |
//! |---|---|---|---|
//! | rate limited, overloaded | again after `retry-after` or a growing pause | opens at once | parks; not counted |
//! | network, connect time-out | again after a growing pause | opens at once | parks; not counted |
//! | auth | — | opens at once | parks; not counted |
//! | first-byte, idle, total time-out | again after a growing pause | stays closed | parks; not counted |
//! | cut stream, failed server | again after a growing pause | stays closed | parks; not counted |
//! | the same, from the eighth activation in a row on | again after a growing pause | stays closed | counted; tried alone, then dead |
//! | no such model, unsupported | — | stays closed | parks; not counted |
//! | behind an open breaker | not sent | is open | parks until it closes; not counted |
//! | garbage | again after a growing pause | stays closed | counted; tried alone, then dead |
//! | context too long | again with half of the view, 3 times | stays closed | counted; tried alone, then dead |
//! | invalid history | again with a rebuilt transcript, once | stays closed | counted; tried alone, then dead |
//! | the last three, of a model that has never answered | the same | stays closed | parks for about a day; counted until tried alone, not afterwards |
//! | malformed arguments, unknown tool | — | — | an error outcome; the model reads it |
//! | too many calls | — | — | those above the limit get an error outcome |
//! | duplicate call ids | — | — | replaced by our own ids |
//! | refused by policy | — | — | an error outcome; commits again without that call |
//! | store busy | again after a growing pause | — | the activation ends; the sweep finds the agent |
//! | a store command is wrong in itself (it panics, breaks a constraint) | — | — | as after a panic: it backs off; counted |
//! | record damaged | — | — | the agent is quarantined until an operator resumes it; others continue |
//! | store full, broken | — | — | the activation ends; the error is logged |
//!
//! Before an agent parks, the models under `fallback` are tried, after at most [`limits::RETRIES_BEFORE_FALLBACK`] attempts
//! more. A vendor that asks for a pause gets at least the one that grows with each failure.

use std::time::Duration;

use agent::limits;
use agent::port::{Ids, ModelError, StoreError, TimeoutKind};

/// What a class of failure causes, as in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// Whether the same request is sent again within the activation.
    pub(crate) again: bool,
    /// Whether every request would meet it, so that the breaker of its provider opens. A failure that one request
    /// may cause never opens it.
    pub(crate) opens: bool,
}

/// The rows of the table about the provider.
pub(crate) fn behaviour(error: &ModelError) -> Behaviour {
    let opens = match error {
        ModelError::RateLimited { .. } | ModelError::Overloaded { .. } | ModelError::Auth(_) => true,
        ModelError::Network(_) | ModelError::TimedOut(TimeoutKind::Connect) => true,
        ModelError::TimedOut(TimeoutKind::FirstByte | TimeoutKind::Idle | TimeoutKind::Total) => false,
        ModelError::Cut(_) | ModelError::Failed { .. } => false,
        ModelError::NoModel(_) | ModelError::Unsupported(_) | ModelError::NotCalled { .. } => false,
        ModelError::TooLong(_) | ModelError::Invalid(_) | ModelError::Garbage(_) => false,
    };
    Behaviour { again: error.retryable(), opens }
}

/// The pause before attempt number `attempt + 1`, or `None` if another attempt within this activation is of no
/// use. `attempt` counts from 1.
pub(crate) fn retry_model(error: &ModelError, attempt: u32, retries: u32, ids: &dyn Ids) -> Option<Duration> {
    if !behaviour(error).again || attempt > retries {
        return None;
    }
    match error.retry_after() {
        // For a long wait the agent backs off instead of holding its lease.
        Some(after) if after > Duration::from_millis(limits::BACKOFF_MAX_MS) => None,
        // A vendor that says "at once" is asked ever less often all the same.
        Some(after) => Some(growing(attempt, ids).max(after + jitter(ids, limits::BACKOFF_BASE_MS / 4))),
        None => Some(growing(attempt, ids)),
    }
}

/// The pause before the store is tried again, or `None` if that is of no use.
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
    fn each_class_opens_the_breaker_or_not_as_in_the_table() {
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
            (ModelError::NotCalled { message: "x".into(), retry_after: Duration::ZERO }, false, false),
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
    fn each_class_has_its_pause_before_a_retry() {
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
        check(limited(Some(0)), 1, Some(1_000));
        check(limited(Some(0)), 3, Some(4_000));
        check(limited(None), 1, Some(1_000));
        check(ModelError::TimedOut(TimeoutKind::Idle), 3, Some(4_000));
        check(ModelError::Cut(String::new()), 4, None);
        check(ModelError::Auth(String::new()), 1, None);
        check(ModelError::Invalid(String::new()), 1, None);
    }
}
