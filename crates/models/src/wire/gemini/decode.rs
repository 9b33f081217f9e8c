//! Decodes the stream of responses, each with further parts. Consecutive plain texts are joined; every
//! other part is kept as received, with its signature.

use agent::message::{Native, Origin};
use agent::port::{ModelError, PartKind, Piece, Reply, ReplyPart, StopReason};
use agent::run::Usage;
use net::sse::SseEvent;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::arguments::{self, Arguments};
use crate::wire::ids::{self, Ids};
use crate::wire::json::{self, RawObject};
use crate::wire::text::Pieces;
use crate::wire::{Decoder, failure};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiChunk {
    response_id: Option<String>,
    candidates: Option<Vec<Candidate>>,
    usage_metadata: Option<Box<RawValue>>,
    prompt_feedback: Option<Feedback>,
    error: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    index: Option<u64>,
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Content {
    parts: Option<Vec<RawObject>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GeminiUsage {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

impl GeminiUsage {
    /// Gemini counts thoughts separately from the candidates; a run counts them as output.
    fn usage(&self) -> Usage {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Usage {
            input: sum(self.prompt_token_count, self.tool_use_prompt_token_count),
            cached: self.cached_content_token_count,
            output: sum(self.candidates_token_count, self.thoughts_token_count),
            reasoning: self.thoughts_token_count,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum GeminiPartKind {
    Text,
    Reasoning,
    Call,
    /// Kept in the native block, but not shown.
    Other,
}

#[derive(Clone, Debug)]
struct GeminiPart {
    kind: GeminiPartKind,
    fields: RawObject,
    /// Its text, or the argument string.
    content: String,
    /// Whether it has nothing but text, so that more text may be appended.
    plain: bool,
    /// Its position among the parts of the reply, once shown.
    shown: Option<u32>,
}

/// A call whose arguments arrive in pieces.
#[derive(Clone, Debug)]
struct PartialCall {
    part: usize,
    arguments: Arguments,
}

/// Decodes one streamed generation.
#[derive(Clone, Debug)]
pub struct GeminiDecoder {
    origin: Origin,
    ids: Ids,
    parts: Vec<GeminiPart>,
    shown: u32,
    text: Pieces,
    thought: Pieces,
    partial_call: Option<PartialCall>,
    usage: Usage,
    stop: Option<StopReason>,
    /// Whether content arrived after the stop reason.
    after_stop: bool,
}

impl GeminiDecoder {
    /// A decoder at the beginning of a generation.
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            ids: Ids::default(),
            parts: Vec::new(),
            shown: 0,
            text: Pieces::default(),
            thought: Pieces::default(),
            partial_call: None,
            usage: Usage::default(),
            stop: None,
            after_stop: false,
        }
    }

    fn part(&mut self, fields: RawObject, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        json::room_for_part(self.parts.len())?;
        if let Some(call) = fields.get("functionCall") {
            let call = RawObject::parse(call).ok_or_else(|| garbage("a call is not an object"))?;
            return self.call(fields, &call, out);
        }
        let Some(raw) = fields.get("text") else {
            self.push(GeminiPartKind::Other, fields, false);
            return Ok(());
        };
        let thought = fields.get("thought") == Some("true");
        let text = if thought { &mut self.thought } else { &mut self.text }.take(Some(raw))?;
        let plain = fields.0.iter().all(|(key, _)| key == "text" || key == "thought");
        if plain && text.is_empty() {
            return Ok(());
        }
        let kind = if thought { GeminiPartKind::Reasoning } else { GeminiPartKind::Text };
        let continues = |last: &GeminiPart| plain && last.plain && last.kind == kind;
        let at = match self.parts.last() {
            Some(last) if continues(last) => self.parts.len() - 1,
            _ => self.push(kind, fields, plain),
        };
        self.append(at, text, out);
        Ok(())
    }

    fn push(&mut self, kind: GeminiPartKind, fields: RawObject, plain: bool) -> usize {
        self.parts.push(GeminiPart { kind, fields, content: String::new(), plain, shown: None });
        self.parts.len() - 1
    }

    /// A whole call, or the beginning, the middle or the end of one that arrives in pieces.
    fn call(&mut self, fields: RawObject, call: &RawObject, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        let more = call.get("willContinue") == Some("true");
        match call.text("name").filter(|name| !name.is_empty()) {
            Some(name) => {
                self.finish_call(out)?;
                let at = self.push(GeminiPartKind::Call, fields, false);
                self.begin(at, PartKind::ToolCall { name }, out);
                let pieces = call.get("partialArgs").is_some();
                if more || pieces {
                    self.partial_call = Some(PartialCall { part: at, arguments: Arguments::default() });
                } else {
                    self.append(at, call.get("args").unwrap_or_default().to_owned(), out);
                }
            }
            None if self.partial_call.is_none() => return Err(garbage("a call has no name")),
            None => self.update_signature(&fields),
        }
        let Some(partial_call) = self.partial_call.as_mut() else { return Ok(()) };
        let pieces = call.get("partialArgs").unwrap_or("[]");
        let pieces: Vec<arguments::Piece> = serde_json::from_str(pieces)
            .map_err(|error| garbage(&format!("the pieces of a call's arguments: {error}")))?;
        for piece in pieces {
            partial_call.arguments.add(piece)?;
        }
        if more { Ok(()) } else { self.finish_call(out) }
    }

    /// Stores a signature that arrives with a later piece of its call.
    fn update_signature(&mut self, fields: &RawObject) {
        let (Some(partial_call), Some(signature)) = (&self.partial_call, fields.get("thoughtSignature"))
        else {
            return;
        };
        self.parts[partial_call.part].fields.set("thoughtSignature", signature.to_owned());
    }

    /// Ends the call whose arguments arrived in pieces.
    fn finish_call(&mut self, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        let Some(partial_call) = self.partial_call.take() else { return Ok(()) };
        if let Some(arguments) = partial_call.arguments.whole()? {
            self.append(partial_call.part, arguments, out);
        }
        Ok(())
    }

    fn begin(&mut self, at: usize, kind: PartKind, out: &mut Vec<Piece>) -> u32 {
        let part = self.shown;
        self.shown += 1;
        self.parts[at].shown = Some(part);
        out.push(Piece::Start { part, kind });
        part
    }

    fn append(&mut self, at: usize, text: String, out: &mut Vec<Piece>) {
        if text.is_empty() {
            return;
        }
        self.parts[at].content.push_str(&text);
        let kind = match self.parts[at].kind {
            GeminiPartKind::Reasoning => PartKind::Reasoning,
            _ => PartKind::Text,
        };
        let part = match self.parts[at].shown {
            Some(part) => part,
            None => self.begin(at, kind, out),
        };
        out.push(Piece::Delta { part, text });
    }

    fn finish(&mut self, reason: &str, message: Option<String>) -> Result<(), ModelError> {
        let words = || match &message {
            Some(message) if !message.trim().is_empty() => format!("{reason}: {message}"),
            _ => reason.to_owned(),
        };
        self.stop = Some(match reason {
            "MAX_TOKENS" => StopReason::Length,
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "LANGUAGE"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => StopReason::Refused(format!("the vendor stopped it: {}", words())),
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "MALFORMED_RESPONSE"
            | "TOO_MANY_TOOL_CALLS"
            | "MISSING_THOUGHT_SIGNATURE"
            | "OTHER"
            | "NO_IMAGE" => {
                return Err(garbage(&format!("the vendor gave up the reply: {}", words())));
            }
            _ => StopReason::End,
        });
        Ok(())
    }

    fn feedback(&mut self, feedback: Feedback) {
        let Some(reason) = feedback.block_reason else { return };
        let words = feedback.block_reason_message.map_or(reason.clone(), |more| format!("{reason}: {more}"));
        self.stop = Some(StopReason::Refused(format!("the vendor blocked the prompt: {words}")));
    }

    /// The native block: each part as it will be sent back. `None` if a call had to be changed, since then
    /// its signature no longer fits.
    fn native(&mut self) -> Option<Native> {
        let mut body = String::from("[");
        let mut call_ids = Vec::new();
        let mut changed = false;
        for part in &mut self.parts {
            match part.kind {
                GeminiPartKind::Text | GeminiPartKind::Reasoning => {
                    part.fields.set_text("text", &part.content)
                }
                GeminiPartKind::Call => {
                    let call = part.fields.get("functionCall").and_then(RawObject::parse).unwrap_or_default();
                    call_ids.push(call.text("id").unwrap_or_default());
                    let dropped = ["args", "partialArgs", "willContinue"];
                    let mut call = RawObject(
                        call.0.into_iter().filter(|(key, _)| !dropped.contains(&key.as_str())).collect(),
                    );
                    let name = call.text("name").unwrap_or_default();
                    let (sound, args) = (json::valid_name(&name), json::valid_arguments(&part.content));
                    changed |= sound != name || (args != part.content && !part.content.trim().is_empty());
                    call.set_text("name", &sound);
                    call.set("args", args);
                    let mut text = String::new();
                    call.write(&mut text);
                    part.fields.set("functionCall", text);
                }
                GeminiPartKind::Other => {}
            }
            if body.len() > 1 {
                body.push(',');
            }
            part.fields.write(&mut body);
        }
        body.push(']');
        let origin = self.origin.clone();
        (!self.parts.is_empty() && !changed).then_some(Native { origin, body, call_ids })
    }

    fn reply_parts(&self) -> Vec<ReplyPart> {
        let part = |part: &GeminiPart| match part.kind {
            GeminiPartKind::Text if !part.content.is_empty() => Some(ReplyPart::Text(part.content.clone())),
            GeminiPartKind::Reasoning if !part.content.is_empty() => {
                Some(ReplyPart::Reasoning(part.content.clone()))
            }
            GeminiPartKind::Call => {
                let call = part.fields.get("functionCall").and_then(RawObject::parse).unwrap_or_default();
                let name = call.text("name").unwrap_or_default();
                Some(ReplyPart::Call { name, arguments: part.content.clone() })
            }
            _ => None,
        };
        self.parts.iter().filter_map(part).collect()
    }
}

impl Decoder for GeminiDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        if event.data.trim().is_empty() || event.data.trim() == "[DONE]" {
            return Ok(());
        }
        let chunk: GeminiChunk = serde_json::from_str(&event.data)
            .map_err(|error| garbage(&format!("a chunk has an unexpected form: {error}")))?;
        if chunk.error.is_some() {
            return Err(failure::in_stream(&event.data));
        }
        for candidate in chunk.candidates.unwrap_or_default() {
            // Only one candidate was requested.
            if candidate.index.unwrap_or(0) != 0 {
                continue;
            }
            let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
            if !parts.is_empty() {
                self.ids.take(chunk.response_id.as_deref().unwrap_or_default())?;
            }
            for part in parts {
                // After the stop reason only a signature belongs to the message.
                let words = part.text("text").is_some_and(|text| !text.is_empty());
                if self.stop.is_some() && (words || part.get("functionCall").is_some()) {
                    self.after_stop = true;
                } else {
                    self.part(part, out)?;
                }
            }
            match candidate.finish_reason.as_deref() {
                None | Some("" | "FINISH_REASON_UNSPECIFIED") => {}
                Some(reason) => {
                    self.finish_call(out)?;
                    self.finish(reason, candidate.finish_message)?;
                }
            }
        }
        if let Some(feedback) = chunk.prompt_feedback {
            self.feedback(feedback);
        }
        // Counts before the stop reason are preliminary; the final ones arrive with it or after it.
        let counts = chunk.usage_metadata.and_then(|raw| serde_json::from_str::<GeminiUsage>(raw.get()).ok());
        if let (true, Some(counts)) = (self.stop.is_some(), counts) {
            self.usage = counts.usage();
        }
        Ok(())
    }

    fn finished(&self) -> bool {
        self.stop.is_some()
    }

    /// Never: Gemini has no closing mark, and a signature or usage may follow the stop reason.
    fn closed(&self) -> bool {
        false
    }

    fn reply(mut self: Box<Self>) -> Result<Reply, ModelError> {
        let Some(stop) = self.stop.clone() else {
            return Err(ModelError::Cut("the stream ended before its `finishReason`".into()));
        };
        self.ids.check_single()?;
        if self.after_stop {
            return Err(ids::second_message());
        }
        self.text.whole().and(self.thought.whole())?;
        let parts = self.reply_parts();
        Ok(Reply { parts, native: self.native(), usage: self.usage, stop })
    }
}

fn garbage(what: &str) -> ModelError {
    ModelError::Garbage(what.to_owned())
}
