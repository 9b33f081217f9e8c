//! The specification of a tool, and the names of the tools that the cycle rules depend on.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

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
    /// Asks a person.
    pub const ASK_PERSON: &str = "ask_person";
    /// Makes a space the active one.
    pub const ENTER_SPACE: &str = "enter_space";
    /// Reads a page of the public web.
    pub const FETCH_PAGE: &str = "fetch_page";
}

names! {
    /// What a tool does with what an agent knows.
    #[derive(PartialOrd, Ord)]
    pub enum ToolLabel {
        /// It returns what is not for everyone.
        Private,
        /// What it is given can reach others.
        Exfiltrates,
        /// What it returns was written by others.
        Outside,
    }
}

/// A set of labels; one bit each, in the order of [`ToolLabel::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolLabels(u8);

impl ToolLabels {
    /// All labels: what counts for an outward tool whose declaration names none.
    pub fn all() -> Self {
        ToolLabel::ALL.into_iter().collect()
    }

    /// The set with these bits; unknown ones are ignored.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & Self::all().0)
    }

    /// Its bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether it has the label.
    pub fn has(self, label: ToolLabel) -> bool {
        self.0 & (1 << label as u8) != 0
    }

    /// The labels of either set.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its labels, in order.
    pub fn iter(self) -> impl Iterator<Item = ToolLabel> {
        ToolLabel::ALL.into_iter().filter(move |label| self.has(*label))
    }
}

impl FromIterator<ToolLabel> for ToolLabels {
    fn from_iter<I: IntoIterator<Item = ToolLabel>>(labels: I) -> Self {
        Self(labels.into_iter().fold(0, |bits, label| bits | (1 << label as u8)))
    }
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
    /// What it does with what the agent knows.
    pub labels: ToolLabels,
    /// The version that a worker must have to run it; `None` if the server runs it.
    pub worker: Option<String>,
    /// Whether strangers wrote its description: then it counts as their text.
    pub foreign: bool,
    /// The results of [`ToolSpec::tokens`] and [`ToolSpec::hash`]; empty in a new specification.
    pub counted: OnceLock<CountedSpec>,
}

/// What is computed once of what a model reads of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedSpec {
    tokens: u32,
    hash: [u8; 32],
}

impl ToolSpec {
    /// Tokens of what a model reads of it, estimated once.
    pub fn tokens(&self) -> u32 {
        self.counted().tokens
    }

    /// A hash of what a model reads of it, computed once: an agent may have many tools, and each request shows all.
    pub fn hash(&self) -> &[u8; 32] {
        &self.counted().hash
    }

    fn counted(&self) -> &CountedSpec {
        self.counted.get_or_init(|| {
            let text = format!("{}\n{}\n{}\n", self.name, self.description, self.schema);
            CountedSpec { tokens: tokens::estimate(&text), hash: Sha256::digest(&text).into() }
        })
    }
}

/// Ends the server in the name of a tool of an MCP server. No other name contains it.
pub const SERVER_END: &str = "__";

/// Whether an entry of an agent's `tools` names this tool: its name, a pattern with `*` for any characters, or
/// `server:pattern` for the tools of an MCP server, whose names begin with `server__` and no others do.
pub fn is_named(pattern: &str, name: &str) -> bool {
    let pattern = pattern.replacen(':', SERVER_END, 1);
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_names_tools_exactly_or_by_pattern() {
        for (pattern, name, expected) in [
            ("look", "look", true),
            ("look", "looks", false),
            ("look", "outlook", false),
            ("*", "look", true),
            ("get_*", "get_user", true),
            ("get_*", "forget_user", false),
            ("*_user", "get_user", true),
            ("g*_*r", "get_user", true),
            ("g*r*r", "gr", false),
            ("github:*", "github__create_issue", true),
            ("github:create_issue", "github__create_issue", true),
            ("github:*", "github_evil__create", false),
            ("github:*", "github_create_issue", false),
            ("github:*", "githubcreate", false),
            ("", "look", false),
        ] {
            assert_eq!(is_named(pattern, name), expected, "`{pattern}` for `{name}`");
        }
    }

    #[test]
    fn labels_are_kept_as_bits() {
        for bits in 0..8 {
            let labels = ToolLabels::from_bits(bits);
            assert_eq!(labels.iter().collect::<ToolLabels>().bits(), bits);
        }
        assert_eq!(ToolLabels::from_bits(0xff), ToolLabels::all());
    }
}
