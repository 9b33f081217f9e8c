//! The secrets of hooks, each kept in memory for a moment, since strangers decide how often a hook is called. A look-up that
//! takes long holds back only those who want the same secret. Must not know what a secret is for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agent::limits;
use agent::port::{BoxFuture, Clock};
use futures_util::FutureExt as _;
use futures_util::future::Shared;

use crate::secret::{SecretValue, Secrets};

/// When a secret was found, if there is one.
type Found = (u64, Option<SecretValue>);

pub(super) struct HookSecrets {
    secrets: Arc<dyn Secrets>,
    clock: Arc<dyn Clock>,
    /// The last look-up of each name. One at a time: whoever comes meanwhile waits for it.
    lookups: Mutex<HashMap<String, Shared<BoxFuture<'static, Found>>>>,
}

impl HookSecrets {
    pub(super) fn new(secrets: Arc<dyn Secrets>, clock: Arc<dyn Clock>) -> Self {
        Self { secrets, clock, lookups: Mutex::default() }
    }

    /// The secret with that name, as it was at most ten seconds ago.
    pub(super) async fn find(&self, name: &str) -> Option<SecretValue> {
        let lookup = self.lookup(name);
        lookup.await.1
    }

    /// The same, but the error says that it takes long.
    pub(super) async fn find_soon(&self, name: &str) -> Result<Option<SecretValue>, String> {
        let wait = limits::HOOK_SECRET_WAIT_MS;
        tokio::select! {
            biased;
            found = self.find(name) => Ok(found),
            () = self.clock.sleep(std::time::Duration::from_millis(wait)) => {
                Err(format!("it was not found within {} s", wait / 1_000))
            }
        }
    }

    fn lookup(&self, name: &str) -> Shared<BoxFuture<'static, Found>> {
        let now = self.clock.monotonic_ms();
        let is_used = |lookup: &Shared<BoxFuture<'static, Found>>| {
            lookup.peek().is_none_or(|(at, _)| now.saturating_sub(*at) < limits::HOOK_SECRET_AGE_MS)
        };
        let mut lookups = self.lookups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lookup) = lookups.get(name).filter(|lookup| is_used(lookup)) {
            return lookup.clone();
        }
        // Names of hooks that were removed are not kept.
        lookups.retain(|_, lookup| is_used(lookup));
        let (secrets, clock, wanted) = (Arc::clone(&self.secrets), Arc::clone(&self.clock), name.to_owned());
        // A task of its own: it goes on when the first who wants it has left.
        let looking = tokio::spawn(async move {
            let found = secrets.secret(&wanted).await;
            (clock.monotonic_ms(), found)
        });
        let found: BoxFuture<'static, Found> = looking.map(move |found| found.unwrap_or((now, None))).boxed();
        let lookup = found.shared();
        lookups.insert(name.to_owned(), lookup.clone());
        lookup
    }
}
