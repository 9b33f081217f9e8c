//! Checks the store against the contracts of the ports, and what is specific to SQLite.
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod busy;
mod damage;
mod index;
mod migrations;
mod promises;
mod transfer;
mod upkeep;
