//! What commands make of the server's answers beyond `server::api`, which both speak.

use agent::id::{CycleId, MessageId, SpaceId};
use agent::run::Ending;
use agent::space::{MessageKind, Spoken};
use serde::{Deserialize, Serialize};
use server::api::{RunDetail, RunJson};

/// The recent past of the server.
#[derive(Debug, Deserialize)]
pub(crate) struct Recent {
    /// What happened, oldest first.
    pub(crate) items: Vec<Past>,
}

/// Something of the recent past.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Past {
    /// Said in a space.
    Message(Box<Spoken>),
    /// A cycle came to rest.
    Run(Box<RunJson>),
}

/// Something said in answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reply {
    /// The message.
    pub(crate) id: MessageId,
    /// Its words.
    pub(crate) text: String,
}

/// What a run said in one space, in order.
pub(crate) fn replies(run: &RunDetail, space: SpaceId) -> Vec<Reply> {
    run.messages
        .iter()
        .filter(|message| message.space == space && message.kind == MessageKind::Text)
        .map(|message| Reply { id: message.id, text: message.text.clone() })
        .collect()
}

/// What came of a message that was waited for. Scripts rely on the names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Exchange {
    /// What was said.
    pub(crate) message_id: MessageId,
    /// The cycle that processed it; none if it is not known (a skipped one leaves no trace).
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
