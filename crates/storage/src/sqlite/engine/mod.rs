//! Runs commands and manages the file: the writer, the readers, the file's schema and its write-ahead log.
//!
//! This module must not know what a command does, nor what a row means.

pub(crate) mod check;
#[cfg(feature = "failpoints")]
pub(crate) mod disk;
pub(crate) mod fault;
pub(crate) mod file;
pub(crate) mod log;
pub(crate) mod mutex;
pub(crate) mod open_error;
pub(crate) mod readers;
pub(crate) mod room;
pub(crate) mod schema;
pub(crate) mod slot;
pub(crate) mod writer;
