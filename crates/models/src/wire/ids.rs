//! Whether the chunks of a stream belong to one message, by the id that each of them bears.

use agent::port::ModelError;

/// The ids of the chunks that say something. Some servers make a new id for every chunk; there an id tells
/// nothing. Where chunks share one, another one is another message's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    last: String,
    chunks: u32,
    changes: u32,
}

impl Ids {
    /// Takes the id of a chunk that says something; an empty one tells nothing.
    pub(crate) fn take(&mut self, id: &str) -> Result<(), ModelError> {
        if id.is_empty() {
            return Ok(());
        }
        self.changes = self.changes.saturating_add(u32::from(self.chunks > 0 && self.last != id));
        self.chunks = self.chunks.saturating_add(1);
        id.clone_into(&mut self.last);
        if self.are_shared() { Err(second()) } else { Ok(()) }
    }

    /// Whether it was one message. Two chunks with two ids may be one or two; that is not risked.
    pub(crate) fn one(&self) -> Result<(), ModelError> {
        let doubtful = self.changes == 1 && self.chunks == 2;
        if self.are_shared() || doubtful { Err(second()) } else { Ok(()) }
    }

    /// Whether some chunks share an id, and others bear another one.
    fn are_shared(&self) -> bool {
        self.changes > 0 && self.changes.saturating_add(1) < self.chunks
    }
}

/// What a stream is that holds two messages: nobody knows what of it belongs together.
pub(crate) fn second() -> ModelError {
    ModelError::Garbage("a second message begins within the stream".to_owned())
}
