//! The summary by rule: the previous summary, then a line for each cycle that is left out, with what it read and what the agent
//! said. If it gets too long, the oldest lines go first.

use std::fmt::Write as _;
use std::sync::Arc;

use super::check;
use crate::call::head_and_tail;
use crate::entry::{Entry, EntryKind};
use crate::limits;
use crate::quote::one_line;
use crate::tool::names;

/// The section with a line per cycle.
const CYCLES: &str = "## Earlier cycles";

/// The previous summary and the entries, in at most `bytes` bytes.
pub(super) fn merged(previous: Option<&str>, gone: &[Arc<Entry>], bytes: usize) -> String {
    let (sections, old_lines) = parted(previous.unwrap_or_default());
    let mut lines: Vec<String> = old_lines.into_iter().map(str::to_owned).collect();
    for cycle in gone.chunk_by(|a, b| a.cycle == b.cycle) {
        lines.extend(line(cycle));
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

/// What a cycle read and what the agent said in it; `None` if neither is in these entries.
fn line(cycle: &[Arc<Entry>]) -> Option<String> {
    let read = cycle.iter().filter(|entry| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection));
    let read: Vec<String> = read.flat_map(|entry| events(&entry.message.text())).collect();
    let wrote = cycle.iter().filter(|entry| entry.kind == EntryKind::Assistant);
    let said: Vec<String> =
        wrote.flat_map(|entry| said(entry).chain(arguments(entry, names::DONE, "summary"))).collect();
    let part = |name: &str, texts: &[String]| match texts {
        [] => None,
        texts => Some(format!("{name} {}", shortened(&texts.join(" | ")))),
    };
    let parts: Vec<String> = [part("read:", &read), part("said:", &said)].into_iter().flatten().collect();
    let at = cycle.first()?.at.strftime("%Y-%m-%d %H:%M");
    (!parts.is_empty()).then(|| format!("- {at} {}", parts.join("; ")))
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
