//! Rules of the repository that no compiler checks. Each test is one rule of ARCHITECTURE.md or
//! CONTRIBUTING.md; a failure names the place and what to do there.
//!
//! The tests read the files of the tree and must not know what the crates do.

#![allow(clippy::disallowed_methods, reason = "tests start programs as they need")]

mod dependencies;
mod documents;
mod import_cycles;
mod imports;
mod layout;
mod metadata;
mod points;
mod report;
mod rust;
mod scenarios;
mod sources;
mod tree;
mod types;
