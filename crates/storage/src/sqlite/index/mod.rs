//! The search index: what an agent processed, wrote and remembers, by its words. It is a file of its own beside the
//! store's, with a writer of its own, and it holds nothing that cannot be read from the store again: if it is missing,
//! damaged, of another version or of another store, it is deleted and built anew.
//!
//! A text is a *document*: an entry of a log, a current memory, or a message. Its id is the number of its owner, an agent
//! or a space, and its seq, so that the documents of one owner are a range of ids. The index keeps no texts.

pub(crate) mod excerpt;
pub(crate) mod feed;
pub(crate) mod file;
pub(crate) mod find;
pub(crate) mod tailer;
pub(crate) mod text;
pub(crate) mod words;
