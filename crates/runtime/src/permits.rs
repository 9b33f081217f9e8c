//! Limits the requests in flight at each provider. When the limit is reached, an agent that has not begun a cycle
//! goes back to sleep and is queued at the provider. An agent in the middle of a cycle stays awake and waits; it
//! goes before all queued ones, and does not count as awake meanwhile. So a silent provider never blocks agents of
//! another one.
//!
//! Must not know agents' rows, prompts or replies.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::id::AgentId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::ready_queue::ReadyQueue;

/// The permits of one node, by provider.
pub(crate) struct Permits {
    per_provider: usize,
    state: Mutex<State>,
    /// How many agents wait in the middle of a cycle.
    waiting_awake: AtomicUsize,
    /// Notified when a queued agent gets a permit, or an awake one begins to wait.
    changed: Notify,
}

#[derive(Default)]
struct State {
    providers: HashMap<String, Provider>,
    /// The provider at which an agent is queued.
    waiting: HashMap<AgentId, String>,
    /// Permits of agents that have not sent their request yet.
    reserved: HashMap<AgentId, (String, OwnedSemaphorePermit)>,
    /// Agents that got a permit, until the keeper takes this list.
    granted: Vec<AgentId>,
}

/// A provider with requests in flight.
struct Provider {
    free: Arc<Semaphore>,
    queue: ReadyQueue,
}

/// The permit for one request; released when it is dropped.
pub(crate) struct Permit {
    permits: Arc<Permits>,
    provider: String,
    held: Option<OwnedSemaphorePermit>,
}

impl Permits {
    /// At most `per_provider` requests at each provider.
    pub(crate) fn new(per_provider: usize) -> Self {
        Self {
            per_provider,
            state: Mutex::default(),
            waiting_awake: AtomicUsize::new(0),
            changed: Notify::new(),
        }
    }

    /// Reserves a permit for the agent's next request there. `false` if none is free: then the agent is queued,
    /// and is in [`Permits::granted`] once it has one.
    pub(crate) fn reserve(&self, provider: &str, agent: AgentId) -> bool {
        let mut all = self.lock();
        if all.reserved.get(&agent).is_some_and(|(of, _)| of == provider) {
            return true;
        }
        self.release_in(&mut all, agent);
        if all.waiting.get(&agent).is_some_and(|of| of != provider)
            && let Some(other) = all.waiting.remove(&agent)
            && let Some(other) = all.providers.get_mut(&other)
        {
            other.queue.remove(agent);
        }
        let entry = all.provider(provider, self.per_provider);
        if entry.queue.is_empty()
            && let Ok(permit) = Arc::clone(&entry.free).try_acquire_owned()
        {
            all.reserved.insert(agent, (provider.to_owned(), permit));
            return true;
        }
        entry.queue.push(agent);
        if entry.queue.contains(agent) {
            all.waiting.insert(agent, provider.to_owned());
        }
        false
    }

    /// The permit for one request there: the agent's reserved one, or else the next that is free.
    pub(crate) async fn enter(self: &Arc<Self>, provider: &str, agent: AgentId) -> Permit {
        let permit =
            |held| Permit { permits: Arc::clone(self), provider: provider.to_owned(), held: Some(held) };
        let free = {
            let mut all = self.lock();
            if all.reserved.get(&agent).is_some_and(|(of, _)| of == provider)
                && let Some((_, held)) = all.reserved.remove(&agent)
            {
                return permit(held);
            }
            // A permit that was reserved at another provider is not needed now.
            self.release_in(&mut all, agent);
            let free = Arc::clone(&all.provider(provider, self.per_provider).free);
            if let Ok(held) = Arc::clone(&free).try_acquire_owned() {
                return permit(held);
            }
            free
        };
        // Dropped after the wait: a permit that was handed to an agent that gave up goes to the next.
        let _waiting = PermitWait::of(self, provider);
        match free.acquire_owned().await {
            Ok(held) => permit(held),
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Releases a permit that the agent has reserved and does not use.
    pub(crate) fn release(&self, agent: AgentId) {
        self.release_in(&mut self.lock(), agent);
    }

    /// Whether the agent is queued at a provider.
    pub(crate) fn is_queued(&self, agent: AgentId) -> bool {
        self.lock().waiting.contains_key(&agent)
    }

    /// How many awake agents wait in the middle of a cycle.
    pub(crate) fn waiting_awake(&self) -> usize {
        self.waiting_awake.load(Ordering::SeqCst)
    }

    /// Waits until a queued agent gets a permit, or an awake one begins to wait.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The agents that got a permit since the last call, and are to be activated.
    pub(crate) fn granted(&self) -> Vec<AgentId> {
        std::mem::take(&mut self.lock().granted)
    }

    fn release_in(&self, all: &mut State, agent: AgentId) {
        if let Some((provider, held)) = all.reserved.remove(&agent) {
            drop(held);
            self.pass_on(all, &provider);
        }
    }

    /// Free permits there go to the queued agents.
    fn pass_on(&self, all: &mut State, provider: &str) {
        let State { providers, waiting, reserved, granted } = all;
        let Some(entry) = providers.get_mut(provider) else { return };
        while !entry.queue.is_empty()
            && let Ok(held) = Arc::clone(&entry.free).try_acquire_owned()
            && let Some(agent) = entry.queue.pop()
        {
            waiting.remove(&agent);
            reserved.insert(agent, (provider.to_owned(), held));
            granted.push(agent);
        }
        if !granted.is_empty() {
            self.changed.notify_one();
        }
        if entry.queue.is_empty() && Arc::strong_count(&entry.free) == 1 {
            providers.remove(provider);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn provider(&mut self, provider: &str, per_provider: usize) -> &mut Provider {
        if !self.providers.contains_key(provider) {
            let entry =
                Provider { free: Arc::new(Semaphore::new(per_provider)), queue: ReadyQueue::default() };
            self.providers.insert(provider.to_owned(), entry);
        }
        self.providers.get_mut(provider).expect("it was inserted above")
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.held = None;
        self.permits.pass_on(&mut self.permits.lock(), &self.provider);
    }
}

/// An agent that waits in the middle of a cycle.
struct PermitWait<'a> {
    permits: &'a Permits,
    provider: &'a str,
}

impl<'a> PermitWait<'a> {
    fn of(permits: &'a Permits, provider: &'a str) -> Self {
        permits.waiting_awake.fetch_add(1, Ordering::SeqCst);
        permits.changed.notify_one();
        Self { permits, provider }
    }
}

impl Drop for PermitWait<'_> {
    fn drop(&mut self) {
        self.permits.waiting_awake.fetch_sub(1, Ordering::SeqCst);
        self.permits.pass_on(&mut self.permits.lock(), self.provider);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    fn agent(n: u128) -> AgentId {
        AgentId(Uuid::from_u128(n))
    }

    fn permits(per_provider: usize) -> Arc<Permits> {
        Arc::new(Permits::new(per_provider))
    }

    fn enter(permits: &Arc<Permits>, n: u128) -> Option<Permit> {
        permits.enter("p", agent(n)).now_or_never()
    }

    #[test]
    fn an_agent_without_a_free_permit_is_queued_and_activated_once_it_has_one() {
        let permits = permits(2);
        let held: Vec<_> =
            (1..=2).map(|n| permits.reserve("p", agent(n)).then(|| enter(&permits, n))).collect();
        assert!(held.iter().flatten().all(Option::is_some));
        assert!(!permits.reserve("p", agent(3)) && !permits.reserve("p", agent(4)));
        assert!(permits.reserve("other", agent(5)), "another provider has its own permits");
        assert!(permits.is_queued(agent(3)) && permits.granted().is_empty());
        drop(held);
        assert_eq!(permits.granted(), [agent(3), agent(4)]);
        assert!(
            !permits.is_queued(agent(3)) && !permits.reserve("p", agent(6)),
            "those permits are reserved"
        );
        assert!(permits.reserve("p", agent(3)) && enter(&permits, 3).is_some());
        assert_eq!(permits.granted(), [agent(6)]);
        permits.release(agent(4));
        assert!(permits.reserve("p", agent(7)), "an unused permit is free again");
    }

    #[test]
    fn an_agent_in_the_middle_of_a_cycle_goes_before_queued_ones() {
        let permits = permits(1);
        let first = enter(&permits, 1);
        assert!(!permits.reserve("p", agent(2)));
        let mut inside = Box::pin(permits.enter("p", agent(3)));
        assert!(inside.as_mut().now_or_never().is_none());
        assert_eq!(permits.waiting_awake(), 1);
        drop(first);
        let second = inside.as_mut().now_or_never().expect("a permit is free");
        drop(inside);
        assert!(permits.waiting_awake() == 0 && permits.granted().is_empty());
        drop(second);
        assert_eq!(permits.granted(), [agent(2)]);
    }

    #[test]
    fn a_permit_handed_to_an_agent_that_gave_up_goes_to_the_next_in_the_queue() {
        let permits = permits(1);
        let first = enter(&permits, 1);
        let mut inside = Box::pin(permits.enter("p", agent(3)));
        assert!(inside.as_mut().now_or_never().is_none());
        assert!(!permits.reserve("p", agent(2)));
        drop(first);
        assert!(permits.granted().is_empty(), "the permit is reserved for the awake agent");
        drop(inside);
        assert_eq!((permits.granted(), permits.waiting_awake()), (vec![agent(2)], 0));
    }

    #[test]
    fn a_permit_reserved_at_one_provider_is_released_when_another_is_used() {
        let permits = permits(1);
        assert!(permits.reserve("p", agent(1)) && !permits.reserve("p", agent(2)));
        let other = permits.enter("other", agent(1)).now_or_never();
        assert!(other.is_some());
        assert_eq!(permits.granted(), [agent(2)]);
    }

    #[test]
    fn an_agent_that_wants_another_provider_leaves_the_queue() {
        let permits = permits(1);
        let held = enter(&permits, 1);
        assert!(!permits.reserve("p", agent(2)) && permits.reserve("other", agent(2)));
        drop(held);
        assert!(permits.granted().is_empty() && permits.reserve("p", agent(3)));
    }

    #[test]
    fn a_provider_without_requests_in_flight_leaves_no_state() {
        let permits = permits(1);
        let held = enter(&permits, 1);
        assert!(!permits.reserve("p", agent(2)));
        drop(held);
        permits.release(agent(2));
        let all = permits.lock();
        assert!(all.providers.is_empty() && all.waiting.is_empty() && all.reserved.is_empty());
    }
}
