//! A cache of recently validated keys. Must not know where keys are stored.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use agent::id::CredentialId;
use agent::limits;
use agent::port::Credential;

use crate::keys;

/// Recently validated keys, so that most requests need no read from the store. Bounded in size and in age: a
/// revoked key is rejected after at most [`limits::KEY_CACHE_MS`].
#[derive(Debug, Default)]
pub(crate) struct KeyCache(Mutex<VecDeque<Remembered>>);

#[derive(Debug)]
struct Remembered {
    hash: String,
    credential: Credential,
    since_ms: u64,
}

impl KeyCache {
    /// The credential with that hash, if it was validated recently.
    pub(crate) fn get(&self, hash: &str, now: u64) -> Option<Credential> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .find(|known| {
                keys::same(&known.hash, hash) && now.saturating_sub(known.since_ms) < limits::KEY_CACHE_MS
            })
            .map(|known| known.credential.clone())
    }

    /// Removes a credential, which is not valid any more.
    pub(crate) fn forget(&self, id: CredentialId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.credential.id != id);
    }

    /// Adds a credential; a full cache drops its oldest. Returns `false` if another request has added it meanwhile.
    pub(crate) fn put(&self, hash: &str, credential: &Credential, now: u64) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| now.saturating_sub(known.since_ms) < limits::KEY_CACHE_MS);
        if all.iter().any(|known| known.hash == hash) {
            return false;
        }
        if all.len() >= limits::KEY_CACHE_MAX {
            all.pop_front();
        }
        all.push_back(Remembered { hash: hash.to_owned(), credential: credential.clone(), since_ms: now });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::port::Scope;
    use uuid::Uuid;

    fn credential() -> Credential {
        Credential::new(CredentialId(Uuid::nil()), Scope::Admin, "")
    }

    #[test]
    fn entries_expire_and_their_number_is_bounded() {
        let cache = KeyCache::default();
        assert!(cache.put("a", &credential(), 0));
        assert!(!cache.put("a", &credential(), 1), "only the first of several requests adds it");
        assert!(cache.get("a", limits::KEY_CACHE_MS - 1).is_some());
        assert!(cache.get("a", limits::KEY_CACHE_MS).is_none());
        for i in 0..2 * limits::KEY_CACHE_MAX {
            cache.put(&i.to_string(), &credential(), 5);
        }
        assert_eq!(cache.0.lock().unwrap().len(), limits::KEY_CACHE_MAX);
    }
}
