//! The protocol of accept, open, decide, start, settle and close as a small model without a store. It has two
//! events that can be canceled, one of which arrives twice; one call that may be repeated and one that may
//! not; and two nodes that die, take over each other's agent, and continue although they are outdated.
//! [`explore`] visits every reachable state; `contract::walks` compares a real store with the model.
//!
//! The search is written here and not taken from a library, because an idle state must be reachable from
//! *every* state. A checker of "eventually" along single paths does not notice a cycle.
//!
//! This module must not know any backend.
#![cfg_attr(not(test), allow(dead_code, reason = "only tests read the results of the search"))]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept is a failed test")]

pub(crate) mod explore;
pub(crate) mod model;
pub(crate) mod node;
mod normalize;
pub(crate) mod promises;
pub(crate) mod stored;
