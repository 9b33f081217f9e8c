//! Scenarios from their text to their outcome: on the simulated clock, SQLite in memory, the real
//! tools.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop at once")]

mod shortfalls;
mod stage;
mod stories;
