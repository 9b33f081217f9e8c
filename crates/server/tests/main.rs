//! The doors over the real store in memory, on a simulated clock: the router as a service, sockets
//! only where sockets matter.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agents;
mod bad_input;
mod calls;
mod dead_letters;
mod document;
mod entities;
mod messages;
mod reference;
mod sockets;
mod streams;
mod walk;
mod world;
