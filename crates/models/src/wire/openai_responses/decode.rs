//! Decodes the stream of events about output items. The final form of each item is kept; text, summaries
//! of reasoning and calls are shown while they arrive.

use agent::message::{Native, Origin};
use agent::port::{ModelError, PartKind, Piece, Reply, ReplyPart, StopReason};
use agent::run::Usage;
use net::sse::SseEvent;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{encode, wrapper};
use crate::wire::ids;
use crate::wire::json::{self, RawObject};
use crate::wire::text::{self, Pieces};
use crate::wire::{Decoder, failure};

#[derive(Debug, Deserialize)]
struct ResponsesMessage {
    #[serde(rename = "type", default)]
    kind: String,
    output_index: Option<u64>,
    summary_index: Option<u64>,
    content_index: Option<u64>,
    item: Option<RawObject>,
    delta: Option<Box<RawValue>>,
    response: Option<RawObject>,
}

#[derive(Debug, Default, Deserialize)]
struct ResponsesUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<ResponsesOutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
struct ResponsesOutputDetails {
    reasoning_tokens: Option<u64>,
}

impl ResponsesUsage {
    fn usage(&self) -> Usage {
        Usage {
            input: self.input_tokens,
            cached: self.input_tokens_details.as_ref().and_then(|details| details.cached_tokens),
            output: self.output_tokens,
            reasoning: self.output_tokens_details.as_ref().and_then(|details| details.reasoning_tokens),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponsesItemKind {
    Text,
    Reasoning,
    Call,
    /// A call that is shown only when it is known whether it wraps other calls.
    Wrapper,
    /// Kept in the native block, but not shown.
    Other,
}

#[derive(Clone, Debug)]
struct OutputItem {
    index: u64,
    kind: ResponsesItemKind,
    fields: RawObject,
    done: bool,
    /// Its content: text, a summary of reasoning, or the argument string.
    content: String,
    pieces: Pieces,
    /// The part of its content or summary that the last delta belonged to.
    section: u64,
    /// Its position among the parts of the reply, once shown.
    part: Option<u32>,
}

/// Decodes one streamed response.
#[derive(Clone, Debug)]
pub struct ResponsesDecoder {
    origin: Origin,
    id: String,
    begun: bool,
    items: Vec<OutputItem>,
    /// The ids of wrappers that were replaced by the calls in them.
    unwrapped: Vec<String>,
    parts: u32,
    refusal: String,
    refusing: Pieces,
    usage: Usage,
    stop: Option<StopReason>,
}

impl ResponsesDecoder {
    /// A decoder at the beginning of a response.
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            id: String::new(),
            begun: false,
            items: Vec::new(),
            unwrapped: Vec::new(),
            parts: 0,
            refusal: String::new(),
            refusing: Pieces::default(),
            usage: Usage::default(),
            stop: None,
        }
    }

    fn added(&mut self, index: u64, fields: RawObject, out: &mut Vec<Piece>) -> Result<usize, ModelError> {
        json::room_for_part(self.items.len())?;
        let name = fields.text("name").unwrap_or_default();
        let kind = match fields.text("type").as_deref() {
            Some("message") => ResponsesItemKind::Text,
            Some("reasoning") => ResponsesItemKind::Reasoning,
            Some("function_call") if wrapper::may_be(&name) => ResponsesItemKind::Wrapper,
            Some("function_call") => ResponsesItemKind::Call,
            _ => ResponsesItemKind::Other,
        };
        let (content, pieces, section) = (String::new(), Pieces::default(), 0);
        self.items.push(OutputItem {
            index,
            kind,
            fields,
            done: false,
            content,
            pieces,
            section,
            part: None,
        });
        let at = self.items.len() - 1;
        if kind == ResponsesItemKind::Call {
            self.begin(at, PartKind::ToolCall { name }, out);
        }
        Ok(at)
    }

    /// The item that an event is about: the one with `index`, else the last that is not done.
    fn item_at(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(index) => self.items.iter().rposition(|item| item.index == index),
            None => self.items.iter().rposition(|item| !item.done),
        }
    }

    /// The item whose final form is `fields`, for an event without an index. The fields that both have must
    /// be equal; an item that is done already matches only by its id.
    fn matching_item(&self, fields: &RawObject) -> Option<usize> {
        let same = |item: &OutputItem, key: &str| match (item.fields.get(key), fields.get(key)) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        self.items.iter().position(|item| {
            let by_id = item.fields.get("id").is_some() && fields.get("id").is_some();
            ["type", "id", "call_id"].iter().all(|key| same(item, key)) && (by_id || !item.done)
        })
    }

    /// Whether these are the fields of that item: by their ids, else by what they say.
    fn is_same(&self, at: usize, fields: &RawObject) -> bool {
        let known = &self.items[at].fields;
        let ids =
            ["id", "call_id"].into_iter().filter(|key| known.get(key).is_some() && fields.get(key).is_some());
        let ids: Vec<&str> = ids.collect();
        let said: &[&str] = &["type", "name", "arguments", "content", "summary"];
        let keys = if ids.is_empty() { said } else { &ids[..] };
        keys.iter().all(|key| known.get(key) == fields.get(key))
    }

    /// An index that no item has.
    fn next_index(&self) -> u64 {
        self.items.iter().map(|item| item.index.saturating_add(1)).max().unwrap_or(0)
    }

    fn begin(&mut self, at: usize, kind: PartKind, out: &mut Vec<Piece>) -> u32 {
        let part = self.parts;
        self.parts += 1;
        self.items[at].part = Some(part);
        out.push(Piece::Start { part, kind });
        part
    }

    /// A delta to an item's content. `kind` is the kind in the event; an item that was not announced is
    /// started with it.
    fn delta(
        &mut self,
        kind: ResponsesItemKind,
        message: &ResponsesMessage,
        out: &mut Vec<Piece>,
    ) -> Result<(), ModelError> {
        let at = match self.item_at(message.output_index) {
            Some(at) if !self.items[at].done => at,
            _ => {
                let begun = match kind {
                    ResponsesItemKind::Text => r#"{"type":"message"}"#,
                    ResponsesItemKind::Reasoning => r#"{"type":"reasoning"}"#,
                    _ => return Ok(()),
                };
                let index = message.output_index.unwrap_or_else(|| self.next_index());
                self.added(index, RawObject::parse(begun).unwrap_or_default(), out)?
            }
        };
        let section = message.summary_index.or(message.content_index).unwrap_or(0);
        let item = &mut self.items[at];
        let text = item.pieces.take(message.delta.as_deref().map(RawValue::get))?;
        // The sections of a summary become paragraphs.
        let is_new_section =
            item.kind == ResponsesItemKind::Reasoning && section != item.section && !item.content.is_empty();
        item.section = section;
        if is_new_section {
            self.append(at, "\n\n".to_owned(), out);
        }
        self.append(at, text, out);
        Ok(())
    }

    /// Appends to an item's content, and shows it unless the kind is hidden.
    fn append(&mut self, at: usize, text: String, out: &mut Vec<Piece>) {
        if text.is_empty() {
            return;
        }
        self.items[at].content.push_str(&text);
        let kind = match self.items[at].kind {
            ResponsesItemKind::Text => PartKind::Text,
            ResponsesItemKind::Reasoning => PartKind::Reasoning,
            ResponsesItemKind::Call => PartKind::ToolCall { name: String::new() },
            ResponsesItemKind::Wrapper | ResponsesItemKind::Other => return,
        };
        let part = match self.items[at].part {
            Some(part) => part,
            None => self.begin(at, kind, out),
        };
        out.push(Piece::Delta { part, text });
    }

    /// Takes an item's final form, and shows the part that was not streamed.
    fn done(
        &mut self,
        index: Option<u64>,
        fields: RawObject,
        out: &mut Vec<Piece>,
    ) -> Result<(), ModelError> {
        if self.unwrapped.contains(&fields.text("call_id").unwrap_or_default()) {
            return Ok(());
        }
        // A server may use an index twice; then what is done already is another item.
        let at_index = |index| {
            self.item_at(Some(index)).filter(|at| !self.items[*at].done || self.is_same(*at, &fields))
        };
        let at = match index.map_or_else(|| self.matching_item(&fields), at_index) {
            Some(at) if self.items[at].done => return Ok(()),
            Some(at) => at,
            None => self.added(index.unwrap_or_else(|| self.next_index()), fields.clone(), out)?,
        };
        let whole = match self.items[at].kind {
            ResponsesItemKind::Text => section_texts(&fields, "content", "text")?.concat(),
            ResponsesItemKind::Reasoning => section_texts(&fields, "summary", "text")?.join("\n\n"),
            ResponsesItemKind::Call | ResponsesItemKind::Wrapper => text::whole(fields.get("arguments"))?,
            ResponsesItemKind::Other => String::new(),
        };
        let refused = section_texts(&fields, "content", "refusal")?.concat();
        if self.refusal.is_empty() {
            self.refusal = refused;
        }
        let is_call = matches!(self.items[at].kind, ResponsesItemKind::Call | ResponsesItemKind::Wrapper);
        match whole.strip_prefix(self.items[at].content.as_str()) {
            Some(rest) => {
                // The final form has the complete characters, even if the last delta ended with half of one.
                self.items[at].pieces = Pieces::default();
                self.append(at, rest.to_owned(), out);
            }
            None if is_call && !whole.is_empty() => {
                return Err(ModelError::Garbage(
                    "the final arguments of a call differ from those that were streamed".into(),
                ));
            }
            None => {}
        }
        self.items[at].fields = fields;
        self.items[at].done = true;
        if self.items[at].kind == ResponsesItemKind::Wrapper {
            self.unwrap(at, out)?;
        }
        Ok(())
    }

    /// Replaces a wrapper by the calls in it, or shows it as an ordinary call.
    fn unwrap(&mut self, at: usize, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        let content = std::mem::take(&mut self.items[at].content);
        let Some(calls) = wrapper::unwrap(&content) else {
            let name = self.items[at].fields.text("name").unwrap_or_default();
            self.items[at].kind = ResponsesItemKind::Call;
            self.begin(at, PartKind::ToolCall { name }, out);
            self.append(at, content, out);
            return Ok(());
        };
        // Added at the end, after calls that were shown in the meantime, so that ids are in the order shown.
        let outer = self.items.remove(at);
        let id = outer.fields.text("call_id").unwrap_or_default();
        self.unwrapped.push(id.clone());
        for (position, (name, arguments)) in calls.into_iter().enumerate() {
            let mut fields = RawObject::default();
            fields.set_text("type", "function_call");
            fields.set_text("call_id", &format!("{id}_{position}"));
            fields.set_text("name", &name);
            let inner = self.added(outer.index, fields, out)?;
            self.items[inner].done = true;
            self.append(inner, arguments, out);
        }
        Ok(())
    }

    fn end(&mut self, response: &RawObject, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        // Some servers stream no items and send them only here.
        let output = response.get("output").and_then(|raw| serde_json::from_str::<Vec<RawObject>>(raw).ok());
        if let (true, Some(output)) = (self.items.is_empty(), output) {
            for (index, fields) in output.into_iter().enumerate() {
                self.done(Some(index as u64), fields, out)?;
            }
        }
        for at in (0..self.items.len()).rev() {
            if self.items[at].kind == ResponsesItemKind::Wrapper {
                self.unwrap(at, out)?;
            }
        }
        let counts =
            response.get("usage").and_then(|raw| serde_json::from_str::<Option<ResponsesUsage>>(raw).ok()?);
        if let Some(counts) = counts {
            self.usage = counts.usage();
        }
        Ok(())
    }

    fn incomplete(&self, response: &RawObject) -> StopReason {
        let details = response.get("incomplete_details").and_then(RawObject::parse).unwrap_or_default();
        match details.text("reason").as_deref() {
            Some("content_filter") => {
                StopReason::Refused("the vendor's content filter stopped it".to_owned())
            }
            // For any other reason the reply is incomplete too.
            _ => StopReason::Length,
        }
    }

    /// Gives all calls unique ids, which will be sent back.
    fn assign_ids(&mut self) -> Vec<String> {
        let mut ids: Vec<String> = Vec::new();
        for (position, item) in
            self.items.iter_mut().enumerate().filter(|(_, item)| item.kind == ResponsesItemKind::Call)
        {
            let given = item.fields.text("call_id").unwrap_or_default();
            let taken = given.is_empty() || ids.contains(&given);
            let id = if taken { json::generated_id(&self.id, position) } else { given };
            item.fields.set_text("call_id", &id);
            ids.push(id);
        }
        ids
    }

    /// The native block: each item as it will be sent back.
    fn native(&mut self) -> Option<Native> {
        let call_ids = self.assign_ids();
        let mut written = Vec::new();
        for item in &mut self.items {
            let mut text = String::new();
            match item.kind {
                ResponsesItemKind::Call => {
                    let name = item.fields.text("name").unwrap_or_default();
                    item.fields.set_text("name", &json::valid_name(&name));
                    item.fields.set_text("arguments", &json::valid_arguments(&item.content));
                    if !item.done {
                        item.fields.0.retain(|(key, _)| key != "status");
                    }
                    item.fields.write(&mut text);
                }
                // A text that did not end is kept as far as it was streamed. Reasoning that did not end is
                // not encrypted, and the vendor would refuse it.
                ResponsesItemKind::Text if !item.done => text = encode::assistant_text(&item.content),
                ResponsesItemKind::Reasoning if !item.done => continue,
                _ => item.fields.write(&mut text),
            }
            written.push(text);
        }
        let body = format!("[{}]", written.join(","));
        (!written.is_empty()).then(|| Native { origin: self.origin.clone(), body, call_ids })
    }
}

impl Decoder for ResponsesDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        if event.data.trim().is_empty() || event.data.trim() == "[DONE]" {
            return Ok(());
        }
        if event.name == "error" {
            return Err(failure::in_stream(&event.data));
        }
        let mut message: ResponsesMessage = serde_json::from_str(&event.data)
            .map_err(|error| ModelError::Garbage(format!("an event has an unexpected form: {error}")))?;
        let response = message.response.take().unwrap_or_default();
        match message.kind.as_str() {
            "response.created" => {
                let id = response.text("id").unwrap_or_default();
                if self.begun && (id != self.id || !self.items.is_empty()) {
                    return Err(ids::second_message());
                }
                (self.begun, self.id) = (true, id);
            }
            "response.output_item.added" => {
                let fields = message.item.ok_or_else(|| missing_field("item"))?;
                self.added(message.output_index.unwrap_or_else(|| self.next_index()), fields, out)?;
            }
            "response.output_item.done" => {
                let fields = message.item.ok_or_else(|| missing_field("item"))?;
                self.done(message.output_index, fields, out)?;
            }
            "response.output_text.delta" => self.delta(ResponsesItemKind::Text, &message, out)?,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.delta(ResponsesItemKind::Reasoning, &message, out)?;
            }
            "response.function_call_arguments.delta" => self.delta(ResponsesItemKind::Call, &message, out)?,
            "response.refusal.delta" => {
                let delta = message.delta.as_deref().map(RawValue::get);
                self.refusal.push_str(&self.refusing.take(delta)?);
            }
            "response.completed" => {
                self.end(&response, out)?;
                self.stop = Some(StopReason::End);
            }
            "response.incomplete" => {
                self.end(&response, out)?;
                self.stop = Some(self.incomplete(&response));
            }
            "response.failed" => {
                let error = response.get("error").unwrap_or("{}");
                return Err(failure::in_stream(&format!(r#"{{"error":{error}}}"#)));
            }
            "error" => return Err(failure::in_stream(&event.data)),
            // An error in a gateway's own format.
            "" if event.data.contains("\"error\"") => return Err(failure::in_stream(&event.data)),
            // Events without new content, and unknown ones.
            _ => {}
        }
        Ok(())
    }

    fn finished(&self) -> bool {
        self.stop.is_some()
    }

    fn closed(&self) -> bool {
        self.stop.is_some()
    }

    fn reply(mut self: Box<Self>) -> Result<Reply, ModelError> {
        let Some(stop) = self.stop.clone() else {
            return Err(ModelError::Cut("the stream ended before `response.completed`".into()));
        };
        self.refusing.whole()?;
        self.items.iter().try_for_each(|item| item.pieces.whole())?;
        let stop = match (stop, self.refusal.is_empty()) {
            (StopReason::End, false) => StopReason::Refused(self.refusal.clone()),
            (stop, _) => stop,
        };
        let part = |item: &OutputItem| match item.kind {
            ResponsesItemKind::Text if !item.content.is_empty() => {
                Some(ReplyPart::Text(item.content.clone()))
            }
            ResponsesItemKind::Reasoning if !item.content.is_empty() => {
                Some(ReplyPart::Reasoning(item.content.clone()))
            }
            ResponsesItemKind::Call => Some(ReplyPart::Call {
                name: item.fields.text("name").unwrap_or_default(),
                arguments: item.content.clone(),
            }),
            _ => None,
        };
        // Parts are numbered in the order in which they were shown.
        let mut shown: Vec<&OutputItem> = self.items.iter().collect();
        shown.sort_by_key(|item| item.part);
        let parts = shown.into_iter().filter_map(part).collect();
        Ok(Reply { parts, native: self.native(), usage: self.usage, stop })
    }
}

/// The texts of an item's content or summary.
fn section_texts(fields: &RawObject, list: &str, key: &str) -> Result<Vec<String>, ModelError> {
    let parts = fields.get(list).and_then(|raw| serde_json::from_str::<Vec<RawObject>>(raw).ok());
    let parts = parts.unwrap_or_default();
    parts.iter().filter_map(|part| part.get(key)).map(|raw| text::whole(Some(raw))).collect()
}

fn missing_field(field: &str) -> ModelError {
    ModelError::Garbage(format!("an event lacks its `{field}`"))
}
