//! Checks of an agent's history: each event is in one decision, and each decision has all its effects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Breaches;
use super::promises::AllMessages;
use crate::follow::SeenUpdates;
use crate::history::{AgentTrace, History, HistoryEntry, HistoryMessage, InboxEvent, LateResult, Timeline};
use crate::inbox::{self, From};

impl AgentTrace {
    /// The calls of a tool that did not fail, in the order of the log: id and arguments.
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

/// The log has no gaps, cycles follow each other, each cycle begins with an inbox, and calls have outcomes in order.
pub(super) fn log(agent: &AgentTrace, breaches: &mut Breaches) {
    let name = &agent.name;
    breaches.gapless(&format!("{name}: log"), agent.log.iter().map(|entry| entry.seq));
    let mut cycles = BTreeSet::new();
    let mut calls = BTreeSet::new();
    let mut last: Option<&HistoryEntry> = None;
    for entry in &agent.log {
        let at = format!("{name}: entry {} ({})", entry.seq, entry.kind);
        let begins = last.is_none_or(|last| last.cycle != entry.cycle);
        breaches.expect(begins == (entry.kind == "inbox"), || {
            format!("{at}: a cycle must begin with its only inbox")
        });
        if begins {
            breaches.expect(cycles.insert(&entry.cycle), || {
                format!("{at}: cycle {} continues after another cycle", entry.cycle)
            });
        }
        let open: Vec<&str> = last.iter().flat_map(|last| &last.calls).map(|(id, ..)| id.as_str()).collect();
        let answered: Vec<&str> = entry.outcomes.iter().map(|(id, _)| id.as_str()).collect();
        breaches.expect(open == answered, || {
            format!("{at}: the calls before it are {open:?}, its outcomes are for {answered:?}")
        });
        for (id, ..) in &entry.calls {
            breaches.expect(calls.insert(id), || format!("{at}: call {id} was decided twice"));
        }
        last = Some(entry);
    }
    let open = last.is_some_and(|last| !last.calls.is_empty());
    breaches.expect(!open, || format!("{name}: the last calls of its log have no outcomes"));
}

/// The text that identifies an event in an inbox: the token of a person or a service, the text of an agent, or a result.
fn mark(event: &InboxEvent, messages: &AllMessages<'_>) -> Option<String> {
    if let Some(payload) = &event.payload {
        return inbox::tokens(payload).pop();
    }
    if let Some(LateResult { call, text, .. }) = &event.result {
        return Some(inbox::result(call, text));
    }
    let (message, _) = messages.get(event.message.as_deref()?)?;
    mark_of(message.call.is_some(), &message.text)
}

fn mark_of(whole: bool, text: &str) -> Option<String> {
    if whole { Some(text.to_owned()) } else { inbox::tokens(text).into_iter().next() }
}

/// Inbox entries show exactly the processed events, each in the cycle that processed it, and no event twice.
pub(super) fn shown(agent: &AgentTrace, messages: &AllMessages<'_>, breaches: &mut Breaches) {
    let name = &agent.name;
    let mut shown: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in agent.log.iter().filter(|entry| entry.kind == "inbox" || entry.kind == "injection") {
        match inbox::events(&entry.text) {
            Ok(events) => {
                for event in events {
                    let whole = matches!(event.from, From::Agent | From::Tool);
                    let mark = mark_of(whole, &event.text).unwrap_or_default();
                    shown.entry(mark).or_default().push(&entry.cycle);
                }
            }
            Err(why) => breaches.add(format!("{name}: entry {}: {why}", entry.seq)),
        }
    }
    for event in &agent.events {
        let Some(mark) = mark(event, messages) else {
            breaches.add(format!("{name}: event {} refers to nothing", event.id));
            continue;
        };
        let cycles = shown.remove(&mark).unwrap_or_default();
        let wanted: Vec<&str> = event.cycle.iter().map(String::as_str).collect();
        breaches.expect(cycles == wanted, || {
            format!(
                "{name}: event {} ({mark}) is {} by {wanted:?} and shown in {cycles:?}",
                event.id, event.state
            )
        });
    }
    for (mark, cycles) in shown {
        breaches.add(format!("{name}: cycles {cycles:?} show `{mark}`, which is not one of its events"));
    }
}

/// The messages of one person in one space are shown in the order in which they were posted.
pub(super) fn order(agent: &AgentTrace, history: &History, breaches: &mut Breaches) {
    let posted = |space: &'_ Timeline| -> Vec<(String, (String, String, u64))> {
        let by_people = space.messages.iter().filter(|message| message.call.is_none());
        let position = |message: &HistoryMessage| (space.id.clone(), message.sender.clone(), message.seq);
        by_people.filter_map(|message| Some((mark_of(false, &message.text)?, position(message)))).collect()
    };
    let positions: BTreeMap<_, _> = history.spaces.iter().flat_map(posted).collect();
    let mut last: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for entry in agent.log.iter().filter(|entry| entry.kind == "inbox" || entry.kind == "injection") {
        let shown = inbox::events(&entry.text).unwrap_or_default();
        for event in shown.iter().filter(|event| event.from == From::Human) {
            let token = mark_of(false, &event.text).unwrap_or_default();
            let Some((space, sender, seq)) = positions.get(&token) else { continue };
            let before = last.insert((space, sender), *seq).unwrap_or(0);
            breaches.expect(before < *seq, || {
                format!(
                    "{}: shown {token} (message {seq}) after message {before} of the same person",
                    agent.name
                )
            });
        }
    }
}

/// Every token that the agent processed is quoted in exactly one of its messages, in the token's space. No other
/// token is quoted.
pub(super) fn quotes(
    agent: &AgentTrace,
    messages: &AllMessages<'_>,
    history: &History,
    breaches: &mut Breaches,
) {
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
        let (token, space_name) =
            match (&event.payload, event.message.as_deref().and_then(|id| messages.get(id))) {
                (Some(payload), _) => {
                    let payload: Value = serde_json::from_str(payload).unwrap_or_default();
                    let text = |field: &str| payload[field].as_str().unwrap_or_default().to_owned();
                    (text("token"), text("space"))
                }
                (None, Some((message, space))) if message.call.is_none() => {
                    (mark_of(false, &message.text).unwrap_or_default(), space.name.clone())
                }
                _ => continue,
            };
        let replies = quoted.remove(&token).unwrap_or_default();
        let right = matches!(replies.as_slice(), [(_, space)] if *space == space_name);
        breaches.expect(right, || {
            format!("{name}: processed {token} of {space_name} and quoted it in {replies:?}")
        });
    }
    for (token, replies) in quoted {
        breaches.add(format!("{name}: {replies:?} quote {token}, which it never processed"));
    }
}

/// The agent's memories are the result of its decisions, in the order of the log.
pub(super) fn memories(agent: &AgentTrace, breaches: &mut Breaches) {
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
        breaches.expect(decided == kept, || {
            format!("{}: memory `{key}` was decided as {decided:?} and is {kept:?}", agent.name)
        });
    }
}

/// Each cycle of the log has one run; runs are numbered without gaps and count the processed events.
pub(super) fn runs(agent: &AgentTrace, breaches: &mut Breaches) {
    let name = &agent.name;
    breaches.gapless(&format!("{name}: runs"), agent.runs.iter().rev().map(|run| run.ordinal));
    let mut cycles: Vec<&str> = agent.log.iter().map(|entry| entry.cycle.as_str()).collect();
    cycles.dedup();
    let runs: Vec<&str> = agent.runs.iter().rev().map(|run| run.cycle.as_str()).collect();
    for cycle in cycles.iter().filter(|cycle| !runs.contains(cycle)) {
        breaches.add(format!("{name}: cycle {cycle} is in the log and has no run"));
    }
    for run in runs.iter().filter(|run| !cycles.contains(run)) {
        breaches.add(format!("{name}: run {run} has no cycle in the log"));
    }
    let in_order = cycles == runs || cycles.len() != runs.len();
    breaches.expect(in_order, || format!("{name}: its runs are in another order than its log"));
    for run in &agent.runs {
        let processed =
            agent.events.iter().filter(|event| event.cycle.as_deref() == Some(&run.cycle)).count() as u64;
        let cycle = &run.cycle;
        breaches.expect(run.events == processed, || {
            format!("{name}: run {cycle} counts {} events and processed {processed}", run.events)
        });
        breaches.expect(run.ending == "completed", || format!("{name}: run {cycle} ended {}", run.ending));
    }
}

/// Each commit was streamed once, and the streamed commits equal the stored ones.
pub(super) fn commits(agent: &AgentTrace, streamed: &SeenUpdates, breaches: &mut Breaches) {
    let name = &agent.name;
    for wrong in streamed.errors.iter().chain(&agent.replayed.errors) {
        breaches.add(format!("{name}: {wrong}"));
    }
    breaches.gapless(&format!("{name}: commits"), streamed.commits.iter().map(|commit| commit.n));
    let (commit_n, last) = (agent.commit_n, streamed.last());
    breaches.expect(last == commit_n, || {
        format!("{name}: its last commit is {commit_n}, the last streamed one is {last}")
    });
    let replayed = &agent.replayed.commits;
    let tail = &streamed.commits[streamed.commits.len().saturating_sub(replayed.len())..];
    for (streamed, stored) in tail.iter().zip(replayed).filter(|(streamed, stored)| streamed != stored) {
        breaches.add(format!("{name}: streamed {streamed:?}, stored {stored:?}"));
    }
    breaches.expect(replayed.last().map_or(0, |commit| commit.n) == commit_n, || {
        format!("{name}: the replay of its commits ends before {commit_n}")
    });
    let mut cycles = BTreeSet::new();
    let mut last = "";
    for commit in streamed
        .commits
        .iter()
        .filter(|commit| !std::mem::replace(&mut last, &commit.cycle).eq(&commit.cycle))
    {
        let (n, cycle, kind) = (commit.n, &commit.cycle, &commit.kind);
        breaches.expect(kind == "open", || format!("{name}: commit {n} begins cycle {cycle} with `{kind}`"));
        breaches.expect(cycles.insert(cycle), || {
            format!("{name}: commit {n} continues cycle {cycle} after another cycle")
        });
    }
}
