//! Events: facts addressed to one agent, with the whole envelope of where they come from, and the
//! states that an accepted event can be in.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::OutcomeStatus;
use crate::entity::EntityKind;
use crate::id::{CallId, CycleId, EntityId, EventId, MessageId, PlanId, RootId, SpaceId};

/// What happened.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EventKind {
    /// Something was said in a space of the agent.
    SpaceMessage,
    /// The same, and the agent was named.
    Mention,
    /// A webhook or an API trigger.
    Service,
    /// One of the agent's plans is due.
    Plan,
    /// A light self-reminder.
    Timer,
    /// A late or interactive outcome.
    ToolResult,
    /// The optional self-wake.
    Heartbeat,
}

impl EventKind {
    /// The name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Every kind, in declaration order.
    pub const ALL: [Self; 7] = [
        Self::SpaceMessage,
        Self::Mention,
        Self::Service,
        Self::Plan,
        Self::Timer,
        Self::ToolResult,
        Self::Heartbeat,
    ];
}

/// On whose behalf an event exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "id", rename_all = "snake_case")]
pub enum Principal {
    /// A member: a person or an agent.
    Entity(EntityId),
    /// A key of the API, by credential id or name.
    Credential(String),
    /// A webhook, by name.
    Webhook(String),
    /// The agent itself.
    Own,
}

/// Through which channel it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Said in a space.
    Space,
    /// Sent by the API.
    Api,
    /// Sent by a webhook.
    Webhook,
    /// A plan, timer or heartbeat.
    Timer,
    /// A tool's outcome.
    Tool,
}

/// How far its content is to be trusted; a batch has its lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Anyone outside.
    #[default]
    Outside,
    /// Another agent.
    Agent,
    /// A person who is a member.
    Member,
    /// The operator of this server.
    Operator,
}

/// Where an event comes from. Set by the server from what it knows, never by the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// On whose behalf.
    pub principal: Principal,
    /// Through which channel.
    pub channel: Channel,
    /// How trustworthy.
    pub trust: Trust,
    /// The first happening of the causal chain.
    pub root: RootId,
    /// Agent messages between the root and this event.
    pub hop: u32,
}

/// What an agent's own later event descends from: the cycle that decided it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The first happening of the causal chain; empty where the event begins one.
    pub root: RootId,
    /// Agent messages between the root and the cycle.
    pub hop: u32,
    /// The lowest trust of what the cycle read.
    pub trust: Trust,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventData {
    /// Refers to a message; the text is not copied.
    Message {
        /// The space.
        space: SpaceId,
        /// The message's place there.
        seq: u64,
        /// The message's id.
        message: MessageId,
    },
    /// A service's call.
    Service {
        /// The service's name.
        name: String,
        /// What it sent.
        payload: Value,
    },
    /// A plan that is due.
    Plan {
        /// Which one.
        plan: PlanId,
        /// Its name.
        name: String,
        /// What the agent told itself to do.
        instruction: String,
        /// The scheduled times that this event stands for.
        slots: Vec<Timestamp>,
    },
    /// A self-reminder.
    Timer {
        /// What for.
        reason: String,
    },
    /// A late outcome.
    ToolResult {
        /// The call it answers.
        call: CallId,
        /// The tool.
        tool: String,
        /// What came back.
        text: String,
        /// Whether it failed.
        error: bool,
        /// How the call ended; rows of earlier versions have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<OutcomeStatus>,
    },
    /// Nothing but the waking itself.
    Heartbeat,
}

/// A fact addressed to one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Unique per agent for ever.
    pub id: EventId,
    /// What happened.
    pub kind: EventKind,
    /// Whether it may break into a running cycle.
    pub urgent: bool,
    /// When it happened.
    pub at: Timestamp,
    /// Where it comes from.
    pub envelope: Envelope,
    /// Its content.
    pub data: EventData,
    /// The event that an operator sent again by this one.
    pub cites: Option<EventId>,
}

impl Event {
    /// What a service tells an agent by the key `credential`: the first happening of its chain.
    pub fn of_service(
        id: EventId,
        credential: impl Into<String>,
        service: impl Into<String>,
        payload: Value,
        at: Timestamp,
    ) -> Self {
        Self {
            kind: EventKind::Service,
            urgent: false,
            at,
            envelope: Envelope {
                principal: Principal::Credential(credential.into()),
                channel: Channel::Api,
                trust: Trust::Operator,
                root: RootId(id.0.clone()),
                hop: 0,
            },
            data: EventData::Service { name: service.into(), payload },
            cites: None,
            id,
        }
    }
}

/// The one state of an accepted event in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "state", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EventState {
    /// Not yet settled.
    Waiting,
    /// Kept back by the bound on agent-to-agent messages.
    Held,
    /// Seen by a decision that was committed.
    Processed {
        /// The cycle.
        cycle: CycleId,
        /// The step whose decision saw it.
        step: u32,
    },
    /// The agent decided that it is not its business.
    Skipped {
        /// For operators only.
        reason: Option<String>,
    },
    /// Taken back: by an operator, with its cycle, or because its agent is no more.
    Canceled {
        /// Why, unless this event alone was canceled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Given up after too many failures that its content caused.
    Dead {
        /// The last failure.
        reason: String,
    },
    /// Removed by an operator.
    Dropped,
}

impl EventState {
    /// The name used in tables and JSON.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }
}

/// How far an event has come: its state, with what is known around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EventProgress {
    /// It waits.
    Waiting,
    /// It waits, and the open cycle has taken it.
    Taken,
    /// It is held.
    Held,
    /// A decision saw it, and the cycle is still open.
    Shown,
    /// The cycle that saw it spoke in its space, then or later.
    Addressed,
    /// The cycle that saw it ended without a word in its space.
    Read,
    /// It was skipped.
    Skipped,
    /// It was taken back.
    Canceled,
    /// It was given up after too many failures.
    Dead,
    /// An operator gave it up.
    Dropped,
}

impl EventProgress {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The progress of an event in that state. `taken` and `open` describe its cycle: that it has taken
    /// the event, that it has not ended.
    pub fn of(state: &EventState, taken: bool, open: bool, addressed: bool) -> Self {
        match state {
            EventState::Waiting if taken => Self::Taken,
            EventState::Waiting => Self::Waiting,
            EventState::Held => Self::Held,
            EventState::Processed { .. } if addressed => Self::Addressed,
            EventState::Processed { .. } if open => Self::Shown,
            EventState::Processed { .. } => Self::Read,
            EventState::Skipped { .. } => Self::Skipped,
            EventState::Canceled { .. } => Self::Canceled,
            EventState::Dead { .. } => Self::Dead,
            EventState::Dropped => Self::Dropped,
        }
    }
}

/// A waiting event as the waking agent meets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Its place in this agent's inbox.
    pub seq: u64,
    /// Cycles over it that failed by their content.
    pub attempts: u32,
    /// Deaths of the process while it was being processed, but for those while a model was waited for.
    pub deaths: u32,
    /// The event.
    pub event: Event,
    /// The words it refers to, where it does.
    pub message: Option<NamedMessage>,
}

impl Waiting {
    /// The words that it refers to; empty where it refers to none.
    pub fn words(&self) -> &str {
        self.message.as_ref().map_or("", |message| message.text.as_str())
    }
}

/// A message as a reader meets it: text with names beside the ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedMessage {
    /// The message.
    pub id: MessageId,
    /// Its space.
    pub space: SpaceId,
    /// The space's handle.
    pub space_handle: String,
    /// Place in the space.
    pub seq: u64,
    /// Who said it.
    pub sender: EntityId,
    /// The sender's display name.
    pub sender_name: String,
    /// The sender's handle, which nobody else has.
    pub sender_handle: String,
    /// Human or agent.
    pub sender_kind: EntityKind,
    /// The words.
    pub text: String,
    /// Members that were named when it was said, by `@handle` in the text or by the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<EntityId>,
    /// When.
    pub at: Timestamp,
}
