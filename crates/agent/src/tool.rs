//! The specification of a tool, and the names of the tools that the cycle rules depend on.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;

use crate::call::Effect;
use crate::tokens;

/// Names of the prebuilt tools that the cycle rules depend on.
pub mod names {
    /// Ends the cycle at step 0, as its only call, and marks its events as skipped.
    pub const SKIP: &str = "skip";
    /// Ends the cycle.
    pub const DONE: &str = "done";
    /// Posts a message to a space.
    pub const SEND_MESSAGE: &str = "send_message";
    /// Writes memories.
    pub const SET_MEMORIES: &str = "set_memories";
    /// Searches the agent's archive.
    pub const RECALL: &str = "recall";
    /// Reads a cycle of the archive.
    pub const READ_CYCLE: &str = "read_cycle";
    /// Returns what was left out of a large outcome.
    pub const READ_OUTCOME: &str = "read_outcome";
    /// Makes a space the active one.
    pub const ENTER_SPACE: &str = "enter_space";
}

/// The specification of a tool, for models, operators and the runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name, `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub schema: Arc<Value>,
    /// What repeating a call would do.
    pub effect: Effect,
    /// Whether its calls are shown in a space.
    pub visible: bool,
    /// Time-out of a call.
    pub timeout: Duration,
    /// Whether the cycle does not wait for it: its outcome is `pending` at once, and the result arrives as an event.
    /// Not for inward tools.
    pub asynchronous: bool,
    /// Incremented when the arguments or the behavior change.
    pub version: String,
    /// The result of [`ToolSpec::tokens`]; empty in a new specification.
    pub counted: OnceLock<u32>,
}

impl ToolSpec {
    /// Tokens of what a model reads of it, estimated once.
    pub fn tokens(&self) -> u32 {
        let count = || tokens::estimate(&format!("{}\n{}\n{}\n", self.name, self.description, self.schema));
        *self.counted.get_or_init(count)
    }
}
