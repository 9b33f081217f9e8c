//! The frames of event streams, for the OpenAPI document. Streams write [`agent::update::Update`], which does not depend
//! on OpenAPI; tests of the server check every frame against these types.

use agent::alert::AlertKind;
use agent::call::OutcomeStatus;
use agent::changes::CommitKind;
use agent::entry::Compaction;
use agent::event::EventProgress;
use agent::id::{AgentId, CallId, CycleId, EntityId, EventId, MessageId, SpaceId};
use agent::run::Ending;
use agent::update::AgentState;
use serde::Serialize;
use utoipa::ToSchema;

use api::{AgentSnapshot, Closed, Gap, MessageJson, ServerSnapshot, SpaceSnapshot, UsageJson, names};

/// Declares the frames of a stream by the names of their events.
macro_rules! streams {
    ($($(#[$doc:meta])* $stream:ident { $($event:tt $name:ident($data:ident),)+ })+) => {$(
        $(#[$doc])*
        #[derive(Serialize, ToSchema)]
        #[serde(tag = "event", content = "data")]
        pub enum $stream {
            $(
                #[doc = concat!("The event `", $event, "`.")]
                #[serde(rename = $event)]
                $name($data),
            )+
        }
    )+};
}

streams! {
    /// A frame of the stream of a space: `event` and `data` are the fields of the frame. The frames `message` and `member`
    /// have the space's `rev` as `id`; the others have no `id`.
    SpaceFrame {
        "snapshot" Snapshot(SpaceSnapshot),
        "message" Message(MessageFrame),
        "member" Member(MemberFrame),
        "draft" Draft(DraftFrame),
        "tool.input" ToolInput(ToolInputFrame),
        "draft.reset" DraftReset(DraftResetFrame),
        "agent.state" AgentState(AgentStateFrame),
        "cycle.ended" CycleEnded(CycleEndedFrame),
        "gap" Gap(Gap),
        "closed" Closed(Closed),
    }
    /// A frame of the stream of an agent: `event` and `data` are the fields of the frame. The frame `commit` has the number
    /// of the commit as `id`; the others have no `id`.
    AgentFrame {
        "snapshot" Snapshot(AgentSnapshot),
        "commit" Commit(CommitFrame),
        "thought" Thought(ThoughtFrame),
        "draft" Draft(DraftFrame),
        "tool.input" ToolInput(ToolInputFrame),
        "draft.reset" DraftReset(DraftResetFrame),
        "agent.state" AgentState(AgentStateFrame),
        "tool.started" ToolStarted(ToolStartedFrame),
        "tool.done" ToolDone(ToolDoneFrame),
        "tool.error" ToolError(ToolErrorFrame),
        "event.progress" EventProgress(EventProgressFrame),
        "compaction" Compaction(CompactionFrame),
        "alert" Alert(AlertFrame),
        "cycle.ended" CycleEnded(CycleEndedFrame),
        "gap" Gap(Gap),
        "closed" Closed(Closed),
    }
    /// A frame of the stream of the server: `event` and `data` are the fields of the frame. No frame has an `id`.
    ServerFrame {
        "snapshot" Snapshot(ServerSnapshot),
        "message" Message(MessageFrame),
        "member" Member(MemberFrame),
        "draft" Draft(DraftFrame),
        "tool.input" ToolInput(ToolInputFrame),
        "draft.reset" DraftReset(DraftResetFrame),
        "agent.state" AgentState(AgentStateFrame),
        "tool.started" ToolStarted(ToolStartedFrame),
        "tool.done" ToolDone(ToolDoneFrame),
        "tool.error" ToolError(ToolErrorFrame),
        "event.progress" EventProgress(EventProgressFrame),
        "compaction" Compaction(CompactionFrame),
        "alert" Alert(AlertFrame),
        "cycle.ended" CycleEnded(CycleEndedFrame),
        "closed" Closed(Closed),
    }
}

/// Declares the data of frames. Each also has the field `type`, which is the name of its event.
macro_rules! frames {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Serialize, ToSchema)]
        pub struct $name {
            /// The name of the event.
            pub r#type: String,
            $($(#[$about])* pub $field: $type,)+
        }
    )+};
}

frames! {
    /// A message was posted, or a message of kind `tool` changed.
    MessageFrame {
        /// The message.
        message: MessageJson,
    }
    /// An entity joined or left the space.
    MemberFrame {
        /// Id of the space.
        #[schema(value_type = Uuid)]
        space: SpaceId,
        /// Id of the entity.
        #[schema(value_type = Uuid)]
        entity: EntityId,
        /// `true` if it joined, `false` if it left.
        joined: bool,
        /// `rev` of the space after this.
        rev: u64,
    }
    /// Text to append to the draft of a message. The posted message has the same id and replaces the draft.
    DraftFrame {
        /// Id of the space.
        #[schema(value_type = Uuid)]
        space: SpaceId,
        /// Id that the message will have.
        #[schema(value_type = Uuid)]
        message: MessageId,
        /// Id of the agent that writes it.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// The text to append.
        delta: String,
        /// Length of the text so far in characters, `delta` included.
        chars: u64,
    }
    /// Input of a visible tool to append to its draft. The posted message has the same id and replaces the draft.
    ToolInputFrame {
        /// Id of the space.
        #[schema(value_type = Uuid)]
        space: SpaceId,
        /// Id that the message will have.
        #[schema(value_type = Uuid)]
        message: MessageId,
        /// Id of the agent that calls the tool.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// The tool.
        tool: String,
        /// The text to append, as the model writes it.
        delta: String,
        /// Length of the input so far in characters, `delta` included.
        chars: u64,
    }
    /// A draft is void: remove it.
    DraftResetFrame {
        /// Id of the space.
        #[schema(value_type = Uuid)]
        space: SpaceId,
        /// Id of the draft.
        #[schema(value_type = Uuid)]
        message: MessageId,
        /// Id of the agent that wrote it.
        #[schema(value_type = Uuid)]
        agent: AgentId,
    }
    /// The state of an agent changed.
    AgentStateFrame {
        /// Id of the agent.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// What the agent is doing now.
        #[schema(value_type = names::AgentState)]
        state: AgentState,
        /// Id of the cycle; `null` if none is open.
        #[schema(value_type = Option<Uuid>)]
        cycle: Option<CycleId>,
        /// Why, as text; only for operators.
        reason: Option<String>,
        /// Why the agent sleeps although events wait, and until when; left out if it does not.
        #[schema(required = false)]
        idle: Option<IdleUntilJson>,
    }
    /// A tool call starts.
    ToolStartedFrame {
        /// Id of the agent.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// Id of the cycle.
        #[schema(value_type = Uuid)]
        cycle: CycleId,
        /// Id of the call.
        #[schema(value_type = String)]
        call: CallId,
        /// The tool.
        tool: String,
        /// The beginning of its arguments as the model wrote them.
        #[schema(required = false)]
        arguments: String,
    }
    /// A tool call ended: it succeeded, its result comes later, or it was canceled.
    ToolDoneFrame {
        /// Id of the agent.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// Id of the cycle.
        #[schema(value_type = Uuid)]
        cycle: CycleId,
        /// Id of the call.
        #[schema(value_type = String)]
        call: CallId,
        /// The tool.
        tool: String,
        /// How it ended.
        #[schema(value_type = names::OutcomeStatus)]
        status: OutcomeStatus,
        /// How long it took, in milliseconds.
        #[schema(required = false)]
        ms: Option<u64>,
    }
    /// A tool call failed.
    ToolErrorFrame {
        /// Id of the agent.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// Id of the cycle.
        #[schema(value_type = Uuid)]
        cycle: CycleId,
        /// Id of the call.
        #[schema(value_type = String)]
        call: CallId,
        /// The tool.
        tool: String,
        /// The beginning of the error that the model reads; only for operators.
        #[schema(required = false)]
        reason: Option<String>,
        /// How long it took, in milliseconds.
        #[schema(required = false)]
        ms: Option<u64>,
    }
    /// Reasoning and private text of the model, to append.
    ThoughtFrame {
        /// Id of the agent.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// Id of the cycle.
        #[schema(value_type = Uuid)]
        cycle: CycleId,
        /// The step.
        step: u32,
        /// `true` for reasoning, `false` for text.
        reasoning: bool,
        /// The text to append.
        delta: String,
    }
    /// The agent has committed.
    CommitFrame {
        /// Id of the agent.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// Number of the commit.
        n: u64,
        /// Id of the cycle.
        #[schema(value_type = Uuid)]
        cycle: CycleId,
        /// The step.
        step: u32,
        /// Kind of the commit: `open`, `decide`, `start`, `settle`, `close`, `park`, `view`, `sent` or `arrived`.
        #[schema(value_type = String)]
        kind: CommitKind,
    }
    /// How far an event in the agent's inbox has come.
    EventProgressFrame {
        /// Id of the agent.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// Id of the event.
        #[schema(value_type = String)]
        event: EventId,
        /// Its progress.
        #[schema(value_type = names::EventProgress)]
        progress: EventProgress,
        /// Id of the cycle that has it.
        #[schema(value_type = Option<Uuid>, required = false)]
        cycle: Option<CycleId>,
        /// The step at which it was shown.
        #[schema(required = false)]
        step: Option<u32>,
    }
    /// The view of the history has a new summary. Only for operators.
    CompactionFrame {
        /// Id of the agent.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// Id of the cycle after or in which it was made.
        #[schema(value_type = Uuid)]
        cycle: CycleId,
        /// Its number, the cycles that it summarizes, the method, the model with its usage, and the tokens before and after.
        #[schema(value_type = Object)]
        compaction: Compaction,
    }
    /// Something costs more or knows less than it should. The agent goes on. Only for operators.
    AlertFrame {
        /// Id of the agent.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// Id of the cycle.
        #[schema(value_type = Uuid)]
        cycle: CycleId,
        /// What kind.
        #[schema(value_type = names::AlertKind)]
        alert: AlertKind,
        /// What happened and what it costs.
        text: String,
    }
    /// A cycle ended.
    CycleEndedFrame {
        /// Id of the agent.
        #[schema(value_type = Uuid)]
        agent: AgentId,
        /// Id of the cycle.
        #[schema(value_type = Uuid)]
        cycle: CycleId,
        /// How it ended.
        #[schema(value_type = names::Ending)]
        ending: Ending,
        /// Details of why it ended, if there are any.
        reason: Option<String>,
        /// What it took; only for operators.
        #[schema(required = false)]
        spent: Option<SpentFrame>,
    }
}

/// What a cycle took.
#[derive(Serialize, ToSchema)]
#[schema(as = Spent)]
pub struct SpentFrame {
    /// Number of steps.
    pub steps: u32,
    /// Time from its opening to its end, in milliseconds.
    pub ms: u64,
    /// Tokens of its requests.
    pub usage: UsageJson,
    /// Cost in millionths of a dollar; `null` if it is unknown.
    pub cost_micros: Option<u64>,
}

/// Why an agent sleeps although events wait.
#[derive(Serialize, ToSchema)]
#[schema(as = IdleUntil)]
pub struct IdleUntilJson {
    /// `provider`: the model provider cannot be reached. `backoff`: the last attempt failed. `debounce`: more events
    /// are waited for.
    pub reason: String,
    /// When the agent tries again.
    #[schema(value_type = String, format = DateTime)]
    pub until: jiff::Timestamp,
}
