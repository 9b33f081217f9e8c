//! Decodes the stream of content blocks. Each block is kept as received, with unknown fields, in the
//! native block; text, reasoning and calls are also shown.

use agent::message::{Native, Origin};
use agent::port::{ModelError, PartKind, Piece, Reply, ReplyPart, StopReason};
use agent::run::Usage;
use net::sse::SseEvent;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::wire::ids;
use crate::wire::json::{self, Merged, RawObject};
use crate::wire::text::{self, Pieces};
use crate::wire::{Decoder, failure};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnthropicBlockKind {
    Text,
    Reasoning,
    Call,
    /// Kept in the native block, but not shown.
    Other,
}

#[derive(Clone, Debug)]
struct Block {
    index: u64,
    kind: AnthropicBlockKind,
    fields: RawObject,
    /// The deltas of fields that are not shown.
    merged: Merged,
    /// Its content: text, reasoning, or the argument string.
    content: String,
    pieces: Pieces,
    signature: String,
    /// Its position among the parts, once shown.
    part: Option<u32>,
}

impl Block {
    fn keep(&mut self, key: &str, json: &str) -> Result<(), ModelError> {
        self.merged.merge(key, json, self.fields.get(key))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
struct AnthropicUsage {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<AnthropicOutputDetails>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct AnthropicOutputDetails {
    thinking_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct AnthropicMessage {
    #[serde(rename = "type", default)]
    kind: String,
    index: Option<u64>,
    message: Option<Start>,
    content_block: Option<RawObject>,
    delta: Option<RawObject>,
    usage: Option<Box<RawValue>>,
    input_transformations: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct Start {
    id: Option<String>,
    usage: Option<Box<RawValue>>,
    input_transformations: Option<Box<RawValue>>,
}

/// Decodes one streamed message.
#[derive(Clone, Debug)]
pub struct AnthropicDecoder {
    origin: Origin,
    id: String,
    /// Number of messages that began in the stream; more than one is an error.
    begun: u32,
    blocks: Vec<Block>,
    parts: u32,
    counts: AnthropicUsage,
    stop: Option<StopReason>,
    closed: bool,
}

impl AnthropicDecoder {
    /// A decoder at the beginning of a message.
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            id: String::new(),
            begun: 0,
            blocks: Vec::new(),
            parts: 0,
            counts: AnthropicUsage::default(),
            stop: None,
            closed: false,
        }
    }

    fn start(&mut self, start: Start) -> Result<(), ModelError> {
        let id = start.id.unwrap_or_default();
        // A proxy may send the beginning twice: as long as nothing of the message came, that is no second message.
        let is_repeat = self.begun == 1 && !id.is_empty() && id == self.id && self.blocks.is_empty();
        self.begun = self.begun.saturating_add(u32::from(!is_repeat));
        self.check_single()?;
        self.id = id;
        log_drops(start.input_transformations);
        if let Some(counts) = counts(start.usage) {
            // The output count here is preliminary; the final one arrives at the end.
            self.counts = AnthropicUsage { output_tokens: None, output_tokens_details: None, ..counts };
        }
        Ok(())
    }

    fn check_single(&self) -> Result<(), ModelError> {
        if self.begun > 1 { Err(ids::second_message()) } else { Ok(()) }
    }

    fn block_start(&mut self, index: u64, fields: RawObject, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        json::room_for_part(self.blocks.len())?;
        let kind = match fields.text("type").as_deref() {
            Some("text") => AnthropicBlockKind::Text,
            Some("thinking") => AnthropicBlockKind::Reasoning,
            Some("tool_use") => AnthropicBlockKind::Call,
            _ => AnthropicBlockKind::Other,
        };
        let first = match kind {
            AnthropicBlockKind::Text => fields.get("text"),
            AnthropicBlockKind::Reasoning => fields.get("thinking"),
            AnthropicBlockKind::Call | AnthropicBlockKind::Other => None,
        };
        let mut pieces = Pieces::default();
        let first = pieces.take(first)?;
        let signature = text::whole(fields.get("signature"))?;
        let name = fields.text("name").unwrap_or_default();
        let (merged, content) = (Merged::default(), String::new());
        self.blocks.push(Block { index, kind, fields, merged, content, pieces, signature, part: None });
        let at = self.blocks.len() - 1;
        if kind == AnthropicBlockKind::Call {
            self.blocks[at].part = Some(self.parts);
            out.push(Piece::Start { part: self.parts, kind: PartKind::ToolCall { name } });
            self.parts += 1;
        }
        self.append(at, first, out);
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: &RawObject, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        let kind = delta.text("type").unwrap_or_default();
        let at = match self.blocks.iter().rposition(|block| block.index == index) {
            Some(at) => at,
            // A delta whose block was not announced: text and reasoning are shown anyway.
            None => {
                let begun = match kind.as_str() {
                    "text_delta" => r#"{"type":"text","text":""}"#,
                    "thinking_delta" => r#"{"type":"thinking","thinking":""}"#,
                    _ => return Ok(()),
                };
                self.block_start(index, RawObject::parse(begun).unwrap_or_default(), out)?;
                self.blocks.len() - 1
            }
        };
        let block = &mut self.blocks[at];
        let content = match kind.as_str() {
            "text_delta" => delta.get("text"),
            "thinking_delta" => delta.get("thinking"),
            "input_json_delta" => delta.get("partial_json"),
            "signature_delta" => {
                block.signature.push_str(&text::whole(delta.get("signature"))?);
                None
            }
            "citations_delta" => {
                if let Some(citation) = delta.get("citation") {
                    block.keep("citations", &format!("[{citation}]"))?;
                }
                None
            }
            _ => {
                for (key, value) in delta.0.iter().filter(|(key, _)| key != "type") {
                    block.keep(key, value.get())?;
                }
                None
            }
        };
        let text = block.pieces.take(content)?;
        self.append(at, text, out);
        Ok(())
    }

    /// Appends to a block's content, and shows it unless the kind is hidden.
    fn append(&mut self, at: usize, text: String, out: &mut Vec<Piece>) {
        if text.is_empty() {
            return;
        }
        let block = &mut self.blocks[at];
        block.content.push_str(&text);
        let kind = match block.kind {
            AnthropicBlockKind::Text => PartKind::Text,
            AnthropicBlockKind::Reasoning => PartKind::Reasoning,
            AnthropicBlockKind::Call => PartKind::ToolCall { name: String::new() },
            AnthropicBlockKind::Other => return,
        };
        let part = match block.part {
            Some(part) => part,
            None => {
                let part = self.parts;
                self.parts += 1;
                block.part = Some(part);
                out.push(Piece::Start { part, kind });
                part
            }
        };
        out.push(Piece::Delta { part, text });
    }

    fn message_delta(&mut self, delta: Option<RawObject>, usage: Option<Box<RawValue>>) {
        let delta = delta.unwrap_or_default();
        let Some(reason) = delta.text("stop_reason") else { return };
        self.stop = Some(match reason.as_str() {
            // A paused turn must be continued, like one that reached the limit.
            "max_tokens" | "model_context_window_exceeded" | "pause_turn" => StopReason::Length,
            "refusal" => StopReason::Refused(refusal(&delta)),
            _ => StopReason::End,
        });
        if let Some(late) = counts(usage) {
            let counts = &mut self.counts;
            counts.input_tokens = late.input_tokens.or(counts.input_tokens);
            counts.cache_creation_input_tokens =
                late.cache_creation_input_tokens.or(counts.cache_creation_input_tokens);
            counts.cache_read_input_tokens = late.cache_read_input_tokens.or(counts.cache_read_input_tokens);
            counts.output_tokens = late.output_tokens;
            counts.output_tokens_details = late.output_tokens_details;
        }
    }

    fn usage(&self) -> Usage {
        let counts = &self.counts;
        // Anthropic counts cached tokens separately from the input; a run counts them as input.
        let cached = [counts.cache_creation_input_tokens, counts.cache_read_input_tokens];
        let input = counts
            .input_tokens
            .map(|fresh| cached.into_iter().flatten().fold(fresh, |sum, tokens| sum.saturating_add(tokens)));
        Usage {
            input,
            cached: counts.cache_read_input_tokens,
            output: counts.output_tokens,
            reasoning: counts.output_tokens_details.as_ref().and_then(|details| details.thinking_tokens),
        }
    }

    /// The native block: each content block as it will be sent back.
    fn native(&mut self) -> Option<Native> {
        // Reasoning that the limit cut has no signature, and the vendor would refuse it.
        let cut = self.stop == Some(StopReason::Length);
        if cut
            && self
                .blocks
                .last()
                .is_some_and(|b| b.kind == AnthropicBlockKind::Reasoning && b.signature.is_empty())
        {
            self.blocks.pop();
        }
        let mut body = String::from("[");
        let mut call_ids: Vec<String> = Vec::new();
        for (position, block) in self.blocks.iter_mut().enumerate() {
            block.merged.write_into(&mut block.fields);
            match block.kind {
                AnthropicBlockKind::Text => block.fields.set_text("text", &block.content),
                AnthropicBlockKind::Reasoning => {
                    block.fields.set_text("thinking", &block.content);
                    block.fields.set_text("signature", &block.signature);
                }
                AnthropicBlockKind::Call => {
                    let given = block.fields.text("id").unwrap_or_default();
                    let taken = given.is_empty() || call_ids.contains(&given);
                    let id = if taken { json::generated_id(&self.id, position) } else { given };
                    block.fields.set_text("id", &id);
                    call_ids.push(id);
                    let name = block.fields.text("name").unwrap_or_default();
                    block.fields.set_text("name", &json::valid_name(&name));
                    block.fields.set("input", json::valid_arguments(&block.content));
                }
                AnthropicBlockKind::Other if !block.content.is_empty() => {
                    block.fields.set("input", json::valid_arguments(&block.content));
                }
                AnthropicBlockKind::Other => {}
            }
            if position > 0 {
                body.push(',');
            }
            block.fields.write(&mut body);
        }
        body.push(']');
        let origin = self.origin.clone();
        (!self.blocks.is_empty()).then_some(Native { origin, body, call_ids })
    }
}

impl Decoder for AnthropicDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        if event.name == "error" {
            return Err(failure::in_stream(&event.data));
        }
        let message: AnthropicMessage = serde_json::from_str(&event.data)
            .map_err(|error| ModelError::Garbage(format!("an event has an unexpected form: {error}")))?;
        match message.kind.as_str() {
            "message_start" => self.start(message.message.ok_or_else(|| missing_field("message"))?)?,
            // After the stop reason no block belongs to the message.
            "content_block_start" | "content_block_delta" if self.stop.is_some() => self.begun = 2,
            "content_block_start" => {
                let fields = message.content_block.ok_or_else(|| missing_field("content_block"))?;
                self.block_start(message.index.unwrap_or(self.blocks.len() as u64), fields, out)?;
            }
            "content_block_delta" => {
                let delta = message.delta.ok_or_else(|| missing_field("delta"))?;
                self.delta(message.index.unwrap_or(0), &delta, out)?;
            }
            "content_block_stop" => self.block_stop(message.index.unwrap_or(0), out),
            "message_delta" => {
                log_drops(message.input_transformations);
                self.message_delta(message.delta, message.usage);
            }
            "message_stop" => self.closed = self.stop.is_some(),
            "error" => return Err(failure::in_stream(&event.data)),
            // Pings, and unknown events.
            _ => {}
        }
        Ok(())
    }

    fn finished(&self) -> bool {
        self.stop.is_some()
    }

    fn closed(&self) -> bool {
        self.closed
    }

    fn reply(mut self: Box<Self>) -> Result<Reply, ModelError> {
        let Some(stop) = self.stop.clone() else {
            return Err(ModelError::Cut("the stream ended before its `stop_reason`".into()));
        };
        self.check_single()?;
        self.blocks.iter().try_for_each(|block| block.pieces.whole().and(block.merged.whole()))?;
        let parts = self.blocks.iter().filter_map(|block| match block.kind {
            AnthropicBlockKind::Text if !block.content.is_empty() => {
                Some(ReplyPart::Text(block.content.clone()))
            }
            AnthropicBlockKind::Reasoning if !block.content.is_empty() => {
                Some(ReplyPart::Reasoning(block.content.clone()))
            }
            AnthropicBlockKind::Call => Some(ReplyPart::Call {
                name: block.fields.text("name").unwrap_or_default(),
                arguments: block.content.clone(),
            }),
            _ => None,
        });
        let parts = parts.collect();
        Ok(Reply { parts, native: self.native(), usage: self.usage(), stop })
    }
}

impl AnthropicDecoder {
    /// Ends a block. Some servers send a call's whole input at its start; it is shown here.
    fn block_stop(&mut self, index: u64, out: &mut Vec<Piece>) {
        let Some(at) = self.blocks.iter().rposition(|block| block.index == index) else { return };
        let block = &self.blocks[at];
        if block.kind != AnthropicBlockKind::Call || !block.content.is_empty() {
            return;
        }
        let whole = block.fields.get("input").unwrap_or("{}").to_owned();
        if whole.replace(char::is_whitespace, "") != "{}" && json::is_object(&whole) {
            self.append(at, whole, out);
        }
    }
}

fn refusal(delta: &RawObject) -> String {
    let details = delta.get("stop_details").and_then(RawObject::parse).unwrap_or_default();
    let word = details.text("explanation").or_else(|| details.text("category"));
    word.unwrap_or_else(|| "the vendor refused to go on".to_owned())
}

fn missing_field(field: &str) -> ModelError {
    ModelError::Garbage(format!("an event lacks its `{field}`"))
}

/// The token counts; `None` if they cannot be parsed, which is not an error.
fn counts(raw: Option<Box<RawValue>>) -> Option<AnthropicUsage> {
    serde_json::from_str(raw?.get()).ok()
}

fn log_drops(transformations: Option<Box<RawValue>>) {
    let list: Option<Vec<IgnoredAny>> = transformations.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let dropped = list.map_or(0, |list| list.len());
    if dropped > 0 {
        tracing::warn!(dropped, "the vendor transformed the input: reasoning was dropped");
    }
}
