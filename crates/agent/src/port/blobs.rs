//! Content-addressed bytes: big outcomes, images, requests as sent.

use super::{BoxFuture, StoreError};
use crate::id::ContentRef;

/// Bytes by content hash.
pub trait Blobs: Send + Sync {
    /// Keeps the bytes; a repeat is free. Durable when it returns.
    fn put(&self, content: Vec<u8>) -> BoxFuture<'_, Result<ContentRef, StoreError>>;
    /// The bytes, or `None` where they were never kept.
    fn get(&self, content: ContentRef) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>>;
}
