//! The hands of living agents: the prebuilt tools, and the kit that holds them together with others.
//!
//! Prebuilt tools are inward: they only read, and what they want changed rides in the commit of the
//! decision that called them. This crate must not know how the runtime runs them, nor any store: it
//! reads through [`agent::port::Lookup`], which keeps every row to its agent.

mod arguments;
mod ending;
mod enter_space;
mod get_my_runs;
mod goals;
mod kit;
mod memories;
mod message_lines;
mod peek_inbox;
mod read_messages;
mod send_message;
mod space_ref;
mod typed;

pub use kit::{BadTool, ToolKit, prebuilt};
