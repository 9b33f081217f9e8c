//! The built binary from outside. `VIV_BIN` names it, `VIV_FAILPOINTS_BIN` the build with named
//! points; `make torture` does the loops for as long as one likes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests")]

mod backups;
mod clocks;
mod crashes;
mod crowd;
mod disk;
mod loops;
mod server;
