//! Messages between an agent and a model: typed parts, and the vendor's native block.
//!
//! The typed parts can be sent to every vendor; the native block is what one vendor sent and must get back byte for
//! byte. This module knows no vendor.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, ContentRef};

/// The author of a message in a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The runtime: inbox entries, injections, notices.
    User,
    /// The agent.
    Assistant,
    /// Outcomes of the agent's calls.
    Tool,
}

/// One message of a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelMessage {
    /// The author.
    pub role: Role,
    /// The content, in order.
    pub parts: Vec<Part>,
    /// The vendor's form of an assistant message; sent again only to the same origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

/// One typed part of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Readable reasoning; signatures and encrypted forms live in the native block only.
    Reasoning {
        /// The readable text, possibly empty.
        text: String,
    },
    /// A call of a tool.
    ToolCall {
        /// Our id; the vendor's id is in the native block.
        id: CallId,
        /// The tool's name as the model wrote it.
        name: String,
        /// The raw argument string, never re-serialised.
        arguments: String,
    },
    /// The result of a call.
    ToolResult {
        /// The call.
        id: CallId,
        /// The tool's name.
        name: String,
        /// What the model reads.
        text: String,
        /// Whether the call failed.
        error: bool,
    },
    /// An image by content address.
    Image {
        /// Address of the bytes.
        content: ContentRef,
        /// MIME type.
        media_type: String,
    },
    /// A file by content address.
    File {
        /// Address of the bytes.
        content: ContentRef,
        /// MIME type.
        media_type: String,
        /// A name for people.
        name: String,
    },
}

/// The vendor's block for an assistant message, and the origin for which it is valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Native {
    /// Wire format and model that produced it; it is sent again only to the same.
    pub origin: Origin,
    /// JSON text in the vendor's form, byte-stable, including unknown blocks and fields.
    pub body: String,
    /// The vendor's ids of the tool calls, in the order of the message's `ToolCall` parts.
    pub call_ids: Vec<String>,
}

/// The origin of a native block.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// Name of the wire format, as its codec defines it.
    pub wire: String,
    /// The model's name at the vendor.
    pub model: String,
}

impl ModelMessage {
    /// A user message of one text.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, parts: vec![Part::Text { text: text.into() }], native: None }
    }

    /// All plain text, concatenated without separators.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The calls of an assistant message: id, tool name, raw arguments.
    pub fn calls(&self) -> impl Iterator<Item = (&CallId, &str, &str)> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall { id, name, arguments } => Some((id, name.as_str(), arguments.as_str())),
            _ => None,
        })
    }

    /// All text that counts for the token estimate, in order.
    pub fn countable(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text { text } | Part::Reasoning { text } => out.push_str(text),
                Part::ToolCall { name, arguments, .. } => {
                    out.push_str(name);
                    out.push_str(arguments);
                }
                Part::ToolResult { text, .. } => out.push_str(text),
                Part::Image { .. } | Part::File { .. } => out.push_str("[attachment]"),
            }
            out.push('\n');
        }
        out
    }
}
