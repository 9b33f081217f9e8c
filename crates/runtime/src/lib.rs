//! The living: drives the rules of `agent` against the ports. Activation, the loop, model calls,
//! tool execution, hibernation and shutdown.
//!
//! This crate must not know SQL, HTTP or any vendor: it imports `agent` and nothing else of ours.

pub mod bus;
pub mod clock;
pub mod live;
pub mod node;
pub mod trace;
pub mod waits;

mod beyond;
mod breaker;
mod choir;
mod failure;
mod fates;
mod hands;
mod health;
mod keeper;
mod living;
mod permits;
mod stage;
mod think;
mod warm;

use std::sync::Arc;

use agent::limits;
use agent::port::{Calls, Clock, Ids, Lookup, Store, Tokens, Toolbox, Voices};

pub use keeper::{Keeper, start};

/// Everything that living asks of the world.
#[derive(Clone)]
pub struct Ports {
    /// The durable truth.
    pub store: Arc<dyn Store>,
    /// Answers to calls that go on beyond their cycle.
    pub calls: Arc<dyn Calls>,
    /// Reading on an agent's behalf.
    pub lookup: Arc<dyn Lookup>,
    /// The voices.
    pub voices: Arc<dyn Voices>,
    /// The hands.
    pub toolbox: Arc<dyn Toolbox>,
    /// The reference estimator.
    pub tokens: Arc<dyn Tokens>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Novelty.
    pub ids: Arc<dyn Ids>,
    /// What watchers are shown.
    pub live: Arc<live::Live>,
    /// How much goes on at once.
    pub bounds: Bounds,
}

/// How much goes on at once on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Agents that may be awake.
    pub awake: usize,
    /// Requests that may be under way at one provider.
    pub requests_per_provider: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { awake: limits::AWAKE_MAX, requests_per_provider: limits::REQUESTS_PER_PROVIDER }
    }
}
