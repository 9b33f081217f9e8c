//! How many requests may be under way at each provider. Where that many are, whoever has not begun a cycle
//! gives its place back and stands in the provider's line; whoever is in the middle of one waits in
//! memory, goes before all of those, and takes nobody's place meanwhile. So a provider that says nothing keeps
//! nobody from another one.
//!
//! It must not know agents' rows, prompts or replies.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::id::AgentId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::ready_queue::ReadyQueue;

/// The permits of one node, by provider.
pub(crate) struct Permits {
    each: usize,
    all: Mutex<All>,
    /// Those in the middle of a cycle that wait.
    inside: AtomicUsize,
    /// Told when somebody is called, or waits and takes no place any more.
    stirred: Notify,
}

#[derive(Default)]
struct All {
    of: HashMap<String, Provider>,
    /// In whose line an agent stands.
    waiting: HashMap<AgentId, String>,
    /// Permits of agents that have not made their request yet.
    reserved: HashMap<AgentId, (String, OwnedSemaphorePermit)>,
    /// Agents with a permit that the keeper has not been told of.
    called: Vec<AgentId>,
}

/// One at which requests are under way.
struct Provider {
    free: Arc<Semaphore>,
    line: ReadyQueue,
}

/// The right to one request; given back when it is dropped.
pub(crate) struct Permit {
    permits: Arc<Permits>,
    provider: String,
    held: Option<OwnedSemaphorePermit>,
}

impl Permits {
    /// So many at each provider.
    pub(crate) fn new(each: usize) -> Self {
        Self { each, all: Mutex::default(), inside: AtomicUsize::new(0), stirred: Notify::new() }
    }

    /// Keeps a permit for the agent's next request there; `false` where none is free: then it stands in line,
    /// and is called.
    pub(crate) fn reserve(&self, provider: &str, agent: AgentId) -> bool {
        let mut all = self.lock();
        if all.reserved.get(&agent).is_some_and(|(of, _)| of == provider) {
            return true;
        }
        self.give_back(&mut all, agent);
        if all.waiting.get(&agent).is_some_and(|of| of != provider)
            && let Some(other) = all.waiting.remove(&agent)
            && let Some(other) = all.of.get_mut(&other)
        {
            other.line.leave(agent);
        }
        let place = all.place(provider, self.each);
        if place.line.is_empty()
            && let Ok(permit) = Arc::clone(&place.free).try_acquire_owned()
        {
            all.reserved.insert(agent, (provider.to_owned(), permit));
            return true;
        }
        place.line.join(agent);
        if place.line.contains(agent) {
            all.waiting.insert(agent, provider.to_owned());
        }
        false
    }

    /// The right to one request there: the agent's reserved one, else the next that is free.
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
            // One that was kept for another provider is not needed now.
            self.give_back(&mut all, agent);
            let free = Arc::clone(&all.place(provider, self.each).free);
            if let Ok(held) = Arc::clone(&free).try_acquire_owned() {
                return permit(held);
            }
            free
        };
        // Dropped behind the wait: what was handed to whoever gave up goes on to the next.
        let _inside = PermitWait::of(self, provider);
        match free.acquire_owned().await {
            Ok(held) => permit(held),
            // Nobody closes it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Gives back what the agent has reserved and does not use.
    pub(crate) fn leave(&self, agent: AgentId) {
        self.give_back(&mut self.lock(), agent);
    }

    /// Whether the agent stands in a provider's line.
    pub(crate) fn waits(&self, agent: AgentId) -> bool {
        self.lock().waiting.contains_key(&agent)
    }

    /// How many that are awake wait in the middle of a cycle.
    pub(crate) fn inside(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }

    /// Waits until there is something to hear: who is called, or that somebody's place is free.
    pub(crate) async fn stirred(&self) {
        self.stirred.notified().await;
    }

    /// Who has got a permit since, and is to be woken.
    pub(crate) fn called(&self) -> Vec<AgentId> {
        std::mem::take(&mut self.lock().called)
    }

    fn give_back(&self, all: &mut All, agent: AgentId) {
        if let Some((provider, held)) = all.reserved.remove(&agent) {
            drop(held);
            self.hand_on(all, &provider);
        }
    }

    /// What became free there goes to the next in line.
    fn hand_on(&self, all: &mut All, provider: &str) {
        let All { of, waiting, reserved, called } = all;
        let Some(place) = of.get_mut(provider) else { return };
        while !place.line.is_empty()
            && let Ok(held) = Arc::clone(&place.free).try_acquire_owned()
            && let Some(agent) = place.line.next()
        {
            waiting.remove(&agent);
            reserved.insert(agent, (provider.to_owned(), held));
            called.push(agent);
        }
        if !called.is_empty() {
            self.stirred.notify_one();
        }
        if place.line.is_empty() && Arc::strong_count(&place.free) == 1 {
            of.remove(provider);
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn place(&mut self, provider: &str, each: usize) -> &mut Provider {
        if !self.of.contains_key(provider) {
            let place = Provider { free: Arc::new(Semaphore::new(each)), line: ReadyQueue::default() };
            self.of.insert(provider.to_owned(), place);
        }
        self.of.get_mut(provider).expect("it was put there")
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.held = None;
        self.permits.hand_on(&mut self.permits.lock(), &self.provider);
    }
}

/// Somebody who waits in the middle of a cycle.
struct PermitWait<'a> {
    permits: &'a Permits,
    provider: &'a str,
}

impl<'a> PermitWait<'a> {
    fn of(permits: &'a Permits, provider: &'a str) -> Self {
        permits.inside.fetch_add(1, Ordering::SeqCst);
        permits.stirred.notify_one();
        Self { permits, provider }
    }
}

impl Drop for PermitWait<'_> {
    fn drop(&mut self) {
        self.permits.inside.fetch_sub(1, Ordering::SeqCst);
        self.permits.hand_on(&mut self.permits.lock(), self.provider);
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

    fn permits(each: usize) -> Arc<Permits> {
        Arc::new(Permits::new(each))
    }

    fn enter(permits: &Arc<Permits>, n: u128) -> Option<Permit> {
        permits.enter("p", agent(n)).now_or_never()
    }

    #[test]
    fn whoever_finds_none_free_stands_in_line_and_is_called_with_one_in_hand() {
        let permits = permits(2);
        let held: Vec<_> =
            (1..=2).map(|n| permits.reserve("p", agent(n)).then(|| enter(&permits, n))).collect();
        assert!(held.iter().flatten().all(Option::is_some));
        assert!(!permits.reserve("p", agent(3)) && !permits.reserve("p", agent(4)));
        assert!(permits.reserve("other", agent(5)), "another provider has its own");
        assert!(permits.waits(agent(3)) && permits.called().is_empty());
        drop(held);
        assert_eq!(permits.called(), [agent(3), agent(4)]);
        assert!(!permits.waits(agent(3)) && !permits.reserve("p", agent(6)), "they are theirs");
        assert!(permits.reserve("p", agent(3)) && enter(&permits, 3).is_some());
        assert_eq!(permits.called(), [agent(6)]);
        permits.leave(agent(4));
        assert!(permits.reserve("p", agent(7)), "what is not used is given back");
    }

    #[test]
    fn whoever_is_in_the_middle_of_a_cycle_goes_before_those_in_line() {
        let permits = permits(1);
        let first = enter(&permits, 1);
        assert!(!permits.reserve("p", agent(2)));
        let mut inside = Box::pin(permits.enter("p", agent(3)));
        assert!(inside.as_mut().now_or_never().is_none());
        assert_eq!(permits.inside(), 1);
        drop(first);
        let second = inside.as_mut().now_or_never().expect("it is its turn");
        drop(inside);
        assert!(permits.inside() == 0 && permits.called().is_empty());
        drop(second);
        assert_eq!(permits.called(), [agent(2)]);
    }

    #[test]
    fn what_was_handed_to_somebody_who_gave_up_meanwhile_goes_to_the_next_in_line() {
        let permits = permits(1);
        let first = enter(&permits, 1);
        let mut inside = Box::pin(permits.enter("p", agent(3)));
        assert!(inside.as_mut().now_or_never().is_none());
        assert!(!permits.reserve("p", agent(2)));
        drop(first);
        assert!(permits.called().is_empty(), "it is the other one's");
        drop(inside);
        assert_eq!((permits.called(), permits.inside()), (vec![agent(2)], 0));
    }

    #[test]
    fn what_is_kept_at_one_provider_is_given_back_where_another_is_asked() {
        let permits = permits(1);
        assert!(permits.reserve("p", agent(1)) && !permits.reserve("p", agent(2)));
        let other = permits.enter("other", agent(1)).now_or_never();
        assert!(other.is_some());
        assert_eq!(permits.called(), [agent(2)]);
    }

    #[test]
    fn whoever_wants_another_provider_now_leaves_the_line() {
        let permits = permits(1);
        let held = enter(&permits, 1);
        assert!(!permits.reserve("p", agent(2)) && permits.reserve("other", agent(2)));
        drop(held);
        assert!(permits.called().is_empty() && permits.reserve("p", agent(3)));
    }

    #[test]
    fn nothing_is_kept_of_a_provider_at_which_nothing_is_under_way() {
        let permits = permits(1);
        let held = enter(&permits, 1);
        assert!(!permits.reserve("p", agent(2)));
        drop(held);
        permits.leave(agent(2));
        let all = permits.lock();
        assert!(all.of.is_empty() && all.waiting.is_empty() && all.reserved.is_empty());
    }
}
