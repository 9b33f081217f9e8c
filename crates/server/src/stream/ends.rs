//! Ends the open streams of a key that is revoked or expires. Must not know what a stream sends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use agent::id::CredentialId;
use agent::port::{Clock, Credential};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

/// The open streams of each key.
#[derive(Debug, Default)]
pub(crate) struct StreamEnds(Mutex<HashMap<CredentialId, Weak<KeyStreams>>>);

/// Shared by the open streams of one key. Dropping it ends the wait for the key's expiry.
#[derive(Debug)]
pub(crate) struct KeyStreams(CancellationToken);

impl KeyStreams {
    /// Cancelled when the streams must end; one for each stream, since all would lock a shared one at each event.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.0.child_token()
    }

    /// Ends the streams at this time. A task waits for it, one for each time and key with open streams.
    fn end_at(&self, at: Timestamp, clock: &Arc<dyn Clock>) {
        let left = Duration::try_from(at.duration_since(clock.now())).unwrap_or(Duration::ZERO);
        let (ends, wait) = (self.0.clone(), clock.sleep(left));
        tokio::spawn(async move {
            tokio::select! {
                () = wait => ends.cancel(),
                () = ends.cancelled() => {}
            }
        });
    }
}

impl Drop for KeyStreams {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl StreamEnds {
    /// What ends the streams of this key; the server's shutdown ends it, too. Keep it while the stream is open.
    pub(crate) fn of(
        &self,
        key: &Credential,
        shutdown: &CancellationToken,
        clock: &Arc<dyn Clock>,
    ) -> Arc<KeyStreams> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(streams) = all.get(&key.id).and_then(Weak::upgrade) {
            return streams;
        }
        // Only keys with open streams stay.
        all.retain(|_, streams| streams.strong_count() > 0);
        let streams = Arc::new(KeyStreams(shutdown.child_token()));
        all.insert(key.id, Arc::downgrade(&streams));
        if let Some(at) = key.expires_at {
            streams.end_at(at, clock);
        }
        streams
    }

    /// Ends all streams of this key at this time.
    pub(crate) fn expire(&self, key: CredentialId, at: Timestamp, clock: &Arc<dyn Clock>) {
        let streams = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).and_then(Weak::upgrade);
        if let Some(streams) = streams {
            streams.end_at(at, clock);
        }
    }

    /// Ends all streams of this key.
    pub(crate) fn end(&self, key: CredentialId) {
        let streams = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        if let Some(streams) = streams.and_then(|streams| streams.upgrade()) {
            streams.0.cancel();
        }
    }
}
