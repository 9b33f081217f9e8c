//! The API over the real store in memory, on a simulated clock. Most tests call the router as a service; tests of
//! connections use real sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod access;
mod agents;
mod alerts;
mod approvals;
mod bad_input;
mod calls;
mod dead_letters;
mod document;
mod entities;
mod goals;
mod hooks;
mod idempotency;
mod keys;
mod limits;
mod links;
mod logs;
mod messages;
mod metrics;
mod names;
mod plans;
mod reference;
mod sockets;
mod streams;
mod targets;
mod walks;
mod workers;
mod world;
