//! The recent past of the server, with messages as the streams send them.

use std::time::Duration;

use agent::id::CallId;
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

impl Past {
    /// The items as the updates that they once were, oldest first: a run also as the calls that it made.
    pub fn into_updates(self) -> Vec<PastUpdate> {
        let mut updates: Vec<PastUpdate> = Vec::new();
        for item in self.items {
            match item {
                PastItem::Message(posted) => updates.push((*posted).into()),
                PastItem::Run(run) => {
                    updates.extend(calls(&run));
                    let spent = Some(spent(&run));
                    let RunJson { id, agent, ended_at, ending, reason, .. } = *run;
                    let update = Update::CycleEnded { agent, cycle: id, ending, reason, spent };
                    updates.push(PastUpdate { at: ended_at, update });
                }
            }
        }
        // Stable: the end of a run stays behind its calls.
        updates.sort_by_key(|update| update.at);
        updates
    }
}

/// The calls of a run whose end is known.
fn calls(run: &RunJson) -> Vec<PastUpdate> {
    let mut updates = Vec::new();
    for step in &run.steps {
        for (index, call) in (0..).zip(&step.calls) {
            let Some(status) = call.status else { continue };
            // A call that was refused before it began ended with its reply.
            let replied = step.started_ms.unwrap_or(0).saturating_add(step.model_ms);
            let started = call.started_ms.unwrap_or(replied);
            let ended = Duration::from_millis(started.saturating_add(call.took_ms.unwrap_or(0)));
            let at = run.opened_at.checked_add(ended).unwrap_or(run.ended_at).min(run.ended_at);
            let update = Update::ToolDone {
                agent: run.agent,
                cycle: run.id,
                call: CallId::derive(run.agent, run.id, step.step, index),
                tool: call.tool.clone(),
                status,
                ms: call.took_ms,
            };
            updates.push(PastUpdate { at, update });
        }
    }
    updates
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
