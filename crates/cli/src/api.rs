//! The answers of the server that commands read, as far as they read them. What a newer server adds
//! is ignored; `--json` hands the server's own words on and does not pass through here.

use agent::entity::EntityKind;
use agent::event::Fate;
use agent::id::{AgentId, CycleId, EntityId, MessageId, SpaceId};
use agent::run::{Ending, Run, Usage};
use agent::space::{Message, MessageKind};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// `GET /v1/ready`.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    /// Whether agents live.
    pub(crate) ready: bool,
    /// The server's version.
    pub(crate) version: String,
    /// The server's default model.
    pub(crate) model: Option<ReadyModel>,
}

/// The server's default model.
#[derive(Debug, Deserialize)]
pub(crate) struct ReadyModel {
    /// As `provider/model`.
    pub(crate) name: String,
    /// Scripted; must be said wherever it appears.
    pub(crate) rehearsal: bool,
    /// In tokens.
    pub(crate) context_window: u64,
}

/// `GET /v1/whoami`.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Whoami {
    /// An admin key: names the sender of what it says.
    Admin,
    /// A key of one entity.
    Entity {
        /// Who.
        entity: Entity,
    },
}

/// An entity, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Entity {
    /// Identity.
    pub(crate) id: EntityId,
    /// Handle.
    pub(crate) name: String,
    /// For people.
    pub(crate) display_name: String,
    /// Human or agent.
    pub(crate) kind: EntityKind,
}

/// A member of a space.
#[derive(Debug, Deserialize)]
pub(crate) struct Member {
    /// Who.
    pub(crate) entity: Entity,
    /// Free text.
    #[serde(default)]
    pub(crate) role: String,
}

/// A space, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Space {
    /// Identity.
    pub(crate) id: SpaceId,
    /// Handle.
    pub(crate) name: String,
    /// For people.
    pub(crate) display_name: String,
    /// Takes no more messages.
    #[serde(default)]
    pub(crate) closed: bool,
}

/// An agent as operators see it.
#[derive(Debug, Deserialize)]
pub(crate) struct Agent {
    /// Identity.
    pub(crate) id: AgentId,
    /// Handle.
    pub(crate) name: String,
    /// For people.
    pub(crate) display_name: String,
    /// One sentence.
    #[serde(default)]
    pub(crate) description: String,
    /// What it does.
    pub(crate) state: String,
    /// Why it does nothing.
    #[serde(default)]
    pub(crate) reason: Option<String>,
    /// `active`, `suspended` or `retired`.
    pub(crate) standing: String,
    /// As `provider/model`; none is the server's default.
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// Config revision.
    pub(crate) config_rev: u64,
    /// The open cycle.
    #[serde(default)]
    pub(crate) cycle: Option<CycleId>,
    /// Waiting events.
    pub(crate) waiting: u64,
    /// Events held by the bound on agents' messages.
    pub(crate) held: u64,
    /// Cycles in which something was lived.
    pub(crate) cycles: u64,
    /// Cycles that were skipped.
    pub(crate) skips: u64,
    /// Tokens of all its life.
    #[serde(default)]
    pub(crate) usage: Usage,
    /// Kept back until then.
    #[serde(default)]
    pub(crate) not_before: Option<Timestamp>,
    /// When it was made.
    pub(crate) created_at: Timestamp,
}

/// `GET /v1/agents/{agent}/facts`, as far as it is read.
#[derive(Debug, Deserialize)]
pub(crate) struct Facts {
    /// Spaces that the agent is a member of.
    pub(crate) spaces: Vec<Space>,
    /// Its notes.
    #[serde(default)]
    pub(crate) memories: Vec<agent::life::Memory>,
    /// Its intentions.
    #[serde(default)]
    pub(crate) goals: Vec<agent::life::Goal>,
    /// Its alarms.
    #[serde(default)]
    pub(crate) plans: Vec<agent::life::Plan>,
}

/// A message with its sender's name.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Spoken {
    /// The message.
    #[serde(flatten)]
    pub(crate) message: Message,
    /// Who, for people.
    #[serde(default)]
    pub(crate) sender_name: Option<String>,
}

/// A run with what was said in it.
#[derive(Debug, Deserialize)]
pub(crate) struct RunSaid {
    /// The receipt.
    #[serde(flatten)]
    pub(crate) run: Run,
    /// Messages, in order.
    #[serde(default)]
    pub(crate) said: Vec<Spoken>,
}

impl RunSaid {
    /// Words said in the space.
    pub(crate) fn replies_in(&self, space: SpaceId) -> Vec<Reply> {
        self.said
            .iter()
            .map(|spoken| &spoken.message)
            .filter(|message| message.space == space && message.kind == MessageKind::Text)
            .map(|message| Reply { id: message.id, text: message.text.clone() })
            .collect()
    }
}

/// A row of the inbox, as far as it is read.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    /// Place in the inbox.
    pub(crate) seq: u64,
    /// What happened.
    pub(crate) kind: agent::event::EventKind,
    /// Whether it may break in.
    #[serde(default)]
    pub(crate) urgent: bool,
    /// When.
    pub(crate) at: Timestamp,
    /// What became of it.
    pub(crate) fate: Fate,
    /// Failed attempts.
    #[serde(default)]
    pub(crate) attempts: u32,
    /// For people.
    #[serde(default)]
    pub(crate) preview: String,
}

/// An entry of the consciousness.
#[derive(Debug, Deserialize)]
pub(crate) struct Entry {
    /// Place in the log.
    pub(crate) seq: u64,
    /// The cycle.
    pub(crate) cycle: CycleId,
    /// The step.
    pub(crate) step: u32,
    /// What it is.
    pub(crate) kind: agent::entry::EntryKind,
    /// The content.
    pub(crate) message: agent::message::ModelMessage,
    /// Size.
    pub(crate) tokens: u64,
    /// Whether the model still sees it.
    #[serde(default = "yes")]
    pub(crate) in_view: bool,
}

fn yes() -> bool {
    true
}

/// One page of the consciousness; entries as the server wrote them.
#[derive(Debug, Deserialize)]
pub(crate) struct MindPage {
    /// The agent, in whatever form the server names it.
    pub(crate) agent: Value,
    /// Oldest first.
    pub(crate) entries: Vec<Value>,
    /// Of the whole log.
    pub(crate) total_tokens: u64,
    /// `after` of the next page.
    #[serde(default)]
    pub(crate) next: Option<Value>,
}

/// Something said in answer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Reply {
    /// The message.
    pub(crate) id: MessageId,
    /// Its words.
    pub(crate) text: String,
}

/// What came of a message that was waited for. Scripts rely on the names.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Lived {
    /// What was said.
    pub(crate) message_id: MessageId,
    /// The cycle that lived it; none where it is not known (a skipped one leaves no trace).
    pub(crate) cycle_id: Option<CycleId>,
    /// How that ended.
    pub(crate) ending: Ending,
    /// What it said in the same space.
    pub(crate) replies: Vec<Reply>,
    /// The last of it.
    pub(crate) reply: Option<String>,
    /// Why it ended so, for people.
    #[serde(skip)]
    pub(crate) reason: Option<String>,
    /// The model that answered, for people.
    #[serde(skip)]
    pub(crate) model: Option<String>,
}
