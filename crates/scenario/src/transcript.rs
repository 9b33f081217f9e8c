//! What happened, line by line, as a person reads it after a scenario did not go as expected.

use std::time::Duration;

use agent::entry::Entry;
use agent::event::EventState;
use agent::message::Part;
use agent::run::{Ending, Run};
use jiff::Timestamp;

use crate::clock::since;
use crate::observed::{AgentLog, Observed};

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Since the beginning of the story.
    pub at: Duration,
    /// The space, where it was in one.
    pub space: Option<String>,
    /// Who; nobody where it happened to the world.
    pub who: Option<String>,
    /// What.
    pub what: Deed,
}

/// What somebody did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Said something.
    Said(String),
    /// An agent wrote to itself.
    Thought(String),
    /// An agent called a tool: its name and the raw arguments.
    Called(String, String),
    /// A call failed: the tool, and what the agent read.
    Failed(String, String),
    /// A cycle came to rest, in words.
    Cycle(String),
    /// An agent let its inbox pass.
    Skipped(Option<String>),
    /// Something else happened.
    Happened(String),
}

/// Calls that are seen by what came of them.
const SEEN_OTHERWISE: &[&str] = &["send_message", "done", "skip"];

/// The transcript of everything since `begun`.
pub(crate) fn of(observed: &Observed, happened: &[(Timestamp, String)], begun: Timestamp) -> Vec<Line> {
    let mut lines: Vec<(Timestamp, Line)> = Vec::new();
    let mut add = |at: Timestamp, space: Option<&str>, who: Option<&str>, what: Deed| {
        let since = Duration::from_millis(since(begun, at));
        let line = Line { at: since, space: space.map(str::to_owned), who: who.map(str::to_owned), what };
        lines.push((at, line));
    };
    for (at, what) in happened {
        add(*at, None, None, Deed::Happened(what.clone()));
    }
    for space in &observed.spaces {
        for (who, message) in &space.messages {
            let said = Deed::Said(message.text.clone());
            add(message.at, Some(&space.name), Some(who), said);
        }
    }
    for agent in &observed.agents {
        for entry in &agent.entries {
            for deed in deeds(entry) {
                add(entry.at, None, Some(&agent.name), deed);
            }
        }
        for (at, reason) in skips(agent) {
            add(at, None, Some(&agent.name), Deed::Skipped(reason));
        }
        for run in &agent.runs {
            add(run.ended_at, None, Some(&agent.name), Deed::Cycle(in_words(run)));
        }
    }
    // What ends at a moment ends before something new begins at it.
    lines.sort_by_key(|(at, line)| (*at, !matches!(line.what, Deed::Cycle(_))));
    lines.into_iter().map(|(_, line)| line).collect()
}

fn deeds(entry: &Entry) -> Vec<Deed> {
    let deed = |part: &Part| match part {
        Part::Text { text } | Part::Reasoning { text }
            if entry.kind == agent::entry::EntryKind::Assistant =>
        {
            (!text.trim().is_empty()).then(|| Deed::Thought(text.clone()))
        }
        Part::ToolCall { name, arguments, .. } => {
            (!SEEN_OTHERWISE.contains(&name.as_str())).then(|| Deed::Called(name.clone(), arguments.clone()))
        }
        Part::ToolResult { name, text, error: true, .. } => Some(Deed::Failed(name.clone(), text.clone())),
        _ => None,
    };
    entry.message.parts.iter().filter_map(deed).collect()
}

/// Skipped activations leave no trace but the fate of their events; those of one moment are one.
fn skips(agent: &AgentLog) -> Vec<(Timestamp, Option<String>)> {
    let mut skips: Vec<(Timestamp, Option<String>)> = Vec::new();
    for row in &agent.inbox {
        if let EventState::Skipped { reason } = &row.state
            && skips.last() != Some(&(row.event.at, reason.clone()))
        {
            skips.push((row.event.at, reason.clone()));
        }
    }
    skips
}

fn in_words(run: &Run) -> String {
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let events = plural(run.events as usize, "event");
    let steps = plural(run.steps.len(), "step");
    let ending = match run.ending {
        Ending::Completed => String::new(),
        other => format!(", {}", other.as_str()),
    };
    let reason = run.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("cycle {}: {events}, {steps}{ending}{reason}", run.ordinal)
}
