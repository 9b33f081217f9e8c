//! The store. All SQL is in this crate (invariant 2).
//!
//! This crate must not know models, tools, transports or the runtime. The rules that decide what a
//! transaction writes are in `agent`; this crate calls them and never repeats them.

pub mod sqlite;
