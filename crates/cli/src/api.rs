//! Types for the server's answers that `server::api`, which server and client share, does not define.

use agent::id::{CycleId, MessageId, SpaceId};
use agent::run::Ending;
use agent::space::{MessageKind, PostedMessage};
use serde::{Deserialize, Serialize};
use server::api::{RunDetail, RunJson};

/// The recent past of the server.
#[derive(Debug, Deserialize)]
pub(crate) struct Recent {
    /// Messages and runs, oldest first.
    pub(crate) items: Vec<RecentItem>,
}

/// One item of the recent past.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum RecentItem {
    /// A message was posted in a space.
    Message(Box<PostedMessage>),
    /// A cycle ended.
    Run(Box<RunJson>),
}

/// A message posted in reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reply {
    /// The message.
    pub(crate) id: MessageId,
    /// Its text.
    pub(crate) text: String,
}

/// The messages that a run posted in one space, in order.
pub(crate) fn replies(run: &RunDetail, space: SpaceId) -> Vec<Reply> {
    run.messages
        .iter()
        .filter(|message| message.space == space && message.kind == MessageKind::Text)
        .map(|message| Reply { id: message.id, text: message.text.clone() })
        .collect()
}

/// The outcome of a message that was waited for. Scripts rely on the names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Exchange {
    /// The message that was sent.
    pub(crate) message_id: MessageId,
    /// The cycle that processed it; `None` if unknown (a skipped cycle leaves no trace).
    pub(crate) cycle_id: Option<CycleId>,
    /// How the cycle ended.
    pub(crate) ending: Ending,
    /// The messages it posted in the same space.
    pub(crate) replies: Vec<Reply>,
    /// The last reply's text.
    pub(crate) reply: Option<String>,
    /// Why the cycle ended this way, for people.
    #[serde(skip)]
    pub(crate) reason: Option<String>,
    /// The model that answered, for people.
    #[serde(skip)]
    pub(crate) model: Option<String>,
}
