//! How many connections are open, in all and per address. A few above the limit are accepted for administrators.
//! Must not know HTTP.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use agent::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The connections of one listener.
#[derive(Debug)]
pub(crate) struct Connections {
    slots: Arc<Semaphore>,
    /// For connections above the limit.
    reserve: Arc<Semaphore>,
    /// Open connections of each address.
    by_address: Mutex<HashMap<IpAddr, usize>>,
    per_address: usize,
}

/// One open connection; dropping it frees its place.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    address: IpAddr,
    /// Whether it is above the limit of all or of its address.
    pub(crate) crowded: bool,
    _slot: OwnedSemaphorePermit,
}

impl Connections {
    /// At most `most` connections, those of the reserve included.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let reserve = limits::CONNECTIONS_RESERVED.min(most / 4).max(1);
        let slots = most.saturating_sub(reserve).max(1);
        Arc::new(Self {
            slots: Arc::new(Semaphore::new(slots)),
            reserve: Arc::new(Semaphore::new(reserve)),
            by_address: Mutex::default(),
            per_address: (slots * 3 / 4).max(1),
        })
    }

    /// Waits until one more connection may be accepted. `None` is never returned while the listener is open.
    pub(crate) async fn free(&self) -> Option<(OwnedSemaphorePermit, bool)> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some((slot, false));
        }
        tokio::select! {
            biased;
            slot = Arc::clone(&self.slots).acquire_owned() => Some((slot.ok()?, false)),
            slot = Arc::clone(&self.reserve).acquire_owned() => Some((slot.ok()?, true)),
        }
    }

    /// The place of an accepted connection; `None` if it must be closed, because its address has too many and the
    /// reserve is used up.
    pub(crate) fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        (mut slot, mut crowded): (OwnedSemaphorePermit, bool),
    ) -> Option<Place> {
        let mut all = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(address).or_default();
        if *count >= self.per_address && !crowded {
            (slot, crowded) = (Arc::clone(&self.reserve).try_acquire_owned().ok()?, true);
        }
        *count += 1;
        drop(all);
        Some(Place { connections: Arc::clone(self), address, crowded, _slot: slot })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.connections.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    #[test]
    fn one_address_leaves_places_for_others_and_the_reserve_is_for_what_is_above_the_limit() {
        let connections = Connections::new(16);
        let enter = |n| {
            let slot = connections.free().now_or_never().flatten()?;
            connections.enter(address(n), slot)
        };
        // 12 places and a reserve of 4.
        let mut first: Vec<_> = (0..9).map(|_| enter(1).unwrap()).collect();
        assert!(first.iter().all(|place| !place.crowded));
        first.extend((0..4).map(|_| enter(1).unwrap()));
        assert!(first[9..].iter().all(|place| place.crowded), "the address has three quarters of the places");
        assert!(enter(1).is_none(), "the reserve is used up");
        let others: Vec<_> = (0..3).map(|_| enter(2).unwrap()).collect();
        assert!(others.iter().all(|place| !place.crowded));
        assert!(connections.free().now_or_never().is_none());
        first.truncate(9);
        assert!(enter(3).unwrap().crowded, "all places are taken, the reserve is free");
        drop((first, others));
        assert!(!enter(1).unwrap().crowded);
        assert!(connections.by_address.lock().unwrap().is_empty());
    }
}
