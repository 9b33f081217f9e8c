//! What a tool is, and the names of those whose meaning is part of the rules.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::call::Effect;

/// Names of the prebuilt tools whose meaning is part of the rules.
pub mod names {
    /// Gives everything back, as the only call of step 0.
    pub const SKIP: &str = "skip";
    /// Ends the cycle.
    pub const DONE: &str = "done";
    /// Says something in a space.
    pub const SEND_MESSAGE: &str = "send_message";
    /// Makes a space the active one.
    pub const ENTER_SPACE: &str = "enter_space";
}

/// What a tool is, for models, operators and the runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name, `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of its arguments: an object.
    pub schema: Arc<Value>,
    /// What repeating a call would do.
    pub effect: Effect,
    /// Whether a space is shown its calls.
    pub visible: bool,
    /// How long a call may take.
    pub timeout: Duration,
    /// Whether nobody waits for it: its outcome is `pending` at once, its answer comes as an event.
    /// Outward tools only.
    pub asynchronous: bool,
    /// Raised when arguments or meaning change.
    pub version: String,
}
