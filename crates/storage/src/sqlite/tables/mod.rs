//! Reads and writes rows, one file per group of tables.
//!
//! This module must not know which port calls it, and it decides nothing: the rules are in `agent`.

pub(crate) mod agents;
pub(crate) mod alerts;
pub(crate) mod approval_rules;
pub(crate) mod approvals;
pub(crate) mod calls;
pub(crate) mod configs;
pub(crate) mod credentials;
pub(crate) mod entries;
pub(crate) mod events;
pub(crate) mod facts;
pub(crate) mod held;
pub(crate) mod inbox;
pub(crate) mod lead;
pub(crate) mod life;
pub(crate) mod messages;
pub(crate) mod notes;
pub(crate) mod opening;
pub(crate) mod outgoing;
pub(crate) mod plans;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod recent;
pub(crate) mod requests;
pub(crate) mod rows;
pub(crate) mod runs;
pub(crate) mod session;
pub(crate) mod shift;
pub(crate) mod show;
pub(crate) mod sums;
pub(crate) mod totals;
pub(crate) mod urgent;
pub(crate) mod waits;
