//! The transcript: what happened in a scenario, line by line, for people.

use std::fmt;
use std::time::Duration;

use agent::entry::Entry;
use agent::event::EventState;
use agent::message::Part;
use agent::run::{Ending, Run};
use agent::space::MessageKind;
use agent::tool::names::ASK_PERSON;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::clock::since;
use crate::observed::{AgentLog, Observed};

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Time since the start of the story.
    #[serde(rename = "at_ms", serialize_with = "millis")]
    pub at: Duration,
    /// The space, if it happened in one.
    pub space: Option<String>,
    /// The person or agent; `None` if it happened to the world.
    pub who: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub what: LineContent,
}

/// A length of time in JSON, in milliseconds.
pub(crate) fn millis<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// What a line reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineContent {
    /// What kind of thing happened.
    pub kind: LineKind,
    /// The tool of a call.
    pub tool: Option<String>,
    /// The message, the private text, the raw arguments, the outcome or the failure of a call, the summary of a cycle, the
    /// reason of a skip.
    pub text: Option<String>,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// A message was posted.
    Said,
    /// An agent wrote private text.
    Thought,
    /// An agent called a tool.
    Called,
    /// A call of one of the scenario's tools, or to a person, has returned.
    Returned,
    /// A call failed.
    Failed,
    /// A cycle ended.
    Cycle,
    /// An agent skipped its inbox.
    Skipped,
    /// Something else happened.
    Happened,
}

impl LineContent {
    fn of(kind: LineKind, text: &str) -> Self {
        Self { kind, tool: None, text: Some(text.to_owned()) }
    }

    fn of_tool(kind: LineKind, tool: &str, text: &str) -> Self {
        Self { tool: Some(tool.to_owned()), ..Self::of(kind, text) }
    }
}

impl fmt::Display for LineContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tool, text) = (self.tool.as_deref().unwrap_or_default(), self.text.as_deref());
        let words = text.unwrap_or_default();
        match self.kind {
            LineKind::Said | LineKind::Happened => f.write_str(words),
            LineKind::Thought => write!(f, "({words})"),
            LineKind::Called => write!(f, "-> {tool} {words}"),
            LineKind::Returned => write!(f, "<- {tool} {words}"),
            LineKind::Failed => write!(f, "<- {tool} failed: {words}"),
            LineKind::Skipped if text.is_none() => f.write_str("[skipped]"),
            LineKind::Skipped => write!(f, "[skipped: {words}]"),
            LineKind::Cycle => write!(f, "[{words}]"),
        }
    }
}

/// Tools whose calls are not listed, because their effect is.
const UNLISTED_TOOLS: &[&str] = &["send_message", "done", "skip"];

/// The transcript of everything since `start`.
pub(crate) fn of(observed: &Observed, happened: &[(Timestamp, String)], start: Timestamp) -> Vec<Line> {
    let mut lines: Vec<(Timestamp, Line)> = Vec::new();
    let mut cards: Vec<(Timestamp, Line)> = Vec::new();
    let line = |at: Timestamp, space: Option<&str>, who: Option<&str>, what: LineContent| {
        let since = Duration::from_millis(since(start, at));
        (at, Line { at: since, space: space.map(str::to_owned), who: who.map(str::to_owned), what })
    };
    let mut add = |at, space: Option<&str>, who: Option<&str>, what| lines.push(line(at, space, who, what));
    for (at, what) in happened {
        add(*at, None, None, LineContent::of(LineKind::Happened, what));
    }
    for space in &observed.spaces {
        for (who, message) in &space.messages {
            let said = LineContent::of(LineKind::Said, &message.text);
            match message.kind {
                MessageKind::Text => add(message.at, Some(&space.name), Some(who), said),
                MessageKind::Tool => cards.push(line(message.at, Some(&space.name), Some(who), said)),
            }
        }
    }
    let returns = |tool: &str| tool == ASK_PERSON || observed.runs.iter().any(|(own, _)| own == tool);
    for agent in &observed.agents {
        for entry in &agent.entries {
            for content in contents(entry, &returns) {
                add(entry.at, None, Some(&agent.name), content);
            }
        }
        for (at, reason) in skips(agent) {
            add(
                at,
                None,
                Some(&agent.name),
                LineContent { kind: LineKind::Skipped, tool: None, text: reason },
            );
        }
        for run in &agent.runs {
            add(run.ended_at, None, Some(&agent.name), LineContent::of(LineKind::Cycle, &summary(run)));
        }
    }
    // What a space shows of a call comes after the call.
    lines.extend(cards);
    // At the same time, the end of a cycle comes before anything that starts.
    lines.sort_by_key(|(at, line)| (*at, line.what.kind != LineKind::Cycle));
    lines.into_iter().map(|(_, line)| line).collect()
}

/// `returns`: whether what a call of that tool returned is listed.
fn contents(entry: &Entry, returns: &dyn Fn(&str) -> bool) -> Vec<LineContent> {
    let content = |part: &Part| match part {
        Part::Text { text } | Part::Reasoning { text }
            if entry.kind == agent::entry::EntryKind::Assistant =>
        {
            (!text.trim().is_empty()).then(|| LineContent::of(LineKind::Thought, text))
        }
        Part::ToolCall { name, arguments, .. } => (!UNLISTED_TOOLS.contains(&name.as_str()))
            .then(|| LineContent::of_tool(LineKind::Called, name, arguments)),
        Part::ToolResult { name, text, error: true, .. } => {
            Some(LineContent::of_tool(LineKind::Failed, name, text))
        }
        Part::ToolResult { name, text, .. } if returns(name) => {
            Some(LineContent::of_tool(LineKind::Returned, name, text))
        }
        _ => None,
    };
    entry.message.parts.iter().filter_map(content).collect()
}

/// Skipped activations are visible only in the states of their events. Equal ones at the same time count as one.
fn skips(agent: &AgentLog) -> Vec<(Timestamp, Option<String>)> {
    let mut skips: Vec<(Timestamp, Option<String>)> = Vec::new();
    for row in &agent.inbox {
        if let EventState::Skipped { reason, .. } = &row.state
            && skips.last() != Some(&(row.event.at, reason.clone()))
        {
            skips.push((row.event.at, reason.clone()));
        }
    }
    skips
}

fn summary(run: &Run) -> String {
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
