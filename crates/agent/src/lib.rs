//! The rules of agents: domain types, the cycle machine, prompt assembly, limits and ports.
//!
//! This crate is pure (invariant 1): it never waits, reads a clock, uses randomness or does IO. Times and ids are
//! passed in. It must not know any vendor, database, transport or runtime.

#[macro_use]
pub mod names;

pub mod id;
pub mod limits;

pub mod entity;
pub mod event;
pub mod space;

pub mod entry;
pub mod message;

pub mod call;
pub mod config;
pub mod layer;
pub mod life;
pub mod memory;
pub mod quote;
pub mod run;
pub mod tool;

pub mod alert;
pub mod answers;
pub mod approval;
pub mod approver;
pub mod archive;
pub mod changes;
pub mod compaction;
pub mod cycle;
pub mod delivery;
pub mod fencing;
pub mod goals;
pub mod guard;
pub mod inbox;
pub mod news;
pub mod partial;
pub mod plan;
pub mod prepare;
pub mod prompt;
pub mod registry;
pub mod repair;
pub mod tokens;
pub mod transcript;
pub mod triage;
pub mod update;
pub mod view;
pub mod waits;
pub mod workspace;

pub mod port;
