//! Which text of an entry is searched: what the agent was shown, what it wrote, and what its calls returned. Reasoning
//! and notices of the runtime are left out, and so are searches: they would find themselves.

use agent::entry::{Entry, EntryKind};
use agent::event::NamedMessage;
use agent::limits;
use agent::message::Part;
use agent::port::RecallKind;
use agent::tool::names;
use serde_json::Value;

/// The kind and text of an entry; `None` if it is not searched.
pub(crate) fn of_entry(entry: &Entry) -> Option<(RecallKind, String)> {
    let kind = match entry.kind {
        EntryKind::Inbox | EntryKind::Injection => RecallKind::Inbox,
        EntryKind::Assistant => RecallKind::Assistant,
        EntryKind::Outcomes => RecallKind::Outcomes,
        EntryKind::Notice => return None,
    };
    let mut text = String::new();
    for part in &entry.message.parts {
        match part {
            Part::Text { text: shown } if kind == RecallKind::Inbox => events(shown, &mut text),
            Part::Text { text: written } => line(written, &mut text),
            Part::ToolCall { name, arguments, .. } if !is_search(name) => {
                match serde_json::from_str::<Value>(arguments) {
                    Ok(arguments) => strings(&arguments, &mut text),
                    Err(_) => line(arguments, &mut text),
                }
            }
            Part::ToolResult { name, text: result, .. } if !is_search(name) => line(result, &mut text),
            _ => {}
        }
        if text.len() >= limits::INDEXED_MAX_BYTES {
            break;
        }
    }
    let mut end = text.len().min(limits::INDEXED_MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    (!text.trim().is_empty()).then_some((kind, text))
}

/// The text of a memory.
pub(crate) fn of_memory(key: &str, value: &str) -> String {
    format!("{key}: {value}")
}

/// The text of a message, with its sender.
pub(crate) fn of_message(message: &NamedMessage) -> String {
    format!("@{}: {}", message.sender_handle, message.text)
}

fn is_search(tool: &str) -> bool {
    [names::RECALL, names::READ_CYCLE].contains(&tool)
}

fn line(text: &str, out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(text);
}

/// All texts of a call's arguments.
fn strings(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => line(text, out),
        Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, out)),
        _ => {}
    }
}

/// The events of an inbox entry, one per line: without its title, and with their texts as they were sent.
fn events(shown: &str, out: &mut String) {
    for event in shown.lines().filter(|line| !line.is_empty() && !line.starts_with('[')) {
        line("", out);
        let mut characters = event.chars();
        while let Some(c) = characters.next() {
            match (c, if c == '\\' { characters.next() } else { None }) {
                ('\\', Some('n' | 'r' | 't')) => out.push(' '),
                ('\\', Some('u')) => {
                    out.push(' ');
                    characters.by_ref().take(4).for_each(drop);
                }
                ('\\', Some(escaped)) => out.push(escaped),
                (c, _) => out.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use agent::id::{CallId, CycleId};
    use agent::message::{ModelMessage, Role};
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn entry(kind: EntryKind, role: Role, parts: Vec<Part>) -> Entry {
        let message = ModelMessage { role, parts, native: None };
        let cycle = CycleId(Uuid::from_u128(1));
        Entry {
            seq: 1,
            cycle,
            step: 0,
            kind,
            message,
            tokens: 1,
            at: Timestamp::UNIX_EPOCH,
            trust: agent::event::Trust::Member,
        }
    }

    #[test]
    fn an_inbox_entry_is_searched_by_its_events_as_they_were_sent() {
        let shown = "[INBOX — 1 new event, now x]\n\n1. [space home] Husam (@husam, human), just now: \"a\\nb \\\"c\\\" \\u202ed\"";
        let shown = entry(EntryKind::Inbox, Role::User, vec![Part::Text { text: shown.into() }]);
        let (kind, text) = of_entry(&shown).unwrap();
        assert_eq!(kind, RecallKind::Inbox);
        assert_eq!(text.trim(), "1. [space home] Husam (@husam, human), just now: \"a b \"c\"  d\"");
    }

    #[test]
    fn calls_are_searched_by_their_texts_except_searches() {
        let call = |name: &str, arguments: &str| Part::ToolCall {
            id: CallId("1".into()),
            name: name.into(),
            arguments: arguments.into(),
        };
        let parts = vec![
            Part::Reasoning { text: "secret".into() },
            Part::Text { text: "hello".into() },
            call("send_message", r#"{"text":"the bill","n":3,"to":["x"]}"#),
            call("recall", r#"{"query":"never"}"#),
            call("fetch", "not json"),
        ];
        let (kind, text) = of_entry(&entry(EntryKind::Assistant, Role::Assistant, parts)).unwrap();
        assert_eq!((kind, text.as_str()), (RecallKind::Assistant, "hello\nthe bill\nx\nnot json"));
    }

    #[test]
    fn a_notice_is_not_searched_and_a_long_text_only_from_its_beginning() {
        let text = "ä".repeat(limits::INDEXED_MAX_BYTES);
        let notice = entry(EntryKind::Notice, Role::User, vec![Part::Text { text: text.clone() }]);
        assert_eq!(of_entry(&notice), None);
        let long = entry(EntryKind::Assistant, Role::Assistant, vec![Part::Text { text }]);
        assert_eq!(of_entry(&long).unwrap().1.len(), limits::INDEXED_MAX_BYTES);
    }
}
