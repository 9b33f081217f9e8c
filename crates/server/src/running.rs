//! Requests with an idempotency key that run now: those with the same key run one after the other. Must not know what they do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agent::port::RequestKey;
use tokio::sync::OwnedMutexGuard;

/// The principal and the key of a request.
type Name = (String, String);

/// The requests with an idempotency key that run now: those with the same key one after the other.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>);

/// A request whose turn it is; dropping it lets the next one with its key run.
#[derive(Debug)]
pub(crate) struct Turn {
    running: Arc<Running>,
    name: Name,
    held: Option<OwnedMutexGuard<()>>,
}

impl Running {
    /// Waits until no other request with the same key of the same principal runs.
    pub(crate) async fn turn(self: &Arc<Self>, request: &RequestKey) -> Turn {
        let name = (request.principal.clone(), request.key.clone());
        let turns = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(name.clone()).or_default())
        };
        let mut turn = Turn { running: Arc::clone(self), name, held: None };
        turn.held = Some(turns.lock_owned().await);
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut all = self.running.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.held = None;
        // Whoever waits has a clone, and takes one only under the lock of the map.
        if all.get(&self.name).is_some_and(|turns| Arc::strong_count(turns) == 1) {
            all.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn requests_with_one_key_have_turns_and_leave_nothing_behind() {
        let running = Arc::<Running>::default();
        let request = |principal: &str, key: &str| RequestKey {
            principal: principal.to_owned(),
            key: key.to_owned(),
            body_hash: String::new(),
            at: jiff::Timestamp::UNIX_EPOCH,
        };
        let (one, other) = (request("admin", "k"), request("you", "k"));
        let first = running.turn(&one).now_or_never().unwrap();
        let mut second = Box::pin(running.turn(&one));
        assert!(second.as_mut().now_or_never().is_none());
        let elsewhere = running.turn(&other).now_or_never();
        assert!(elsewhere.is_some(), "the keys of another principal are apart");
        drop(first);
        let second = second.now_or_never().unwrap();
        assert!(running.turn(&one).now_or_never().is_none(), "one at a time");
        drop((second, elsewhere));
        assert!(running.0.lock().unwrap().is_empty());
    }
}
