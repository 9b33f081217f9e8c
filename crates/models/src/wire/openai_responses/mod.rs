//! OpenAI's Responses wire without server-side state: every request holds the whole transcript, with
//! its reasoning encrypted.

mod decode;
mod encode;
mod wrapper;

use agent::message::Origin;
use agent::port::ReasoningReplay;
use agent::prompt::{Item, Prompt, ToolChoice};
use bytes::Bytes;

pub use decode::ResponsesDecoder;

use super::{Between, Decoder, EncodeContext, KeyHeader, Opening, Turn, Wire, json};

/// This wire's name in native blocks.
pub const WIRE: &str = "openai-responses";

/// The smallest output limit that the vendor accepts.
const OUTPUT_MIN: u32 = 16;

/// The wire, configured for one model.
#[derive(Clone, Debug)]
pub struct OpenAiResponses {
    /// The mark of this wire and model in native blocks.
    pub origin: Origin,
    /// Tokens reserved for the reply, reasoning included.
    pub max_output: u32,
    /// Sampling temperature, if set.
    pub temperature: Option<f64>,
    /// Reasoning effort, if set.
    pub effort: Option<String>,
    /// Whether the model returns its reasoning encrypted. Other models refuse a request for it.
    pub sealed_reasoning: bool,
}

impl OpenAiResponses {
    /// The wire with a model's own defaults.
    pub fn new(model: &str, max_output: u32) -> Self {
        Self {
            origin: Origin { wire: WIRE.to_owned(), model: model.to_owned() },
            max_output,
            temperature: None,
            effort: None,
            sealed_reasoning: true,
        }
    }
}

impl Wire for OpenAiResponses {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn path(&self) -> &str {
        "/responses"
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Bearer
    }

    fn headers(&self, _: Opening) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    fn opening(&self, prompt: &Prompt, _: Opening) -> Bytes {
        let mut out = format!(
            r#"{{"model":{},"stream":true,"store":false,"max_output_tokens":{}"#,
            json::string(&self.origin.model),
            self.max_output.max(OUTPUT_MIN)
        );
        if let Some(temperature) = self.temperature {
            out.push_str(&format!(r#","temperature":{temperature}"#));
        }
        if self.sealed_reasoning {
            out.push_str(r#","include":["reasoning.encrypted_content"]"#);
        }
        if let Some(effort) = &self.effort {
            out.push_str(&format!(r#","reasoning":{{"effort":{}}}"#, json::string(effort)));
        }
        // Each agent has its own system layer, so its requests use the same cache.
        out.push_str(&format!(r#","prompt_cache_key":"viv-{}""#, json::fingerprint(&prompt.system)));
        if !prompt.tools.is_empty() {
            match prompt.choice {
                ToolChoice::Auto => {}
                ToolChoice::Required => out.push_str(r#","tool_choice":"required""#),
                ToolChoice::None => out.push_str(r#","tool_choice":"none""#),
            }
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

    fn replay(&self) -> ReasoningReplay {
        ReasoningReplay::Cycle
    }

    /// Encrypted reasoning can be decrypted only for the organization and the model that created it.
    fn refuses_reasoning(&self, status: u16, text: &str) -> bool {
        let about = text.contains("invalid_encrypted_content")
            || (text.contains("encrypted content") && text.contains("could not be verified"));
        status == 400 && about
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(ResponsesDecoder::new(self.origin.clone()))
    }
}
