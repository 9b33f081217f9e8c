//! Google's Gemini wire, `streamGenerateContent`: contents of typed parts. Thought signatures stay on the
//! parts and are sent back with them.

mod arguments;
mod decode;
mod encode;
mod schema;

use agent::message::Origin;
use agent::port::ReasoningReplay;
use agent::prompt::{Item, Prompt, ToolChoice};
use bytes::Bytes;

pub use decode::GeminiDecoder;

use super::{Between, Decoder, EncodeContext, KeyHeader, Opening, Turn, Wire, json};

/// This wire's name in native blocks.
pub const WIRE: &str = "gemini";

/// How much the model is asked to think.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GeminiThinking {
    /// The model's default.
    #[default]
    Default,
    /// `low`, `medium`, `high`, … (from Gemini 3 on).
    Level(String),
    /// At most this many tokens (Gemini 2.5).
    Budget(u32),
}

/// The wire, configured for one model.
#[derive(Clone, Debug)]
pub struct Gemini {
    /// The mark of this wire and model in native blocks.
    pub origin: Origin,
    /// Tokens reserved for the reply, thoughts included.
    pub max_output: u32,
    /// Sampling temperature, if set.
    pub temperature: Option<f64>,
    /// How it thinks.
    pub thinking: GeminiThinking,
    /// Whether calls of the current turn must have a signature.
    pub sealed_reasoning: bool,
    /// The path of the model, appended to the base URL.
    pub path: String,
}

impl Gemini {
    /// The wire with a model's own defaults.
    pub fn new(model: &str, max_output: u32) -> Self {
        Self {
            origin: Origin { wire: WIRE.to_owned(), model: model.to_owned() },
            max_output,
            temperature: None,
            thinking: GeminiThinking::Default,
            sealed_reasoning: true,
            path: path(model),
        }
    }

    fn generation(&self) -> String {
        let mut out = format!(r#"{{"maxOutputTokens":{}"#, self.max_output);
        if let Some(temperature) = self.temperature {
            out.push_str(&format!(r#","temperature":{temperature}"#));
        }
        // Thoughts are requested only if the operator set how much the model thinks.
        match &self.thinking {
            GeminiThinking::Default => {}
            GeminiThinking::Level(level) => out.push_str(&format!(
                r#","thinkingConfig":{{"includeThoughts":true,"thinkingLevel":{}}}"#,
                json::string(level)
            )),
            GeminiThinking::Budget(budget) => out.push_str(&format!(
                r#","thinkingConfig":{{"includeThoughts":true,"thinkingBudget":{budget}}}"#
            )),
        }
        out.push('}');
        out
    }
}

/// The path of the model, with special characters of its name escaped.
fn path(model: &str) -> String {
    let mut out = String::from(if model.contains('/') { "/" } else { "/models/" });
    for byte in model.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out.push_str(":streamGenerateContent?alt=sse");
    out
}

impl Wire for Gemini {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Named("x-goog-api-key")
    }

    fn headers(&self, _: Opening) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    fn opening(&self, prompt: &Prompt, _: Opening) -> Bytes {
        let mut out = format!(r#"{{"generationConfig":{}"#, self.generation());
        let mode = match prompt.choice {
            _ if prompt.tools.is_empty() => None,
            ToolChoice::Auto => None,
            ToolChoice::Required => Some("ANY"),
            ToolChoice::None => Some("NONE"),
        };
        if let Some(mode) = mode {
            out.push_str(&format!(r#","toolConfig":{{"functionCallingConfig":{{"mode":"{mode}"}}}}"#));
        }
        Bytes::from(out)
    }

    fn head(&self, prompt: &Prompt) -> Bytes {
        encode::head(prompt)
    }

    fn fragment(&self, item: &Item, context: EncodeContext<'_>) -> Option<(Turn, Bytes)> {
        encode::fragment(&self.origin, self.sealed_reasoning, item, context)
    }

    fn glue(&self, between: Between) -> &'static str {
        encode::glue(between)
    }

    fn tail(&self) -> &'static str {
        "]}"
    }

    fn replay(&self) -> ReasoningReplay {
        ReasoningReplay::Cycle
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(GeminiDecoder::new(self.origin.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_name_cannot_leave_the_path() {
        assert_eq!(path("gemini-3-pro"), "/models/gemini-3-pro:streamGenerateContent?alt=sse");
        assert_eq!(path("tunedModels/mine"), "/tunedModels/mine:streamGenerateContent?alt=sse");
        assert_eq!(path("a?key=b#c d"), "/models/a%3Fkey%3Db%23c%20d:streamGenerateContent?alt=sse");
    }
}
