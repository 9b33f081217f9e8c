//! Updates: what is shown to watchers of a space or an agent. A closed union, drawn as a tree in ARCHITECTURE.md.
//! Updates are not the source of truth: a client that misses one reads the store.

use serde::{Deserialize, Serialize};

use crate::alert::AlertKind;
use crate::call::OutcomeStatus;
use crate::changes::CommitKind;
use crate::entry::Compaction;
use crate::event::EventProgress;
use crate::id::{AgentId, CallId, CycleId, EntityId, EventId, MessageId, SpaceId};
use crate::life::IdleUntil;
use crate::run::{Ending, Spent};
use crate::space::PostedMessage;

/// What can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// One space.
    Space(SpaceId),
    /// One agent.
    Agent(AgentId),
    /// The whole server: receives every update once.
    Server,
}

names! {
    /// What an agent is doing. It is derived from other state, not stored.
    pub enum AgentState {
        /// No cycle is open, or the open one waits.
        Sleeping,
        /// The model generates or tools run.
        Thinking,
        /// Results are being stored.
        Processing,
        /// Its open cycle waits for a person.
        Paused,
        /// It never runs again.
        Retired,
    }
}

/// One update for watchers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Update {
    /// Durable: a message was posted or a tool message changed.
    #[serde(rename = "message")]
    Message {
        /// The message as stored, with the sender's name.
        message: PostedMessage,
    },
    /// Durable: somebody joined or left.
    #[serde(rename = "member")]
    Member {
        /// The space.
        space: SpaceId,
        /// The member.
        entity: EntityId,
        /// `true` if it joined, `false` if it left.
        joined: bool,
        /// The space's `rev` after this.
        rev: u64,
    },
    /// A message that is being written: `text` is appended to the draft of that id. The committed
    /// message has the same id and replaces it.
    #[serde(rename = "draft")]
    Draft {
        /// The space.
        space: SpaceId,
        /// The id that the message will have.
        message: MessageId,
        /// The agent that writes it.
        agent: AgentId,
        /// The text to append.
        delta: String,
        /// Length of the text so far in characters, `delta` included, so that a reader notices lost updates.
        chars: u64,
    },
    /// A draft is discarded: clients must remove it.
    #[serde(rename = "draft.reset")]
    DraftReset {
        /// The space.
        space: SpaceId,
        /// The draft.
        message: MessageId,
        /// The agent that wrote it.
        agent: AgentId,
    },
    /// An agent's state changed. Sent to a space only for cycles that touch that space.
    #[serde(rename = "agent.state")]
    State {
        /// The agent.
        agent: AgentId,
        /// Its state now.
        state: AgentState,
        /// The cycle.
        cycle: Option<CycleId>,
        /// Description of why, if there is one; operators only.
        reason: Option<String>,
        /// If it sleeps although events wait: why, and until when.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idle: Option<IdleUntil>,
    },
    /// The arguments of a visible tool's call while they are generated: `delta` is appended to the
    /// draft of that id. The committed message has the same id and replaces it.
    #[serde(rename = "tool.input")]
    ToolInput {
        /// The space.
        space: SpaceId,
        /// The id that the message will have.
        message: MessageId,
        /// The agent that calls.
        agent: AgentId,
        /// The tool.
        tool: String,
        /// The text to append, as the model writes it.
        delta: String,
        /// Length of the input so far in characters, `delta` included.
        chars: u64,
    },
    /// A tool call starts.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// The agent.
        agent: AgentId,
        /// The cycle.
        cycle: CycleId,
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// The beginning of its arguments as the model wrote them, for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        arguments: String,
    },
    /// A tool call ended: it succeeded, its outcome arrives later, or it was canceled.
    #[serde(rename = "tool.done")]
    ToolDone {
        /// The agent.
        agent: AgentId,
        /// The cycle.
        cycle: CycleId,
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// How it ended.
        status: OutcomeStatus,
        /// How long it took, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
    },
    /// A tool call failed.
    #[serde(rename = "tool.error")]
    ToolError {
        /// The agent.
        agent: AgentId,
        /// The cycle.
        cycle: CycleId,
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Operators only: the beginning of the error that the model reads.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How long it took, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
    },
    /// Operators only: reasoning and private text of the model, while it is generated.
    #[serde(rename = "thought")]
    Thought {
        /// The agent.
        agent: AgentId,
        /// The cycle.
        cycle: CycleId,
        /// The step.
        step: u32,
        /// `true` for reasoning, `false` for text.
        reasoning: bool,
        /// The text to append.
        delta: String,
    },
    /// Durable: a commit of an agent.
    #[serde(rename = "commit")]
    Commit {
        /// The agent.
        agent: AgentId,
        /// The life row's `commit_n`.
        n: u64,
        /// The cycle.
        cycle: CycleId,
        /// The step.
        step: u32,
        /// The kind of commit.
        kind: CommitKind,
    },
    /// The progress of an event in the agent's inbox. Sent when it is accepted, taken by a cycle, shown at a step,
    /// addressed or read, skipped, returned to the inbox or set aside.
    #[serde(rename = "event.progress")]
    EventProgress {
        /// The agent whose inbox it is in.
        agent: AgentId,
        /// The event.
        event: EventId,
        /// Its progress.
        progress: EventProgress,
        /// The cycle that has it, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cycle: Option<CycleId>,
        /// The step at which it was shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<u32>,
        /// Why it is dead; only then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Operators only: the view of the history has a new summary.
    #[serde(rename = "compaction")]
    Compaction {
        /// The agent.
        agent: AgentId,
        /// The cycle after or in which it was made.
        cycle: CycleId,
        /// How it came about.
        compaction: Compaction,
    },
    /// Operators only: something costs more or knows less than it should. The agent goes on.
    #[serde(rename = "alert")]
    Alert {
        /// The agent.
        agent: AgentId,
        /// The cycle.
        cycle: CycleId,
        /// What kind.
        alert: AlertKind,
        /// What happened and what it costs.
        text: String,
    },
    /// A cycle ended.
    #[serde(rename = "cycle.ended")]
    CycleEnded {
        /// The agent.
        agent: AgentId,
        /// The cycle.
        cycle: CycleId,
        /// How it ended.
        ending: Ending,
        /// Details of why it ended, if the ending alone does not say it.
        reason: Option<String>,
        /// Operators only: what it took; `None` if not known here.
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
            Self::Compaction { .. } => "compaction",
            Self::Alert { .. } => "alert",
            Self::CycleEnded { .. } => "cycle.ended",
        }
    }

    /// The agent that caused it; `None` for updates of people and of the space itself.
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
            | Self::Compaction { agent, .. }
            | Self::Alert { agent, .. }
            | Self::CycleEnded { agent, .. } => Some(*agent),
            Self::Message { .. } | Self::Member { .. } => None,
        }
    }

    /// Whether it may be dropped for a slow reader, because a later durable update replaces it.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Draft { .. } | Self::ToolInput { .. } | Self::Thought { .. })
    }
}
