//! Rules of the server that no compiler checks. Each test is one sentence of ARCHITECTURE.md or
//! CONTRIBUTING.md; a broken one names the place and what to do there.
//!
//! It reads the tree as it lies there and must not know what any of the crates does.

mod circles;
mod dependencies;
mod documents;
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
