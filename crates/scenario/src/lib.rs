//! Worlds that run the same way twice: a simulated clock and ids. Shipped, since `viv` itself plays
//! rehearsed worlds.
//!
//! This crate must not know SQL, HTTP or any vendor: stores and voices are handed in through the
//! ports of `agent`.

pub mod clock;
pub mod world;
