//! Tests of the built binary: kills it in a loop, and looks for anything lost or doubled.
//!
//! A ledger records every id that the server has accepted. The binary is killed without warning again and again. At
//! the end, history, effects and ledger must agree. This crate uses the binary only through its command line and
//! its HTTP API, never through its store.

#![allow(clippy::disallowed_methods, reason = "tests start programs as they need")]

pub mod approver;
pub mod binary;
pub mod check;
pub mod client;
pub mod counted;
pub mod counter;
pub mod faults;
pub mod follow;
pub mod gateway;
pub mod history;
pub mod inbox;
pub mod kill;
pub mod ledger;
pub mod load;
pub mod random;
pub mod replies;
pub mod stub;
pub mod tally;
pub mod torture;
pub mod workers;
pub mod world;

/// Why the harness itself cannot continue. A promise that the binary breaks is a [`check::Breach`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HarnessError(String);

impl HarnessError {
    /// An error with this message.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// The result of a step of the harness.
pub type Result<T, E = HarnessError> = std::result::Result<T, E>;
