//! The Anthropic Messages wire: typed content blocks, reasoning that is bound to its exact prefix, and
//! cache breakpoints.

mod decode;
mod encode;

use agent::entry::{Entry, EntryKind};
use agent::message::Origin;
use agent::port::ReasoningReplay;
use agent::prompt::{Item, Prompt, ToolChoice};
use bytes::Bytes;

pub use decode::AnthropicDecoder;

use super::{Between, Decoder, EncodeContext, KeyHeader, Opening, Turn, Wire, json};

/// This wire's name in native blocks.
pub const WIRE: &str = "anthropic";

/// The smallest thinking budget that the vendor accepts.
const MANUAL_MIN: u32 = 1_024;

/// How the model is asked to think.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AnthropicThinking {
    /// The model's default.
    #[default]
    Default,
    /// Adaptive thinking, with an effort if one is set.
    Adaptive {
        /// `low`, `medium`, `high`, …
        effort: Option<String>,
    },
    /// At most this many tokens (at least 1 024), for older models.
    Manual {
        /// Tokens.
        budget: u32,
    },
}

/// The wire, configured for one model.
#[derive(Clone, Debug)]
pub struct Anthropic {
    /// The mark of this wire and model in native blocks.
    pub origin: Origin,
    /// Tokens reserved for the reply.
    pub max_output: u32,
    /// Sampling temperature, if set.
    pub temperature: Option<f64>,
    /// How it thinks.
    pub thinking: AnthropicThinking,
    /// Whether the model accepts a forced `tool_choice`.
    pub forced_tool_choice: bool,
}

impl Anthropic {
    /// The wire with a model's own defaults.
    pub fn new(model: &str, max_output: u32) -> Self {
        Self {
            origin: Origin { wire: WIRE.to_owned(), model: model.to_owned() },
            max_output,
            temperature: None,
            thinking: AnthropicThinking::Default,
            forced_tool_choice: false,
        }
    }

    fn thinking_field(&self, opening: Opening) -> Option<String> {
        let binding = if opening.drop_block {
            r#","block_binding":{"prefix_mismatch_behavior":"drop_block"}"#
        } else {
            ""
        };
        match &self.thinking {
            AnthropicThinking::Manual { .. } if opening.no_thinking => None,
            AnthropicThinking::Manual { budget } => {
                let budget = (*budget).max(MANUAL_MIN);
                Some(format!(r#"{{"type":"enabled","budget_tokens":{budget}{binding}}}"#))
            }
            // Models that bind their reasoning think adaptively by default, so naming that mode changes
            // only the binding.
            AnthropicThinking::Default if !opening.drop_block => None,
            AnthropicThinking::Default | AnthropicThinking::Adaptive { .. } => {
                Some(format!(r#"{{"type":"adaptive"{binding}}}"#))
            }
        }
    }

    fn tool_choice(&self, prompt: &Prompt) -> Option<&'static str> {
        if prompt.tools.is_empty() {
            return None;
        }
        let manual = matches!(self.thinking, AnthropicThinking::Manual { .. });
        match prompt.choice {
            ToolChoice::Required if self.forced_tool_choice && !manual => Some(r#"{"type":"any"}"#),
            ToolChoice::Auto | ToolChoice::Required => None,
            ToolChoice::None => Some(r#"{"type":"none"}"#),
        }
    }
}

impl Wire for Anthropic {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn path(&self) -> &str {
        "/messages"
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Named("x-api-key")
    }

    fn headers(&self, opening: Opening) -> Vec<(&'static str, &'static str)> {
        let mut headers = vec![("anthropic-version", "2023-06-01")];
        if opening.drop_block {
            headers.push(("anthropic-beta", "thinking-binding-controls-2026-08-01"));
        }
        headers
    }

    fn opening(&self, prompt: &Prompt, opening: Opening) -> Bytes {
        let thinking = self.thinking_field(opening);
        // The vendor requires a budget below the output limit, and the default temperature while thinking.
        let max_output = match self.thinking {
            AnthropicThinking::Manual { budget } => {
                self.max_output.max(budget.max(MANUAL_MIN).saturating_add(1))
            }
            _ => self.max_output,
        };
        let mut out = format!(
            r#"{{"model":{},"stream":true,"max_tokens":{max_output}"#,
            json::string(&self.origin.model)
        );
        if let (Some(temperature), None) = (self.temperature, &thinking) {
            out.push_str(&format!(r#","temperature":{temperature}"#));
        }
        if let Some(thinking) = thinking {
            out.push_str(&format!(r#","thinking":{thinking}"#));
        }
        if let AnthropicThinking::Adaptive { effort: Some(effort) } = &self.thinking {
            out.push_str(&format!(r#","output_config":{{"effort":{}}}"#, json::string(effort)));
        }
        if let Some(choice) = self.tool_choice(prompt) {
            out.push_str(&format!(r#","tool_choice":{choice}"#));
        }
        Bytes::from(out)
    }

    fn head(&self, prompt: &Prompt) -> Bytes {
        encode::head(prompt)
    }

    fn fragment(&self, item: &Item, context: EncodeContext<'_>) -> Option<(Turn, Bytes)> {
        encode::fragment(&self.origin, item, context)
    }

    fn glue(&self, between: Between) -> &'static str {
        encode::glue(between)
    }

    fn tail(&self) -> &'static str {
        "]}"
    }

    /// At most three, and one after the system layer: the vendor allows four. The next cycle hits the
    /// breakpoint of the inbox entry, since the workspace after it is not sent again. The other two keep
    /// each step within the vendor's look-back of 20 blocks.
    fn breakpoints(&self, items: &[Item], prompt: &Prompt) -> Vec<usize> {
        let inbox = |current: bool| {
            items.iter().rposition(|item| match item {
                Item::Entry(entry) => {
                    entry.kind == EntryKind::Inbox && (entry.cycle == prompt.cycle) == current
                }
                Item::Layer(_) => false,
            })
        };
        let is_step = |item: &Item| match item {
            Item::Entry(entry) => entry.kind == EntryKind::Assistant && entry.cycle == prompt.cycle,
            Item::Layer(_) => false,
        };
        let before = match items.iter().rposition(is_step) {
            Some(step) => step.checked_sub(1),
            None => inbox(false),
        };
        [inbox(true), before, items.len().checked_sub(1)].into_iter().flatten().collect()
    }

    fn breakpoint(&self) -> &'static str {
        r#","cache_control":{"type":"ephemeral"}"#
    }

    fn replay(&self) -> ReasoningReplay {
        ReasoningReplay::Cycle
    }

    fn binds_reasoning(&self) -> bool {
        true
    }

    fn keeps_last_turn(&self) -> bool {
        matches!(self.thinking, AnthropicThinking::Manual { .. })
    }

    fn reasons(&self, entry: &Entry) -> bool {
        encode::reasons(&self.origin, entry)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(AnthropicDecoder::new(self.origin.clone()))
    }
}
