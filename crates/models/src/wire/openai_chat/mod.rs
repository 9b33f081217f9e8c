//! The chat completions wire of OpenAI and of compatible servers. Dialect flags describe the differences.

mod calls;
mod chunk;
mod decode;
mod encode;
mod shape;
mod tool_mode;

use agent::message::Origin;
use agent::port::ReasoningReplay;
use agent::prompt::{Item, Prompt, ToolChoice};
use bytes::Bytes;
use serde::Deserialize;

pub use decode::OpenAiDecoder;

use super::{Between, Decoder, EncodeContext, KeyHeader, Opening, Turn, Wire, json};

/// This wire's name in native blocks, for native tool calls.
pub const WIRE: &str = "openai-chat";
/// The name for calls that are written as JSON text in the reply.
pub const WIRE_JSON: &str = "openai-chat-json";

/// How tools are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// As native tool calls.
    #[default]
    Native,
    /// As a JSON schema of the reply, for models without native tool calls.
    JsonSchema,
}

impl ToolMode {
    /// The name used on command lines and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::JsonSchema => "json_schema",
        }
    }
}

/// How a server differs from OpenAI. In every dialect a single system message comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Consecutive user messages are merged into one.
    pub merge_user: bool,
    /// A user message may not follow an outcome directly: a short assistant message is put between them.
    pub assistant_after_tool: bool,
    /// Which reasoning is sent back. With `All` every turn with calls has the field, even if empty.
    pub reasoning: ReasoningReplay,
    /// The output limit is called `max_completion_tokens`.
    pub max_completion_tokens: bool,
    /// The server accepts `stream_options`.
    pub stream_options: bool,
    /// Call ids must be nine letters and digits.
    pub short_ids: bool,
}

impl Dialect {
    /// OpenAI.
    pub const OPENAI: Self = Self {
        merge_user: false,
        assistant_after_tool: false,
        reasoning: ReasoningReplay::None,
        max_completion_tokens: true,
        stream_options: true,
        short_ids: false,
    };
    /// What nearly every compatible server accepts.
    pub const COMPATIBLE: Self = Self { merge_user: true, max_completion_tokens: false, ..Self::OPENAI };
    /// Servers of open-weight models: they accept reasoning of the same cycle, which helps the model.
    pub const LOCAL: Self = Self { reasoning: ReasoningReplay::Cycle, ..Self::COMPATIBLE };
    /// DeepSeek requires the reasoning of every turn with calls.
    pub const DEEPSEEK: Self = Self { reasoning: ReasoningReplay::All, ..Self::COMPATIBLE };
    /// Mistral.
    pub const MISTRAL: Self =
        Self { assistant_after_tool: true, stream_options: false, short_ids: true, ..Self::COMPATIBLE };
}

/// The wire, configured for one model.
#[derive(Clone, Debug)]
pub struct OpenAiChat {
    /// The mark of this wire and model in native blocks.
    pub origin: Origin,
    /// Tokens reserved for the reply.
    pub max_output: u32,
    /// Sampling temperature, if set.
    pub temperature: Option<f64>,
    /// `reasoning_effort`, if set.
    pub effort: Option<String>,
    /// Whether the model accepts `tool_choice: required`.
    pub forced_tool_choice: bool,
    /// How tools are offered.
    pub tool_mode: ToolMode,
    /// How the server differs from OpenAI.
    pub dialect: Dialect,
}

impl OpenAiChat {
    /// The wire with a model's own defaults.
    pub fn new(model: &str, max_output: u32, tool_mode: ToolMode, dialect: Dialect) -> Self {
        let wire = match tool_mode {
            ToolMode::Native => WIRE,
            ToolMode::JsonSchema => WIRE_JSON,
        };
        Self {
            origin: Origin { wire: wire.to_owned(), model: model.to_owned() },
            max_output,
            temperature: None,
            effort: None,
            forced_tool_choice: true,
            tool_mode,
            dialect,
        }
    }
}

impl Wire for OpenAiChat {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn path(&self) -> &str {
        "/chat/completions"
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Bearer
    }

    fn headers(&self, _: Opening) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    fn opening(&self, prompt: &Prompt, _: Opening) -> Bytes {
        let bound = if self.dialect.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        let mut out = format!(
            r#"{{"model":{},"stream":true,"{bound}":{}"#,
            json::string(&self.origin.model),
            self.max_output
        );
        if self.dialect.stream_options {
            out.push_str(r#","stream_options":{"include_usage":true}"#);
        }
        if let Some(temperature) = self.temperature {
            out.push_str(&format!(r#","temperature":{temperature}"#));
        }
        if let Some(effort) = &self.effort {
            out.push_str(&format!(r#","reasoning_effort":{}"#, json::string(effort)));
        }
        match self.tool_mode {
            _ if prompt.tools.is_empty() => {}
            ToolMode::JsonSchema => out.push_str(&tool_mode::response_format(prompt)),
            ToolMode::Native => match prompt.choice {
                ToolChoice::Required if self.forced_tool_choice => {
                    out.push_str(r#","tool_choice":"required""#);
                }
                ToolChoice::Auto | ToolChoice::Required => {}
                ToolChoice::None => out.push_str(r#","tool_choice":"none""#),
            },
        }
        Bytes::from(out)
    }

    fn head(&self, prompt: &Prompt) -> Bytes {
        match self.tool_mode {
            ToolMode::Native => encode::head(&encode::tools(prompt), &prompt.system),
            ToolMode::JsonSchema => {
                encode::head("", &format!("{}{}", prompt.system, tool_mode::manual(prompt)))
            }
        }
    }

    fn fragment(&self, item: &Item, context: EncodeContext<'_>) -> Option<(Turn, Bytes)> {
        match self.tool_mode {
            ToolMode::Native => encode::fragment(&self.origin, self.dialect, item, context),
            ToolMode::JsonSchema => tool_mode::fragment(&self.origin, item),
        }
    }

    fn glue(&self, between: Between) -> &'static str {
        encode::glue(self.dialect, between)
    }

    fn tail(&self) -> &'static str {
        "]}"
    }

    fn replay(&self) -> ReasoningReplay {
        self.dialect.reasoning
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(OpenAiDecoder::new(self.origin.clone(), self.tool_mode))
    }
}
