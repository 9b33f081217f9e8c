//! The store under the promises of the ports, and what is SQLite's own.
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod busy;
mod damage;
mod migrations;
mod promises;
mod transfer;
mod upkeep;
