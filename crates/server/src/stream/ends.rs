//! Ends the open streams of a revoked key. Must not know what a stream sends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use agent::id::CredentialId;
use tokio_util::sync::CancellationToken;

/// One token per key that has open streams.
#[derive(Debug, Default)]
pub(crate) struct StreamEnds(Mutex<HashMap<CredentialId, Weak<CancellationToken>>>);

impl StreamEnds {
    /// The token that ends the streams of this key; the server's shutdown ends it, too. Keep it while the stream is open.
    pub(crate) fn of(&self, key: CredentialId, shutdown: &CancellationToken) -> Arc<CancellationToken> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = all.get(&key).and_then(Weak::upgrade) {
            return token;
        }
        // Only keys with open streams stay.
        all.retain(|_, token| token.strong_count() > 0);
        let token = Arc::new(shutdown.child_token());
        all.insert(key, Arc::downgrade(&token));
        token
    }

    /// Ends all streams of this key.
    pub(crate) fn end(&self, key: CredentialId) {
        let token = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        if let Some(token) = token.and_then(|token| token.upgrade()) {
            token.cancel();
        }
    }
}
