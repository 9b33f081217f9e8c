//! How many connections are open, in all and per address. A few above the limit are accepted for administrators; of
//! those, too, one address can have only a part. An IPv6 address counts as its network (/64), which one client owns.
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
    by_address: Mutex<HashMap<IpAddr, Open>>,
    per_address: usize,
    reserve_per_address: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Open {
    all: usize,
    /// Those of the reserve.
    crowded: usize,
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
            reserve_per_address: (reserve * 3).div_ceil(4),
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
    /// reserve, or the part of it that one address can have, is used up.
    pub(crate) fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        (mut slot, mut crowded): (OwnedSemaphorePermit, bool),
    ) -> Option<Place> {
        let address = client_of(address);
        let mut all = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = all.get(&address).copied().unwrap_or_default();
        let above = open.all >= self.per_address;
        if (crowded || above) && open.crowded >= self.reserve_per_address {
            return None;
        }
        if above && !crowded {
            (slot, crowded) = (Arc::clone(&self.reserve).try_acquire_owned().ok()?, true);
        }
        open.all += 1;
        open.crowded += usize::from(crowded);
        all.insert(address, open);
        drop(all);
        Some(Place { connections: Arc::clone(self), address, crowded, _slot: slot })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.connections.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = all.get_mut(&self.address) {
            open.all -= 1;
            open.crowded -= usize::from(self.crowded);
            if open.all == 0 {
                all.remove(&self.address);
            }
        }
    }
}

/// What counts as one address. An IPv4 address may come in its IPv6 form.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
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
        first.extend((0..3).map(|_| enter(1).unwrap()));
        assert!(first[9..].iter().all(|place| place.crowded), "the address has three quarters of the places");
        assert!(enter(1).is_none(), "and of the reserve");
        let others: Vec<_> = (0..3).map(|_| enter(2).unwrap()).collect();
        assert!(others.iter().all(|place| !place.crowded));
        assert!(enter(1).is_none());
        let last = enter(3).unwrap();
        assert!(last.crowded, "a part of the reserve is left for others");
        assert!(connections.free().now_or_never().is_none());
        drop(last);
        first.truncate(9);
        assert!(enter(3).unwrap().crowded, "all places are taken, the reserve is free");
        drop((first, others));
        assert!(!enter(1).unwrap().crowded);
        assert!(connections.by_address.lock().unwrap().is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let address = |text: &str| client_of(text.parse().unwrap());
        assert_eq!(address("2001:db8:1:2:3::4"), address("2001:db8:1:2::9"));
        assert_ne!(address("2001:db8:1:2::9"), address("2001:db8:1:3::9"));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
        assert_ne!(address("10.0.0.1"), address("10.0.0.2"));
    }
}
