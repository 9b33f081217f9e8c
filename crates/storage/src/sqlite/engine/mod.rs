//! What moves commands and keeps the file: the writer, the readers, the file's tables and its log.
//!
//! It must not know what a command does, nor what a row means.

#[cfg(feature = "failpoints")]
pub(crate) mod disk;
pub(crate) mod fault;
pub(crate) mod file;
pub(crate) mod log;
pub(crate) mod mutex;
pub(crate) mod open_error;
pub(crate) mod readers;
pub(crate) mod schema;
pub(crate) mod writer;
