//! The living, seen from outside: whole worlds on a simulated clock, SQLite in memory and a model
//! that says what it was told to.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop at once")]

mod ambiguous;
mod aware;
mod between;
mod calls;
mod crowd;
mod detached;
mod failures;
mod fair;
mod garbage;
mod goals;
mod inbox;
mod lives;
mod named;
mod outage;
mod play;
mod poison;
mod prefix;
mod recorded;
mod stops;
mod stories;
mod streaming;
mod table;
mod traces;
mod wired;
