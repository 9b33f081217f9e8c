//! Updates: what watchers of a space or an agent are shown. A closed union, drawn as a tree in
//! ARCHITECTURE.md. Updates carry no truth: a client that misses one reads the store.

use serde::{Deserialize, Serialize};

use crate::call::OutcomeStatus;
use crate::changes::CommitKind;
use crate::event::EventProgress;
use crate::id::{AgentId, CallId, CycleId, EntityId, EventId, MessageId, SpaceId};
use crate::life::IdleUntil;
use crate::run::{Ending, Spent};
use crate::space::Spoken;

/// What can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// One space.
    Space(SpaceId),
    /// One agent.
    Agent(AgentId),
    /// The whole server: hears every update once, whatever it is about.
    Server,
}

/// What an agent is doing, derived and never stored twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AgentState {
    /// Nothing is open, or what is open waits.
    Sleeping,
    /// The model generates or tools run.
    Thinking,
    /// Results are being persisted.
    Processing,
    /// Its open cycle waits for a person.
    Paused,
    /// Over.
    Retired,
}

impl AgentState {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One thing that watchers are shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Update {
    /// Durable: a message was said or a tool message changed.
    #[serde(rename = "message")]
    Message {
        /// The message as stored, with its sender's names.
        message: Spoken,
    },
    /// Durable: somebody joined or left.
    #[serde(rename = "member")]
    Member {
        /// Where.
        space: SpaceId,
        /// Who.
        entity: EntityId,
        /// Joined, else left.
        joined: bool,
        /// The space's `rev` then.
        rev: u64,
    },
    /// A message that is being written: `text` is appended to the draft of that id. The committed
    /// message has the same id and replaces it.
    #[serde(rename = "draft")]
    Draft {
        /// Where.
        space: SpaceId,
        /// The id that the message will have.
        message: MessageId,
        /// Who writes.
        agent: AgentId,
        /// What is appended.
        delta: String,
        /// The text so far is this many characters long, `delta` included; tells a reader that it
        /// lost some.
        chars: u64,
    },
    /// A draft is void and must be withdrawn.
    #[serde(rename = "draft.reset")]
    DraftReset {
        /// Where.
        space: SpaceId,
        /// The draft.
        message: MessageId,
        /// Who wrote.
        agent: AgentId,
    },
    /// An agent changed what it does. In a space only for cycles that touched that space.
    #[serde(rename = "agent.state")]
    State {
        /// Who.
        agent: AgentId,
        /// What it does now.
        state: AgentState,
        /// In which cycle.
        cycle: Option<CycleId>,
        /// Why, in words, where there is more to say; operators only.
        reason: Option<String>,
        /// Where it sleeps though people wait for it: why, and until when.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idle: Option<IdleUntil>,
    },
    /// The arguments of a visible tool's call while they are generated: `delta` is appended to the
    /// draft of that id. The committed message has the same id and replaces it.
    #[serde(rename = "tool.input")]
    ToolInput {
        /// Where.
        space: SpaceId,
        /// The id that the message will have.
        message: MessageId,
        /// Who calls.
        agent: AgentId,
        /// The tool.
        tool: String,
        /// What is appended, as the model writes it.
        delta: String,
        /// The input so far is this many characters long, `delta` included.
        chars: u64,
    },
    /// A tool begins.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// Who.
        agent: AgentId,
        /// In which cycle.
        cycle: CycleId,
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// The beginning of its arguments, as the model wrote them; for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        arguments: String,
    },
    /// A tool ended: it did what was asked, its answer comes later, or it was taken back.
    #[serde(rename = "tool.done")]
    ToolDone {
        /// Who.
        agent: AgentId,
        /// In which cycle.
        cycle: CycleId,
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// How.
        status: OutcomeStatus,
        /// How long it took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
    },
    /// A tool failed.
    #[serde(rename = "tool.error")]
    ToolError {
        /// Who.
        agent: AgentId,
        /// In which cycle.
        cycle: CycleId,
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Operators only: the beginning of what the model reads of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How long it took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
    },
    /// Operators only: what the model writes to itself, as it writes.
    #[serde(rename = "thought")]
    Thought {
        /// Who.
        agent: AgentId,
        /// In which cycle.
        cycle: CycleId,
        /// In which step.
        step: u32,
        /// Reasoning, else text.
        reasoning: bool,
        /// What is appended.
        delta: String,
    },
    /// Durable: a commit of an agent's life.
    #[serde(rename = "commit")]
    Commit {
        /// Who.
        agent: AgentId,
        /// The life row's `commit_n`.
        n: u64,
        /// In which cycle.
        cycle: CycleId,
        /// In which step.
        step: u32,
        /// Which commit.
        kind: CommitKind,
    },
    /// How far an event of the agent's inbox has come: told when it is accepted, taken by a cycle, shown
    /// at a step, addressed or read, skipped, given back or given up.
    #[serde(rename = "event.progress")]
    EventProgress {
        /// Whose inbox.
        agent: AgentId,
        /// The event.
        event: EventId,
        /// How far.
        progress: EventProgress,
        /// In which cycle, where one has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cycle: Option<CycleId>,
        /// At which step it was shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<u32>,
    },
    /// A cycle came to rest.
    #[serde(rename = "cycle.ended")]
    CycleEnded {
        /// Who.
        agent: AgentId,
        /// Which cycle.
        cycle: CycleId,
        /// How.
        ending: Ending,
        /// Why, where the ending does not say it all.
        reason: Option<String>,
        /// Operators only: what it took; none where that is not known here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Spent>,
    },
}

impl Update {
    /// The name of the update on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Message { .. } => "message",
            Self::Member { .. } => "member",
            Self::Draft { .. } => "draft",
            Self::DraftReset { .. } => "draft.reset",
            Self::State { .. } => "agent.state",
            Self::ToolInput { .. } => "tool.input",
            Self::ToolStarted { .. } => "tool.started",
            Self::ToolDone { .. } => "tool.done",
            Self::ToolError { .. } => "tool.error",
            Self::Thought { .. } => "thought",
            Self::Commit { .. } => "commit",
            Self::EventProgress { .. } => "event.progress",
            Self::CycleEnded { .. } => "cycle.ended",
        }
    }

    /// The agent that did it; none where people or the space itself are at work.
    pub fn agent(&self) -> Option<AgentId> {
        match self {
            Self::Draft { agent, .. }
            | Self::DraftReset { agent, .. }
            | Self::State { agent, .. }
            | Self::ToolInput { agent, .. }
            | Self::ToolStarted { agent, .. }
            | Self::ToolDone { agent, .. }
            | Self::ToolError { agent, .. }
            | Self::Thought { agent, .. }
            | Self::Commit { agent, .. }
            | Self::EventProgress { agent, .. }
            | Self::CycleEnded { agent, .. } => Some(*agent),
            Self::Message { .. } | Self::Member { .. } => None,
        }
    }

    /// Whether it may be dropped for a slow reader: what a later durable update replaces.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Draft { .. } | Self::ToolInput { .. } | Self::Thought { .. })
    }
}
