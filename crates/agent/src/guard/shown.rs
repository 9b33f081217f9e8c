//! What a request shows to a model, piece by piece: how far each can be trusted, and whether it is for everyone. Every kind of
//! entry, event, part of the workspace and part of a message has an answer here, or it does not compile.

use crate::config::WorkspacePart;
use crate::entry::{Entry, EntryKind, View};
use crate::event::{EventData, NamedMessage, Trust, Waiting};
use crate::life::{Facts, Goal, PendingCall, SpaceFacts};
use crate::memory::Memory;
use crate::message::Part;
use crate::plan::Plan;
use crate::tool::{ToolLabel, ToolSpec};

/// What a model sees that is not for everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Private {
    /// The summary of its history.
    Summary,
    /// What it was told: messages, what services sent, answers.
    Told,
    /// Its own words, which are made of all that it had read.
    Own,
    /// What a tool returned.
    Outcome,
    /// Its memories, goals and plans.
    Notes,
}

impl Private {
    /// For whoever is asked to approve a call.
    pub fn as_words(self) -> &'static str {
        match self {
            Self::Summary => "the summary of its history",
            Self::Told => "what it was told",
            Self::Own => "its own earlier words",
            Self::Outcome => "what a tool returned that is not public",
            Self::Notes => "its memories, goals or plans",
        }
    }
}

/// One thing that a request shows.
#[derive(Clone, Copy, Debug)]
pub enum InView<'a> {
    /// The view: its summary, if it has one.
    Summary(&'a View),
    /// An entry of the log.
    Entry(&'a Entry),
    /// An event that waits, of which a preview shows the beginning.
    Waiting(&'a Waiting),
    /// A message that the workspace quotes.
    Message(&'a NamedMessage),
    /// A space with its members.
    Space(&'a SpaceFacts),
    /// A memory.
    Memory(&'a Memory),
    /// A goal.
    Goal(&'a Goal),
    /// A plan.
    Plan(&'a Plan),
    /// A call that is pending.
    Call(&'a PendingCall),
    /// The description of a tool.
    Tool(&'a ToolSpec),
}

impl InView<'_> {
    /// How far what it says can be trusted; `None` if it says nothing, or only what the runtime itself says.
    pub fn trust(&self) -> Option<Trust> {
        match self {
            Self::Summary(view) => view.summary.as_ref().map(|_| view.trust),
            Self::Entry(entry) => Some(entry.trust),
            Self::Waiting(waiting) => Some(waiting.event.envelope.trust),
            Self::Message(message) => Some(message.trust),
            Self::Memory(memory) => Some(memory.trust),
            Self::Goal(goal) => Some(goal.trust),
            Self::Plan(plan) => Some(plan.trust),
            Self::Tool(tool) => tool.foreign.then_some(Trust::Outside),
            // Names that operators and members have given.
            Self::Space(_) | Self::Call(_) => None,
        }
    }

    /// Why it is not for everyone; `None` if it is. `tools` are those of the agent: what a tool returned that it does not have
    /// any more counts as private.
    pub fn private(&self, tools: &[ToolSpec]) -> Option<Private> {
        match self {
            Self::Summary(view) => view.summary.as_ref().map(|_| Private::Summary),
            Self::Entry(entry) => of_entry(entry, tools),
            Self::Waiting(waiting) => of_event(&waiting.event.data, tools),
            Self::Message(_) | Self::Space(_) => Some(Private::Told),
            Self::Memory(_) | Self::Goal(_) | Self::Plan(_) => Some(Private::Notes),
            Self::Call(_) | Self::Tool(_) => None,
        }
    }
}

/// What the workspace shows, whatever parts of it are wanted.
pub fn of_facts<'a>(facts: &'a Facts, recent: &'a [NamedMessage]) -> impl Iterator<Item = InView<'a>> {
    WorkspacePart::ALL.into_iter().flat_map(move |part| of_part(part, facts, recent))
}

fn of_part<'a>(part: WorkspacePart, facts: &'a Facts, recent: &'a [NamedMessage]) -> Vec<InView<'a>> {
    match part {
        WorkspacePart::Clock => Vec::new(),
        WorkspacePart::Spaces => facts.spaces.iter().map(InView::Space).collect(),
        WorkspacePart::Goals => facts.goals.iter().map(InView::Goal).collect(),
        WorkspacePart::Memories => facts.memories.iter().map(InView::Memory).collect(),
        WorkspacePart::Plans => facts.plans.iter().map(InView::Plan).collect(),
        WorkspacePart::Calls => facts.pending.iter().map(InView::Call).collect(),
        WorkspacePart::Messages => recent.iter().map(InView::Message).collect(),
    }
}

fn of_entry(entry: &Entry, tools: &[ToolSpec]) -> Option<Private> {
    match entry.kind {
        // Whatever it says was meant for this agent.
        EntryKind::Inbox | EntryKind::Injection => Some(Private::Told),
        EntryKind::Assistant => Some(Private::Own),
        EntryKind::Outcomes => entry.message.parts.iter().find_map(|part| of_outcome(part, tools)),
        EntryKind::Notice => None,
    }
}

fn of_outcome(part: &Part, tools: &[ToolSpec]) -> Option<Private> {
    match part {
        Part::ToolResult { name, .. } => of_tool(name, tools),
        Part::Text { .. }
        | Part::Reasoning { .. }
        | Part::ToolCall { .. }
        | Part::Image { .. }
        | Part::File { .. } => Some(Private::Outcome),
    }
}

fn of_tool(name: &str, tools: &[ToolSpec]) -> Option<Private> {
    let tool = tools.iter().find(|tool| tool.name == name);
    tool.is_none_or(|tool| tool.labels.has(ToolLabel::Private)).then_some(Private::Outcome)
}

fn of_event(data: &EventData, tools: &[ToolSpec]) -> Option<Private> {
    match data {
        EventData::Message { .. } | EventData::Service { .. } => Some(Private::Told),
        EventData::Plan { .. } => Some(Private::Notes),
        EventData::ToolResult { tool, .. } => of_tool(tool, tools),
        EventData::Heartbeat => None,
    }
}
