//! The living: drives the rules of `agent` against the ports. Activation, the loop, model calls,
//! tool execution, hibernation and shutdown.
//!
//! This crate must not know SQL, HTTP or any vendor: it imports `agent` and nothing else of ours.

pub mod bus;
pub mod clock;
pub mod live;
pub mod node;
