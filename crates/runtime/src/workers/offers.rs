//! The calls on offer: each waits in the queue of its tool until a worker takes it out.
//!
//! Must not know who may claim a call, nor how a claim is made durable.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::call::{CallRow, Effect, Outcome};
use agent::id::{AgentId, CallId, ClaimId};
use agent::limits;
use agent::port::Clock;
use tokio::sync::Notify;

use super::{WorkerCounts, WorkerTool};

/// The calls of worker tools that this node waits for.
#[derive(Default)]
pub struct Workers(Mutex<Offers>);

#[derive(Default)]
pub(super) struct Offers {
    calls: HashMap<CallId, Offered>,
    queues: HashMap<WorkerTool, Queue>,
    /// Grows with each offer.
    next: u64,
}

/// A call that an agent wants a worker to run.
#[derive(Clone, Copy)]
pub(crate) struct WantedCall<'a> {
    /// The agent.
    pub(crate) agent: AgentId,
    /// Its row.
    pub(crate) row: &'a CallRow,
    /// The version of the workers that may run it.
    pub(crate) version: &'a str,
    /// Whether an urgent event of its requester keeps an unsafe one from beginning.
    pub(crate) barrier: bool,
}

/// A call that this node waits for.
pub(super) struct Offered {
    pub(super) agent: AgentId,
    pub(super) row: CallRow,
    pub(super) tool: WorkerTool,
    /// Its place in the queue of its tool, where it returns if its worker is gone.
    pub(super) place: u64,
    pub(super) barrier: bool,
    pub(super) times: u32,
    state: OfferState,
    /// Notified when `state` changes.
    changed: Arc<Notify>,
}

/// Where a call on offer is.
#[derive(Clone, Copy)]
pub(super) enum OfferState {
    /// In its queue, or on its way to a worker.
    Unclaimed,
    /// A worker has it.
    Held(Held),
    /// Its requester sent an urgent event before it began.
    HeldBack,
    /// The rule by which it needed no approval does not hold any more.
    RuleOver,
    /// Its agent may not begin a call now, or it is over.
    NotNow,
}

/// A claim, and until when it holds if its worker does not renew it.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) claim: ClaimId,
    /// In the clock's monotonic milliseconds.
    pub(super) until: u64,
}

impl Held {
    /// From now on.
    pub(super) fn new(clock: &dyn Clock, claim: ClaimId) -> Self {
        Self { claim, until: clock.monotonic_ms() + limits::WORKER_LEASE_MS }
    }
}

/// The unclaimed calls of one tool, oldest first.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) calls: BTreeMap<u64, CallId>,
    /// Notified once for each call that is added.
    pub(super) news: Arc<Notify>,
    pub(super) waiting_workers: usize,
}

impl Workers {
    /// How many calls and waiting workers the tool has, over all versions.
    pub fn counts(&self, tool: &str) -> WorkerCounts {
        let offers = self.lock();
        let queues = offers.queues.iter().filter(|((name, _), _)| name == tool);
        let mut counts = WorkerCounts::default();
        for (_, queue) in queues {
            counts.waiting_workers += queue.waiting_workers;
            counts.unclaimed_calls += queue.calls.len();
        }
        let held = |call: &&Offered| call.tool.0 == tool && matches!(call.state, OfferState::Held(_));
        counts.claimed_calls = offers.calls.values().filter(held).count();
        counts
    }

    /// Whether a call of the tool waits for a worker of this version.
    pub fn offers(&self, tool: &WorkerTool) -> bool {
        self.lock().queues.get(tool).is_some_and(|queue| !queue.calls.is_empty())
    }

    /// Offers the call until it is answered from outside, which drops this future. Ends only if the workers that claimed
    /// it are gone and nobody else may run it, or if it is held back.
    pub(crate) async fn run(&self, clock: &dyn Clock, wanted: WantedCall<'_>) -> Outcome {
        let call = &wanted.row.id;
        let offer = self.offer(clock, wanted);
        loop {
            let changed = Arc::clone(&offer.changed).notified_owned();
            let now = clock.monotonic_ms();
            match self.state(call) {
                OfferState::HeldBack => return Outcome::held_back(),
                OfferState::RuleOver => return Outcome::rule_over(),
                OfferState::NotNow => {
                    // Its agent may be resumed, and the call begin after all.
                    clock.sleep(Duration::from_millis(limits::WORKER_REFUSED_MS)).await;
                    self.offer_again(call, |state| matches!(state, OfferState::NotNow));
                }
                OfferState::Held(held) if held.until <= now => {
                    if self.expire(call, now) {
                        return Outcome::abandoned();
                    }
                }
                OfferState::Held(held) => {
                    let step = (held.until - now).min(limits::WORKER_LOOK_MS);
                    tokio::select! {
                        () = changed => {}
                        () = clock.sleep(Duration::from_millis(step)) => {
                            self.forgive(call, now + step, clock.monotonic_ms());
                        }
                    }
                }
                OfferState::Unclaimed => changed.await,
            }
        }
    }

    fn offer(&self, clock: &dyn Clock, wanted: WantedCall<'_>) -> Offer<'_> {
        let WantedCall { agent, row, version, barrier } = wanted;
        let mut offers = self.lock();
        let (place, changed) = (offers.next, Arc::new(Notify::new()));
        offers.next += 1;
        let tool = (row.tool.clone(), version.to_owned());
        let held = row.claim.map(|claim| Held::new(clock, claim));
        if held.is_none() {
            offers.queue(&tool).add(place, row.id.clone());
        }
        let offered = Offered {
            agent,
            row: row.clone(),
            tool: tool.clone(),
            place,
            barrier,
            times: u32::from(held.is_some()),
            state: held.map_or(OfferState::Unclaimed, OfferState::Held),
            changed: Arc::clone(&changed),
        };
        offers.calls.insert(row.id.clone(), offered);
        Offer { workers: self, call: row.id.clone(), tool, place, changed }
    }

    /// Prolongs a claim. One that has ended is its worker's again if nobody has claimed the call since (`newest`).
    /// Returns whether the call is held by this claim here; one whose cycle is not resumed yet is not.
    pub(super) fn hold(&self, call: &CallId, held: Held, newest: bool) -> bool {
        let mut offers = self.lock();
        let Some(offered) = offers.calls.get_mut(call) else { return false };
        let again = match offered.state {
            OfferState::Held(before) if before.claim == held.claim => false,
            OfferState::Unclaimed | OfferState::NotNow if newest => true,
            _ => return false,
        };
        offered.set(OfferState::Held(held));
        let (tool, place) = (offered.tool.clone(), offered.place);
        if again {
            offers.queue(&tool).calls.remove(&place);
        }
        true
    }

    fn state(&self, call: &CallId) -> OfferState {
        self.lock().calls.get(call).map_or(OfferState::NotNow, |offered| offered.state)
    }

    /// Returns a call to its queue, if it is in such a state.
    fn offer_again(&self, call: &CallId, is_such: impl Fn(OfferState) -> bool) {
        let mut offers = self.lock();
        let Some(offered) = offers.calls.get_mut(call).filter(|offered| is_such(offered.state)) else {
            return;
        };
        offered.state = OfferState::Unclaimed;
        let (tool, place) = (offered.tool.clone(), offered.place);
        offers.queue(&tool).add(place, call.clone());
    }

    /// Ends the claim of a call if it still ends now: it may have been renewed a moment ago. Returns whether the call is given
    /// to no other worker; else it is on offer again.
    fn expire(&self, call: &CallId, now: u64) -> bool {
        let mut offers = self.lock();
        let is_over =
            |offered: &&mut Offered| matches!(offered.state, OfferState::Held(held) if held.until <= now);
        let Some(offered) = offers.calls.get_mut(call).filter(is_over) else { return false };
        tracing::warn!(%call, tool = offered.tool.0, "a worker stopped renewing its claim");
        if offered.row.effect == Effect::Unsafe || offered.times >= limits::WORKER_CLAIMS_PER_CALL {
            return true;
        }
        offered.state = OfferState::Unclaimed;
        let (tool, place) = (offered.tool.clone(), offered.place);
        offers.queue(&tool).add(place, call.clone());
        false
    }

    /// Does not count the time for which this server stood still, and woke later than it had planned: nobody could renew a
    /// claim then.
    fn forgive(&self, call: &CallId, planned: u64, now: u64) {
        let still = now.saturating_sub(planned);
        if still >= limits::WORKER_STILL_MS
            && let Some(Offered { state: OfferState::Held(held), .. }) = self.lock().calls.get_mut(call)
        {
            // What was sent meanwhile is heard only now.
            held.until = (held.until + still).max(now + limits::WORKER_LOOK_MS);
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Offers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Offers {
    pub(super) fn queue(&mut self, tool: &WorkerTool) -> &mut Queue {
        self.queues.entry(tool.clone()).or_default()
    }

    /// Takes the oldest unclaimed call of these tools out of its queue.
    pub(super) fn oldest(&mut self, tools: &[WorkerTool]) -> Option<&mut Offered> {
        let first = |tool| {
            let (place, call) = self.queues.get(tool)?.calls.first_key_value()?;
            Some((*place, call.clone(), tool))
        };
        let (place, call, tool) = tools.iter().filter_map(first).min_by_key(|(place, ..)| *place)?;
        self.queue(tool).calls.remove(&place);
        self.calls.get_mut(&call)
    }

    pub(super) fn get(&mut self, call: &CallId) -> Option<&mut Offered> {
        self.calls.get_mut(call)
    }

    pub(super) fn join(&mut self, tool: &WorkerTool) -> Arc<Notify> {
        let queue = self.queue(tool);
        queue.waiting_workers += 1;
        Arc::clone(&queue.news)
    }

    /// A worker waits no more for calls of the tool.
    pub(super) fn leave(&mut self, tool: &WorkerTool) {
        if let Some(queue) = self.queues.get_mut(tool) {
            queue.waiting_workers -= 1;
            // It may have taken the notification of a call that it leaves to the others.
            if !queue.calls.is_empty() {
                queue.news.notify_one();
            }
        }
        self.tidy(tool);
    }

    /// Forgets the queue of a tool that has neither calls nor workers.
    fn tidy(&mut self, tool: &WorkerTool) {
        if self.queues.get(tool).is_some_and(|queue| queue.calls.is_empty() && queue.waiting_workers == 0) {
            self.queues.remove(tool);
        }
    }
}

impl Offered {
    pub(super) fn set(&mut self, state: OfferState) {
        self.state = state;
        self.changed.notify_one();
    }
}

impl Queue {
    pub(super) fn add(&mut self, place: u64, call: CallId) {
        self.calls.insert(place, call);
        self.news.notify_one();
    }
}

/// A call on offer; dropping it takes it back.
struct Offer<'a> {
    workers: &'a Workers,
    call: CallId,
    tool: WorkerTool,
    place: u64,
    changed: Arc<Notify>,
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        let mut offers = self.workers.lock();
        if let Some(queue) = offers.queues.get_mut(&self.tool) {
            queue.calls.remove(&self.place);
        }
        // A resumed cycle may have offered the call anew.
        if offers.calls.get(&self.call).is_some_and(|offered| offered.place == self.place) {
            offers.calls.remove(&self.call);
        }
        offers.tidy(&self.tool);
    }
}

#[cfg(test)]
mod tests {
    use agent::call::{CallState, Runner};
    use agent::event::Trust;
    use agent::id::CycleId;
    use agent::port::BoxFuture;
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    /// It stands at the beginning.
    struct Beginning;

    impl Clock for Beginning {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn monotonic_ms(&self) -> u64 {
            0
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn claimed(effect: Effect, claim: ClaimId) -> CallRow {
        CallRow {
            id: CallId("c1".into()),
            cycle: CycleId(Uuid::nil()),
            step: 0,
            index: 0,
            tool: "resize".into(),
            arguments: "{}".into(),
            effect,
            tool_version: "1".into(),
            runner: Runner::Worker,
            claim: Some(claim),
            approval: None,
            by_rule: None,
            awaited: true,
            state: CallState::Started,
            outcome: None,
            trust: Trust::Member,
        }
    }

    #[test]
    fn a_worker_that_renews_in_the_moment_in_which_its_claim_ends_keeps_its_call() {
        let (claim, end) = (ClaimId(Uuid::from_u128(7)), limits::WORKER_LEASE_MS);
        for effect in [Effect::Unsafe, Effect::Idempotent] {
            for renews in [false, true] {
                let (workers, row) = (Workers::default(), claimed(effect, claim));
                let agent = AgentId(Uuid::from_u128(1));
                let wanted = WantedCall { agent, row: &row, version: "1", barrier: false };
                let offer = workers.offer(&Beginning, wanted);
                let OfferState::Held(seen) = workers.state(&row.id) else { panic!("a worker has it") };
                assert!(seen.until <= end, "whoever waits for it has seen that the claim is over");
                if renews {
                    assert!(workers.hold(
                        &row.id,
                        Held { claim, until: end + limits::WORKER_LEASE_MS },
                        true
                    ));
                }
                let given_up = workers.expire(&row.id, end);
                assert_eq!(given_up, !renews && effect == Effect::Unsafe, "{effect:?}, renews: {renews}");
                let offered_again = workers.offers(&offer.tool);
                assert_eq!(
                    offered_again,
                    !renews && effect == Effect::Idempotent,
                    "{effect:?}, renews: {renews}"
                );
                let held = matches!(workers.state(&row.id), OfferState::Held(held) if held.until > end);
                assert_eq!(held, renews);
            }
        }
    }
}
