//! A cache of recently validated keys. Must not know where keys are stored.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent::id::CredentialId;
use agent::limits;
use agent::port::Credential;

use crate::keys;

/// Recently validated keys, so that most requests need no read from the store. Bounded in size and in age: a
/// revoked key is rejected after at most [`limits::KEY_CACHE_MS`].
#[derive(Debug, Default)]
pub(crate) struct KeyCache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    all: VecDeque<Remembered>,
    /// How often a credential was removed.
    forgotten: u64,
}

/// How often credentials had been removed when the store was asked for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked(u64);

#[derive(Debug)]
struct Remembered {
    hash: String,
    credential: Credential,
    since_ms: u64,
}

impl KeyCache {
    /// The credential with that hash, if it was validated recently.
    pub(crate) fn get(&self, hash: &str, now: u64) -> Option<Credential> {
        let entries = self.lock();
        let mut all = entries.all.iter();
        all.find(|known| {
            keys::same(&known.hash, hash) && now.saturating_sub(known.since_ms) < limits::KEY_CACHE_MS
        })
        .map(|known| known.credential.clone())
    }

    /// Removes a credential, which is not valid any more. What the store said of any before that is not added.
    pub(crate) fn forget(&self, id: CredentialId) {
        let mut entries = self.lock();
        entries.forgotten += 1;
        entries.all.retain(|known| known.credential.id != id);
    }

    /// To call before the store is asked.
    pub(crate) fn ask(&self) -> Asked {
        Asked(self.lock().forgotten)
    }

    /// Adds a credential, unless one was removed since the store was asked; a full cache drops its oldest. Returns
    /// `false` if it is not added, or another request has added it meanwhile.
    pub(crate) fn put(&self, hash: &str, credential: &Credential, asked: Asked, now: u64) -> bool {
        let mut entries = self.lock();
        if entries.forgotten != asked.0 {
            return false;
        }
        let all = &mut entries.all;
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

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let asked = cache.ask();
        assert!(cache.put("a", &credential(), asked, 0));
        assert!(!cache.put("a", &credential(), asked, 1), "only the first of several requests adds it");
        assert!(cache.get("a", limits::KEY_CACHE_MS - 1).is_some());
        assert!(cache.get("a", limits::KEY_CACHE_MS).is_none());
        for i in 0..2 * limits::KEY_CACHE_MAX {
            cache.put(&i.to_string(), &credential(), asked, 5);
        }
        assert_eq!(cache.0.lock().unwrap().all.len(), limits::KEY_CACHE_MAX);
    }

    #[test]
    fn a_key_that_is_revoked_while_it_is_read_is_not_cached() {
        let cache = KeyCache::default();
        let asked = cache.ask();
        cache.forget(credential().id);
        assert!(!cache.put("a", &credential(), asked, 0));
        assert!(cache.get("a", 0).is_none());
        assert!(cache.put("a", &credential(), cache.ask(), 0));
    }
}
