//! Where declared tools are kept. Must not know what a declaration means.

use jiff::Timestamp;
use serde_json::Value;

use super::{BoxFuture, StoreError};

/// A declared tool as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTool {
    /// Its name.
    pub name: String,
    /// Its declaration, valid by [`super::Toolbox::check`].
    pub declaration: Value,
    /// The file that declares it; `None`: it was declared through the API.
    pub file: Option<String>,
    /// When it was declared or changed.
    pub at: Timestamp,
}

/// Keeps declared tools, at most [`crate::limits::TOOLS_MAX`].
pub trait ToolBook: Send + Sync {
    /// All of them, by name.
    fn tools(&self) -> BoxFuture<'_, Result<Vec<StoredTool>, StoreError>>;
    /// Keeps these tools, each instead of the one of its name, and forgets those with the names `gone`. All or nothing.
    fn change_tools(&self, put: Vec<StoredTool>, gone: Vec<String>) -> BoxFuture<'_, Result<(), StoreError>>;
}
