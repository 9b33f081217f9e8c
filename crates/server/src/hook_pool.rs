//! What deliveries to hooks have in flight. They come from strangers until they are verified, so they have places and bytes
//! of their own, which no key needs. Where there is no room, the oldest delivery that is not verified yet ends, of the hook
//! that has most: an honest one is verified in a moment, and one that stalls holds nothing that another needs. Must not know
//! how a delivery is verified.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::limits;
use tokio_util::sync::CancellationToken;

use crate::problem::{Code, Problem};

/// The deliveries in flight to all hooks.
#[derive(Debug, Default)]
pub(crate) struct HookPool(Mutex<Deliveries>);

#[derive(Debug, Default)]
struct Deliveries {
    /// By number: in the order in which they came.
    held: BTreeMap<u64, HeldDelivery>,
    next: u64,
}

#[derive(Debug)]
struct HeldDelivery {
    hook: String,
    bytes: usize,
    verified: bool,
    ended: CancellationToken,
}

/// What a delivery takes of a limit.
type Weight = fn(&HeldDelivery) -> usize;

const ONE: Weight = |_| 1;
const BYTES: Weight = |held| held.bytes;

/// A delivery in flight; dropping it ends it.
#[derive(Debug)]
pub(crate) struct DeliveryPlace {
    pool: Arc<HookPool>,
    number: u64,
    ended: CancellationToken,
}

impl HookPool {
    /// Begins a delivery. It is refused only if all that are in flight to its hook are verified.
    pub(crate) fn enter(self: &Arc<Self>, hook: &str) -> Result<DeliveryPlace, Problem> {
        let ended = CancellationToken::new();
        let mut deliveries = self.lock();
        let number = deliveries.next;
        deliveries.next += 1;
        let held = HeldDelivery { hook: hook.to_owned(), bytes: 0, verified: false, ended: ended.clone() };
        deliveries.held.insert(number, held);
        deliveries.make_room(hook);
        drop(deliveries);
        let place = DeliveryPlace { pool: Arc::clone(self), number, ended };
        if place.ended.is_cancelled() { Err(crowded()) } else { Ok(place) }
    }

    fn lock(&self) -> MutexGuard<'_, Deliveries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deliveries {
    /// Ends deliveries until this hook, and all hooks together, have no more than they may have.
    fn make_room(&mut self, hook: &str) {
        for (of, weight, most) in [
            (Some(hook), ONE, limits::HOOK_DELIVERIES_MAX),
            (Some(hook), BYTES, limits::HOOK_BODIES_MAX_BYTES),
            (None, ONE, limits::HOOKS_DELIVERIES_MAX),
            (None, BYTES, limits::HOOKS_BODIES_MAX_BYTES),
        ] {
            while self.weight(of, weight) > most && self.end_oldest(of, weight) {}
        }
    }

    fn of(&self, hook: Option<&str>) -> impl Iterator<Item = (&u64, &HeldDelivery)> {
        self.held.iter().filter(move |(_, held)| hook.is_none_or(|hook| held.hook == hook))
    }

    fn weight(&self, hook: Option<&str>, weight: Weight) -> usize {
        self.of(hook).map(|(_, held)| weight(held)).sum()
    }

    /// Ends the oldest delivery that is not verified, of this hook or else of the hook that has most.
    fn end_oldest(&mut self, hook: Option<&str>, weight: Weight) -> bool {
        let mut hooks: HashMap<&str, (usize, Option<u64>)> = HashMap::new();
        for (number, held) in self.of(hook) {
            let (all, oldest) = hooks.entry(&held.hook).or_default();
            *all += weight(held);
            if oldest.is_none() && !held.verified && weight(held) > 0 {
                *oldest = Some(*number);
            }
        }
        let can_end = hooks.into_values().filter_map(|(all, oldest)| Some((all, Reverse(oldest?))));
        let Some((_, Reverse(oldest))) = can_end.max() else { return false };
        let Some(held) = self.held.remove(&oldest) else { return false };
        held.ended.cancel();
        true
    }
}

impl DeliveryPlace {
    /// Counts bytes of the body that have arrived.
    pub(crate) fn add(&self, count: usize) -> Result<(), Problem> {
        let mut deliveries = self.pool.lock();
        if let Some(held) = deliveries.held.get_mut(&self.number) {
            held.bytes += count;
            let hook = held.hook.clone();
            deliveries.make_room(&hook);
        }
        if self.ended.is_cancelled() { Err(crowded()) } else { Ok(()) }
    }

    /// The delivery is verified: from now on it makes room for no other.
    pub(crate) fn verified(&self) -> Result<(), Problem> {
        let mut deliveries = self.pool.lock();
        let held = deliveries.held.get_mut(&self.number).ok_or_else(crowded)?;
        held.verified = true;
        Ok(())
    }

    /// The refusal of this delivery, once it has made room for others.
    pub(crate) async fn ended(&self) -> Problem {
        self.ended.cancelled().await;
        crowded()
    }
}

impl Drop for DeliveryPlace {
    fn drop(&mut self) {
        self.pool.lock().held.remove(&self.number);
    }
}

fn crowded() -> Problem {
    let why =
        "too many deliveries to hooks are in flight, and this one was not verified before newer ones came";
    Problem::new(Code::TooManyRequests, why).hint("deliver it again, and send its body at once")
}

/// Deliveries of each hook that were refused before they were verified, by the code of the refusal.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<String, HashMap<&'static str, Unlisted>>>);

#[derive(Debug)]
struct Unlisted {
    /// When one was last written to the log.
    listed_at: u64,
    /// How many were not since then.
    count: u64,
}

impl Refusals {
    /// Whether a refusal at this time is to be written, and how many of its code were not since the last one.
    pub(crate) fn listed(&self, hook: &str, code: Code, now: u64) -> Option<u64> {
        let mut hooks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match hooks.entry(hook.to_owned()).or_default().entry(code.as_str()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Unlisted { listed_at: now, count: 0 });
                Some(0)
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                if now.saturating_sub(known.listed_at) < limits::HOOK_REFUSED_LOG_MS {
                    known.count += 1;
                    return None;
                }
                known.listed_at = now;
                Some(std::mem::take(&mut known.count))
            }
        }
    }

    pub(crate) fn forget(&self, hook: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(hook);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(places: &[DeliveryPlace]) -> usize {
        places.iter().filter(|place| !place.ended.is_cancelled()).count()
    }

    #[test]
    fn the_oldest_of_a_hook_makes_room_and_one_that_is_verified_does_not() {
        let pool = Arc::<HookPool>::default();
        let enter = || pool.enter("ci").unwrap();
        let stalled: Vec<_> = (0..limits::HOOK_DELIVERIES_MAX).map(|_| enter()).collect();
        stalled[0].verified().unwrap();
        let next = enter();
        assert!(stalled[1].ended.is_cancelled() && alive(&stalled) == limits::HOOK_DELIVERIES_MAX - 1);
        assert_eq!(stalled[1].add(1).unwrap_err().code(), Code::TooManyRequests);
        assert!(stalled[1].verified().is_err(), "it is too late");
        for place in stalled.iter().skip(2).chain([&next]) {
            place.verified().unwrap();
        }
        assert_eq!(pool.enter("ci").unwrap_err().code(), Code::TooManyRequests, "all are verified");
        assert!(pool.enter("shop").is_ok());
        drop((stalled, next));
        assert!(pool.lock().held.is_empty());
    }

    #[test]
    fn bodies_of_a_hook_are_bounded_and_one_that_grows_is_ended_if_it_is_the_oldest() {
        let pool = Arc::<HookPool>::default();
        let full: Vec<_> = (0..limits::HOOK_BODIES_MAX_BYTES / limits::BODY_MAX_BYTES)
            .map(|_| {
                let place = pool.enter("ci").unwrap();
                place.add(limits::BODY_MAX_BYTES).unwrap();
                place
            })
            .collect();
        assert!(full[0].add(1).is_err(), "it makes room itself");
        assert_eq!(alive(&full), full.len() - 1);
        let next = pool.enter("ci").unwrap();
        next.add(limits::BODY_MAX_BYTES).unwrap();
        assert_eq!(alive(&full), full.len() - 1);
        next.add(1).unwrap();
        assert!(full[1].ended.is_cancelled());
    }

    #[test]
    fn hooks_with_much_make_room_for_those_with_little() {
        let pool = Arc::<HookPool>::default();
        let names: Vec<String> = (0..limits::HOOKS_DELIVERIES_MAX).map(|n| format!("hook{n}")).collect();
        let little: Vec<_> = names.iter().take(8).map(|name| pool.enter(name).unwrap()).collect();
        let mut much = Vec::new();
        for name in ["a", "b", "c"] {
            much.extend((0..limits::HOOK_DELIVERIES_MAX).map(|_| pool.enter(name).unwrap()));
        }
        assert_eq!((alive(&little), alive(&much)), (8, limits::HOOKS_DELIVERIES_MAX - 8));
        let flood: Vec<_> = (0..limits::HOOKS_BODIES_MAX_BYTES / limits::HOOK_BODIES_MAX_BYTES + 1)
            .flat_map(|hook| (0..8).map(move |_| format!("flood{hook}")))
            .map(|hook| pool.enter(&hook).unwrap())
            .collect();
        for place in &flood {
            place.add(limits::BODY_MAX_BYTES).unwrap();
        }
        little[0].add(limits::BODY_MAX_BYTES).unwrap();
        assert_eq!(alive(&little), 8);
        let bytes = pool.lock().weight(None, BYTES);
        assert!(bytes <= limits::HOOKS_BODIES_MAX_BYTES, "{bytes}");
    }
}
