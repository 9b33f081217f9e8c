//! Checks by their ids that all chunks of a stream belong to one message.

use agent::port::ModelError;

/// The ids of the chunks with content. Some servers give every chunk a new id, which is accepted. If
/// some chunks share an id, a chunk with a different id belongs to another message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    last: String,
    chunks: u32,
    changes: u32,
}

impl Ids {
    /// Adds the id of a chunk with content; an empty id is ignored.
    pub(crate) fn take(&mut self, id: &str) -> Result<(), ModelError> {
        if id.is_empty() {
            return Ok(());
        }
        self.changes = self.changes.saturating_add(u32::from(self.chunks > 0 && self.last != id));
        self.chunks = self.chunks.saturating_add(1);
        id.clone_into(&mut self.last);
        if self.are_shared() { Err(second_message()) } else { Ok(()) }
    }

    /// An error unless it was one message. Two chunks with two ids may be one message or two, so they are
    /// refused.
    pub(crate) fn check_single(&self) -> Result<(), ModelError> {
        let doubtful = self.changes == 1 && self.chunks == 2;
        if self.are_shared() || doubtful { Err(second_message()) } else { Ok(()) }
    }

    /// Whether some chunks share an id and others have a different one.
    fn are_shared(&self) -> bool {
        self.changes > 0 && self.changes.saturating_add(1) < self.chunks
    }
}

/// The error for a stream that holds two messages, since their parts cannot be told apart.
pub(crate) fn second_message() -> ModelError {
    ModelError::Garbage("a second message begins within the stream".to_owned())
}
