//! Worlds that run the same way twice: a simulated clock and ids, and scenarios that are played on
//! them. Shipped, since `viv scenario` plays what people write.
//!
//! This crate must not know SQL, HTTP or any vendor: stores and models are handed in through the
//! ports of `agent`.

pub mod bounds;
pub mod clock;
pub mod file;
pub mod flaw;
pub mod model;
mod observed;
mod outage;
pub mod play;
pub mod scene;
pub mod transcript;
pub mod verdict;
mod witness;
pub mod world;
pub mod write;
pub mod yaml;
