//! The command line as people and scripts see it: the built binary, its full output and exit codes.

#![allow(clippy::disallowed_methods, reason = "tests start programs as they need")]
#![allow(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

mod approvals;
mod background;
mod broken_files;
mod chat;
mod client_crate;
mod damaged;
mod dead_letters;
mod hints;
mod hooks;
mod json;
mod keys;
mod live;
mod manage;
mod mcp;
mod mishaps;
mod models;
mod plumbing;
mod price;
mod project;
mod pty;
mod recall;
mod scenarios;
mod screens;
mod scripted;
mod stories;
mod stub;
mod talking;
mod targets;
mod tools;
mod transfer;
mod upkeep;
mod workers;
mod world;
