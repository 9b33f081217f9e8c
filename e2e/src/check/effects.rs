//! Checks that outside effects match the logs, and that each happened as often as it may.

use std::collections::BTreeMap;

use super::{Breach, BreachKind, Breaches};
use crate::counter::Effects;
use crate::history::{AgentTrace, History};

/// A text in every outcome of which it is unknown whether the call happened.
const UNKNOWN: &str = "unknown whether it happened";

/// A call of a tool whose effects are counted.
struct CountedCall<'a> {
    agent: &'a str,
    tool: &'a str,
    /// Whether it failed, and the text of its outcome; `None` if it has no outcome.
    outcome: Option<(bool, &'a str)>,
}

/// An unsafe effect happened at most once, and exactly once if its outcome is a success. Other effects happened at
/// least once. No effect happened without a call in a log.
pub(super) fn effects(history: &History, effects: &Effects, breaches: &mut Breaches) {
    let mut calls: BTreeMap<&str, CountedCall<'_>> = BTreeMap::new();
    for agent in &history.agents {
        calls.extend(counted_calls(agent));
    }
    for (key, tools) in effects {
        match calls.get(key.as_str()) {
            Some(call) if tools.iter().all(|tool| tool == call.tool) => {}
            _ => breaches.add(format!("call {key}: {tools:?} happened outside and are in no log")),
        }
    }
    for (key, call) in calls {
        let times = effects.get(key).map_or(0, Vec::len);
        check_call(key, &call, times, breaches);
    }
}

fn check_call(key: &str, call: &CountedCall<'_>, times: usize, breaches: &mut Breaches) {
    let CountedCall { agent, tool, outcome } = call;
    let once = matches!(*tool, "count_unsafe" | "kill_server");
    if once && times > 1 {
        let what = format!("{agent}: call {key} of `{tool}` happened {times} times");
        breaches.0.push(Breach::new(BreachKind::Repeated, what));
    }
    match outcome {
        Some((false, _)) if times == 0 => {
            breaches.lost(format!("{agent}: call {key} of `{tool}` was reported as done and never happened"));
        }
        Some((true, text)) if once && times > 0 && !text.contains(UNKNOWN) => {
            breaches.add(format!("{agent}: call {key} of `{tool}` happened and was reported as `{text}`"));
        }
        Some(_) => {}
        None => breaches.add(format!("{agent}: call {key} of `{tool}` has no outcome")),
    }
}

fn counted_calls(agent: &AgentTrace) -> impl Iterator<Item = (&str, CountedCall<'_>)> {
    let results = agent.log.iter().flat_map(|entry| entry.outcomes.iter().zip(&entry.texts));
    let outcomes: BTreeMap<&str, (bool, &str)> =
        results.map(|((id, failed), text)| (id.as_str(), (*failed, text.as_str()))).collect();
    let calls = agent.log.iter().flat_map(|entry| &entry.calls);
    let counted = calls.filter(|(_, tool, _)| tool.starts_with("count_") || tool == "kill_server");
    counted.map(move |(id, tool, _)| {
        let outcome = outcomes.get(id.as_str()).copied();
        (id.as_str(), CountedCall { agent: &agent.name, tool, outcome })
    })
}

/// The number of calls whose outcome was reported as unknown.
pub fn unknown(history: &History) -> usize {
    let calls = history.agents.iter().flat_map(counted_calls);
    calls
        .filter(|(_, call)| call.outcome.is_some_and(|(failed, text)| failed && text.contains(UNKNOWN)))
        .count()
}
