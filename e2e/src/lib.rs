//! The built binary from outside: kill it in a loop, and look for anything lost or doubled.
//!
//! A ledger keeps what the harness was promised (every answered id), the binary is killed without
//! warning again and again, and in the end history, effects and ledger must tell one story. This
//! crate knows the binary only by its command line and its HTTP doors, never by its store.

pub mod binary;
pub mod blow;
pub mod check;
pub mod client;
pub mod counter;
pub mod dice;
pub mod follow;
pub mod history;
pub mod inbox;
pub mod kill;
pub mod ledger;
pub mod load;
pub mod mind;
pub mod stub;
pub mod tally;
pub mod torture;
pub mod world;

/// Why the harness itself cannot go on; what the binary breaks is a [`check::Breach`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(String);

impl Trouble {
    /// In words: what was wanted, what stood in the way.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// What the harness does, or why it cannot.
pub type Result<T, E = Trouble> = std::result::Result<T, E>;
