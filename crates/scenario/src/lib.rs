//! Scenario tests: worlds on a simulated clock with repeatable ids, so that a scenario runs the same way
//! every time. This crate is shipped, because `viv scenario` runs the scenarios that people write.
//!
//! This crate must not know SQL, HTTP or any vendor. Stores and models are passed in through the ports of
//! `agent`.

pub mod bounds;
pub mod clock;
pub mod file;
pub mod flaw;
pub mod model;
mod model_monitor;
mod observed;
mod outage;
mod own_tools;
pub mod play;
pub mod record;
pub mod report;
pub mod scene;
pub mod simulate;
pub mod transcript;
pub mod verdict;
pub mod world;
pub mod write;
pub mod yaml;
