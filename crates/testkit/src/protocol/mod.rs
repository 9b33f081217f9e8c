//! The protocol of accept, open, decide, start, settle and close as a small machine without any store: two
//! events that may be taken back, one of which arrives twice, a call that cannot be repeated and one that can, two nodes that die,
//! take each other's life over, and go on when they are out of date. [`explore`] walks through every state
//! that it can be in; `contract::walks` holds a real store to what it says.
//!
//! It is explored by a search of our own and not by a library: what counts here is that rest can be reached
//! from *everywhere*, and one that checks "eventually" along single ways does not see a circle.
//!
//! This module must not know any backend.
#![cfg_attr(not(test), allow(dead_code, reason = "what is explored is told in tests"))]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept is a failed test")]

mod alike;
pub(crate) mod explore;
pub(crate) mod model;
pub(crate) mod node;
pub(crate) mod promises;
pub(crate) mod stored;
