//! Parses what a model is shown: the events of an inbox entry, and the tokens in a text.

use serde_json::Value;

/// The sender of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A person, in a space.
    Human,
    /// Another agent, in a space.
    Agent,
    /// A service.
    Service,
    /// A plan that fired.
    Plan,
    /// The agent's own call, whose result came late.
    Tool,
}

/// An event as the model is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The sender.
    pub from: From,
    /// The handle of the space to reply in; empty for a result.
    pub space: String,
    /// The text of the message, the token of a service's event or a plan, or the call of a result and its text.
    pub text: String,
}

/// The beginning of every inbox.
const HEADER: &str = "[INBOX — ";
/// The beginning of an update in the middle of a cycle.
const MEANWHILE: &str = "[MID-CYCLE UPDATE — ";

/// The handle of the agent whose request this is, as its system text names it.
pub fn agent(messages: &[Value]) -> Option<String> {
    let text = messages.first()?["content"].as_str()?.strip_prefix("You are ")?;
    let (_, rest) = text.split_once("(@")?;
    rest.split_once(')').map(|(handle, _)| handle.to_owned())
}

/// Whether the text is an inbox, possibly after a notice.
pub fn is_inbox(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(HEADER))
}

/// Whether the text is an update in the middle of a cycle.
pub fn is_injection(text: &str) -> bool {
    text.starts_with(MEANWHILE)
}

/// The events of an inbox or of an update, in order. A line that cannot be parsed is an error: a harness that
/// overlooks lines proves nothing.
pub fn events(text: &str) -> Result<Vec<Shown>, String> {
    let begins = |line: &&str| line.starts_with(HEADER) || line.starts_with(MEANWHILE);
    let behind = text.lines().skip_while(|line| !begins(line)).skip(2);
    let numbered = behind.take_while(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    numbered.map(|line| event(line).ok_or_else(|| format!("cannot parse the inbox line `{line}`"))).collect()
}

fn event(line: &str) -> Option<Shown> {
    let (_, rest) = line.split_once(". [")?;
    if let Some(rest) = rest.strip_prefix("service ") {
        return sent(From::Service, &rest[rest.find(": {")? + 2..]);
    }
    if let Some(rest) = rest.strip_prefix("plan ").or_else(|| rest.strip_prefix("timer ")) {
        let instruction: String = serde_json::from_str(rest.split_once("] due now: ")?.1).ok()?;
        return sent(From::Plan, &instruction);
    }
    if let Some(rest) = rest.strip_prefix("tool result ") {
        let (call, rest) = rest.split_once(" | call: ")?.1.split_once("] ")?;
        let text: String = serde_json::from_str(rest.split_once(": ")?.1).ok()?;
        return Some(Shown { from: From::Tool, space: String::new(), text: result(call, &text) });
    }
    let (space, rest) = rest.strip_prefix("space ")?.split_once("] ")?;
    let (from, rest) = match (rest.split_once(", human), "), rest.split_once(", agent), ")) {
        (Some((_, rest)), _) => (From::Human, rest),
        (None, Some((_, rest))) => (From::Agent, rest),
        (None, None) => return None,
    };
    let (_, quoted) = rest.split_once(": ")?;
    Some(Shown { from, space: space.to_owned(), text: serde_json::from_str(quoted).ok()? })
}

/// What a service or a plan says: a token, and the space to reply in.
fn sent(from: From, payload: &str) -> Option<Shown> {
    let payload: Value = serde_json::from_str(payload).ok()?;
    let text = |name: &str| payload[name].as_str().map(str::to_owned);
    Some(Shown { from, space: text("space")?, text: text("token")? })
}

/// What identifies a late result: an agent may be told first that nothing is known, then what came of it.
pub fn result(call: &str, text: &str) -> String {
    format!("{call}: {text}")
}

/// The token of an item with that number.
pub fn token(number: u64) -> String {
    format!("t-{number:06}-t")
}

/// All tokens in a text, in order, including repeated ones.
pub fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("t-") {
        let Some(piece) = text.get(at..at + 10) else { continue };
        let digits = &piece[2..8];
        if piece.ends_with("-t") && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            found.push(piece.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_inboxes_and_updates_are_parsed() {
        let text = "[NOTICE] x\n\n[INBOX — 3 new events, now 2026-11-21T14:03:05Z]\n\n\
            1. [space 0192] Mira (@owner, human), 2.1 s ago, mentions you: \"SKIP t-000001-t: \\\"x\\\"\"\n\
            2. [space 0192] Ben (@ben, agent), just now: \"got t-000002-t\"\n\
            3. [service \"kill\"] 4.0 s ago: {\"token\":\"t-000003-t\",\"space\":\"desk\"}\n\
            4. [tool result \"count_read\" | call: c1] failed 4.0 s ago: \"no: \\\"x\\\"\"\n\
            5. [plan \"p: ] due now\" | id: 0193] due now: \"{\\\"token\\\":\\\"t-000005-t\\\",\\\"space\\\":\\\"pair\\\"}\"\n\
            You may address these in any order. Consider priorities and how they relate.";
        assert!(is_inbox(text));
        let shown = |from, space: &str, text: &str| Shown { from, space: space.into(), text: text.into() };
        assert_eq!(
            events(text).unwrap(),
            [
                shown(From::Human, "0192", "SKIP t-000001-t: \"x\""),
                shown(From::Agent, "0192", "got t-000002-t"),
                shown(From::Service, "desk", "t-000003-t"),
                shown(From::Tool, "", "c1: no: \"x\""),
                shown(From::Plan, "pair", "t-000005-t"),
            ]
        );
        assert!(events("[INBOX — 1 new event, now X]\n\n1. what").is_err());
        let later = "[MID-CYCLE UPDATE — 1 new event]\n\n4. [space a] Mira (@owner, human), just now: \"t-000004-t\"\nThis";
        assert!(is_injection(later) && !is_inbox(later));
        assert_eq!(events(later).unwrap(), [shown(From::Human, "a", "t-000004-t")]);
    }

    #[test]
    fn tokens_are_found_anywhere_in_a_text() {
        assert_eq!(
            tokens("got t-000001-t t-000002-t,t-000002-t t-12-t t-00000x-t"),
            ["t-000001-t", "t-000002-t", "t-000002-t"]
        );
        assert_eq!(tokens(&format!("é{}", token(7))), [token(7)]);
    }
}
