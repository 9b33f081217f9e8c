//! The store. SQL is written here and nowhere else (invariant 2).
//!
//! This crate must not know models, tools, transports or the runtime; the rules that decide what a
//! transaction writes are called in `agent`, never written again here.

pub mod sqlite;
