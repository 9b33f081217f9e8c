//! What the holder of one key may have in flight at once: requests, bytes of bodies, streams. All keys that are not an
//! administrator's together leave a reserve for administrators. Must not know routes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::id::{CredentialId, hashed_uuid};
use agent::limits;

use crate::problem::{Code, Problem};

/// Marks a request on a connection above the limit of connections: only administrators and `/v1/health` are served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowded;

/// What all keys have in flight.
#[derive(Debug)]
pub(crate) struct Quotas {
    usage: Mutex<Usage>,
    /// Streams of all keys: each holds a connection, and some are left for requests.
    streams_most: usize,
}

#[derive(Debug, Default)]
struct Usage {
    keys: HashMap<CredentialId, Held>,
    /// Bytes and streams of all keys that are not an administrator's.
    others: Held,
    /// Bytes of all keys.
    bytes: usize,
    /// Streams of all keys.
    streams: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    requests: usize,
    streams: usize,
    claims: usize,
    bytes: usize,
}

/// One request in flight, with the bytes of its body; dropping it ends it.
#[derive(Debug)]
pub(crate) struct InFlight {
    quotas: Arc<Quotas>,
    key: CredentialId,
    operator: bool,
    bytes: Mutex<usize>,
}

/// One claim of a worker that waits for a call; dropping it ends it.
#[derive(Debug)]
pub(crate) struct WaitingClaim {
    quotas: Arc<Quotas>,
    key: CredentialId,
}

/// One open stream; dropping it ends it.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    quotas: Arc<Quotas>,
    key: CredentialId,
    operator: bool,
}

impl Quotas {
    /// The quotas of a server that accepts so many connections.
    pub(crate) fn new(connections: usize) -> Self {
        Self { usage: Mutex::default(), streams_most: (connections / 8 * 7).max(1) }
    }

    /// Begins a request.
    pub(crate) fn request(self: &Arc<Self>, key: CredentialId, operator: bool) -> Result<InFlight, Problem> {
        self.begin(key, operator, "key")
    }

    /// Begins an answer by link, which counts as a key of its call.
    pub(crate) fn by_link(self: &Arc<Self>, call: &str) -> Result<InFlight, Problem> {
        self.begin(CredentialId(hashed_uuid(&["link", call])), false, "link")
    }

    fn begin(self: &Arc<Self>, key: CredentialId, operator: bool, whose: &str) -> Result<InFlight, Problem> {
        let mut usage = self.lock();
        let held = usage.keys.entry(key).or_default();
        if held.requests >= limits::REQUESTS_PER_KEY {
            let most = limits::REQUESTS_PER_KEY;
            return Err(Problem::new(
                Code::TooManyRequests,
                format!("this {whose} has {most} requests in flight, the most that one {whose} may have"),
            ));
        }
        held.requests += 1;
        Ok(InFlight { quotas: Arc::clone(self), key, operator, bytes: Mutex::new(0) })
    }

    /// Streams that are open.
    pub(crate) fn streams(&self) -> usize {
        self.lock().streams
    }

    /// Opens a stream.
    pub(crate) fn stream(self: &Arc<Self>, key: CredentialId, operator: bool) -> Result<StreamSlot, Problem> {
        let mut usage = self.lock();
        let refused = |whose: &str, most: usize| {
            let detail = format!("{whose} {most} open streams, the most that are allowed");
            Err(Problem::new(Code::TooManyStreams, detail).hint("close some of them"))
        };
        if usage.keys.get(&key).is_some_and(|held| held.streams >= limits::STREAMS_PER_KEY) {
            return refused("this key has", limits::STREAMS_PER_KEY);
        }
        if usage.streams >= self.streams_most {
            let open = "for as many connections as the system's limit of open files allows, there are";
            return refused(open, self.streams_most);
        }
        if !operator && usage.others.streams >= limits::STREAMS_MAX {
            return refused("the keys that are not administrators' have", limits::STREAMS_MAX);
        }
        usage.keys.entry(key).or_default().streams += 1;
        usage.others.streams += usize::from(!operator);
        usage.streams += 1;
        Ok(StreamSlot { quotas: Arc::clone(self), key, operator })
    }

    /// Begins to wait for a call. Some requests of the key are left for renewals and answers.
    pub(crate) fn claim(self: &Arc<Self>, key: CredentialId) -> Result<WaitingClaim, Problem> {
        let most = limits::WORKER_CLAIMS_PER_KEY;
        let mut usage = self.lock();
        let held = usage.keys.entry(key).or_default();
        if held.claims >= most {
            let detail =
                format!("this key has {most} claims that wait for a call, the most that one key may have");
            return Err(Problem::new(Code::TooManyRequests, detail).hint("use more keys"));
        }
        held.claims += 1;
        Ok(WaitingClaim { quotas: Arc::clone(self), key })
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Usage {
    fn release(&mut self, key: CredentialId, what: Held) {
        let Some(held) = self.keys.get_mut(&key) else { return };
        held.requests -= what.requests;
        held.streams -= what.streams;
        held.claims -= what.claims;
        held.bytes -= what.bytes;
        if *held == Held::default() {
            self.keys.remove(&key);
        }
    }
}

impl InFlight {
    /// Counts bytes of the body that have arrived.
    pub(crate) fn add(&self, count: usize) -> Result<(), Problem> {
        let mut usage = self.quotas.lock();
        let refused = |whose: &str, most: usize| {
            let detail = format!("{whose} bodies of {most} bytes in flight, the most that are allowed");
            Err(Problem::new(Code::TooManyBytes, detail))
        };
        let own = usage.keys.get(&self.key).map_or(0, |held| held.bytes);
        if own + count > limits::BODIES_PER_KEY_BYTES {
            return refused("this key has", limits::BODIES_PER_KEY_BYTES);
        }
        if usage.bytes + count > limits::BODIES_MAX_BYTES {
            return refused("all keys together have", limits::BODIES_MAX_BYTES);
        }
        let most = limits::BODIES_MAX_BYTES - limits::BODIES_RESERVED_BYTES;
        if !self.operator && usage.others.bytes + count > most {
            return refused("the keys that are not administrators' have", most);
        }
        usage.bytes += count;
        usage.others.bytes += if self.operator { 0 } else { count };
        usage.keys.entry(self.key).or_default().bytes += count;
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) += count;
        Ok(())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let bytes = *self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut usage = self.quotas.lock();
        usage.bytes -= bytes;
        usage.others.bytes -= if self.operator { 0 } else { bytes };
        usage.release(self.key, Held { requests: 1, bytes, ..Held::default() });
    }
}

impl Drop for WaitingClaim {
    fn drop(&mut self) {
        self.quotas.lock().release(self.key, Held { claims: 1, ..Held::default() });
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut usage = self.quotas.lock();
        usage.others.streams -= usize::from(!self.operator);
        usage.streams -= 1;
        usage.release(self.key, Held { streams: 1, ..Held::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn key(n: u128) -> CredentialId {
        CredentialId(Uuid::from_u128(n))
    }

    fn code<T>(result: Result<T, Problem>) -> Option<Code> {
        result.err().map(|problem| problem.code())
    }

    #[test]
    fn one_key_has_its_own_limits_and_what_it_drops_is_free_again() {
        let quotas = Arc::new(Quotas::new(limits::CONNECTIONS_MAX));
        let (one, other) = (key(1), key(2));
        let mut requests: Vec<_> =
            (0..limits::REQUESTS_PER_KEY).map(|_| quotas.request(one, true).unwrap()).collect();
        assert_eq!(code(quotas.request(one, true)), Some(Code::TooManyRequests));
        assert_eq!(code(quotas.request(other, true)), None);
        let filling = requests.pop().unwrap();
        filling.add(limits::BODIES_PER_KEY_BYTES).unwrap();
        assert_eq!(code(requests[0].add(1)), Some(Code::TooManyBytes));
        drop(filling);
        assert_eq!(code(requests[0].add(1)), None);
        let streams: Vec<_> =
            (0..limits::STREAMS_PER_KEY).map(|_| quotas.stream(one, true).unwrap()).collect();
        assert_eq!(code(quotas.stream(one, true)), Some(Code::TooManyStreams));
        drop((requests, streams));
        let usage = quotas.lock();
        assert!(usage.keys.is_empty() && usage.bytes == 0 && usage.others == Held::default());
    }

    #[test]
    fn streams_leave_some_connections_to_requests_whoever_opens_them() {
        let quotas = Arc::new(Quotas::new(64));
        let streams: Vec<_> = (0..56).map(|n| quotas.stream(key(n / 8), true).unwrap()).collect();
        let refused = quotas.stream(key(7), true);
        assert_eq!(code(refused), Some(Code::TooManyStreams));
        drop(streams);
        assert!(quotas.stream(key(7), true).is_ok());
    }

    #[test]
    fn administrators_have_a_reserve_of_streams_and_bytes() {
        let quotas = Arc::new(Quotas::new(limits::CONNECTIONS_MAX));
        let people = |of| (1..).map(key).take(of);
        let keys = limits::STREAMS_MAX.div_ceil(limits::STREAMS_PER_KEY);
        let streams: Vec<_> = people(keys)
            .flat_map(|one| {
                (0..limits::STREAMS_PER_KEY).map_while(|_| quotas.stream(one, false).ok()).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(streams.len(), limits::STREAMS_MAX);
        assert_eq!(code(quotas.stream(key(900), false)), Some(Code::TooManyStreams));
        assert_eq!(code(quotas.stream(key(901), true)), None);
        let most = limits::BODIES_MAX_BYTES - limits::BODIES_RESERVED_BYTES;
        let requests: Vec<_> = people(most / limits::BODIES_PER_KEY_BYTES)
            .map(|one| {
                let request = quotas.request(one, false).unwrap();
                request.add(limits::BODIES_PER_KEY_BYTES).unwrap();
                request
            })
            .collect();
        assert_eq!(code(quotas.request(key(900), false).unwrap().add(1)), Some(Code::TooManyBytes));
        assert_eq!(code(quotas.request(key(901), true).unwrap().add(1)), None);
        drop(requests);
    }
}
