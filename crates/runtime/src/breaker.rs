//! A breaker for each provider, shared by all agents of a node: while it fails nobody asks it, when the
//! pause is over one does, and its success lets all others through again, one behind the other.
//!
//! In memory only: that an agent rests is durable by itself, and a new process finds out again. Must not
//! know agents' rows, prompts or replies.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::cycle::idle_after;
use agent::id::AgentId;
use agent::limits;
use agent::port::{Clock, Ids, ModelError};

use crate::failure;

/// The breakers of a node, by what fails together ([`agent::port::ModelInfo::provider`]).
pub(crate) struct Breakers {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    all: Mutex<HashMap<String, Breaker>>,
    /// Agents that an operator wants to ask now: each may once, although the pause is not over.
    granted: Mutex<BTreeSet<AgentId>>,
}

/// One that is open: of a provider that serves, nothing is kept.
#[derive(Debug)]
struct Breaker {
    state: BreakerState,
    /// Failures in a row, each of which made the pause longer.
    failures: u32,
    /// Who was turned away since it opened.
    turned_away: u64,
    /// Why it is open.
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerState {
    /// Nobody asks before that monotonic time.
    Open(u64),
    /// One asks, for all; again at that time, where it waits to ask again.
    Probing(u64),
}

/// The right to ask a provider.
pub(crate) struct Pass<'a> {
    breakers: &'a Breakers,
    provider: String,
    /// Asks for all, since the pause is over: once, and no more.
    probe: bool,
    /// Asks for all.
    holds: bool,
}

impl Breakers {
    pub(crate) fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self { clock, ids, all: Mutex::default(), granted: Mutex::default() }
    }

    /// Lets the agent ask next time, for all, although the pause may not be over.
    pub(crate) fn grant(&self, agent: AgentId) {
        let mut granted = self.granted();
        if granted.len() < limits::BREAKER_GRANTS_MAX {
            granted.insert(agent);
        }
    }

    /// The agent's activation is over: what it was granted and has not used is void.
    pub(crate) fn revoke(&self, agent: AgentId) {
        self.granted().remove(&agent);
    }

    /// The right to ask, or why it must not be asked now and when it may be.
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
            BreakerState::Open(until) | BreakerState::Probing(until) => {
                Err(self.turn_away(breaker, until, now))
            }
        }
    }

    /// Whether the agent would not be let through now.
    pub(crate) fn is_shut(&self, provider: &str, agent: AgentId) -> bool {
        let now = self.clock.monotonic_ms();
        let granted = self.granted().contains(&agent);
        self.lock().get(provider).is_some_and(|breaker| match breaker.state {
            BreakerState::Open(until) => until > now && !granted,
            BreakerState::Probing(_) => true,
        })
    }

    /// Each is told a somewhat later time than the one before, so that they do not come back at once.
    fn turn_away(&self, breaker: &mut Breaker, until: u64, now: u64) -> ModelError {
        breaker.turned_away += 1;
        let spread = breaker.turned_away.saturating_mul(limits::BREAKER_SPREAD_MS);
        let spread = self.ids.jitter(spread.clamp(1, limits::BREAKER_SPREAD_MAX_MS));
        let left = match breaker.state {
            BreakerState::Probing(_) => until.saturating_sub(now).max(limits::BREAKER_PROBE_MS),
            _ => until.saturating_sub(now),
        };
        let retry_after = Duration::from_millis(left + spread);
        ModelError::Unasked { message: breaker.why.clone(), retry_after }
    }

    fn granted(&self) -> MutexGuard<'_, BTreeSet<AgentId>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Breaker>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// The provider serves: everyone may ask again.
    pub(crate) fn served(&mut self) {
        if std::mem::take(&mut self.holds) {
            self.breakers.lock().remove(&self.provider);
        }
        self.probe = false;
    }

    /// There was no reply. `again` is the pause before the next attempt of this activation, where one is of
    /// use. Says how long to wait for it, or why to give up now.
    pub(crate) fn failed(
        &mut self,
        error: &ModelError,
        again: Option<Duration>,
    ) -> Result<Duration, ModelError> {
        if !failure::behaviour(error).opens {
            // It was reached, and refuses nobody else.
            self.served();
            return again.ok_or_else(|| error.clone());
        }
        let now = self.breakers.clock.monotonic_ms();
        let mut all = self.breakers.lock();
        if all.len() >= limits::BREAKERS_MAX && !all.contains_key(&self.provider) {
            return again.ok_or_else(|| error.clone());
        }
        if let Some(breaker) = all.get_mut(&self.provider).filter(|_| !self.holds) {
            // Somebody else found out before, and asks again for all.
            let (BreakerState::Open(until) | BreakerState::Probing(until)) = breaker.state;
            return Err(self.breakers.turn_away(breaker, until, now));
        }
        let breaker = all.entry(self.provider.clone()).or_insert_with(|| Breaker {
            state: BreakerState::Open(now),
            failures: 0,
            turned_away: 0,
            why: String::new(),
        });
        breaker.why = error.to_string();
        self.holds = true;
        if let Some(pause) = again.filter(|_| !self.probe) {
            breaker.state = BreakerState::Probing(now + millis(pause));
            return Ok(pause);
        }
        breaker.failures += 1;
        breaker.turned_away = 0;
        let pause = error.retry_after().unwrap_or_else(|| idle_after(breaker.failures));
        let pause = pause.min(Duration::from_millis(limits::RETRY_AFTER_MAX_MS));
        breaker.state = BreakerState::Open(now + millis(pause));
        tracing::warn!(provider = self.provider, pause_ms = pause.as_millis(), %error, "the provider is not asked for a while");
        (self.probe, self.holds) = (false, false);
        Err(error.clone())
    }
}

impl Drop for Pass<'_> {
    /// Whoever asked for all and never learned how it ends, as when its cycle is canceled, makes room
    /// for the next one.
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
    struct ByHand(AtomicU64);
    impl Clock for ByHand {
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
    impl Ids for ByHand {
        fn uuid(&self) -> Uuid {
            Uuid::nil()
        }
        fn jitter(&self, bound: u64) -> u64 {
            bound - 1
        }
    }

    fn breakers() -> (Arc<ByHand>, Breakers) {
        let time = Arc::new(ByHand::default());
        (Arc::clone(&time), Breakers::new(Arc::clone(&time) as _, time as _))
    }

    fn agent(n: u128) -> AgentId {
        AgentId(Uuid::from_u128(n))
    }

    fn down() -> ModelError {
        ModelError::Network("refused".into())
    }

    fn wait_of(refused: Result<Pass<'_>, ModelError>) -> u64 {
        let error = refused.err().expect("nobody is let through");
        millis(error.retry_after().expect("it says when"))
    }

    #[test]
    fn while_it_is_open_nobody_asks_and_then_one_does_whose_success_closes_it() {
        let (time, breakers) = breakers();
        let mut first = breakers.enter("p", agent(1)).unwrap();
        assert_eq!(first.failed(&down(), None), Err(down()));
        assert!(breakers.is_shut("p", agent(99)) && !breakers.is_shut("other", agent(99)));
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
        assert!(!breakers.is_shut("p", agent(99)) && breakers.enter("p", agent(4)).is_ok());
    }

    #[test]
    fn an_operators_word_lets_one_agent_ask_once_before_the_pause_is_over() {
        let (_, breakers) = breakers();
        let years = Some(Duration::from_secs(100_000_000));
        let limited = ModelError::RateLimited { message: "come back".into(), retry_after: years };
        let _ = breakers.enter("p", agent(1)).unwrap().failed(&limited, None);
        assert!(wait_of(breakers.enter("p", agent(1))) >= limits::RETRY_AFTER_MAX_MS);
        breakers.grant(agent(1));
        assert!(!breakers.is_shut("p", agent(1)) && breakers.is_shut("p", agent(2)));
        assert!(breakers.enter("p", agent(2)).is_err(), "it is for that one");
        let mut trial = breakers.enter("p", agent(1)).unwrap();
        assert!(breakers.enter("p", agent(2)).is_err(), "one asks, not two");
        let _ = trial.failed(&limited, None);
        assert!(breakers.enter("p", agent(1)).is_err(), "once");
        breakers.grant(agent(1));
        breakers.enter("p", agent(1)).unwrap().served();
        assert!(breakers.enter("p", agent(2)).is_ok(), "and its success is everybody's");
    }

    #[test]
    fn whoever_fails_first_goes_on_for_all_and_the_others_give_up_at_once() {
        let (_, breakers) = breakers();
        let mut first = breakers.enter("p", agent(1)).unwrap();
        let mut second = breakers.enter("p", agent(2)).unwrap();
        let pause = Duration::from_secs(1);
        assert_eq!(first.failed(&down(), Some(pause)), Ok(pause));
        assert!(matches!(second.failed(&down(), Some(pause)), Err(ModelError::Unasked { .. })));
        assert!(breakers.enter("p", agent(3)).is_err());
        first.served();
        assert!(breakers.enter("p", agent(3)).is_ok());
    }

    #[test]
    fn a_probe_that_never_learns_its_end_makes_room_for_the_next() {
        let (time, breakers) = breakers();
        let _ = breakers.enter("p", agent(1)).unwrap().failed(&down(), None);
        time.0.store(1_000, Ordering::SeqCst);
        drop(breakers.enter("p", agent(1)).unwrap());
        assert!(breakers.enter("p", agent(2)).is_ok());
    }

    #[test]
    fn what_one_request_may_cause_opens_nothing_however_many_agents_meet_it() {
        let (_, breakers) = breakers();
        let failed = ModelError::Failed { message: "500".into(), retry_after: None };
        for error in [ModelError::TimedOut(TimeoutKind::Idle), ModelError::Cut("there".into()), failed] {
            for n in 1..=50 {
                let _ = breakers.enter("p", agent(n)).unwrap().failed(&error, None);
            }
            assert!(!breakers.is_shut("p", agent(99)), "{error}");
        }
    }

    #[test]
    fn a_provider_that_is_reached_again_and_fails_at_one_request_is_open_to_all_others() {
        let (time, breakers) = breakers();
        let _ = breakers.enter("p", agent(1)).unwrap().failed(&down(), None);
        time.0.store(1_000, Ordering::SeqCst);
        let mut probe = breakers.enter("p", agent(1)).unwrap();
        let _ = probe.failed(&ModelError::TimedOut(TimeoutKind::FirstByte), None);
        assert!(breakers.enter("p", agent(2)).is_ok());
    }

    #[test]
    fn a_line_that_stands_again_is_seen_at_the_first_piece() {
        let (time, breakers) = breakers();
        let _ = breakers.enter("p", agent(1)).unwrap().failed(&down(), None);
        time.0.store(1_000, Ordering::SeqCst);
        let mut probe = breakers.enter("p", agent(2)).unwrap();
        probe.served();
        assert!(breakers.enter("p", agent(3)).is_ok(), "nobody waits until a long reply has ended");
        let _ = probe.failed(&ModelError::Cut("there".into()), None);
        assert!(!breakers.is_shut("p", agent(99)));
    }

    #[test]
    fn a_vendor_that_says_when_is_believed_and_content_trips_nothing() {
        let (_, breakers) = breakers();
        for error in [ModelError::Invalid("400".into()), ModelError::NoModel("gone".into())] {
            assert_eq!(breakers.enter("p", agent(1)).unwrap().failed(&error, None), Err(error));
            assert!(!breakers.is_shut("p", agent(99)));
        }
        let retry_after = Some(Duration::from_secs(90));
        let limited = ModelError::RateLimited { message: "slow down".into(), retry_after };
        let _ = breakers.enter("p", agent(1)).unwrap().failed(&limited, None);
        assert!((90_000..91_000).contains(&wait_of(breakers.enter("p", agent(2)))));
    }
}
