//! The living, seen from outside: whole worlds on a simulated clock, SQLite in memory and a model
//! that says what it was told to.

mod failures;
mod inbox;
mod play;
mod prefix;
mod stops;
mod stories;
