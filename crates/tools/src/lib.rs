//! The prebuilt tools of agents, tools that reach the world, and the kit that holds them.
//!
//! Prebuilt tools are inward: they only read, and return their changes, which take effect in the commit of
//! the step that called them. Tools that reach the world are read from declarations and send their requests through
//! one [`connector`], are calls to a server of the [`mcp`] protocol, or are run by programs that claim them. Deliveries of
//! other services are verified and read by a [`hook`]. This crate depends on neither the runtime nor a store: it reads through
//! [`agent::port::Lookup`], which returns only data that the agent may read.

mod arguments;
mod ask_person;
pub mod child;
pub mod connector;
pub mod courier;
pub mod declare;
mod ending;
mod enter_space;
pub mod fetch_page;
mod get_my_runs;
mod goals;
pub mod hook;
pub mod http;
mod json;
mod kit;
pub mod mcp;
mod memories;
mod message_lines;
pub mod openapi;
mod peek_inbox;
mod plans;
mod read_messages;
mod read_outcome;
mod recall;
mod schema_work;
pub mod secret;
mod send_message;
mod space_ref;
mod template;
mod turn;
mod typed;
mod worker;

pub use kit::{BadTool, McpSettings, ToolKit, prebuilt};
