//! The demo model, for a first run without a key or a network. It uses the real inbox, cycles, tools and
//! streaming, and each of its messages says that it is scripted.
//!
//! Its answer is a pure function of the prompt; only its pauses need a clock.

mod reading;
mod tool_use;

use std::sync::Arc;
use std::time::Duration;

use agent::entry::EntryKind;
use agent::limits;
use agent::message::Role;
use agent::port::{
    BoxStream, Clock, Model, ModelError, ModelInfo, ModelRequest, Piece, ReasoningReplay, ToolSpec,
};
use agent::prompt::{Item, Prompt};
use serde_json::json;

use crate::scripted::Script;
use reading::{Line, ReadMessage};

/// The model's name.
pub const NAME: &str = "demo";
/// The pause between two words, so that a person sees them stream.
const PAUSE: Duration = Duration::from_millis(30);
/// Characters of one message that an answer quotes.
const QUOTED_MAX_CHARS: usize = 300;

/// Events of services that one message names.
const EVENTS_SHOWN: usize = 3;

/// The built-in model.
pub struct DemoModel {
    info: ModelInfo,
    clock: Arc<dyn Clock>,
    pause: Duration,
}

impl DemoModel {
    /// A demo model that streams word by word, paced by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_pause(clock, PAUSE)
    }

    /// A demo model with this pause between words; zero for tests.
    pub fn with_pause(clock: Arc<dyn Clock>, pause: Duration) -> Self {
        let info = ModelInfo {
            name: NAME.to_owned(),
            provider: NAME.to_owned(),
            context_window: limits::WINDOW_HOSTED,
            max_output: 2_048,
            reasoning_replay: ReasoningReplay::None,
            demo: true,
            ..ModelInfo::default()
        };
        Self { info, clock, pause }
    }
}

impl Model for DemoModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let mut script = Script::new();
        for call in tool_calls(request.prompt) {
            script = script.call_in(&call.tool, call.pieces()).paced(&self.clock, self.pause);
        }
        script.play()
    }
}

/// One call that the demo model makes.
#[derive(Clone, Debug, PartialEq)]
struct ToolCall {
    tool: String,
    arguments: serde_json::Value,
}

impl ToolCall {
    /// The argument string, split after each space.
    fn pieces(&self) -> Vec<String> {
        self.arguments.to_string().split_inclusive(' ').map(str::to_owned).collect()
    }
}

/// Longest key of a memory that it stores; in any script it is within the limit of a memory's key.
const KEY_MAX_CHARS: usize = 25;

/// The calls that answer a prompt.
fn tool_calls(prompt: &Prompt) -> Vec<ToolCall> {
    let calls = all_calls(prompt);
    // The agent may have fewer tools; calls of the others are left out.
    calls.into_iter().filter(|call| prompt.tools.iter().any(|tool| tool.name == call.tool)).collect()
}

fn all_calls(prompt: &Prompt) -> Vec<ToolCall> {
    let lines = unread(prompt);
    let for_me = lines.iter().filter_map(Line::message).filter(|message| is_for_me(message));
    let wanted = |message: &ReadMessage| tool_use::wanted(&message.text, &prompt.tools);
    let (asking, messages): (Vec<_>, Vec<&ReadMessage>) =
        for_me.partition(|message| wanted(message).is_some());
    let others = lines.iter().any(|line| !matches!(line, Line::Message(_)));
    let has_acted = prompt.items.iter().filter_map(entry).any(|e| is_step(prompt, e));
    let service = answer_service(prompt, &lines);
    let mut calls: Vec<_> = asking.into_iter().filter_map(wanted).collect();
    let entries = prompt.items.iter().rev().filter_map(entry).take_while(|e| !is_step(prompt, e));
    let outcomes = entries.filter(|e| e.cycle == prompt.cycle).find(|e| e.kind == EntryKind::Outcomes);
    let space = layers(prompt).find_map(reading::active_space);
    calls.extend(tool_use::answer(outcomes, space, &prompt.tools));
    if messages.is_empty() && service.is_none() && calls.is_empty() {
        let skips = !has_acted && !others && !lines.is_empty();
        let summary =
            if has_acted { "Everyone who spoke to me is answered." } else { "Nobody asked me anything." };
        return vec![if skips { skip() } else { done(summary) }];
    }
    let memories = memories(prompt);
    let notes: Vec<_> = messages.iter().copied().filter_map(memory_request).collect();
    if !notes.is_empty() {
        let notes: Vec<_> = notes.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        calls.push(ToolCall { tool: "set_memories".to_owned(), arguments: json!({ "memories": notes }) });
    }
    let first_time = !prompt.items.iter().filter_map(entry).any(|e| e.kind == EntryKind::Assistant);
    for (space, messages) in by_space(&messages) {
        let text = answer(&messages, (&memories, &prompt.tools), first_time);
        calls.push(ToolCall {
            tool: "send_message".to_owned(),
            arguments: json!({ "space": space, "text": text }),
        });
    }
    calls.extend(service);
    calls
}

/// One message about the events of services, in the agent's active space. `None` without events, or if
/// no space is open.
fn answer_service(prompt: &Prompt, lines: &[Line]) -> Option<ToolCall> {
    let events: Vec<String> = lines
        .iter()
        .filter_map(|line| match line {
            Line::ServiceEvent(name, payload) if matches!(payload.as_str(), "null" | "{}") => {
                Some(format!("`{}`", shortened(name)))
            }
            Line::ServiceEvent(name, payload) => {
                Some(format!("`{}` sent {}", shortened(name), shortened(payload)))
            }
            Line::Message(_) | Line::Other => None,
        })
        .collect();
    let most = events.iter().take(EVENTS_SHOWN).cloned().collect::<Vec<_>>().join("; ");
    let more = match events.len().saturating_sub(EVENTS_SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let space = layers(prompt).find_map(reading::active_space).filter(|_| !events.is_empty())?;
    let text = format!("An event woke me: {most}{more}. (The demo model: scripted, no language model.)");
    Some(ToolCall { tool: "send_message".to_owned(), arguments: json!({ "space": space, "text": text }) })
}

fn skip() -> ToolCall {
    ToolCall { tool: "skip".to_owned(), arguments: json!({"reason": "agents talking among themselves"}) }
}

fn done(summary: &str) -> ToolCall {
    ToolCall { tool: "done".to_owned(), arguments: json!({ "summary": summary }) }
}

fn entry(item: &Item) -> Option<&agent::entry::Entry> {
    match item {
        Item::Entry(entry) => Some(entry),
        Item::Layer(_) => None,
    }
}

fn is_step(prompt: &Prompt, entry: &agent::entry::Entry) -> bool {
    entry.cycle == prompt.cycle && entry.message.role == Role::Assistant
}

/// The lines of the inbox entries since its last step in this cycle.
fn unread(prompt: &Prompt) -> Vec<Line> {
    let entries: Vec<_> = prompt.items.iter().filter_map(entry).collect();
    let from = entries.iter().rposition(|e| is_step(prompt, e)).map_or(0, |step| step + 1);
    let news = entries[from..]
        .iter()
        .filter(|e| e.cycle == prompt.cycle)
        .filter(|e| matches!(e.kind, EntryKind::Inbox | EntryKind::Injection));
    news.flat_map(|e| reading::lines(&e.message.text())).collect()
}

/// People are always answered, agents only if they mention this one.
fn is_for_me(message: &ReadMessage) -> bool {
    !message.by_agent || message.mentions_me
}

fn by_space<'a>(messages: &[&'a ReadMessage]) -> Vec<(&'a str, Vec<&'a ReadMessage>)> {
    let mut groups: Vec<(&str, Vec<&ReadMessage>)> = Vec::new();
    for message in messages.iter().copied() {
        match groups.iter_mut().find(|(space, _)| *space == message.space) {
            Some((_, group)) => group.push(message),
            None => groups.push((&message.space, vec![message])),
        }
    }
    groups
}

/// The layers of the prompt (all that is not in the log), newest first.
fn layers(prompt: &Prompt) -> impl Iterator<Item = &str> {
    prompt.items.iter().rev().filter_map(|item| match item {
        Item::Layer(text) => Some(text.as_ref()),
        Item::Entry(_) => None,
    })
}

/// Its memories, as the workspace shows them.
fn memories(prompt: &Prompt) -> Vec<(String, String)> {
    let shown: Vec<&str> = layers(prompt).filter(|text| text.contains("\nYour memories:")).collect();
    shown.into_iter().rev().fold(Vec::new(), |known, text| reading::memories(text, known))
}

/// The memory that a message asks it to store: key and value.
fn memory_request(message: &ReadMessage) -> Option<(String, String)> {
    if let Some(name) = reading::after(&message.text, "my name is ") {
        let sender: String = message.sender.chars().take(KEY_MAX_CHARS).collect();
        return Some((format!("name of {sender}"), shortened(&name)));
    }
    let what = reading::after(&message.text, "remember that ")
        .or_else(|| reading::after(&message.text, "remember: "))
        .or_else(|| reading::after(&message.text, "remember "))?;
    // A question about its memories is not a request to store one.
    let asks = message.text.trim_end().ends_with('?');
    (!asks).then(|| {
        let key: Vec<&str> = what.split_whitespace().take(5).collect();
        (key.join(" ").chars().take(KEY_MAX_CHARS).collect(), shortened(&what))
    })
}

fn asks_to_recall(text: &str) -> bool {
    let text = text.to_lowercase();
    ["what do you remember", "do you remember", "what is my name", "what's my name", "who am i", "recall"]
        .iter()
        .any(|phrase| text.contains(phrase))
}

fn answer(
    messages: &[&ReadMessage],
    (memories, tools): (&[(String, String)], &[ToolSpec]),
    first_time: bool,
) -> String {
    let mut senders: Vec<&str> = Vec::new();
    for message in messages {
        if !senders.contains(&message.sender.as_str()) {
            senders.push(&message.sender);
        }
    }
    let mut out = format!("Hello {}! I read ", senders.join(" and "));
    let quotes: Vec<String> =
        messages.iter().map(|message| format!("“{}”", shortened(&message.text))).collect();
    out.push_str(&quotes.join(", then "));
    out.push('.');
    for message in messages {
        if let Some((key, value)) = memory_request(message) {
            let under =
                if names_itself(&key, &value) { String::new() } else { format!(" ({})", shortened(&key)) };
            out.push_str(&format!(" I will remember “{}”{under}.", shortened(&value)));
        }
    }
    for why in messages.iter().filter_map(|message| tool_use::not_called(&message.text, tools)) {
        out.push_str(&format!(" I called nothing: {why}."));
    }
    if messages.iter().any(|message| asks_to_recall(&message.text)) {
        out.push_str(&recalled(memories));
    }
    if first_time {
        out.push_str(
            " This is the demo model: scripted replies, no language model. But everything \
             around it is real: your message waited in my inbox, woke me, and this answer was streamed to \
             you and stored. Say “remember that …”, or “what do you remember?”. To use a real model, set \
             ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY and start again, or run a local model.",
        );
    } else {
        out.push_str(" (The demo model: scripted, no language model.)");
    }
    out
}

fn recalled(memories: &[(String, String)]) -> String {
    if memories.is_empty() {
        return " I remember nothing yet.".to_owned();
    }
    let list: Vec<String> = memories
        .iter()
        .take(10)
        .map(|(key, value)| match names_itself(key, value) {
            true => shortened(value),
            false => format!("{}: {}", shortened(key), shortened(value)),
        })
        .collect();
    format!(" I remember: {}.", list.join("; "))
}

/// Whether the key only repeats the beginning of the value.
fn names_itself(key: &str, value: &str) -> bool {
    value.starts_with(key)
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(QUOTED_MAX_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
