//! Bytes by content hash, in the same file.

use agent::id::ContentRef;
use agent::port::{Blobs, BoxFuture, StoreError};

use super::Sqlite;
use super::apply::{put_blob, unhex};
use super::rows::first;

impl Blobs for Sqlite {
    fn put(&self, content: Vec<u8>) -> BoxFuture<'_, Result<ContentRef, StoreError>> {
        let done = self.write(move |db, _| put_blob(db, &content));
        Box::pin(async move { Ok(done.await?) })
    }

    fn get(&self, content: ContentRef) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        let done = self.read(move |db, _| {
            first(db, "SELECT content FROM blob WHERE hash = ?", [unhex(&content)], |row| Ok(row.get(0)?))
        });
        Box::pin(async move { Ok(done.await?) })
    }
}
