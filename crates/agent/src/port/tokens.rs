//! Token counts under one fixed reference estimator.

use super::BoxFuture;

/// Counts tokens. May load a large table at its first use, never before and never on the caller's
/// thread.
pub trait Tokens: Send + Sync {
    /// Tokens of each text.
    fn count(&self, texts: Vec<String>) -> BoxFuture<'_, Vec<u32>>;
    /// Begins loading in the background, if anything must be loaded.
    fn warm(&self) {}
}
