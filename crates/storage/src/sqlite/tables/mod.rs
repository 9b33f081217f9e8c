//! Rows in, rows out, one file per family of tables.
//!
//! It must not know which port asks, and decides nothing: rules are in `agent`.

pub(in crate::sqlite) mod events;
pub(in crate::sqlite) mod facts;
pub(in crate::sqlite) mod held;
pub(in crate::sqlite) mod notes;
pub(in crate::sqlite) mod rows;
pub(in crate::sqlite) mod show;
pub(in crate::sqlite) mod stages;
pub(in crate::sqlite) mod sums;
pub(in crate::sqlite) mod totals;
pub(in crate::sqlite) mod urgent;
pub(in crate::sqlite) mod waits;
