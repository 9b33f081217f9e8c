//! The recent past of the server, with messages as the streams send them.

use agent::space::PostedMessage;
use api::RunJson;
use serde::Deserialize;

/// The answer of `GET /v1/recent`.
#[derive(Debug, Deserialize)]
pub struct Past {
    /// Messages and runs, oldest first.
    pub items: Vec<PastItem>,
}

/// One item of the recent past.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PastItem {
    /// A message was posted in a space.
    Message(Box<PostedMessage>),
    /// A cycle ended.
    Run(Box<RunJson>),
}
