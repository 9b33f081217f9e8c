//! Rules of the repository that no compiler checks. Each test is one rule of ARCHITECTURE.md or
//! CONTRIBUTING.md; a failure names the place and what to do there.
//!
//! The tests read the files of the tree and must not know what the crates do.

#![allow(clippy::disallowed_methods, reason = "tests start programs as they need")]

mod code_map;
mod dependencies;
mod file_imports;
mod pages;
mod tree;
mod types;
mod words;

/// Ends a test; fails with all violations at once, each a place and what to do there.
#[track_caller]
fn none(violations: Vec<String>) {
    assert!(violations.is_empty(), "\n{}\n({} to fix)", violations.join("\n"), violations.len());
}
