//! On which ways strangers' text comes, what is private, and how it could leave.

use agent::config::WorkspacePart;
use agent::entry::EntryKind;
use agent::event::EventKind;
use agent::port::NewsKind;

/// On which way a stranger's text comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    Event,
    /// What a hook delivers.
    Hook,
    /// What a hook delivers that its operator trusts, in more than a plain field.
    TrustedHook,
    Page,
    Error,
    FileName,
    Late,
    Memory,
    Goal,
    Plan,
    Reminder,
    Summary,
    OtherAgent,
    /// A memory that an operator has copied from an agent which has read it.
    Copy,
    /// What is gone from the view, found again.
    Recall,
    ReadCycle,
}

pub(super) const WAYS: [Way; 16] = [
    Way::Event,
    Way::Hook,
    Way::TrustedHook,
    Way::Goal,
    Way::Page,
    Way::Error,
    Way::FileName,
    Way::Late,
    Way::Memory,
    Way::Summary,
    Way::OtherAgent,
    Way::Plan,
    Way::Reminder,
    Way::Copy,
    Way::Recall,
    Way::ReadCycle,
];

/// On which ways an event of that kind can bring a stranger's text.
pub(super) fn ways_of_event(kind: EventKind) -> &'static [Way] {
    match kind {
        EventKind::SpaceMessage | EventKind::Mention => &[Way::OtherAgent],
        EventKind::Service => &[Way::Event, Way::Hook, Way::TrustedHook],
        EventKind::Plan => &[Way::Plan],
        EventKind::Timer => &[Way::Plan, Way::Reminder],
        EventKind::ToolResult => &[Way::Late],
        // It says nothing.
        EventKind::Heartbeat => &[],
    }
}

/// On which ways an entry of that kind can.
pub(super) fn ways_of_entry(kind: EntryKind) -> &'static [Way] {
    match kind {
        EntryKind::Inbox | EntryKind::Injection => {
            &[Way::Event, Way::Hook, Way::TrustedHook, Way::OtherAgent]
        }
        EntryKind::Assistant => &[Way::Summary],
        EntryKind::Outcomes => &[Way::Page, Way::Error, Way::FileName, Way::Recall, Way::ReadCycle],
        // The runtime writes it.
        EntryKind::Notice => &[],
    }
}

/// On which ways a part of the workspace can.
pub(super) fn ways_of_part(part: WorkspacePart) -> &'static [Way] {
    match part {
        WorkspacePart::Memories => &[Way::Memory, Way::Copy],
        WorkspacePart::Goals => &[Way::Goal],
        WorkspacePart::Plans => &[Way::Plan, Way::Reminder],
        WorkspacePart::Messages => &[Way::OtherAgent],
        // Names that people have given.
        WorkspacePart::Clock | WorkspacePart::Spaces | WorkspacePart::Calls => &[],
    }
}

/// What is private.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kept {
    /// What a tool returns that is labelled so.
    Crm,
    /// A memory that an operator has written.
    OperatorMemory,
    /// What a person has said in a space.
    Message,
    /// What another agent has said.
    AgentMessage,
    /// What was said long ago and is found again.
    Recalled,
}

pub(super) const KEPT: [Kept; 5] =
    [Kept::Crm, Kept::OperatorMemory, Kept::Message, Kept::AgentMessage, Kept::Recalled];

/// How it could leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Exit {
    Mail,
    Fetch,
    /// Of a call that nobody waits for.
    Post,
    /// In a space of which a server outside is told.
    Told,
    /// In a question to a person, of which a server outside is told.
    Asked,
}

pub(super) const EXITS: [Exit; 5] = [Exit::Mail, Exit::Fetch, Exit::Post, Exit::Told, Exit::Asked];

impl Exit {
    pub(super) fn order(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Fetch => "fetch",
            Self::Post => "post",
            Self::Told => "leak town",
            Self::Asked => "ask",
        }
    }
}

/// How an agent can make a target be told something that it writes.
pub(super) fn exits_of(news: NewsKind) -> &'static [Exit] {
    match news {
        NewsKind::Message => &[Exit::Told],
        NewsKind::ApprovalWanted => &[Exit::Asked, Exit::Mail],
        // Facts of the runtime, of which the agent chooses none.
        NewsKind::CycleEnded | NewsKind::Alert => &[],
    }
}
