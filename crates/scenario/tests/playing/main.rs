//! Runs scenarios from text to result: on the simulated clock, with SQLite in memory and the real tools.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop at once")]

mod hooks;
mod long_lives;
mod own_tools;
mod recorded;
mod shortfalls;
mod stage;
mod stories;
