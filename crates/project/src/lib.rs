//! A project: agents as files, and bringing the agents of a store in line with them.
//!
//! Must not know a terminal, a command line or an exit code.

pub mod agent_file;
mod error;
pub mod live;
pub mod reconcile;
pub mod tool_files;

pub use error::ProjectError;

/// The handle of the first person, who is in every space that an agent file opens.
pub const OWNER: &str = "owner";
