//! Parses the text of a prompt: the lines of an inbox entry, the spaces and memories of a workspace. A
//! line that cannot be parsed needs no answer.

use serde_json::Deserializer;

/// One line of an inbox entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A message in a space.
    Message(ReadMessage),
    /// An event of a service: its name and its payload, as JSON.
    ServiceEvent(String, String),
    /// A plan or an outcome, which the demo model does not answer.
    Other,
}

impl Line {
    pub(super) fn message(&self) -> Option<&ReadMessage> {
        match self {
            Self::Message(message) => Some(message),
            Self::ServiceEvent(..) | Self::Other => None,
        }
    }
}

/// A message in a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadMessage {
    /// The space's handle.
    pub(super) space: String,
    /// The sender's name.
    pub(super) sender: String,
    /// Whether the sender is an agent.
    pub(super) by_agent: bool,
    /// Whether it mentions the reader.
    pub(super) mentions_me: bool,
    /// The message's text.
    pub(super) text: String,
}

/// The lines of an inbox entry: `1. [space family] Husam (@husam, human), 2.1 s ago: "…"`.
pub(super) fn lines(entry: &str) -> Vec<Line> {
    let numbered = |line: &str| {
        let line = line.trim_start();
        let rest = line.strip_prefix("- ").or_else(|| {
            let (number, rest) = line.split_once(". ")?;
            number.bytes().all(|byte| byte.is_ascii_digit()).then_some(rest)
        })?;
        rest.starts_with('[').then(|| rest.to_owned())
    };
    entry.lines().filter_map(numbered).map(|line| read(&line)).collect()
}

fn read(line: &str) -> Line {
    let service =
        || service_line(line).map_or(Line::Other, |(name, payload)| Line::ServiceEvent(name, payload));
    message_line(line).map_or_else(service, Line::Message)
}

fn service_line(line: &str) -> Option<(String, String)> {
    let (name, rest) = literal(line.strip_prefix("[service ")?)?;
    let (_, payload) = rest.strip_prefix("] ")?.split_once(": ")?;
    Some((name, payload.to_owned()))
}

fn message_line(line: &str) -> Option<ReadMessage> {
    let rest = line.strip_prefix("[space ")?;
    let (space, rest) = rest.split_once("] ")?;
    let (sender, rest) = match literal(rest) {
        Some((name, rest)) => (name, rest.strip_prefix(' ')?),
        None => rest.split_once(" (").map(|(name, _)| (name.to_owned(), &rest[name.len() + 1..]))?,
    };
    let (kind, rest) = rest.strip_prefix('(')?.split_once("), ")?;
    // The part before the text is written by the server and holds no quote.
    let (when, quoted) = rest.split_once(": ")?;
    let text = literal(quoted).map_or_else(|| quoted.trim_matches('"').to_owned(), |(text, _)| text);
    Some(ReadMessage {
        space: space.to_owned(),
        sender,
        by_agent: kind.ends_with(", agent"),
        mentions_me: when.contains("mentions you"),
        text,
    })
}

/// The JSON string at the beginning of `text`, and the rest.
fn literal(text: &str) -> Option<(String, &str)> {
    if !text.starts_with('"') {
        return None;
    }
    let mut values = Deserializer::from_str(text).into_iter::<String>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

/// The handle of the agent's active space in a workspace, else of its first open space.
pub(super) fn active_space(workspace: &str) -> Option<String> {
    let lines = workspace.lines().skip_while(|line| !line.starts_with("Your spaces")).skip(1);
    let mut first = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        if let Some(active) = line.strip_prefix("(active: ").and_then(|rest| rest.strip_suffix(')')) {
            return Some(active.to_owned());
        }
        let Some(line) = line.strip_prefix("- ") else { continue };
        let end = line.find([' ', ',', ';']).unwrap_or(line.len());
        let handle = line[..end].to_owned();
        let marks = match line[end..].strip_prefix(" (").and_then(literal) {
            Some((_, rest)) => rest.strip_prefix(')').unwrap_or(rest),
            None => &line[end..],
        };
        if !marks.starts_with(", closed") {
            first.get_or_insert(handle);
        }
    }
    first
}

/// The memories after those of an earlier workspace: lines `- "key": "value"` and `- no longer: "key"` under their title.
pub(super) fn memories(workspace: &str, mut known: Vec<(String, String)>) -> Vec<(String, String)> {
    if !workspace.starts_with("[WORKSPACE — what has changed") || workspace.contains("\nYour memories: none")
    {
        known.clear();
    }
    let lines = workspace.lines().skip_while(|line| !line.starts_with("Your memories")).skip(1);
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some(line) = line.strip_prefix("- ") else { continue };
        let (gone, line) = match line.strip_prefix("no longer: ") {
            Some(line) => (true, line),
            None => (false, line),
        };
        let Some((key, rest)) = literal(line) else { continue };
        let value = rest.strip_prefix(" (pinned)").unwrap_or(rest).strip_prefix(": ").and_then(literal);
        known.retain(|(other, _)| gone || *other != key || value.is_none());
        known.retain(|(other, _)| !gone || *other != key);
        known.extend(value.filter(|_| !gone).map(|(value, _)| (key, value)));
    }
    known
}

/// The text after a phrase, up to the end of its sentence.
pub(super) fn after(text: &str, phrase: &str) -> Option<String> {
    let at = text.to_ascii_lowercase().find(phrase)?;
    let rest = text.get(at + phrase.len()..)?;
    let end = rest.find(['.', '!', '?', '\n']).unwrap_or(rest.len());
    let what = rest[..end].trim();
    (!what.is_empty()).then(|| what.to_owned())
}
