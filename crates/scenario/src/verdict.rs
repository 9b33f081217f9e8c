//! Checks the expectations, and finds what came nearest to those that were not met.

use std::collections::HashMap;

use serde::Serialize;

use crate::observed::{AgentLog, Observed};
use crate::scene::{Amount, Expectation, Expected, TextPattern};

/// An expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unmet {
    /// Its line in the file.
    pub line: u64,
    /// Its sentence in the file.
    #[serde(rename = "expected")]
    pub sentence: String,
    /// A description of what was wanted.
    pub wanted: String,
    /// A description of what was found.
    pub got: String,
    /// The text that is nearest to the wanted one, if texts are compared.
    pub nearest: Option<String>,
    /// The wanted text, if texts are compared.
    #[serde(skip)]
    pub example: Option<String>,
}

/// The expectations that were not met.
pub(crate) fn unmet(
    expectations: &[Expectation],
    observed: &Observed,
    ids: &HashMap<String, String>,
) -> Vec<Unmet> {
    let unmet = |expectation: &Expectation| {
        let Gap { wanted, got, nearest } = gap(&expectation.what, observed, ids)?;
        let (example, nearest) = nearest.unzip();
        let sentence = expectation.sentence.clone();
        Some(Unmet { line: expectation.place.line, sentence, wanted, got, nearest, example })
    };
    expectations.iter().filter_map(unmet).collect()
}

struct Gap {
    wanted: String,
    got: String,
    nearest: Option<(String, String)>,
}

impl Gap {
    fn new(wanted: impl Into<String>, got: impl Into<String>) -> Self {
        Self { wanted: wanted.into(), got: got.into(), nearest: None }
    }
}

fn gap(expected: &Expected, observed: &Observed, ids: &HashMap<String, String>) -> Option<Gap> {
    let log = |agent: &str| observed.agent(agent);
    match expected {
        Expected::Said { who, space, words, times } => said(who, space, words, *times, observed),
        Expected::Heard { space, messages } => heard(space, messages, observed),
        Expected::Called { agent, tool, with, times } => called(log(agent)?, tool, with, *times),
        Expected::Ran { tool, times } => {
            let (_, ran) = observed.runs.iter().find(|(name, _)| name == tool)?;
            counted(*times, *ran, &format!("runs of `{tool}`"))
        }
        Expected::Skipped { agent, times } => counted(*times, log(agent)?.skips, "skipped activations"),
        Expected::Cycles { agent, times } => counted(*times, log(agent)?.runs.len() as u64, "cycles"),
        Expected::CycleList { agent, cycles } => {
            let runs = &log(agent)?.runs;
            let fit = |(shape, run): (&crate::scene::CycleShape, &agent::run::Run)| {
                shape.events.is_none_or(|count| count.fits(run.events.into()))
                    && shape.steps.is_none_or(|count| count.fits(run.steps.len() as u64))
                    && shape.ended.is_none_or(|ending| ending == run.ending)
            };
            if runs.len() == cycles.len() && cycles.iter().zip(runs).all(fit) {
                return None;
            }
            let wanted: Vec<String> = cycles.iter().map(ToString::to_string).collect();
            let shown = |run: &agent::run::Run| {
                let steps = run.steps.len();
                let ended = run.ending.as_str();
                format!("{{events: {}, steps: {steps}, ended: {ended}}}", run.events)
            };
            let got: Vec<String> = runs.iter().map(shown).collect();
            Some(Gap::new(format!("[{}]", wanted.join(", ")), format!("[{}]", got.join(", "))))
        }
        Expected::Ids { agent, state, ids: names } => event_states(log(agent)?, state, names, ids),
        Expected::Tokens { agent, count } => match log(agent)?.tokens {
            Some(tokens) if count.fits(tokens) => None,
            Some(tokens) => Some(Gap::new(format!("{count} tokens"), format!("{tokens} tokens"))),
            None => Some(Gap::new(format!("{count} tokens"), "the model reported none")),
        },
        Expected::Remembers { agent, key, words } => remembers(log(agent)?, key, words),
        Expected::Forgot { agent, key } => {
            let kept = log(agent)?.memories.iter().find(|memory| same(&memory.key, key))?;
            Some(Gap::new(format!("no memory `{key}`"), format!("`{}`: {}", kept.key, kept.value)))
        }
    }
}

fn counted(wanted: Amount, got: u64, what: &str) -> Option<Gap> {
    (!wanted.fits(got)).then(|| Gap::new(format!("{wanted} {what}"), format!("{got}")))
}

fn said(who: &str, space: &str, words: &TextPattern, times: Amount, observed: &Observed) -> Option<Gap> {
    let texts: Vec<&str> = observed
        .space(space)?
        .messages
        .iter()
        .filter(|(sender, _)| sender == who)
        .map(|(_, message)| message.text.as_str())
        .collect();
    let fitting: Vec<&str> = texts.iter().copied().filter(|text| words.matches(text)).collect();
    if times.fits(fitting.len() as u64) {
        return None;
    }
    let kind = if words.matches_all() { String::new() } else { format!(" {words}") };
    let wanted = match times {
        Amount::AtLeast(1) => format!("a message of `{who}` in `{space}`{kind}"),
        Amount::Exactly(0) => format!("no message of `{who}` in `{space}`{kind}"),
        Amount::Exactly(1) => format!("1 message of `{who}` in `{space}`{kind}"),
        count => format!("{count} messages of `{who}` in `{space}`{kind}"),
    };
    let got = match (texts.len(), fitting.len()) {
        (0, _) => elsewhere(who, space, observed),
        (all, 0) => format!("{all} there, none of them matches"),
        (all, some) => format!("{some} of {all} there match"),
    };
    let mut gap = Gap::new(wanted, got);
    gap.nearest = match (times, fitting.first()) {
        (Amount::Exactly(0), Some(text)) => {
            gap.got = format!("{}: `{text}`", gap.got);
            None
        }
        (_, None) => {
            words.example().and_then(|example| Some((example.to_owned(), nearest(example, &texts)?)))
        }
        _ => None,
    };
    Some(gap)
}

/// Where else `who` has posted, because the message may be in the wrong space.
fn elsewhere(who: &str, space: &str, observed: &Observed) -> String {
    let posted = |log: &&crate::observed::SpaceLog| {
        log.name != space && log.messages.iter().any(|(sender, _)| sender == who)
    };
    let others: Vec<String> =
        observed.spaces.iter().filter(posted).map(|log| format!("`{}`", log.name)).collect();
    if others.is_empty() {
        format!("`{who}` posted nothing")
    } else {
        format!("`{who}` posted nothing there, only in {}", others.join(", "))
    }
}

fn heard(space: &str, wanted: &[(String, TextPattern)], observed: &Observed) -> Option<Gap> {
    let texts = &observed.space(space)?.messages;
    let first_wrong = (0..wanted.len().max(texts.len())).find(|index| {
        !matches!((wanted.get(*index), texts.get(*index)),
            (Some((who, words)), Some((sender, message))) if who == sender && words.matches(&message.text))
    })?;
    let number = first_wrong + 1;
    let shown_wanted = match wanted.get(first_wrong) {
        Some((who, words)) if words.matches_all() => format!("message {number} by `{who}`"),
        Some((who, words)) => format!("message {number} by `{who}` {words}"),
        None => format!("{} messages", wanted.len()),
    };
    let shown_got = match texts.get(first_wrong) {
        Some((who, message)) if wanted.get(first_wrong).is_some() => {
            format!("message {number} by `{who}`: `{}`", message.text)
        }
        Some((who, message)) => format!("{}, the next by `{who}`: `{}`", texts.len(), message.text),
        None => format!("only {} messages", texts.len()),
    };
    let mut gap = Gap::new(shown_wanted, shown_got);
    if let (Some((who, words)), Some((sender, message))) = (wanted.get(first_wrong), texts.get(first_wrong)) {
        let example = words.example().filter(|_| who == sender);
        gap.nearest = example.map(|example| (example.to_owned(), message.text.clone()));
    }
    Some(gap)
}

fn called(log: &AgentLog, tool: &str, with: &[String], times: Amount) -> Option<Gap> {
    let all: Vec<&str> = log.calls().filter(|(name, _)| *name == tool).map(|(_, args)| args).collect();
    let words = TextPattern { all: with.to_vec(), ..TextPattern::default() };
    let fitting = all.iter().filter(|arguments| words.matches(arguments)).count() as u64;
    if times.fits(fitting) {
        return None;
    }
    let kind = if with.is_empty() { String::new() } else { format!(" {words}") };
    let mut gap = Gap::new(format!("{times} calls of `{tool}`{kind}"), format!("{fitting}"));
    if fitting == 0 && !all.is_empty() {
        gap.got = format!("{} calls, none of them matches", all.len());
        gap.nearest = words.example().and_then(|example| Some((example.to_owned(), nearest(example, &all)?)));
    } else if all.is_empty() {
        let mut others: Vec<String> = log.calls().map(|(name, _)| format!("`{name}`")).collect();
        others.dedup();
        let others = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
        gap.got = format!("none; it called {others}");
    }
    Some(gap)
}

fn event_states(log: &AgentLog, state: &str, names: &[String], ids: &HashMap<String, String>) -> Option<Gap> {
    let word = |name: &String| {
        let found = ids.get(name).and_then(|id| log.state(id));
        found.map_or("not one of its events", agent::event::EventState::as_str)
    };
    let wrong: Vec<String> = names
        .iter()
        .filter(|name| word(name) != state)
        .map(|name| format!("`{name}` is {}", word(name)))
        .collect();
    let wanted = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    (!wrong.is_empty()).then(|| Gap::new(format!("{state}: {wanted}"), wrong.join(", ")))
}

fn remembers(log: &AgentLog, key: &str, words: &TextPattern) -> Option<Gap> {
    let wanted = if words.matches_all() { String::new() } else { format!(" {words}") };
    let wanted = format!("a memory `{key}`{wanted}");
    match log.memories.iter().find(|memory| same(&memory.key, key)) {
        Some(memory) if words.matches(&memory.value) => None,
        Some(memory) => {
            let mut gap = Gap::new(wanted, format!("`{}`: `{}`", memory.key, memory.value));
            gap.nearest = words.example().map(|example| (example.to_owned(), memory.value.clone()));
            Some(gap)
        }
        None => {
            let keys: Vec<String> = log.memories.iter().map(|memory| format!("`{}`", memory.key)).collect();
            let got = if keys.is_empty() { "no memories".to_owned() } else { keys.join(", ") };
            Some(Gap::new(wanted, got))
        }
    }
}

fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

/// The text that shares most words with the wanted one. Among equals, the one with the longest equal start, then
/// the latest.
fn nearest(example: &str, texts: &[&str]) -> Option<String> {
    let wanted: Vec<String> = example.split_whitespace().map(str::to_lowercase).collect();
    let shared = |text: &&&str| {
        let text = text.to_lowercase();
        let words = wanted.iter().filter(|word| text.contains(word.as_str())).count();
        let same_start = example.to_lowercase().chars().zip(text.chars()).take_while(|(a, b)| a == b).count();
        (words, same_start)
    };
    texts.iter().max_by_key(shared).map(|text| (*text).to_owned())
}
