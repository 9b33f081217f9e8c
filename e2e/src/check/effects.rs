//! Checks that outside effects match the logs, and that each happened as often as it may.

use std::collections::BTreeMap;

use agent::call::Effect;
use serde_json::Value;

use super::{Breach, BreachKind, Breaches};
use crate::counted::{CountedTool, counted};
use crate::counter::{CountedEffect, Effects};
use crate::history::{AgentTrace, History};

/// A text in every outcome of which it is unknown whether the call happened.
const UNKNOWN: &str = "unknown whether it happened";

/// A call of a tool whose effects are counted.
struct CountedCall<'a> {
    agent: &'a str,
    id: &'a str,
    tool: &'static CountedTool,
    /// Whether it failed, and the text of its outcome; `None` if it has no outcome.
    outcome: Option<(bool, &'a str)>,
}

/// An unsafe effect happened at most once, and exactly once if its outcome is a success. Other effects happened at
/// least once, those of an idempotent call under its id as the key. No effect happened without a call in a log.
pub(super) fn effects(history: &History, effects: &Effects, breaches: &mut Breaches) {
    let mut calls: BTreeMap<String, CountedCall<'_>> = BTreeMap::new();
    for (ticket, call) in history.agents.iter().flat_map(counted_calls) {
        let (agent, id) = (call.agent, call.id);
        if let Some(other) = calls.insert(ticket.clone(), call) {
            breaches.doubled(format!("{agent}: `{ticket}` was decided twice, as call {} and {id}", other.id));
        }
    }
    for (ticket, happened) in effects {
        match calls.get(ticket) {
            Some(call) if happened.iter().all(|effect| effect.tool == call.tool.name) => {}
            _ => breaches.add(format!("`{ticket}`: {happened:?} happened outside and are in no log")),
        }
    }
    for (ticket, call) in calls {
        check_call(&call, effects.get(&ticket).map_or(&[], Vec::as_slice), breaches);
    }
}

fn check_call(call: &CountedCall<'_>, happened: &[CountedEffect], breaches: &mut Breaches) {
    let CountedCall { agent, id, tool, outcome } = call;
    let (name, times) = (tool.name, happened.len());
    let once = tool.effect == Effect::Unsafe;
    if once && times > 1 {
        let what = format!("{agent}: call {id} of `{name}` happened {times} times");
        breaches.0.push(Breach::new(BreachKind::Repeated, what));
    }
    let needs_key = tool.effect == Effect::Idempotent;
    let wrong = |key: &Option<String>| key.as_deref().map_or(needs_key, |key| key != *id);
    for CountedEffect { key, .. } in happened.iter().filter(|effect| wrong(&effect.key)) {
        breaches.doubled(format!("{agent}: call {id} of `{name}` happened under the key {key:?}"));
    }
    match outcome {
        Some((false, _)) if times == 0 => {
            breaches.lost(format!("{agent}: call {id} of `{name}` was reported as done and never happened"));
        }
        Some((true, text)) if once && times > 0 && !text.contains(UNKNOWN) => {
            breaches.add(format!("{agent}: call {id} of `{name}` happened and was reported as `{text}`"));
        }
        Some(_) => {}
        None => breaches.add(format!("{agent}: call {id} of `{name}` has no outcome")),
    }
}

/// The calls of the agent's log, by the tickets in their arguments.
fn counted_calls(agent: &AgentTrace) -> impl Iterator<Item = (String, CountedCall<'_>)> {
    let results = agent.log.iter().flat_map(|entry| entry.outcomes.iter().zip(entry.texts.iter()));
    let outcomes: BTreeMap<&str, (bool, &str)> =
        results.map(|((id, failed), text)| (id.as_str(), (*failed, text.as_str()))).collect();
    let calls = agent.log.iter().flat_map(|entry| &entry.calls);
    calls.filter_map(move |(id, tool, arguments)| {
        let (tool, outcome) = (counted(tool)?, outcomes.get(id.as_str()).copied());
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let ticket = arguments["ticket"].as_str().unwrap_or_default().to_owned();
        Some((ticket, CountedCall { agent: &agent.name, id, tool, outcome }))
    })
}

/// The number of calls whose outcome was reported as unknown.
pub fn unknown(history: &History) -> usize {
    let calls = history.agents.iter().flat_map(counted_calls);
    calls
        .filter(|(_, call)| call.outcome.is_some_and(|(failed, text)| failed && text.contains(UNKNOWN)))
        .count()
}
