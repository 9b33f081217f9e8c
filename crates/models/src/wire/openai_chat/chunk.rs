//! The JSON of a chunk of the stream.

use agent::port::ModelError;
use agent::run::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::json::RawObject;

/// One chunk.
#[derive(Debug, Deserialize)]
pub(super) struct ChatChunk {
    pub(super) id: Option<Box<RawValue>>,
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<Box<RawValue>>,
    pub(super) error: Option<Box<RawValue>>,
}

/// A piece of one of the requested answers.
#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    pub(super) index: Option<u64>,
    pub(super) delta: Option<RawObject>,
    /// A whole message instead of a delta. `text` is that of the older completions API.
    pub(super) message: Option<Box<RawValue>>,
    pub(super) text: Option<Box<RawValue>>,
    pub(super) finish_reason: Option<String>,
    pub(super) error: Option<Box<RawValue>>,
}

/// Token counts, under the names that servers use.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ChatUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl ChatUsage {
    /// The counts as a run records them.
    pub(super) fn usage(&self) -> Usage {
        let cached = self.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
        let reasoning = self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        // Some servers (xAI) count reasoning separately from the completion, which their total shows.
        let beside = match (self.total_tokens, self.prompt_tokens, self.completion_tokens, reasoning) {
            (Some(total), Some(input), Some(output), Some(reasoning))
                if input.checked_add(output).and_then(|sum| sum.checked_add(reasoning)) == Some(total) =>
            {
                reasoning
            }
            _ => 0,
        };
        Usage {
            input: self.prompt_tokens,
            cached: cached.or(self.prompt_cache_hit_tokens),
            output: self.completion_tokens.map(|output| output.saturating_add(beside)),
            reasoning,
        }
    }
}

impl Choice {
    /// An error for a whole message without a delta. Some servers send both, which is accepted.
    pub(super) fn is_delta(&self) -> Result<(), ModelError> {
        let instead = self.message.as_ref().map(|_| "message").or(self.text.as_ref().map(|_| "text"));
        match (&self.delta, instead) {
            (None, Some(instead)) => {
                Err(unsupported(&format!("chunks with a `{instead}` instead of a `delta`")))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a delta has content other than its role.
pub(super) fn has_content(delta: &RawObject) -> bool {
    let nothing = ["null", "\"\"", "[]", "{}"];
    delta.0.iter().any(|(key, value)| key != "role" && !nothing.contains(&value.get()))
}

/// The error for a server that uses an outdated format.
pub(super) fn unsupported(what: &str) -> ModelError {
    ModelError::Unsupported(format!(
        "the server answers with {what}: use a newer version of it, or another server"
    ))
}

/// A list of objects; null is an empty list.
pub(super) fn list(what: &str, raw: &str) -> Result<Vec<RawObject>, ModelError> {
    let read = serde_json::from_str::<Option<Vec<RawObject>>>(raw);
    let list =
        read.map_err(|error| ModelError::Garbage(format!("`{what}` has an unexpected form: {error}")))?;
    Ok(list.unwrap_or_default())
}
