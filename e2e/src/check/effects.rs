//! Checks that outside effects match the logs, and that each happened as often as it may.

use std::collections::{BTreeMap, BTreeSet};

use agent::call::Effect;
use serde_json::Value;

use super::{Breach, BreachKind, Breaches};
use crate::counted::{APPROVED, CountedTool, counted};
use crate::counter::{CountedEffect, Effects};
use crate::history::{AgentTrace, History, LateResult};

/// A text in every outcome of which it is unknown whether the call happened.
const UNKNOWN: &str = "unknown whether it happened";
/// A text in every outcome that says that the real one comes later.
const PENDING: &str = r#""status":"pending""#;

/// A call of a tool whose effects are counted.
struct CountedCall<'a> {
    agent: &'a str,
    id: &'a str,
    tool: &'static CountedTool,
    /// Whether it failed, and the text of its outcome: those that the agent was told, in order.
    outcomes: Vec<(bool, &'a str)>,
}

/// An unsafe effect happened at most once, and exactly once if its outcome is a success. Other effects happened at
/// least once, those of an idempotent call under its id as the key. No effect happened without a call in a log. Each call
/// has one outcome, and one more only if the first says that nothing is known.
pub(super) fn effects(history: &History, effects: &Effects, breaches: &mut Breaches) {
    let mut calls: BTreeMap<String, CountedCall<'_>> = BTreeMap::new();
    for agent in &history.agents {
        results(agent, breaches);
    }
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
    let CountedCall { agent, id, tool, outcomes } = call;
    let (name, times) = (tool.name, happened.len());
    let once = tool.effect == Effect::Unsafe;
    if once && times > 1 {
        let what = format!("{agent}: call {id} of `{name}` happened {times} times");
        breaches.0.push(Breach::new(BreachKind::Repeated, what));
    }
    if name == APPROVED && happened.iter().any(|effect| !effect.approved) {
        let what = format!("{agent}: call {id} of `{name}` happened without a person's approval");
        breaches.0.push(Breach::new(BreachKind::Unapproved, what));
    }
    let needs_key = tool.effect == Effect::Idempotent;
    let wrong = |key: &Option<String>| key.as_deref().map_or(needs_key, |key| key != *id);
    for CountedEffect { key, .. } in happened.iter().filter(|effect| wrong(&effect.key)) {
        breaches.doubled(format!("{agent}: call {id} of `{name}` happened under the key {key:?}"));
    }
    for (failed, text) in outcomes {
        if !failed && times == 0 {
            breaches.lost(format!("{agent}: call {id} of `{name}` was reported as done and never happened"));
        } else if *failed && once && times > 0 && !text.contains(UNKNOWN) {
            breaches.add(format!("{agent}: call {id} of `{name}` happened and was reported as `{text}`"));
        }
    }
    match outcomes.as_slice() {
        [] => breaches.add(format!("{agent}: call {id} of `{name}` has no outcome")),
        [_] => {}
        [first, _] if is_unknown(first) => {}
        more => breaches.doubled(format!("{agent}: call {id} of `{name}` has the outcomes {more:?}")),
    }
}

fn is_unknown((failed, text): &(bool, &str)) -> bool {
    *failed && text.contains(UNKNOWN)
}

/// Each late result is of a call in the log.
fn results(agent: &AgentTrace, breaches: &mut Breaches) {
    let calls: BTreeSet<&str> =
        agent.log.iter().flat_map(|entry| &entry.calls).map(|(id, ..)| id.as_str()).collect();
    for LateResult { call, text, .. } in agent.events.iter().filter_map(|event| event.result.as_ref()) {
        if !calls.contains(call.as_str()) {
            breaches
                .add(format!("{}: `{text}` is the result of call {call}, which is in no log", agent.name));
        }
    }
}

/// The calls of the agent's log, by the tickets in their arguments.
fn counted_calls(agent: &AgentTrace) -> impl Iterator<Item = (String, CountedCall<'_>)> {
    let in_log = agent.log.iter().flat_map(|entry| entry.outcomes.iter().zip(entry.texts.iter()));
    let in_log = in_log.map(|((id, failed), text)| (id.as_str(), (*failed, text.as_str())));
    let late = agent.events.iter().rev().filter_map(|event| event.result.as_ref());
    let late = late.map(|late| (late.call.as_str(), (late.failed, late.text.as_str())));
    let mut outcomes: BTreeMap<&str, Vec<(bool, &str)>> = BTreeMap::new();
    for (id, outcome) in in_log.filter(|(_, (_, text))| !text.contains(PENDING)).chain(late) {
        outcomes.entry(id).or_default().push(outcome);
    }
    let calls = agent.log.iter().flat_map(|entry| &entry.calls);
    calls.filter_map(move |(id, tool, arguments)| {
        let (tool, outcomes) = (counted(tool)?, outcomes.remove(id.as_str()).unwrap_or_default());
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let ticket = arguments["ticket"].as_str().unwrap_or_default().to_owned();
        Some((ticket, CountedCall { agent: &agent.name, id, tool, outcomes }))
    })
}

/// The number of calls of which it was reported that nothing is known, and of those whose outcome was reported after all.
pub fn unknown(history: &History) -> (usize, usize) {
    let calls = history.agents.iter().flat_map(counted_calls);
    let unknown = calls.filter(|(_, call)| call.outcomes.first().is_some_and(is_unknown));
    unknown.fold((0, 0), |(all, late), (_, call)| (all + 1, late + usize::from(call.outcomes.len() > 1)))
}
