//! What agents lived: each event in one decision, each decision with all that it does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Found;
use super::promises::AllWords;
use crate::follow::SeenUpdates;
use crate::history::{Happened, History, HistoryEntry, ProcessedEvent, Timeline, Wording};
use crate::inbox::{self, From};

impl ProcessedEvent {
    /// Calls of a tool that did not fail, in the order of the log: id and arguments.
    pub(super) fn done(&self, tool: &str) -> Vec<(&str, Value)> {
        self.calls_done()
            .into_iter()
            .filter(|(_, name, _)| *name == tool)
            .map(|(id, _, args)| (id, args))
            .collect()
    }

    fn calls_done(&self) -> Vec<(&str, &str, Value)> {
        let outcomes = self.log.iter().flat_map(|entry| &entry.outcomes);
        let good: BTreeSet<&str> =
            outcomes.filter(|(_, failed)| !failed).map(|(id, _)| id.as_str()).collect();
        let calls =
            self.log.iter().flat_map(|entry| &entry.calls).filter(|(id, ..)| good.contains(id.as_str()));
        let parsed = |arguments: &str| serde_json::from_str(arguments).unwrap_or_default();
        calls.map(|(id, tool, arguments)| (id.as_str(), tool.as_str(), parsed(arguments))).collect()
    }
}

/// The log's shape: gapless, cycle behind cycle, each begun by an inbox, each call answered in order.
pub(super) fn log(agent: &ProcessedEvent, found: &mut Found) {
    let name = &agent.name;
    found.gapless(&format!("{name}: log"), agent.log.iter().map(|entry| entry.seq));
    let mut cycles = BTreeSet::new();
    let mut calls = BTreeSet::new();
    let mut last: Option<&HistoryEntry> = None;
    for entry in &agent.log {
        let at = format!("{name}: entry {} ({})", entry.seq, entry.kind);
        let begins = last.is_none_or(|last| last.cycle != entry.cycle);
        found.expect(begins == (entry.kind == "inbox"), || {
            format!("{at}: a cycle begins with its inbox and has one")
        });
        if begins {
            found.expect(cycles.insert(&entry.cycle), || {
                format!("{at}: cycle {} goes on behind another", entry.cycle)
            });
        }
        let open: Vec<&str> = last.iter().flat_map(|last| &last.calls).map(|(id, ..)| id.as_str()).collect();
        let answered: Vec<&str> = entry.outcomes.iter().map(|(id, _)| id.as_str()).collect();
        found.expect(open == answered, || {
            format!("{at}: calls {open:?} stand before it, it answers {answered:?}")
        });
        for (id, ..) in &entry.calls {
            found.expect(calls.insert(id), || format!("{at}: call {id} was decided twice"));
        }
        last = Some(entry);
    }
    let open = last.is_some_and(|last| !last.calls.is_empty());
    found.expect(!open, || format!("{name}: the last calls of its log have no outcomes"));
}

/// What an event is recognised by in an inbox: a person's or a service's token, an agent's words.
fn mark(event: &Happened, words: &AllWords<'_>) -> Option<String> {
    if let Some(payload) = &event.payload {
        return inbox::tokens(payload).pop();
    }
    let (words, _) = words.get(event.message.as_deref()?)?;
    mark_of(words.call.is_some(), &words.text)
}

fn mark_of(by_agent: bool, text: &str) -> Option<String> {
    if by_agent { Some(text.to_owned()) } else { inbox::tokens(text).into_iter().next() }
}

/// Inbox entries show exactly the lived events, each in the cycle that lived it, and no event twice.
pub(super) fn shown(agent: &ProcessedEvent, words: &AllWords<'_>, found: &mut Found) {
    let name = &agent.name;
    let mut shown: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in agent.log.iter().filter(|entry| entry.kind == "inbox" || entry.kind == "injection") {
        match inbox::events(&entry.text) {
            Ok(events) => {
                for event in events {
                    let mark = mark_of(event.from == From::Agent, &event.text).unwrap_or_default();
                    shown.entry(mark).or_default().push(&entry.cycle);
                }
            }
            Err(why) => found.add(format!("{name}: entry {}: {why}", entry.seq)),
        }
    }
    for event in &agent.events {
        let Some(mark) = mark(event, words) else {
            found.add(format!("{name}: event {} refers to nothing", event.id));
            continue;
        };
        let cycles = shown.remove(&mark).unwrap_or_default();
        let wanted: Vec<&str> = event.cycle.iter().map(String::as_str).collect();
        found.expect(cycles == wanted, || {
            format!(
                "{name}: event {} ({mark}) is {} by {wanted:?} and shown in {cycles:?}",
                event.id, event.state
            )
        });
    }
    for (mark, cycles) in shown {
        found.add(format!("{name}: cycles {cycles:?} show `{mark}`, which is no event of it"));
    }
}

/// What one person says in one space is shown in the order in which it was said.
pub(super) fn order(agent: &ProcessedEvent, history: &History, found: &mut Found) {
    let said = |space: &'_ Timeline| -> Vec<(String, (String, String, u64))> {
        let by_people = space.messages.iter().filter(|words| words.call.is_none());
        let place = |words: &Wording| (space.id.clone(), words.sender.clone(), words.seq);
        by_people.filter_map(|words| Some((mark_of(false, &words.text)?, place(words)))).collect()
    };
    let places: BTreeMap<_, _> = history.spaces.iter().flat_map(said).collect();
    let mut last: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for entry in agent.log.iter().filter(|entry| entry.kind == "inbox" || entry.kind == "injection") {
        let shown = inbox::events(&entry.text).unwrap_or_default();
        for event in shown.iter().filter(|event| event.from == From::Human) {
            let token = mark_of(false, &event.text).unwrap_or_default();
            let Some((space, sender, seq)) = places.get(&token) else { continue };
            let before = last.insert((space, sender), *seq).unwrap_or(0);
            found.expect(before < *seq, || {
                format!(
                    "{}: shown {token} (message {seq}) behind message {before} of the same person",
                    agent.name
                )
            });
        }
    }
}

/// Every token that the agent lived is quoted in exactly one of its messages, where it was said; no
/// other token is.
pub(super) fn quotes(agent: &ProcessedEvent, words: &AllWords<'_>, history: &History, found: &mut Found) {
    let name = &agent.name;
    let mut quoted: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    for space in &history.spaces {
        for reply in space.messages.iter().filter(|reply| reply.sender == agent.id) {
            for token in inbox::tokens(&reply.text) {
                quoted.entry(token).or_default().push((&reply.id, &space.name));
            }
        }
    }
    for event in agent.events.iter().filter(|event| event.cycle.is_some()) {
        let (token, place) = match (&event.payload, event.message.as_deref().and_then(|id| words.get(id))) {
            (Some(payload), _) => {
                let payload: Value = serde_json::from_str(payload).unwrap_or_default();
                let text = |field: &str| payload[field].as_str().unwrap_or_default().to_owned();
                (text("token"), text("space"))
            }
            (None, Some((words, space))) if words.call.is_none() => {
                (mark_of(false, &words.text).unwrap_or_default(), space.name.clone())
            }
            _ => continue,
        };
        let there = quoted.remove(&token).unwrap_or_default();
        let right = matches!(there.as_slice(), [(_, space)] if *space == place);
        found.expect(right, || format!("{name}: processed {token} of {place} and answered it in {there:?}"));
    }
    for (token, there) in quoted {
        found.add(format!("{name}: {there:?} quote {token}, which it never processed"));
    }
}

/// Its notes are what its decisions made of them, in the order of the log.
pub(super) fn notes(agent: &ProcessedEvent, found: &mut Found) {
    let mut notes: BTreeMap<String, String> = BTreeMap::new();
    for (_, tool, arguments) in agent.calls_done() {
        match tool {
            "set_memories" => {
                for note in arguments["memories"].as_array().into_iter().flatten() {
                    let text = |field: &str| note[field].as_str().unwrap_or_default().to_owned();
                    notes.insert(text("key"), text("value"));
                }
            }
            "delete_memories" => {
                let keys = arguments["keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
                keys.for_each(|key| drop(notes.remove(key)));
            }
            _ => {}
        }
    }
    let keys: BTreeSet<&String> = notes.keys().chain(agent.notes.keys()).collect();
    for key in keys {
        let (decided, kept) = (notes.get(key), agent.notes.get(key));
        found.expect(decided == kept, || {
            format!("{}: note `{key}` was decided as {decided:?} and is {kept:?}", agent.name)
        });
    }
}

/// One run for each cycle of the log, numbered without gaps, with all that it lived.
pub(super) fn runs(agent: &ProcessedEvent, found: &mut Found) {
    let name = &agent.name;
    found.gapless(&format!("{name}: runs"), agent.runs.iter().rev().map(|run| run.ordinal));
    let mut cycles: Vec<&str> = agent.log.iter().map(|entry| entry.cycle.as_str()).collect();
    cycles.dedup();
    let runs: Vec<&str> = agent.runs.iter().rev().map(|run| run.cycle.as_str()).collect();
    for cycle in cycles.iter().filter(|cycle| !runs.contains(cycle)) {
        found.add(format!("{name}: cycle {cycle} stands in the log and has no run"));
    }
    for run in runs.iter().filter(|run| !cycles.contains(run)) {
        found.add(format!("{name}: run {run} has no cycle in the log"));
    }
    let in_order = cycles == runs || cycles.len() != runs.len();
    found.expect(in_order, || format!("{name}: its runs stand in another order than its log"));
    for run in &agent.runs {
        let lived =
            agent.events.iter().filter(|event| event.cycle.as_deref() == Some(&run.cycle)).count() as u64;
        let cycle = &run.cycle;
        found.expect(run.events == lived, || {
            format!("{name}: run {cycle} says {} events and processed {lived}", run.events)
        });
        found.expect(run.ending == "completed", || format!("{name}: run {cycle} ended {}", run.ending));
    }
}

/// Watchers were told each commit once, and what they were told is what is stored.
pub(super) fn commits(agent: &ProcessedEvent, told: &SeenUpdates, found: &mut Found) {
    let name = &agent.name;
    for wrong in told.wrong.iter().chain(&agent.replayed.wrong) {
        found.add(format!("{name}: {wrong}"));
    }
    found.gapless(&format!("{name}: commits"), told.commits.iter().map(|commit| commit.n));
    let (commit_n, last) = (agent.commit_n, told.last());
    found.expect(last == commit_n, || {
        format!("{name}: its last commit is {commit_n}, the last told was {last}")
    });
    let replayed = &agent.replayed.commits;
    let tail = &told.commits[told.commits.len().saturating_sub(replayed.len())..];
    for (told, stored) in tail.iter().zip(replayed).filter(|(told, stored)| told != stored) {
        found.add(format!("{name}: told {told:?}, stored {stored:?}"));
    }
    found.expect(replayed.last().map_or(0, |commit| commit.n) == commit_n, || {
        format!("{name}: the replay of its commits ends before {commit_n}")
    });
    let mut cycles = BTreeSet::new();
    let mut last = "";
    for commit in
        told.commits.iter().filter(|commit| !std::mem::replace(&mut last, &commit.cycle).eq(&commit.cycle))
    {
        let (n, cycle, kind) = (commit.n, &commit.cycle, &commit.kind);
        found.expect(kind == "open", || format!("{name}: commit {n} begins cycle {cycle} with `{kind}`"));
        found.expect(cycles.insert(cycle), || {
            format!("{name}: commit {n} goes on with cycle {cycle} behind another")
        });
    }
}
