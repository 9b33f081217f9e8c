//! The summary by rule: the previous summary, then a line for each cycle that is left out, with what it read and what the agent
//! said or did; for a part of a long cycle in which it only called tools, a line for each of its newest steps. If it gets too
//! long, the oldest lines go first.

use std::fmt::Write as _;
use std::sync::Arc;

use super::check;
use crate::call::head_and_tail;
use crate::entry::{Entry, EntryKind};
use crate::id::CallId;
use crate::limits;
use crate::message::Part;
use crate::quote::one_line;
use crate::tool::names;

/// The section with a line per cycle.
const CYCLES: &str = "## Earlier cycles";

/// The previous summary and the entries, in at most `bytes` bytes.
pub(super) fn merged(previous: Option<&str>, gone: &[Arc<Entry>], bytes: usize) -> String {
    let (sections, old_lines) = parted(previous.unwrap_or_default());
    let mut lines: Vec<String> = old_lines.into_iter().map(str::to_owned).collect();
    for cycle in gone.chunk_by(|a, b| a.cycle == b.cycle) {
        lines.extend(lines_of(cycle));
    }
    // What a model wrote keeps at most two thirds, so that newer cycles always have room.
    let most = bytes * 2 / 3;
    let mut out = head_and_tail(sections.trim_end(), most);
    if out.len() < sections.trim_end().len() {
        // The middle is gone, but not what must stay; that has at most a quarter for each of two sections.
        out = check::with_kept(&head_and_tail(sections.trim_end(), most / 2), sections, bytes / 6);
    }
    let room = bytes.saturating_sub(out.len() + CYCLES.len() + 8);
    let mut used = 0;
    let fits = |line: &&String| {
        used += line.len() + 1;
        used <= room
    };
    let kept = lines.iter().rev().take_while(fits).count();
    if kept > 0 {
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        let _ = write!(out, "{CYCLES}\n{}", lines[lines.len() - kept..].join("\n"));
    }
    out
}

/// The sections before the lines of cycles, and these lines.
pub(super) fn parted(summary: &str) -> (&str, Vec<&str>) {
    let Some((sections, rest)) = summary.split_once(CYCLES) else { return (summary, Vec::new()) };
    (sections, rest.lines().filter(|line| !line.trim().is_empty()).collect())
}

/// What a cycle read, and what the agent said in it or else did; then its newest steps if nothing was read or said.
fn lines_of(cycle: &[Arc<Entry>]) -> Vec<String> {
    let Some(first) = cycle.first() else { return Vec::new() };
    let read = cycle.iter().filter(|entry| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection));
    let read: Vec<String> = read.flat_map(|entry| events(&entry.message.text())).collect();
    let wrote: Vec<&Arc<Entry>> = cycle.iter().filter(|entry| entry.kind == EntryKind::Assistant).collect();
    let words = |entry| said(entry).chain(arguments(entry, names::DONE, "summary"));
    let said: Vec<String> = wrote.iter().copied().flat_map(words).collect();
    let did = if said.is_empty() { tools(&wrote) } else { Vec::new() };
    let part = |name: &str, texts: &[String], between| match texts {
        [] => None,
        texts => Some(format!("{name} {}", shortened(&texts.join(between)))),
    };
    let parts = [part("read:", &read, " | "), part("did:", &did, ", "), part("said:", &said, " | ")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("- {} {}", minute(first), parts.join("; "))];
    if read.is_empty() && said.is_empty() {
        let steps: Vec<String> = wrote.iter().filter_map(|entry| step(entry, cycle)).collect();
        lines.extend_from_slice(&steps[steps.len().saturating_sub(limits::DIGEST_STEPS_MAX)..]);
    }
    lines
}

fn minute(entry: &Entry) -> impl std::fmt::Display {
    entry.at.strftime("%Y-%m-%d %H:%M")
}

/// The tools that were called, each with how often, in the order of their first calls.
fn tools(wrote: &[&Arc<Entry>]) -> Vec<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in wrote.iter().flat_map(|entry| calls(entry)).map(|(_, name, _)| name) {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.into_iter().map(|(name, count)| format!("{name} ×{count}")).collect()
}

/// The calls of a step with their outcomes; `None` if it has none.
fn step(entry: &Arc<Entry>, cycle: &[Arc<Entry>]) -> Option<String> {
    let outcome = |call: &CallId| {
        cycle.iter().flat_map(|entry| &entry.message.parts).find_map(|part| match part {
            Part::ToolResult { id, text, .. } if id == call => Some(format!(" → {text}")),
            _ => None,
        })
    };
    let called = calls(entry)
        .map(|(id, name, arguments)| format!("{name} {arguments}{}", outcome(id).unwrap_or_default()));
    let called: Vec<String> = called.collect();
    let (at, n) = (minute(entry), entry.step);
    (!called.is_empty()).then(|| format!("- {at} step {n}: {}", shortened(&called.join(" | "))))
}

/// The calls of an entry that do something: not those that end its cycle.
fn calls(entry: &Entry) -> impl Iterator<Item = (&CallId, &str, &str)> {
    entry.message.calls().filter(|(_, name, _)| !matches!(*name, names::DONE | names::SKIP))
}

/// The lines of an inbox entry that show an event.
pub(super) fn events(inbox: &str) -> Vec<String> {
    let is_event = |line: &&str| line.split_once(". [").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
    let line = |line: &str| line.split_once(". ").map_or(line, |(_, event)| event).to_owned();
    inbox.lines().filter(is_event).map(line).collect()
}

/// The messages that an assistant entry sent, and its plain text.
pub(super) fn said(entry: &Arc<Entry>) -> impl Iterator<Item = String> {
    let text = entry.message.text();
    arguments(entry, names::SEND_MESSAGE, "text").chain((!text.trim().is_empty()).then_some(text))
}

/// The text of this argument in each call of the tool.
fn arguments<'a>(entry: &'a Entry, tool: &'a str, key: &'a str) -> impl Iterator<Item = String> + 'a {
    let calls = entry.message.calls().filter(move |(_, name, _)| *name == tool);
    calls.filter_map(move |(_, _, arguments)| {
        let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
        arguments[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    })
}

fn shortened(text: &str) -> String {
    head_and_tail(&one_line(text), limits::DIGEST_LINE_BYTES).replace('\n', " ")
}
