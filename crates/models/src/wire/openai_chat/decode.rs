//! Decodes the stream of chunks with the variations of different servers: several call deltas in one
//! chunk, missing or repeated ids, usage in different chunks, reasoning under three names, with or without
//! `[DONE]`.

use agent::message::{Native, Origin};
use agent::port::{ModelError, PartKind, Piece, Reply, ReplyPart, StopReason};
use agent::run::Usage;
use net::sse::SseEvent;

use super::calls::{self, ChatCall};
use super::chunk::{ChatChunk, ChatUsage, has_content, list, unsupported};
use super::encode::REASONING;
use super::shape::{Reader, Seen, Shape};
use super::{ToolMode, WIRE};
use crate::wire::ids::{self, Ids};
use crate::wire::json::{self, Merged, RawObject};
use crate::wire::text::{self, Pieces};
use crate::wire::{Decoder, failure};

/// A part of the reply. A call is an index into `calls`.
#[derive(Clone, Debug)]
enum ChatPart {
    Text(String),
    Reasoning(String),
    Call(usize),
}

/// Decodes one streamed completion.
#[derive(Clone, Debug)]
pub struct OpenAiDecoder {
    origin: Origin,
    /// The id of the first chunk.
    id: String,
    ids: Ids,
    parts: Vec<ChatPart>,
    calls: Vec<ChatCall>,
    /// Whether the last part is a call that is not shown yet, because more of its name may arrive.
    unshown: bool,
    /// The other fields of the message, merged over all deltas.
    fields: Merged,
    content: String,
    refusal: String,
    /// The pieces of the content, the readable reasoning and the refusal.
    pieces: [Pieces; 3],
    reader: Option<Reader>,
    usage: Usage,
    stop: Option<StopReason>,
    /// Whether content arrived after the stop reason.
    after_stop: bool,
    closed: bool,
}

impl OpenAiDecoder {
    /// A decoder at the beginning of a completion.
    pub fn new(origin: Origin, mode: ToolMode) -> Self {
        Self {
            origin,
            id: String::new(),
            ids: Ids::default(),
            parts: Vec::new(),
            calls: Vec::new(),
            unshown: false,
            fields: Merged::default(),
            content: String::new(),
            refusal: String::new(),
            pieces: Default::default(),
            reader: (mode == ToolMode::JsonSchema).then(Reader::new),
            usage: Usage::default(),
            stop: None,
            after_stop: false,
            closed: false,
        }
    }

    fn delta(&mut self, delta: RawObject, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        // Some servers (vLLM, OpenRouter) send the same reasoning under two names; the first is shown.
        let says = |key: &&&str| delta.get(key).is_some_and(|raw| raw.starts_with('"') && raw != r#""""#);
        let shown = REASONING[..2].iter().find(says);
        for (key, value) in &delta.0 {
            match key.as_str() {
                "role" => {}
                "function_call" if value.get() != "null" => {
                    return Err(unsupported("calls in the old form (`function_call`)"));
                }
                "content" => self.content_delta(value.get(), out)?,
                "tool_calls" => {
                    for call in list("tool_calls", value.get())? {
                        self.call_delta(&call, out)?;
                    }
                }
                "refusal" => self.refusal.push_str(&self.pieces[2].take(Some(value.get()))?),
                name => {
                    self.fields.merge(name, value.get(), None)?;
                    if shown.is_some_and(|shown| *shown == name) {
                        self.reasoning(Some(value.get()), out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Content is a string, or (Mistral) a list of typed chunks.
    fn content_delta(&mut self, raw: &str, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        if !raw.starts_with('[') {
            return self.text(Some(raw), out);
        }
        for chunk in list("content", raw)? {
            self.text(chunk.get("text"), out)?;
            for thought in list("thinking", chunk.get("thinking").unwrap_or("null"))? {
                self.reasoning(thought.get("text"), out)?;
            }
        }
        Ok(())
    }

    fn reasoning(&mut self, raw: Option<&str>, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        let text = self.pieces[1].take(raw)?;
        self.add_text(PartKind::Reasoning, text, out)
    }

    fn text(&mut self, raw: Option<&str>, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        let text = self.pieces[0].take(raw)?;
        self.content.push_str(&text);
        let Some(reader) = self.reader.as_mut() else {
            return self.add_text(PartKind::Text, text, out);
        };
        let mut seen = Vec::new();
        reader.push(&text, &mut seen);
        for seen in seen {
            // The reader finds one part; the reply takes the part's content from the reader at the end.
            match seen {
                Seen::Text => self.begin(ChatPart::Text(String::new()), PartKind::Text, out),
                Seen::Call(name) => {
                    let id = json::generated_id(&self.id, 0);
                    self.calls.push(ChatCall { id, name: name.clone(), ..ChatCall::default() });
                    self.begin(ChatPart::Call(0), PartKind::ToolCall { name }, out);
                }
                Seen::More(text) => self.append(text, out),
            }
        }
        Ok(())
    }

    fn begin(&mut self, part: ChatPart, kind: PartKind, out: &mut Vec<Piece>) {
        self.show_call(out);
        out.push(Piece::Start { part: self.parts.len() as u32, kind });
        self.parts.push(part);
    }

    fn begin_call(&mut self, call: ChatCall, out: &mut Vec<Piece>) {
        self.show_call(out);
        self.parts.push(ChatPart::Call(self.calls.len()));
        self.calls.push(call);
        self.unshown = true;
    }

    /// Shows the last call, whose name is now complete.
    fn show_call(&mut self, out: &mut Vec<Piece>) {
        if let (true, Some(ChatPart::Call(at))) = (std::mem::take(&mut self.unshown), self.parts.last()) {
            let kind = PartKind::ToolCall { name: self.calls[*at].name.clone() };
            out.push(Piece::Start { part: self.parts.len() as u32 - 1, kind });
        }
    }

    /// Appends to the last part.
    fn append(&mut self, text: String, out: &mut Vec<Piece>) {
        let part = self.parts.len().saturating_sub(1);
        match self.parts.last_mut() {
            Some(ChatPart::Text(content) | ChatPart::Reasoning(content)) => content.push_str(&text),
            Some(ChatPart::Call(call)) => self.calls[*call].arguments.push_str(&text),
            None => return,
        }
        out.push(Piece::Delta { part: part as u32, text });
    }

    /// Adds text or reasoning: to the last part if that is of the same kind, else to a new one.
    fn add_text(&mut self, kind: PartKind, text: String, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        let continues = matches!(
            (self.parts.last(), &kind),
            (Some(ChatPart::Text(_)), PartKind::Text) | (Some(ChatPart::Reasoning(_)), PartKind::Reasoning)
        );
        if !continues {
            let part = match kind {
                PartKind::Reasoning => ChatPart::Reasoning(String::new()),
                _ => ChatPart::Text(String::new()),
            };
            json::room_for_part(self.parts.len())?;
            self.begin(part, kind, out);
        }
        self.append(text, out);
        Ok(())
    }

    fn call_delta(&mut self, delta: &RawObject, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        let function = delta.get("function").and_then(RawObject::parse).unwrap_or_default();
        let (index, id) = (delta.number("index"), delta.text("id").unwrap_or_default());
        let name = text::whole(function.get("name"))?;
        let raw = function.get("arguments");
        let at = match calls::continued_call(&self.calls, index, &id, &name, raw.unwrap_or_default()) {
            Some(at) => at,
            None => {
                json::room_for_part(self.parts.len())?;
                self.begin_call(ChatCall { index, ..ChatCall::default() }, out);
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        // Some servers send the name in pieces before the arguments, others whole in every delta.
        if call.arguments.is_empty() && call.name != name {
            call.name.push_str(&name);
        }
        for (key, value) in &delta.0 {
            if !matches!(key.as_str(), "index" | "id" | "type" | "function") {
                call.fields.merge(key, value.get(), None)?;
            }
        }
        // Arguments are a string; some servers send an object, whose JSON is taken.
        let arguments = match raw {
            Some(raw) if raw.starts_with('{') => raw.to_owned(),
            raw => call.pieces.take(raw)?,
        };
        if arguments.is_empty() {
            return Ok(());
        }
        call.arguments.push_str(&arguments);
        self.show_call(out);
        let part = self.parts.iter().position(|part| matches!(part, ChatPart::Call(call) if *call == at));
        out.push(Piece::Delta { part: part.unwrap_or(0) as u32, text: arguments });
        Ok(())
    }

    fn finish(&mut self, reason: &str) -> Result<(), ModelError> {
        self.stop = Some(match reason {
            "length" | "max_tokens" => StopReason::Length,
            "content_filter" | "refusal" => {
                StopReason::Refused("the vendor's content filter stopped it".into())
            }
            "error" => return Err(failure::in_stream("{}")),
            // DeepSeek sends this when it is overloaded.
            "insufficient_system_resource" => {
                let message = reason.to_owned();
                return Err(ModelError::Overloaded { message, retry_after: None });
            }
            _ => StopReason::End,
        });
        Ok(())
    }

    fn native(&self) -> Native {
        let mut body = RawObject::default();
        body.set_text("role", "assistant");
        match self.content.is_empty() {
            true => body.set("content", "null".to_owned()),
            false => body.set_text("content", &self.content),
        }
        if !self.refusal.is_empty() {
            body.set_text("refusal", &self.refusal);
        }
        if !self.calls.is_empty() && self.origin.wire == WIRE {
            let calls = self.calls.iter().map(ChatCall::write);
            body.set("tool_calls", format!("[{}]", calls.collect::<Vec<_>>().join(",")));
        }
        self.fields.write_into(&mut body);
        let mut text = String::new();
        body.write(&mut text);
        let call_ids = self.calls.iter().map(|call| call.id.clone()).collect();
        Native { origin: self.origin.clone(), body: text, call_ids }
    }

    fn reply_parts(&self) -> Vec<ReplyPart> {
        let part = |part: &ChatPart| match part {
            ChatPart::Text(text) => ReplyPart::Text(text.clone()),
            ChatPart::Reasoning(text) => ReplyPart::Reasoning(text.clone()),
            ChatPart::Call(at) => ReplyPart::Call {
                name: self.calls[*at].name.clone(),
                arguments: self.calls[*at].arguments.clone(),
            },
        };
        let mut parts: Vec<ReplyPart> = self.parts.iter().map(part).collect();
        // An object that is neither a call nor a text was not shown while it arrived.
        let silent = !self.parts.iter().any(|part| !matches!(part, ChatPart::Reasoning(_)));
        if let (Some(Shape::Text(text)), true) = (self.reader.as_ref().map(Reader::shape), silent) {
            parts.push(ReplyPart::Text(text));
        }
        parts.retain(|part| !matches!(part, ReplyPart::Text(t) | ReplyPart::Reasoning(t) if t.is_empty()));
        parts
    }
}

impl Decoder for OpenAiDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        if event.data.trim() == "[DONE]" {
            self.closed = self.stop.is_some();
            return Ok(());
        }
        if event.name == "error" {
            return Err(failure::in_stream(&event.data));
        }
        if event.data.trim().is_empty() {
            return Ok(());
        }
        let chunk: ChatChunk = serde_json::from_str(&event.data)
            .map_err(|error| ModelError::Garbage(format!("a chunk has an unexpected form: {error}")))?;
        if chunk.error.is_some() {
            return Err(failure::in_stream(&event.data));
        }
        let id = chunk.id.as_ref().map_or("", |id| id.get().trim_matches('"'));
        if self.id.is_empty() {
            id.clone_into(&mut self.id);
        }
        for choice in chunk.choices.unwrap_or_default() {
            // Only one choice was requested.
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(error) = choice.error {
                return Err(failure::in_stream(&format!(r#"{{"error":{error}}}"#)));
            }
            if self.parts.is_empty() {
                choice.is_delta()?;
            }
            let delta = choice.delta.unwrap_or_default();
            if has_content(&delta) {
                self.ids.take(id)?;
                self.after_stop |= self.stop.is_some();
            }
            if self.after_stop {
                continue;
            }
            self.delta(delta, out)?;
            match choice.finish_reason.as_deref() {
                None | Some("") => {}
                Some(reason) => {
                    self.show_call(out);
                    self.finish(reason)?;
                }
            }
        }
        // Counts before the stop reason are preliminary; the final ones arrive with it or after it.
        let counts = chunk.usage.and_then(|raw| serde_json::from_str::<Option<ChatUsage>>(raw.get()).ok()?);
        if let (true, Some(counts)) = (self.stop.is_some(), counts) {
            self.usage = counts.usage();
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
            return Err(ModelError::Cut("the stream ended before its `finish_reason`".into()));
        };
        self.ids.check_single()?;
        if self.after_stop {
            return Err(ids::second_message());
        }
        let calls = self.calls.iter().map(|call| call.pieces.whole().and(call.fields.whole()));
        self.pieces
            .iter()
            .map(Pieces::whole)
            .chain(calls)
            .chain([self.fields.whole()])
            .collect::<Result<(), _>>()?;
        let stop = match (stop, self.refusal.is_empty()) {
            (StopReason::End, false) => StopReason::Refused(self.refusal.clone()),
            (stop, _) => stop,
        };
        calls::assign_ids(&mut self.calls, &self.id);
        let parts = self.reply_parts();
        Ok(Reply { parts, native: Some(self.native()), usage: self.usage, stop })
    }
}
