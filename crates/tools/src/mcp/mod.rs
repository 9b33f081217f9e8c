//! Tools of MCP servers: of a process on this machine, or of a server that is reached by streamable HTTP.
//!
//! Nothing that a server says is trusted. What a model is told about a tool is what an operator approved, and a call is
//! refused if the server says something else by now. A server that dies, hangs, floods or answers nonsense costs the calls
//! that wait for it, and is started again for the next one. This module must not know where descriptions are kept.

mod answer;
mod check;
mod config;
mod connection;
mod description;
mod failure;
mod gate;
mod health;
mod host;
mod lines;
mod mend;
mod pages;
mod pin;
mod process;
mod reading;
mod server;
mod tool;
mod values;
mod web;

pub use self::check::check_mcp_server;
pub use self::config::{McpServerConfig, McpToolConfig};
pub use self::description::{McpDescription, McpListing, McpResource};
pub use self::host::McpHost;
pub use self::pin::pinned;
pub use self::server::{McpLimits, McpServer};
pub use self::tool::McpTool;
