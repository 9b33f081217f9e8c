//! What moves commands and keeps the file: the writer, the readers, the file's tables and its log.
//!
//! It must not know what a command does, nor what a row means.

#[cfg(feature = "failpoints")]
pub(in crate::sqlite) mod disk;
pub(in crate::sqlite) mod fault;
pub(in crate::sqlite) mod log;
pub(in crate::sqlite) mod readers;
pub(in crate::sqlite) mod schema;
pub(in crate::sqlite) mod writer;
