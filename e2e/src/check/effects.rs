//! What happened outside is what the logs say, as often as each effect may.

use std::collections::BTreeMap;

use super::{Breach, Found, WorldKind};
use crate::counter::Effects;
use crate::history::{History, ProcessedEvent};

/// What every answer says of which nobody knows whether it happened.
const UNKNOWN: &str = "unknown whether it happened";

/// One call of a counted tool.
struct Asked<'a> {
    agent: &'a str,
    tool: &'a str,
    /// Whether it failed, and what the model reads; `None` where it was never answered.
    told: Option<(bool, &'a str)>,
}

/// Unsafe effects at most once, and once where they are told so; others at least once; none that
/// nobody decided.
pub(super) fn effects(history: &History, effects: &Effects, found: &mut Found) {
    let mut asked: BTreeMap<&str, Asked<'_>> = BTreeMap::new();
    for agent in &history.agents {
        asked.extend(asked_by(agent));
    }
    for (key, tools) in effects {
        match asked.get(key.as_str()) {
            Some(asked) if tools.iter().all(|tool| tool == asked.tool) => {}
            _ => found.add(format!("call {key}: {tools:?} happened outside and stand so in no log")),
        }
    }
    for (key, asked) in asked {
        let times = effects.get(key).map_or(0, Vec::len);
        judge(key, &asked, times, found);
    }
}

fn judge(key: &str, asked: &Asked<'_>, times: usize, found: &mut Found) {
    let Asked { agent, tool, told } = asked;
    let once = matches!(*tool, "count_unsafe" | "kill_server");
    if once && times > 1 {
        let what = format!("{agent}: call {key} of `{tool}` happened {times} times");
        found.0.push(Breach::new(WorldKind::Repeated, what));
    }
    match told {
        Some((false, _)) if times == 0 => {
            found.lost(format!("{agent}: call {key} of `{tool}` was told as done and never happened"));
        }
        Some((true, words)) if once && times > 0 && !words.contains(UNKNOWN) => {
            found.add(format!("{agent}: call {key} of `{tool}` happened and was told as `{words}`"));
        }
        Some(_) => {}
        None => found.add(format!("{agent}: call {key} of `{tool}` was never answered")),
    }
}

fn asked_by(agent: &ProcessedEvent) -> impl Iterator<Item = (&str, Asked<'_>)> {
    let answers = agent.log.iter().flat_map(|entry| entry.outcomes.iter().zip(&entry.words));
    let told: BTreeMap<&str, (bool, &str)> =
        answers.map(|((id, failed), words)| (id.as_str(), (*failed, words.as_str()))).collect();
    let calls = agent.log.iter().flat_map(|entry| &entry.calls);
    let counted = calls.filter(|(_, tool, _)| tool.starts_with("count_") || tool == "kill_server");
    counted.map(move |(id, tool, _)| {
        let told = told.get(id.as_str()).copied();
        (id.as_str(), Asked { agent: &agent.name, tool, told })
    })
}

/// Calls of unsafe tools whose outcome nobody knows, as their agents were told.
pub fn unknown(history: &History) -> usize {
    let asked = history.agents.iter().flat_map(asked_by);
    asked
        .filter(|(_, asked)| asked.told.is_some_and(|(failed, words)| failed && words.contains(UNKNOWN)))
        .count()
}
