//! Whose turn it is: how many calls of one tool or server run at once, and how many may begin in a span of time. Must not know what
//! the calls do.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agent::limits;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::declare::Rate;

/// The turns of one tool.
pub(crate) struct Turns {
    places: Semaphore,
    concurrency: u32,
    rate: Option<Rate>,
    /// How long a call waits for a place.
    wait: Duration,
    /// When the calls of the current span began: at most as many as the rate allows.
    begun: Mutex<VecDeque<Timestamp>>,
}

impl Turns {
    pub(crate) fn new(concurrency: u32, rate: Option<Rate>) -> Self {
        let places = Semaphore::new(concurrency as usize);
        let wait = Duration::from_millis(limits::TOOL_TURN_MS);
        Self { places, concurrency, rate, wait, begun: Mutex::default() }
    }

    /// Waits for a place, for a bounded time. The error is for the model; it says when to try again.
    pub(crate) async fn take(&self, tool: &str, now: Timestamp) -> Result<SemaphorePermit<'_>, String> {
        let wait = self.wait;
        let place = timeout(wait, self.places.acquire()).await.ok().and_then(Result::ok);
        let place = place.ok_or_else(|| {
            format!(
                "`{tool}` may run {} times at once, and none of these calls ended within {wait:?}, so nothing was sent. \
                 Try again later.",
                self.concurrency
            )
        })?;
        self.begin(tool, now)?;
        Ok(place)
    }

    fn begin(&self, tool: &str, now: Timestamp) -> Result<(), String> {
        let Some(rate) = self.rate else { return Ok(()) };
        let span = SignedDuration::try_from(rate.span()).unwrap_or(SignedDuration::MAX);
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back leaves times in the future; they no longer count.
        begun.retain(|at| *at <= now && now.duration_since(*at) < span);
        if begun.len() < rate.count as usize {
            begun.push_back(now);
            return Ok(());
        }
        let free = begun.front().map_or(now, |first| *first + span);
        let seconds = (free.duration_since(now).as_millis() + 999) / 1_000;
        Err(format!(
            "`{tool}` may be called {rate}, which is used up, so nothing was sent. It is free again in {seconds} s, at {free}."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[tokio::test]
    async fn a_rate_that_is_used_up_names_the_time_when_it_is_free_again() {
        let turns = Turns::new(4, Some("2/min".parse().unwrap()));
        for second in [0, 10] {
            assert!(turns.take("t", at(second)).await.is_ok());
        }
        let error = turns.take("t", at(20)).await.unwrap_err();
        assert!(error.contains("2/min") && error.contains("in 40 s, at 2027-01-15T08:01:00Z"), "{error}");
        assert!(turns.take("t", at(60)).await.is_ok());
        assert!(turns.take("t", at(61)).await.is_err());
        // The clock is set back.
        assert!(turns.take("t", at(-1_000)).await.is_ok());
    }

    #[tokio::test]
    async fn a_call_waits_for_a_place_but_not_for_ever() {
        let turns = Turns { wait: Duration::ZERO, ..Turns::new(1, None) };
        let first = turns.take("t", at(0)).await.unwrap();
        let error = turns.take("t", at(0)).await.unwrap_err();
        assert!(error.contains("1 times at once") && error.contains("nothing was sent"), "{error}");
        drop(first);
        assert!(turns.take("t", at(0)).await.is_ok());

        let turns = Turns::new(1, None);
        let first = turns.take("t", at(0)).await.unwrap();
        let free = async { drop(first) };
        let (second, ()) = tokio::join!(turns.take("t", at(0)), free);
        assert!(second.is_ok());
    }
}
