//! Secrets of tools: named in declarations, opened only while a request is written, and masked in whatever comes back
//! (invariant 11). Must not know where they are kept.

mod mask;
mod reading;

use std::collections::BTreeMap;
use std::fmt;

use agent::limits;
use agent::port::BoxFuture;

pub(crate) use self::mask::Mask;

/// A secret. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    /// Wraps a secret. Surrounding white space is removed, because pasted ones often have it.
    pub fn new(value: &str) -> Self {
        Self(value.trim().to_owned())
    }

    /// The secret itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(..)")
    }
}

/// Where secrets are kept.
pub trait Secrets: Send + Sync {
    /// The secret with that name, `None` if there is none. Asked for every call, so that a change counts at once.
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<SecretValue>>;
}

/// Opens these secrets. The error is for the model.
pub(crate) async fn open(
    names: impl IntoIterator<Item = String>,
    secrets: &dyn Secrets,
) -> Result<BTreeMap<String, SecretValue>, String> {
    let mut opened = BTreeMap::new();
    for name in names {
        let Some(value) = secrets.secret(&name).await else {
            return Err(format!("there is no secret `{name}`, so nothing was sent; an operator must add it"));
        };
        if value.reveal().len() < limits::SECRET_MIN_BYTES {
            let least = limits::SECRET_MIN_BYTES;
            return Err(format!(
                "the secret `{name}` has fewer than {least} bytes, too short to be hidden in an answer, so nothing was \
                 sent; an operator must replace it"
            ));
        }
        opened.insert(name, value);
    }
    Ok(opened)
}

/// Texts up to this size are searched at once.
const AT_ONCE_MAX_BYTES: usize = 64 * 1024;

/// Works on a text of that size. With a large one it takes longer than a task may keep its thread. Fails only if the work panics, or if
/// the process ends.
pub(crate) async fn apart<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, tokio::task::JoinError> {
    if bytes <= AT_ONCE_MAX_BYTES { Ok(work()) } else { tokio::task::spawn_blocking(work).await }
}

#[cfg(test)]
thread_local! {
    /// Steps that the mask has made in this thread.
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a step, for the tests that bound them.
fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// No secrets at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl Secrets for NoSecrets {
    fn secret<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Option<SecretValue>> {
        Box::pin(std::future::ready(None))
    }
}

/// Secrets in memory, by name.
impl Secrets for BTreeMap<String, SecretValue> {
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<SecretValue>> {
        Box::pin(std::future::ready(self.get(name).cloned()))
    }
}
