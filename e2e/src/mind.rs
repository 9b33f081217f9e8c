//! What the stub model answers: a pure function of the request, so that a cycle which was cut off
//! by a kill thinks the same again. Everything varies by a hash of what the inbox says.

use serde_json::{Value, json};

use crate::inbox::{self, From, Shown};

/// Whoever says it wants the server killed by a tool.
pub const DEADLY: &str = "KILL-THE-SERVER";
/// Keys of the notes that minds keep: fewer than an agent may have.
const KEYS: u64 = 61;

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedReply {
    /// Tools to call, with their arguments.
    pub calls: Vec<(&'static str, Value)>,
    /// Words of the agent to itself.
    pub text: Option<String>,
    /// Steps of the cycle before this one.
    pub step: usize,
    /// Hash of the inbox and the step.
    pub hash: u64,
}

/// Decides. `counted` says that tools are offered whose effects are counted. The error says what of the
/// request cannot be.
pub fn decide(messages: &[Value], counted: bool) -> Result<PlannedReply, String> {
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let is = |message: &Value, role: &str| message["role"] == role;
    let at = messages
        .iter()
        .rposition(|message| is(message, "user") && inbox::is_inbox(&text(message)))
        .ok_or("a request without an inbox")?;
    let step = messages[at + 1..].iter().filter(|message| is(message, "assistant")).count();
    let events = inbox::events(&text(&messages[at]))?;
    let hash = hashed(&events);
    let meanwhile = meanwhile(&messages[at + 1..])?;
    let (mut calls, words) = if business(&events).is_empty() || events.iter().all(is_idle) {
        (vec![("skip", json!({"reason": "none of my business"}))], None)
    } else {
        act(&events, hash, step)
    };
    if step == 0 && words.is_some() | !calls.is_empty() && !is_skip(&calls) {
        if counted {
            calls.extend(outside(&events, hash));
        }
        calls.extend(blunder(hash));
    }
    // What came meanwhile is answered by the step that is shown it, before the end.
    if !meanwhile.is_empty() {
        calls.splice(0..0, says(&meanwhile));
    }
    let hash = hash.wrapping_add(step as u64).wrapping_add(hashed(&meanwhile));
    Ok(PlannedReply { calls, text: words, step, hash })
}

/// The events that came since the last step.
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

/// Effects outside, of each kind; and the death of the server where someone asks for it.
fn outside(events: &[Shown], hash: u64) -> Calls {
    let last = business(events).iter().filter_map(|event| inbox::tokens(&event.text).pop()).next_back();
    let call = |name| (name, json!({"note": last.clone().unwrap_or_default()}));
    if events.iter().any(|event| event.text.contains(DEADLY)) {
        return vec![call("kill_server")];
    }
    match (hash >> 20) % 5 {
        0 => vec![call("count_unsafe"), call("count_read")],
        1 => vec![call("count_idempotent")],
        2 => vec![call("count_unsafe"), call("count_idempotent"), call("count_unsafe")],
        3 => vec![call("count_read"), call("count_unsafe")],
        _ => Vec::new(),
    }
}

/// Now and then a call that cannot be: of no tool, of arguments that are none.
fn blunder(hash: u64) -> Option<(&'static str, Value)> {
    match (hash >> 44) % 12 {
        0 => Some(("no_such_tool", json!({}))),
        1 => Some(("set_memories", json!("{\"memories\": [{\"key\""))),
        _ => None,
    }
}

/// Four temperaments.
fn act(events: &[Shown], hash: u64, step: usize) -> (Calls, Option<String>) {
    let says = says(events);
    let notes = notes(events, hash);
    let done = || vec![("done", json!({"summary": "answered"}))];
    match (hash % 4, step) {
        // All at once, then the end.
        (0 | 3, 0) => (says.into_iter().chain(notes).collect(), None),
        // Notes first, then words, then the end.
        (1, 0) => (notes, Some("let me think".to_owned())),
        (1, 1) => (says, None),
        // Everything with the end in one step.
        (2, 0) => (says.into_iter().chain(notes).chain(done()).collect(), None),
        // The end without a call.
        (3, _) => (Vec::new(), Some("that was all".to_owned())),
        _ => (done(), None),
    }
}

/// What the events say to this agent: words of other agents are theirs alone.
fn business(events: &[Shown]) -> Vec<&Shown> {
    events.iter().filter(|event| event.from != From::Agent).collect()
}

fn is_idle(event: &Shown) -> bool {
    event.from == From::Agent || (event.from == From::Human && event.text.contains("SKIP"))
}

/// One message to each space that is concerned, which quotes every token of there once.
fn says(events: &[Shown]) -> Calls {
    let mut places: Vec<(&str, Vec<String>)> = Vec::new();
    for event in business(events) {
        let tokens = inbox::tokens(&event.text);
        match places.iter_mut().find(|(space, _)| *space == event.space) {
            Some((_, known)) => known.extend(tokens),
            None => places.push((&event.space, tokens)),
        }
    }
    let say = |(space, tokens): (&str, Vec<String>)| {
        ("send_message", json!({"space": space, "text": format!("got {}", tokens.join(" "))}))
    };
    places.into_iter().map(say).collect()
}

/// A note about the last token; now and then an old one is forgotten.
fn notes(events: &[Shown], hash: u64) -> Calls {
    let last = business(events).iter().filter_map(|event| inbox::tokens(&event.text).pop()).next_back();
    let key = |number: u64| format!("k{}", number % KEYS);
    let note =
        json!({"key": key(hash >> 8), "value": format!("{} of {}", last.unwrap_or_default(), events.len())});
    let mut calls = vec![("set_memories", json!({"memories": [note]}))];
    if (hash >> 16).is_multiple_of(5) {
        calls.push(("delete_memories", json!({"keys": [key(hash >> 24), key(hash >> 32)]})));
    }
    calls
}

fn hashed(events: &[Shown]) -> u64 {
    let texts = events.iter().flat_map(|event| event.text.bytes());
    let fnv = texts.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The low bits of FNV are those of the last bytes; these are not.
    fnv ^ (fnv >> 29) ^ (fnv >> 47)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(lines: &[&str], steps: usize) -> PlannedReply {
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
        decide(&messages, false).unwrap()
    }

    #[test]
    fn every_token_is_quoted_once_where_it_was_said_over_all_steps_of_any_temperament() {
        for n in 0..40 {
            let first = format!("[space a] Mira (@owner, human), just now: \"{}\"", inbox::token(n));
            let lines = [
                first.as_str(),
                "[space b] Mia (@mia, human), just now: \"SKIP t-900000-t\"",
                "[space b] Ben (@ben, agent), just now: \"got t-800000-t\"",
            ];
            let calls: Vec<_> = (0..3).flat_map(|step| asked(&lines, step).calls).collect();
            let says: Vec<_> =
                calls.iter().filter(|call| call.0 == "send_message").map(|call| &call.1).collect();
            assert_eq!(says.len(), 2, "{says:?}");
            assert_eq!(
                (says[0]["space"].as_str(), inbox::tokens(says[0]["text"].as_str().unwrap())),
                (Some("a"), vec![inbox::token(n)])
            );
            assert_eq!(
                (says[1]["space"].as_str(), inbox::tokens(says[1]["text"].as_str().unwrap())),
                (Some("b"), vec!["t-900000-t".to_owned()])
            );
            assert!(calls.iter().any(|call| call.0 == "set_memories"));
            assert!(calls.iter().all(|call| !call.0.starts_with("count_")));
        }
    }

    #[test]
    fn what_came_meanwhile_is_answered_by_the_step_that_is_shown_it() {
        let inbox =
            "[INBOX — 1 new event, now X]\n\n1. [space a] Mira (@owner, human), just now: \"t-000001-t\"";
        let later =
            "[MID-CYCLE UPDATE — 1 new event]\n\n2. [space a] Mira (@owner, human), just now: \"t-000002-t\"";
        let user = |text: &str| json!({"role": "user", "content": text});
        let mut messages =
            vec![user(inbox), json!({"role": "assistant"}), json!({"role": "tool"}), user(later)];
        let told = |messages: &[Value]| {
            let calls = decide(messages, false).unwrap().calls;
            calls.iter().flat_map(|(_, arguments)| inbox::tokens(&arguments.to_string())).collect::<Vec<_>>()
        };
        assert!(told(&messages).contains(&"t-000002-t".to_owned()));
        messages.push(json!({"role": "assistant"}));
        assert!(!told(&messages).contains(&"t-000002-t".to_owned()), "once");
    }

    #[test]
    fn what_is_nobodys_business_is_skipped() {
        let idle = [
            "[space b] Ben (@ben, agent), just now: \"got t-800000-t\"",
            "[space b] Mia (@mia, human), just now: \"SKIP t-900000-t\"",
        ];
        assert_eq!(asked(&idle, 0).calls[0].0, "skip");
        assert!(decide(&[json!({"role": "user", "content": "hello"})], false).is_err());
    }
}
