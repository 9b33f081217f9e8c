//! The one reference estimator: o200k, whatever the model. Numbers handed to the rules.
//!
//! Its table takes 0.2 s and 40 MB: it is loaded at the first count (or when warmed), on a blocking
//! thread, never at start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::port::{BoxFuture, Tokens};
use tiktoken_rs::o200k_base_singleton;

use crate::bounds::COUNT_INLINE_MAX_BYTES;

/// The estimator.
#[derive(Clone, Debug, Default)]
pub struct O200k {
    loaded: Arc<AtomicBool>,
    /// Somebody has begun to load in the background: one thread is enough.
    begun: Arc<AtomicBool>,
}

impl O200k {
    /// Nothing is loaded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the table is in memory.
    pub fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }

    fn load(&self) {
        o200k_base_singleton();
        self.loaded.store(true, Ordering::Release);
    }
}

impl Tokens for O200k {
    fn count(&self, texts: Vec<String>) -> BoxFuture<'_, Vec<u32>> {
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes == 0 {
            return Box::pin(std::future::ready(vec![0; texts.len()]));
        }
        if bytes <= COUNT_INLINE_MAX_BYTES && self.is_loaded() {
            return Box::pin(std::future::ready(texts.iter().map(|text| count(text)).collect()));
        }
        let this = self.clone();
        let texts = Arc::new(texts);
        let shared = Arc::clone(&texts);
        Box::pin(async move {
            let counted = tokio::task::spawn_blocking(move || {
                this.load();
                shared.iter().map(|text| count(text)).collect()
            });
            // Only a process that is going down gives no answer; a rough one is good enough then.
            counted.await.unwrap_or_else(|_| texts.iter().map(|text| rough(text)).collect())
        })
    }

    fn warm(&self) {
        if self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn_blocking(move || this.load());
            }
            Err(_) => {
                std::thread::spawn(move || this.load());
            }
        }
    }
}

fn count(text: &str) -> u32 {
    u32::try_from(o200k_base_singleton().count_ordinary(text)).unwrap_or(u32::MAX)
}

fn rough(text: &str) -> u32 {
    u32::try_from(text.len().div_ceil(4)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn counts_are_those_of_the_reference_and_loading_happens_once() {
        let tokens = O200k::new();
        assert!(!tokens.is_loaded());
        assert_eq!(tokens.count(vec![String::new()]).await, [0]);
        assert!(!tokens.is_loaded(), "an empty text loads nothing");
        let counts = tokens.count(vec!["hello world".into(), "a".repeat(3)]).await;
        assert_eq!(counts[0], 2);
        assert!(tokens.is_loaded());
        assert_eq!(tokens.count(vec!["hello world".into()]).await, [2]);
    }

    #[tokio::test]
    async fn a_text_without_words_is_counted_all_the_same() {
        let texts = ["a", " ", "=", "é\n"].map(|unit| unit.repeat(20 * 1024));
        let counts = O200k::new().count(texts.to_vec()).await;
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }
}
