//! Tests of the models through the real client, against stubs that are as strict as the vendors, and
//! against recorded streams of real servers.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "test helpers panic on failure and print skipped tests"
)]

mod anthropic;
mod conformance;
mod corpus;
mod cuts;
mod errors;
mod gemini;
mod json_mode;
mod listing;
mod local;
mod memo;
mod model_book;
mod openai;
mod refusals;
mod responses;
mod spliced;
mod splits;
mod support;
mod tls;
mod usage;
