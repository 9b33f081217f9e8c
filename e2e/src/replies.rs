//! The replies of the model stub: a pure function of the request, so that a cycle that was interrupted by a kill gets
//! the same reply again. Replies vary with a hash of the inbox.

use serde_json::{Value, json};

use crate::counted::{APPROVED, KILL_SERVER};
use crate::inbox::{self, From, Shown};

/// A message with this text makes the agent call the tool that kills the server.
pub const KILL_REQUEST: &str = "KILL-THE-SERVER";
/// Number of memory keys in use: fewer than the limit of an agent.
const KEYS: u64 = 61;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedReply {
    /// Tools to call, with their arguments.
    pub calls: Vec<(&'static str, Value)>,
    /// The agent's private text.
    pub text: Option<String>,
    /// Number of steps of the cycle before this one.
    pub step: usize,
    /// Hash of the inbox and the step.
    pub hash: u64,
}

/// Decides the reply. `counted`: the offered tools whose effects are counted. The error describes what is wrong with the
/// request.
pub fn decide(messages: &[Value], counted: &[&str]) -> Result<PlannedReply, String> {
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let is = |message: &Value, role: &str| message["role"] == role;
    let at = messages
        .iter()
        .rposition(|message| is(message, "user") && inbox::is_inbox(&text(message)))
        .ok_or("a request without an inbox")?;
    let step = messages[at + 1..].iter().filter(|message| is(message, "assistant")).count();
    let events = inbox::events(&text(&messages[at]))?;
    let hash = hash_of(&events);
    let meanwhile = meanwhile(&messages[at + 1..])?;
    let (mut calls, text_part) = if relevant(&events).is_empty() || events.iter().all(is_idle) {
        (vec![("skip", json!({"reason": "nothing to do"}))], None)
    } else {
        calls_for(&events, hash, step)
    };
    if step == 0 && text_part.is_some() | !calls.is_empty() && !is_skip(&calls) {
        if !counted.is_empty() {
            let agent = inbox::agent(messages).ok_or("a request that does not say who the agent is")?;
            let planned = effect_calls(&events, hash, &agent).into_iter();
            calls.extend(planned.filter(|(tool, _)| counted.contains(tool)));
        }
        calls.extend(invalid_call(hash));
    }
    // Events that arrive in the middle of the cycle are replied to in the step that shows them, before the end.
    if !meanwhile.is_empty() {
        calls.splice(0..0, send_calls(&meanwhile));
    }
    let hash = hash.wrapping_add(step as u64).wrapping_add(hash_of(&meanwhile));
    Ok(PlannedReply { calls, text: text_part, step, hash })
}

/// The reply to a request without tools, which asks for a summary of the history: sometimes none that can be used.
pub fn summary(messages: &[Value]) -> PlannedReply {
    let asked: u64 = messages.iter().map(|message| message.to_string().len() as u64).sum();
    let text = match asked % 4 {
        0 => String::new(),
        _ => format!("## Facts\n- {asked} bytes of history were summarized"),
    };
    PlannedReply { calls: Vec::new(), text: Some(text), step: 0, hash: asked }
}

/// The events that arrived since the last step.
fn meanwhile(since: &[Value]) -> Result<Vec<Shown>, String> {
    let last = since.iter().rposition(|message| message["role"] == "assistant").map_or(0, |at| at + 1);
    let texts = since[last..].iter().filter_map(|message| message["content"].as_str());
    let mut events = Vec::new();
    for text in texts.filter(|text| inbox::is_injection(text)) {
        events.extend(inbox::events(text)?);
    }
    Ok(events)
}

type Calls = Vec<(&'static str, Value)>;

fn is_skip(calls: &Calls) -> bool {
    calls.first().is_some_and(|(name, _)| *name == "skip")
}

/// Calls of tools with outside effects of each kind; or of the tool that kills the server, if a message asks for it. The
/// ticket of a call is its own: an agent decides once about an event, and no two calls of a decision have the same place.
fn effect_calls(events: &[Shown], hash: u64, agent: &str) -> Calls {
    let tools: &[&str] = if events.iter().any(|event| event.text.contains(KILL_REQUEST)) {
        &[KILL_SERVER]
    } else {
        match (hash >> 20) % 9 {
            0 => &["count_unsafe", "count_read"],
            1 => &["count_idempotent", "count_read_by_worker"],
            2 => &["count_unsafe", "count_idempotent", "count_unsafe"],
            3 => &["count_read", "count_unsafe", "count_idempotent_by_worker"],
            4 => &["count_unsafe_by_worker", "count_idempotent_by_worker"],
            5 => &["count_unsafe_by_worker", "count_unsafe"],
            6 => &[APPROVED, "count_read"],
            7 => &["count_unsafe", APPROVED, APPROVED],
            _ => &[],
        }
    };
    let last = relevant(events).iter().filter_map(|event| inbox::tokens(&event.text).pop()).next_back();
    let last = last.unwrap_or_default();
    let calls = tools.iter().enumerate();
    calls.map(|(place, tool)| (*tool, json!({"ticket": format!("{agent}/{last}/{place}")}))).collect()
}

/// Occasionally an invalid call: of an unknown tool, or with arguments that are not JSON.
fn invalid_call(hash: u64) -> Option<(&'static str, Value)> {
    match (hash >> 44) % 12 {
        0 => Some(("no_such_tool", json!({}))),
        1 => Some(("set_memories", json!("{\"memories\": [{\"key\""))),
        _ => None,
    }
}

/// Four ways to process events.
fn calls_for(events: &[Shown], hash: u64, step: usize) -> (Calls, Option<String>) {
    let sends = send_calls(events);
    let memories = memories(events, hash);
    let done = || vec![("done", json!({"summary": "answered"}))];
    match (hash % 4, step) {
        // Messages and memories in one step, then the end.
        (0 | 3, 0) => (sends.into_iter().chain(memories).collect(), None),
        // Memories first, then messages, then the end.
        (1, 0) => (memories, Some("let me think".to_owned())),
        (1, 1) => (sends, None),
        // Everything including the end in one step.
        (2, 0) => (sends.into_iter().chain(memories).chain(done()).collect(), None),
        // The end without a tool call.
        (3, _) => (Vec::new(), Some("that was all".to_owned())),
        _ => (done(), None),
    }
}

/// The events that the agent replies to: not those from other agents, and no late results of its own calls.
fn relevant(events: &[Shown]) -> Vec<&Shown> {
    events.iter().filter(|event| !matches!(event.from, From::Agent | From::Tool)).collect()
}

fn is_idle(event: &Shown) -> bool {
    matches!(event.from, From::Agent | From::Tool)
        || (event.from == From::Human && event.text.contains("SKIP"))
}

/// One message to each space with events, which quotes every token of that space once.
fn send_calls(events: &[Shown]) -> Calls {
    let mut spaces: Vec<(&str, Vec<String>)> = Vec::new();
    for event in relevant(events) {
        let tokens = inbox::tokens(&event.text);
        match spaces.iter_mut().find(|(space, _)| *space == event.space) {
            Some((_, known)) => known.extend(tokens),
            None => spaces.push((&event.space, tokens)),
        }
    }
    let send_message = |(space, tokens): (&str, Vec<String>)| {
        ("send_message", json!({"space": space, "text": format!("got {}", tokens.join(" "))}))
    };
    spaces.into_iter().map(send_message).collect()
}

/// A memory about the last token; occasionally old ones are deleted.
fn memories(events: &[Shown], hash: u64) -> Calls {
    let last = relevant(events).iter().filter_map(|event| inbox::tokens(&event.text).pop()).next_back();
    let key = |number: u64| format!("k{}", number % KEYS);
    let memory =
        json!({"key": key(hash >> 8), "value": format!("{} of {}", last.unwrap_or_default(), events.len())});
    let mut calls = vec![("set_memories", json!({"memories": [memory]}))];
    if (hash >> 16).is_multiple_of(5) {
        calls.push(("delete_memories", json!({"keys": [key(hash >> 24), key(hash >> 32)]})));
    }
    calls
}

fn hash_of(events: &[Shown]) -> u64 {
    let texts = events.iter().flat_map(|event| event.text.bytes());
    let fnv = texts.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The low bits of FNV depend mostly on the last bytes, so higher bits are mixed in.
    fnv ^ (fnv >> 29) ^ (fnv >> 47)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::COUNTED;

    fn reply_to(lines: &[&str], steps: usize) -> PlannedReply {
        let lines: Vec<String> =
            lines.iter().enumerate().map(|(n, line)| format!("{}. {line}", n + 1)).collect();
        let inbox = format!("[INBOX — n new events, now X]\n\n{}", lines.join("\n"));
        let mut messages = vec![
            json!({"role": "user", "content": inbox}),
            json!({"role": "user", "content": "[WORKSPACE]"}),
        ];
        for _ in 0..steps {
            messages.push(json!({"role": "assistant", "content": null}));
            messages.push(json!({"role": "tool", "content": "{}"}));
        }
        decide(&messages, &[]).unwrap()
    }

    #[test]
    fn over_all_steps_every_token_is_quoted_once_in_its_own_space() {
        for n in 0..40 {
            let first = format!("[space a] Mira (@owner, human), just now: \"{}\"", inbox::token(n));
            let lines = [
                first.as_str(),
                "[space b] Mia (@mia, human), just now: \"SKIP t-900000-t\"",
                "[space b] Ben (@ben, agent), just now: \"got t-800000-t\"",
            ];
            let calls: Vec<_> = (0..3).flat_map(|step| reply_to(&lines, step).calls).collect();
            let sends: Vec<_> =
                calls.iter().filter(|call| call.0 == "send_message").map(|call| &call.1).collect();
            assert_eq!(sends.len(), 2, "{sends:?}");
            assert_eq!(
                (sends[0]["space"].as_str(), inbox::tokens(sends[0]["text"].as_str().unwrap())),
                (Some("a"), vec![inbox::token(n)])
            );
            assert_eq!(
                (sends[1]["space"].as_str(), inbox::tokens(sends[1]["text"].as_str().unwrap())),
                (Some("b"), vec!["t-900000-t".to_owned()])
            );
            assert!(calls.iter().any(|call| call.0 == "set_memories"));
            assert!(calls.iter().all(|call| !call.0.starts_with("count_")));
        }
    }

    #[test]
    fn events_in_the_middle_of_a_cycle_are_replied_to_in_the_step_that_shows_them() {
        let inbox =
            "[INBOX — 1 new event, now X]\n\n1. [space a] Mira (@owner, human), just now: \"t-000001-t\"";
        let later =
            "[MID-CYCLE UPDATE — 1 new event]\n\n2. [space a] Mira (@owner, human), just now: \"t-000002-t\"";
        let user = |text: &str| json!({"role": "user", "content": text});
        let mut messages =
            vec![user(inbox), json!({"role": "assistant"}), json!({"role": "tool"}), user(later)];
        let tokens_of = |messages: &[Value]| {
            let calls = decide(messages, &[]).unwrap().calls;
            calls.iter().flat_map(|(_, arguments)| inbox::tokens(&arguments.to_string())).collect::<Vec<_>>()
        };
        assert!(tokens_of(&messages).contains(&"t-000002-t".to_owned()));
        messages.push(json!({"role": "assistant"}));
        assert!(!tokens_of(&messages).contains(&"t-000002-t".to_owned()), "once");
    }

    #[test]
    fn no_two_calls_outside_have_the_same_ticket_whoever_makes_them() {
        let mut tickets = std::collections::BTreeSet::new();
        for (n, agent) in (0..40).flat_map(|n| [(n, "ada"), (n, "ben")]) {
            let line = format!("1. [space a] Mira (@owner, human), just now: \"{}\"", inbox::token(n));
            let messages = [
                json!({"role": "system", "content": format!("You are X (@{agent}), an AI agent.")}),
                json!({"role": "user", "content": format!("[INBOX — 1 new event, now X]\n\n{line}")}),
            ];
            let calls = decide(&messages, &COUNTED.map(|tool| tool.name)).unwrap().calls;
            for (tool, arguments) in calls.into_iter().filter(|(tool, _)| tool.starts_with("count_")) {
                let ticket = arguments["ticket"].as_str().unwrap().to_owned();
                assert!(tickets.insert(ticket), "{tool}: {arguments} was there before");
            }
        }
        assert!(tickets.len() > 40, "{tickets:?}");
    }

    #[test]
    fn an_inbox_with_nothing_to_do_is_skipped() {
        let idle = [
            "[space b] Ben (@ben, agent), just now: \"got t-800000-t\"",
            "[space b] Mia (@mia, human), just now: \"SKIP t-900000-t\"",
        ];
        assert_eq!(reply_to(&idle, 0).calls[0].0, "skip");
        assert!(decide(&[json!({"role": "user", "content": "hello"})], &[]).is_err());
    }
}
