//! Whether a server may be asked: after failures in a row it is left alone for a while. Pure but for the clock.

use std::time::Duration;

use agent::limits;
use tokio::time::Instant;

/// The failures of one server since its last answer.
#[derive(Default)]
pub(super) struct Health {
    failures: u32,
    /// Until when it is left alone.
    until: Option<Instant>,
    why: String,
    /// The connection whose end was counted last: all its calls fail, but it ended once.
    ended: Option<u64>,
}

impl Health {
    /// An error if the server is left alone.
    pub(super) fn check(&self, server: &str) -> Result<(), String> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            None => Ok(()),
            Some(left) => Err(format!(
                "the MCP server `{server}` failed {} times in a row, so nothing was sent; it is tried again in {} s. \
                 The last time: {}",
                self.failures,
                left.as_secs() + 1,
                self.why
            )),
        }
    }

    /// Counts a failure. `ended` is the connection that ended with it. Returns whether the longest pause began.
    pub(super) fn failed(&mut self, why: &str, ended: Option<u64>) -> bool {
        if ended.is_some() && std::mem::replace(&mut self.ended, ended) == ended {
            return false;
        }
        self.failures += 1;
        why.clone_into(&mut self.why);
        let pause = match self.failures {
            0 | 1 => Duration::ZERO,
            limits::MCP_FAILURES_MAX.. => Duration::from_millis(limits::MCP_PAUSE_MAX_MS),
            count => Duration::from_millis(limits::MCP_PAUSE_MS << (count - 2)),
        };
        self.until = Some(Instant::now() + pause);
        self.failures >= limits::MCP_FAILURES_MAX
    }

    /// The server answered a call.
    pub(super) fn answered(&mut self) {
        *self = Self { ended: self.ended, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_an_answer_comes() {
        let mut health = Health::default();
        for pause in [0, 1, 2, 4, 60, 60] {
            health.failed("it fell", None);
            if pause > 0 {
                tokio::time::advance(Duration::from_millis(pause * 1_000 - 1)).await;
                let error = health.check("x").unwrap_err();
                assert!(
                    error.contains("`x` failed")
                        && error.contains("again in 1 s")
                        && error.contains("it fell")
                );
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            assert_eq!(health.check("x"), Ok(()));
        }
        health.answered();
        health.failed("it fell", None);
        assert_eq!(health.check("x"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_connection_is_one_failure_however_many_calls_it_had() {
        let mut health = Health::default();
        for _ in 0..9 {
            health.failed("it fell", Some(7));
        }
        assert_eq!(health.check("x"), Ok(()));
        health.failed("it fell", Some(8));
        assert!(health.check("x").is_err());
    }
}
