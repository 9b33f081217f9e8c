//! the demo model: the model of a first run with no key and no network. It plays on the real stage
//! (inbox, cycles, tools, streaming), and says wherever it appears that no language model wire_format.
//!
//! What it answers is a pure function of the prompt; only its pauses need a clock.

mod reading;

use std::sync::Arc;
use std::time::Duration;

use agent::entry::EntryKind;
use agent::limits;
use agent::message::Role;
use agent::port::{BoxStream, Clock, Model, ModelError, ModelInfo, ModelRequest, Piece, ReasoningReplay};
use agent::prompt::{Item, Prompt};
use serde_json::json;

use crate::scripted::Script;
use reading::{Line, ReadMessage};

/// The model's name.
pub const NAME: &str = "demo";
/// Between two words, so that a person sees them come.
const PAUSE: Duration = Duration::from_millis(30);
/// Words of others that an answer quotes.
const QUOTED_MAX_CHARS: usize = 300;

/// Events of services that one line names.
const EVENTS_TOLD: usize = 3;

/// The built-in model.
pub struct DemoModel {
    info: ModelInfo,
    clock: Arc<dyn Clock>,
    pause: Duration,
}

impl DemoModel {
    /// WireFormat word by word, paced by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_pause(clock, PAUSE)
    }

    /// Waits this long between words; zero for tests.
    pub fn with_pause(clock: Arc<dyn Clock>, pause: Duration) -> Self {
        let info = ModelInfo {
            name: NAME.to_owned(),
            provider: NAME.to_owned(),
            context_window: limits::WINDOW_HOSTED,
            max_output: 2_048,
            reasoning_replay: ReasoningReplay::None,
            forced_tool_choice: false,
            price: None,
            demo: true,
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
        for act in acts(request.prompt) {
            script = script.call_in(act.tool, act.pieces()).paced(&self.clock, self.pause);
        }
        script.play()
    }
}

/// One call that the demo model makes.
#[derive(Clone, Debug, PartialEq)]
struct Act {
    tool: &'static str,
    arguments: serde_json::Value,
}

impl Act {
    /// The argument string, cut behind its spaces.
    fn pieces(&self) -> Vec<String> {
        self.arguments.to_string().split_inclusive(' ').map(str::to_owned).collect()
    }
}

/// Longest key of a note that it makes; with any alphabet within what a memory may have.
const KEY_MAX_CHARS: usize = 25;

/// What it does about a prompt.
fn acts(prompt: &Prompt) -> Vec<Act> {
    let acts = decide(prompt);
    // An agent may have been given fewer tools; what it has not got it does not call.
    acts.into_iter().filter(|act| prompt.tools.iter().any(|tool| tool.name == act.tool)).collect()
}

fn decide(prompt: &Prompt) -> Vec<Act> {
    let lines = unread(prompt);
    let heard: Vec<&ReadMessage> =
        lines.iter().filter_map(Line::heard).filter(|heard| is_for_me(heard)).collect();
    let others = lines.iter().any(|line| !matches!(line, Line::Said(_)));
    let acted = prompt.items.iter().filter_map(entry).any(|e| is_step(prompt, e));
    let service = answer_service(prompt, &lines);
    if heard.is_empty() && service.is_none() {
        let skips = !acted && !others && !lines.is_empty();
        let summary =
            if acted { "Everyone who spoke to me is answered." } else { "Nobody asked me anything." };
        return vec![if skips { skip() } else { done(summary) }];
    }
    let memories = memories(prompt);
    let notes: Vec<_> = heard.iter().copied().filter_map(note).collect();
    let mut acts = Vec::new();
    if !notes.is_empty() {
        let notes: Vec<_> = notes.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        acts.push(Act { tool: "set_memories", arguments: json!({ "memories": notes }) });
    }
    let first_time = !prompt.items.iter().filter_map(entry).any(|e| e.kind == EntryKind::Assistant);
    for (space, said) in by_space(&heard) {
        let text = answer(&said, &memories, first_time);
        acts.push(Act { tool: "send_message", arguments: json!({ "space": space, "text": text }) });
    }
    acts.extend(service);
    acts
}

/// One line about what services told, where the agent stands; nothing where nobody could hear it.
fn answer_service(prompt: &Prompt, lines: &[Line]) -> Option<Act> {
    let events: Vec<String> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Told(name, payload) if matches!(payload.as_str(), "null" | "{}") => {
                Some(format!("`{}`", shortened(name)))
            }
            Line::Told(name, payload) => Some(format!("`{}` sent {}", shortened(name), shortened(payload))),
            Line::Said(_) | Line::Other => None,
        })
        .collect();
    let most = events.iter().take(EVENTS_TOLD).cloned().collect::<Vec<_>>().join("; ");
    let more = match events.len().saturating_sub(EVENTS_TOLD) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let space = layers(prompt).find_map(reading::place).filter(|_| !events.is_empty())?;
    let text = format!("An event woke me: {most}{more}. (The demo model: scripted, no language model.)");
    Some(Act { tool: "send_message", arguments: json!({ "space": space, "text": text }) })
}

fn skip() -> Act {
    Act { tool: "skip", arguments: json!({"reason": "agents talking among themselves"}) }
}

fn done(summary: &str) -> Act {
    Act { tool: "done", arguments: json!({ "summary": summary }) }
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

/// What came since its last step in this cycle, line by line.
fn unread(prompt: &Prompt) -> Vec<Line> {
    let entries: Vec<_> = prompt.items.iter().filter_map(entry).collect();
    let from = entries.iter().rposition(|e| is_step(prompt, e)).map_or(0, |step| step + 1);
    let news = entries[from..]
        .iter()
        .filter(|e| e.cycle == prompt.cycle)
        .filter(|e| matches!(e.kind, EntryKind::Inbox | EntryKind::Injection));
    news.flat_map(|e| reading::lines(&e.message.text())).collect()
}

/// People are always answered, agents only where they name it.
fn is_for_me(heard: &ReadMessage) -> bool {
    !heard.by_agent || heard.mentions_me
}

fn by_space<'a>(heard: &[&'a ReadMessage]) -> Vec<(&'a str, Vec<&'a ReadMessage>)> {
    let mut groups: Vec<(&str, Vec<&ReadMessage>)> = Vec::new();
    for said in heard.iter().copied() {
        match groups.iter_mut().find(|(space, _)| *space == said.space) {
            Some((_, group)) => group.push(said),
            None => groups.push((&said.space, vec![said])),
        }
    }
    groups
}

/// What the prompt holds besides the log, the newest first.
fn layers(prompt: &Prompt) -> impl Iterator<Item = &str> {
    prompt.items.iter().rev().filter_map(|item| match item {
        Item::Layer(text) => Some(text.as_ref()),
        Item::Entry(_) => None,
    })
}

/// What it already keeps, as the workspace shows it.
fn memories(prompt: &Prompt) -> Vec<(String, String)> {
    layers(prompt).map(reading::memories).find(|found| !found.is_empty()).unwrap_or_default()
}

/// What a message asks it to keep: key and value.
fn note(heard: &ReadMessage) -> Option<(String, String)> {
    if let Some(name) = reading::after(&heard.text, "my name is ") {
        let whose: String = heard.sender.chars().take(KEY_MAX_CHARS).collect();
        return Some((format!("name of {whose}"), shortened(&name)));
    }
    let what = reading::after(&heard.text, "remember that ")
        .or_else(|| reading::after(&heard.text, "remember: "))
        .or_else(|| reading::after(&heard.text, "remember "))?;
    // A question about what is remembered asks for nothing to be kept.
    let asks = heard.text.trim_end().ends_with('?');
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

fn answer(said: &[&ReadMessage], memories: &[(String, String)], first_time: bool) -> String {
    let mut senders: Vec<&str> = Vec::new();
    for heard in said {
        if !senders.contains(&heard.sender.as_str()) {
            senders.push(&heard.sender);
        }
    }
    let mut out = format!("Hello {}! I read ", senders.join(" and "));
    let quotes: Vec<String> = said.iter().map(|heard| format!("“{}”", shortened(&heard.text))).collect();
    out.push_str(&quotes.join(", then "));
    out.push('.');
    for heard in said {
        if let Some((key, value)) = note(heard) {
            let under =
                if names_itself(&key, &value) { String::new() } else { format!(" ({})", shortened(&key)) };
            out.push_str(&format!(" I will remember “{}”{under}.", shortened(&value)));
        }
    }
    if said.iter().any(|heard| asks_to_recall(&heard.text)) {
        out.push_str(&recalled(memories));
    }
    if first_time {
        out.push_str(
            " This is the demo model: scripted replies, no language model. But everything \
             around it is real: your message waited in my inbox, woke me, and this answer was streamed to \
             you and stored. Say “remember that …”, or “what do you remember?”. To give me a mind, set \
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

/// Whether the key says nothing that the value does not: it is the value's beginning.
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
