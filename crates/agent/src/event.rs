//! Events: facts addressed to one agent, the envelope that records their origin, and the states of an accepted event.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::OutcomeStatus;
use crate::entity::EntityKind;
use crate::id::{CallId, CycleId, EntityId, EventId, MessageId, PlanId, RootId, SpaceId};

names! {
    /// What happened.
    pub enum EventKind {
        /// A message in a space of the agent.
        SpaceMessage,
        /// The same, and the message mentions the agent.
        Mention,
        /// A webhook or an API trigger.
        Service,
        /// One of the agent's plans is due.
        Plan,
        /// A plan of the agent's own that fires once: it set itself a timer.
        Timer,
        /// A late or interactive outcome of a tool call.
        ToolResult,
        /// The optional periodic activation.
        Heartbeat,
    }
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

names! {
    /// Through which channel it came.
    pub enum Channel {
        /// A message in a space.
        Space,
        /// Sent through the API.
        Api,
        /// Sent by a webhook.
        Webhook,
        /// A plan, timer or heartbeat.
        Timer,
        /// A tool's outcome.
        Tool,
    }
}

names! {
    /// How far the content can be trusted; a batch has the lowest trust of its events.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Trust {
        /// Anybody outside.
        #[default]
        Outside,
        /// Another agent, or plain fields of a hook that the operator trusts.
        Agent,
        /// A person who is a member.
        Member,
        /// The operator of this server.
        Operator,
    }
}

/// The origin of an event. The server sets it from its own knowledge; a client never does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// On whose behalf.
    pub principal: Principal,
    /// Through which channel.
    pub channel: Channel,
    /// How trustworthy.
    pub trust: Trust,
    /// The first event or message of the causal chain.
    pub root: RootId,
    /// Agent messages between the root and this event.
    pub hop: u32,
}

impl Envelope {
    /// Whether an agent caused the event: by what it said in a space, or by a plan that it made because of that.
    pub fn is_by_agent(&self) -> bool {
        match self.channel {
            // What an agent says may have the trust of what it has read; what a person says begins a chain.
            Channel::Space => self.hop > 0,
            // That of a trusted hook has the trust of an agent's words, and no agent caused it.
            Channel::Webhook => false,
            Channel::Api | Channel::Timer | Channel::Tool => self.trust == Trust::Agent,
        }
    }
}

/// The origin of an event that an agent causes for itself later: the cycle that decided it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The first event or message of the causal chain; empty if the event starts a chain.
    pub root: RootId,
    /// Agent messages between the root and the cycle.
    pub hop: u32,
    /// The lowest trust of what the cycle had read.
    pub trust: Trust,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventData {
    /// A reference to a message; the text is not copied.
    Message {
        /// The space.
        space: SpaceId,
        /// The message's seq in the space.
        seq: u64,
        /// The message's id.
        message: MessageId,
    },
    /// An event of a service.
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
        /// What the agent planned to do.
        instruction: String,
        /// The scheduled times that this event covers.
        slots: Vec<Timestamp>,
    },
    /// A late outcome of a tool call.
    ToolResult {
        /// The call it answers.
        call: CallId,
        /// The tool.
        tool: String,
        /// The result.
        text: String,
        /// Whether it failed.
        error: bool,
        /// How the call ended; `None` in rows of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<OutcomeStatus>,
    },
    /// Has no content; it only wakes the agent.
    Heartbeat,
}

/// A fact addressed to one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Unique per agent, forever.
    pub id: EventId,
    /// What happened.
    pub kind: EventKind,
    /// Whether it may interrupt a running cycle.
    pub urgent: bool,
    /// When it happened.
    pub at: Timestamp,
    /// Its origin.
    pub envelope: Envelope,
    /// Its content.
    pub data: EventData,
    /// The earlier event that an operator sent again as this one.
    pub cites: Option<EventId>,
}

impl Event {
    /// An event that a service sends with the API key `credential`. It is the root of its chain.
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

    /// An event that the hook with that name made of a delivery, as [`crate::guard::trust_of_delivery`] trusts it: anybody
    /// may have written what it says.
    pub fn of_hook(
        id: EventId,
        hook: &str,
        (payload, trust): (Value, Trust),
        urgent: bool,
        at: Timestamp,
    ) -> Self {
        let mut event = Self::of_service(id, "", hook, payload, at);
        event.envelope.principal = Principal::Webhook(hook.to_owned());
        event.envelope.channel = Channel::Webhook;
        event.envelope.trust = trust;
        Self { urgent, ..event }
    }
}

/// The state of an accepted event in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "state", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EventState {
    /// Not yet processed.
    Waiting,
    /// Held by the limit on agent-to-agent messages.
    Held,
    /// A committed decision saw it.
    Processed {
        /// The cycle.
        cycle: CycleId,
        /// The step whose decision saw it.
        step: u32,
    },
    /// The agent decided that the event does not concern it, or a rule excluded it.
    Skipped {
        /// For operators only.
        reason: Option<String>,
        /// The cycle in which the agent was shown it; `None` if a rule excluded it before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cycle: Option<CycleId>,
    },
    /// Canceled by an operator, together with its cycle, or because its agent is retired.
    Canceled {
        /// Why, unless this event alone was canceled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Set aside after too many failures that its content caused.
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

    /// Why it is in this state, if somebody or something gave a reason.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Skipped { reason, .. } | Self::Canceled { reason } => reason.as_deref(),
            Self::Dead { reason } => Some(reason),
            Self::Waiting | Self::Held | Self::Processed { .. } | Self::Dropped => None,
        }
    }
}

names! {
    /// The progress of an event: its state, combined with the state of its cycle.
    pub enum EventProgress {
        /// It waits.
        Waiting,
        /// It waits and the open cycle has taken it.
        Taken,
        /// It is held.
        Held,
        /// A decision saw it and the cycle is still open.
        Shown,
        /// The cycle that saw it posted a message in its space or named it as handled.
        Addressed,
        /// The cycle that saw it ended without addressing it.
        Read,
        /// It was skipped.
        Skipped,
        /// It was canceled.
        Canceled,
        /// It was set aside after too many failures.
        Dead,
        /// An operator removed it.
        Dropped,
    }
}

impl EventProgress {
    /// The progress of an event in that state. `taken`: a cycle has taken it. `open`: its cycle has not ended.
    /// `addressed`: its cycle has addressed it.
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

/// A waiting event as an activation reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Its seq in this agent's inbox.
    pub seq: u64,
    /// Cycles with this event that failed because of their content.
    pub attempts: u32,
    /// Deaths of the process while it was being processed, except those during a model request.
    pub deaths: u32,
    /// The event.
    pub event: Event,
    /// The message it refers to, if any.
    pub message: Option<NamedMessage>,
}

impl Waiting {
    /// The text of the message it refers to; empty if there is none.
    pub fn text(&self) -> &str {
        self.message.as_ref().map_or("", |message| message.text.as_str())
    }
}

/// A message with the names of its space and sender in addition to the ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedMessage {
    /// The message.
    pub id: MessageId,
    /// Its space.
    pub space: SpaceId,
    /// The space's handle.
    pub space_handle: String,
    /// Position in the space.
    pub seq: u64,
    /// Who sent it.
    pub sender: EntityId,
    /// The sender's display name.
    pub sender_name: String,
    /// The sender's handle, which is unique.
    pub sender_handle: String,
    /// Human or agent.
    pub sender_kind: EntityKind,
    /// The text.
    pub text: String,
    /// Members that it mentions, by `@handle` in the text or by the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<EntityId>,
    /// When.
    pub at: Timestamp,
    /// How trustworthy it is.
    #[serde(default)]
    pub trust: Trust,
}
