//! Tests of the built binary. `VIV_BIN` is its path, `VIV_FAILPOINTS_BIN` the path of the build with `failpoints`.
//! `make torture` runs the loops for longer.
#![allow(clippy::disallowed_methods, reason = "tests start programs as they need")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests")]

mod backups;
mod clocks;
mod crashes;
mod disk;
mod harness;
mod loops;
mod slow_readers;
