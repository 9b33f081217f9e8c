//! The recent past of the server, with messages as the streams send them.

use agent::run::{Spent, Usage};
use agent::space::PostedMessage;
use agent::update::Update;
use api::{RunJson, UsageJson};
use jiff::Timestamp;
use serde::Deserialize;

/// The answer of `GET /v1/recent`.
#[derive(Debug, Deserialize)]
pub struct Past {
    /// Messages and runs, oldest first.
    pub items: Vec<PastItem>,
}

/// One item of the recent past.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PastItem {
    /// A message was posted in a space.
    Message(Box<PostedMessage>),
    /// A cycle ended.
    Run(Box<RunJson>),
}

/// An item of the past as the update that it once was.
#[derive(Clone, Debug, PartialEq)]
pub struct PastUpdate {
    /// When it happened.
    pub at: Timestamp,
    /// The update.
    pub update: Update,
}

impl From<PastItem> for PastUpdate {
    fn from(item: PastItem) -> Self {
        match item {
            PastItem::Message(posted) => (*posted).into(),
            PastItem::Run(run) => {
                let spent = Some(spent(&run));
                let RunJson { id, agent, ended_at, ending, reason, .. } = *run;
                Self { at: ended_at, update: Update::CycleEnded { agent, cycle: id, ending, reason, spent } }
            }
        }
    }
}

impl From<PostedMessage> for PastUpdate {
    fn from(message: PostedMessage) -> Self {
        Self { at: message.at, update: Update::Message { message } }
    }
}

fn spent(run: &RunJson) -> Spent {
    let ms = run.ended_at.as_millisecond().saturating_sub(run.opened_at.as_millisecond());
    let UsageJson { input, cached, output, reasoning } = run.usage;
    Spent {
        steps: u32::try_from(run.steps.len()).unwrap_or(u32::MAX),
        ms: u64::try_from(ms).unwrap_or(0),
        usage: Usage { input, cached, output, reasoning },
        cost_micros: run.cost_micros,
    }
}
