//! The Rust client of a running server: requests, streams that continue after a restart, and waiting for what comes of
//! a message. `viv` uses it for every command; other programs can do the same.
//!
//! [`Client::new`] takes an address and a key, [`Client::find`] looks for them as `viv` does. [`Client::get_as`],
//! [`Client::post`] and the others send requests; the types of their JSON are in the crate `api`. [`listen`] follows a
//! stream, and a [`Feed`] reduces it to what is happening now. [`AgentWatch`] waits for the outcome of one message. A
//! [`Worker`] serves tools that agents call; `examples/worker.rs` is one.
//! Every error is a [`ClientError`], whose class says what a caller can do next.
//!
//! `examples/ask.rs` sends a message and prints the reply:
//!
//! ```no_run
#![doc = include_str!("../examples/ask.rs")]
//! ```
//!
//! Its hints are for a person at a shell and name commands of `viv`. Must not know how a command is read, any terminal or exit code.

mod credentials;
mod error;
mod exchange;
mod feed;
mod http;
mod outbox;
mod past;
mod stream;
mod subject;
pub mod target;
mod worker;

pub use credentials::{
    ApiKey, Credentials, key_in_environment, read as read_credentials, remove as remove_credentials,
    variable, write as write_credentials,
};
pub use error::{ClientError, ErrorClass, Result};
pub use exchange::{
    AgentWatch, Exchange, PostedReply, Waited, fresh_id, post, refuse_retired, why_it_is_idle,
};
pub use feed::{AgentWork, Feed, FeedChange, FeedDraft};
pub use http::{Client, agent_path, segment, typed};
pub use outbox::{Outbox, PostOutcome};
pub use past::{Past, PastItem, PastUpdate};
pub use stream::{Snapshot, StreamEvent, listen};
pub use subject::{Source, Subject};
pub use worker::Worker;
