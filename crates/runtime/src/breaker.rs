//! A circuit breaker for each provider, shared by all agents of a node. While the provider fails, no request is
//! sent. When the pause is over, one agent sends a probe; if it succeeds, all others may send again, spread in time.
//!
//! In memory only: each agent's backing off is durable by itself, and a new process finds the failure again. Must
//! not know agents' rows, prompts or replies.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::cycle::pause_after;
use agent::id::AgentId;
use agent::limits;
use agent::port::{Clock, Ids, ModelError};

use crate::failure;

/// The breakers of a node, by provider ([`agent::port::ModelInfo::provider`]).
pub(crate) struct Breakers {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    all: Mutex<HashMap<String, Breaker>>,
    /// Agents that an operator resumed: each may send one probe before the pause is over.
    granted: Mutex<BTreeSet<AgentId>>,
}

/// An open breaker. A provider that serves has none.
#[derive(Debug)]
struct Breaker {
    state: BreakerState,
    /// Failures in a row, each of which made the pause longer.
    failures: u32,
    /// Requests refused since it opened.
    refused: u64,
    /// Why it is open.
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerState {
    /// No request before that monotonic time.
    Open(u64),
    /// One agent sends the probe, at that time if it is waiting to retry.
    Probing(u64),
}

/// The right to send requests to a provider.
pub(crate) struct Pass<'a> {
    breakers: &'a Breakers,
    provider: String,
    /// Is the probe after a pause: one attempt, no retry.
    probe: bool,
    /// Holds the breaker: all other agents wait for its result.
    holds: bool,
}

impl Breakers {
    pub(crate) fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self { clock, ids, all: Mutex::default(), granted: Mutex::default() }
    }

    /// Lets the agent send the next probe, even before the pause is over.
    pub(crate) fn grant(&self, agent: AgentId) {
        let mut granted = self.granted();
        if granted.len() < limits::BREAKER_GRANTS_MAX {
            granted.insert(agent);
        }
    }

    /// The agent's activation ended: an unused grant is withdrawn.
    pub(crate) fn revoke(&self, agent: AgentId) {
        self.granted().remove(&agent);
    }

    /// The right to send a request, or why none may be sent now and until when.
    pub(crate) fn enter(&self, provider: &str, agent: AgentId) -> Result<Pass<'_>, ModelError> {
        let now = self.clock.monotonic_ms();
        let mut all = self.lock();
        let granted = self.granted().contains(&agent);
        let pass = |probe| {
            let provider = provider.to_owned();
            Pass { breakers: self, provider, probe, holds: probe }
        };
        let Some(breaker) = all.get_mut(provider) else { return Ok(pass(false)) };
        match breaker.state {
            BreakerState::Open(until) if until <= now || granted => {
                breaker.state = BreakerState::Probing(now);
                self.revoke(agent);
                Ok(pass(true))
            }
            BreakerState::Open(until) | BreakerState::Probing(until) => Err(self.refuse(breaker, until, now)),
        }
    }

    /// Whether the agent may not send a request now.
    pub(crate) fn refuses(&self, provider: &str, agent: AgentId) -> bool {
        let now = self.clock.monotonic_ms();
        let granted = self.granted().contains(&agent);
        self.lock().get(provider).is_some_and(|breaker| match breaker.state {
            BreakerState::Open(until) => until > now && !granted,
            BreakerState::Probing(_) => true,
        })
    }

    /// Each refused agent gets a somewhat later time than the one before, so that they do not all return at once.
    fn refuse(&self, breaker: &mut Breaker, until: u64, now: u64) -> ModelError {
        breaker.refused += 1;
        let spread = breaker.refused.saturating_mul(limits::BREAKER_SPREAD_MS);
        let spread = self.ids.jitter(spread.clamp(1, limits::BREAKER_SPREAD_MAX_MS));
        let left = match breaker.state {
            BreakerState::Probing(_) => until.saturating_sub(now).max(limits::BREAKER_PROBE_MS),
            _ => until.saturating_sub(now),
        };
        let retry_after = Duration::from_millis(left + spread);
        ModelError::NotCalled { message: breaker.why.clone(), retry_after }
    }

    fn granted(&self) -> MutexGuard<'_, BTreeSet<AgentId>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Breaker>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// The provider serves: all agents may send again.
    pub(crate) fn served(&mut self) {
        if std::mem::take(&mut self.holds) {
            self.breakers.lock().remove(&self.provider);
        }
        self.probe = false;
    }

    /// There was no reply. `again` is the pause before the next attempt of this activation, if one is of use.
    /// Returns how long to wait before it, or the error to give up with.
    pub(crate) fn failed(
        &mut self,
        error: &ModelError,
        again: Option<Duration>,
    ) -> Result<Duration, ModelError> {
        if !failure::behaviour(error).opens {
            // The provider was reached: only this request failed.
            self.served();
            return again.ok_or_else(|| error.clone());
        }
        let now = self.breakers.clock.monotonic_ms();
        let mut all = self.breakers.lock();
        if all.len() >= limits::BREAKERS_MAX && !all.contains_key(&self.provider) {
            return again.ok_or_else(|| error.clone());
        }
        if let Some(breaker) = all.get_mut(&self.provider).filter(|_| !self.holds) {
            // Another agent met the failure before and holds the breaker.
            let (BreakerState::Open(until) | BreakerState::Probing(until)) = breaker.state;
            return Err(self.breakers.refuse(breaker, until, now));
        }
        let breaker = all.entry(self.provider.clone()).or_insert_with(|| Breaker {
            state: BreakerState::Open(now),
            failures: 0,
            refused: 0,
            why: String::new(),
        });
        breaker.why = error.to_string();
        self.holds = true;
        if let Some(pause) = again.filter(|_| !self.probe) {
            breaker.state = BreakerState::Probing(now + millis(pause));
            return Ok(pause);
        }
        breaker.failures += 1;
        breaker.refused = 0;
        let pause = pause_after(error, breaker.failures);
        breaker.state = BreakerState::Open(now + millis(pause));
        tracing::warn!(provider = self.provider, pause_ms = pause.as_millis(), %error, "the provider fails: its breaker is open");
        (self.probe, self.holds) = (false, false);
        Err(error.clone())
    }
}

impl Drop for Pass<'_> {
    /// A holder that never learns its result, for example because its cycle is canceled, lets the next one probe.
    fn drop(&mut self) {
        if !self.holds {
            return;
        }
        if let Some(breaker) = self.breakers.lock().get_mut(&self.provider) {
            breaker.state = BreakerState::Open(self.breakers.clock.monotonic_ms());
        }
    }
}

fn millis(pause: Duration) -> u64 {
    u64::try_from(pause.as_millis()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::port::{BoxFuture, TimeoutKind};
    use jiff::Timestamp;
    use std::sync::atomic::{AtomicU64, Ordering};
    use uuid::Uuid;

    #[derive(Default)]
    struct ManualClock(AtomicU64);
    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }
    impl Ids for ManualClock {
        fn uuid(&self) -> Uuid {
            Uuid::nil()
        }
        fn jitter(&self, bound: u64) -> u64 {
            bound - 1
        }
    }

    fn breakers() -> (Arc<ManualClock>, Breakers) {
        let time = Arc::new(ManualClock::default());
        (Arc::clone(&time), Breakers::new(Arc::clone(&time) as _, time as _))
    }

    fn agent(n: u128) -> AgentId {
        AgentId(Uuid::from_u128(n))
    }

    fn down() -> ModelError {
        ModelError::Network("refused".into())
    }

    fn wait_of(refused: Result<Pass<'_>, ModelError>) -> u64 {
        let error = refused.err().expect("no request is allowed");
        millis(error.retry_after().expect("the error has a time"))
    }

    #[test]
    fn an_open_breaker_refuses_all_until_the_success_of_one_probe_closes_it() {
        let (time, breakers) = breakers();
        let mut first = breakers.enter("p", agent(1)).unwrap();
        assert_eq!(first.failed(&down(), None), Err(down()));
        assert!(breakers.refuses("p", agent(99)) && !breakers.refuses("other", agent(99)));
        assert!(breakers.enter("other", agent(2)).is_ok(), "another provider has its own");
        let waits = [2, 3, 4].map(|n| wait_of(breakers.enter("p", agent(n))));
        assert_eq!(waits, [1_199, 1_399, 1_599], "each somewhat later than the one before");
        time.0.store(1_000, Ordering::SeqCst);
        let mut probe = breakers.enter("p", agent(2)).unwrap();
        assert!(wait_of(breakers.enter("p", agent(3))) >= limits::BREAKER_PROBE_MS, "one asks, not two");
        assert_eq!(probe.failed(&down(), Some(Duration::ZERO)), Err(down()), "a probe asks once");
        assert!(wait_of(breakers.enter("p", agent(3))) >= 2_000, "the pause grows");
        time.0.store(3_000, Ordering::SeqCst);
        let mut probe = breakers.enter("p", agent(3)).unwrap();
        probe.served();
        assert!(!breakers.refuses("p", agent(99)) && breakers.enter("p", agent(4)).is_ok());
    }

    #[test]
    fn a_grant_lets_one_agent_probe_once_before_the_pause_is_over() {
        let (_, breakers) = breakers();
        let years = Some(Duration::from_secs(100_000_000));
        let limited = ModelError::RateLimited { message: "come back".into(), retry_after: years };
        let _ = breakers.enter("p", agent(1)).unwrap().failed(&limited, None);
        assert!(wait_of(breakers.enter("p", agent(1))) >= limits::RETRY_AFTER_MAX_MS);
        breakers.grant(agent(1));
        assert!(!breakers.refuses("p", agent(1)) && breakers.refuses("p", agent(2)));
        assert!(breakers.enter("p", agent(2)).is_err(), "the grant is for one agent");
        let mut trial = breakers.enter("p", agent(1)).unwrap();
        assert!(breakers.enter("p", agent(2)).is_err(), "one asks, not two");
        let _ = trial.failed(&limited, None);
        assert!(breakers.enter("p", agent(1)).is_err(), "once");
        breakers.grant(agent(1));
        breakers.enter("p", agent(1)).unwrap().served();
        assert!(breakers.enter("p", agent(2)).is_ok(), "its success lets all others through");
    }

    #[test]
    fn the_first_agent_that_fails_retries_and_the_others_give_up_at_once() {
        let (_, breakers) = breakers();
        let mut first = breakers.enter("p", agent(1)).unwrap();
        let mut second = breakers.enter("p", agent(2)).unwrap();
        let pause = Duration::from_secs(1);
        assert_eq!(first.failed(&down(), Some(pause)), Ok(pause));
        assert!(matches!(second.failed(&down(), Some(pause)), Err(ModelError::NotCalled { .. })));
        assert!(breakers.enter("p", agent(3)).is_err());
        first.served();
        assert!(breakers.enter("p", agent(3)).is_ok());
    }

    #[test]
    fn a_probe_that_never_learns_its_result_lets_the_next_one_probe() {
        let (time, breakers) = breakers();
        let _ = breakers.enter("p", agent(1)).unwrap().failed(&down(), None);
        time.0.store(1_000, Ordering::SeqCst);
        drop(breakers.enter("p", agent(1)).unwrap());
        assert!(breakers.enter("p", agent(2)).is_ok());
    }

    #[test]
    fn failures_that_one_request_may_cause_never_open_the_breaker() {
        let (_, breakers) = breakers();
        let failed = ModelError::Failed { message: "500".into(), retry_after: None };
        for error in [ModelError::TimedOut(TimeoutKind::Idle), ModelError::Cut("there".into()), failed] {
            for n in 1..=50 {
                let _ = breakers.enter("p", agent(n)).unwrap().failed(&error, None);
            }
            assert!(!breakers.refuses("p", agent(99)), "{error}");
        }
    }

    #[test]
    fn a_provider_that_is_reached_again_but_fails_one_request_is_open_to_all_others() {
        let (time, breakers) = breakers();
        let _ = breakers.enter("p", agent(1)).unwrap().failed(&down(), None);
        time.0.store(1_000, Ordering::SeqCst);
        let mut probe = breakers.enter("p", agent(1)).unwrap();
        let _ = probe.failed(&ModelError::TimedOut(TimeoutKind::FirstByte), None);
        assert!(breakers.enter("p", agent(2)).is_ok());
    }

    #[test]
    fn the_first_piece_of_a_reply_closes_the_breaker() {
        let (time, breakers) = breakers();
        let _ = breakers.enter("p", agent(1)).unwrap().failed(&down(), None);
        time.0.store(1_000, Ordering::SeqCst);
        let mut probe = breakers.enter("p", agent(2)).unwrap();
        probe.served();
        assert!(breakers.enter("p", agent(3)).is_ok(), "others do not wait for the end of a long reply");
        let _ = probe.failed(&ModelError::Cut("there".into()), None);
        assert!(!breakers.refuses("p", agent(99)));
    }

    #[test]
    fn a_retry_after_of_the_vendor_is_respected_and_content_errors_open_nothing() {
        let (_, breakers) = breakers();
        for error in [ModelError::Invalid("400".into()), ModelError::NoModel("gone".into())] {
            assert_eq!(breakers.enter("p", agent(1)).unwrap().failed(&error, None), Err(error));
            assert!(!breakers.refuses("p", agent(99)));
        }
        let retry_after = Some(Duration::from_secs(90));
        let limited = ModelError::RateLimited { message: "slow down".into(), retry_after };
        let _ = breakers.enter("p", agent(1)).unwrap().failed(&limited, None);
        assert!((90_000..91_000).contains(&wait_of(breakers.enter("p", agent(2)))));
    }
}
