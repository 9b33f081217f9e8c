//! Past and missed items, converted to updates, so that they look the same as live ones.

use agent::run::{Spent, Usage};
use agent::update::Update;
use api::RunJson;
use jiff::Timestamp;

use super::subject::Subject;
use agent::space::PostedMessage;
use client::{Client, Past, PastItem, Result, typed};

/// Maximum number of items that are read at once: the server's limit.
pub(crate) const PAST_MAX: u32 = 200;

/// A past update and its time.
pub(crate) type PastUpdate = (Timestamp, Update);

/// The last `max` items, oldest first; only those after `since` if it is given.
pub(crate) async fn read(
    client: &Client,
    subject: &Subject,
    since: Option<Timestamp>,
    max: u32,
) -> Result<Vec<PastUpdate>> {
    if let Some(path) = subject.past() {
        let since = since.map(|at| format!("since={at}&")).unwrap_or_default();
        let recent: Past = client.get_as(&format!("{path}{since}limit={}", max.max(1))).await?;
        return Ok(recent.items.into_iter().map(from_item).collect());
    }
    let Some(space) = subject.space() else { return Ok(Vec::new()) };
    let path = format!("/v1/spaces/{space}/messages?limit={}", max.max(1));
    let answer = client.get(&path).await?;
    let messages: Vec<PostedMessage> = typed(&path, answer["items"].clone())?;
    let after = |posted: &PostedMessage| since.is_none_or(|since| posted.message.at > since);
    Ok(messages.into_iter().filter(after).map(from_message).collect())
}

/// An item of the past as the update that it once was.
pub(crate) fn from_item(past: PastItem) -> PastUpdate {
    match past {
        PastItem::Message(posted) => from_message(*posted),
        PastItem::Run(run) => {
            let spent = Some(spent(&run));
            let RunJson { id, agent, ended_at, ending, reason, .. } = *run;
            (ended_at, Update::CycleEnded { agent, cycle: id, ending, reason, spent })
        }
    }
}

fn from_message(posted: PostedMessage) -> PastUpdate {
    (posted.at, Update::Message { message: posted })
}

fn spent(run: &RunJson) -> Spent {
    let ms = run.ended_at.as_millisecond().saturating_sub(run.opened_at.as_millisecond());
    let api::UsageJson { input, cached, output, reasoning } = run.usage;
    Spent {
        steps: u32::try_from(run.steps.len()).unwrap_or(u32::MAX),
        ms: u64::try_from(ms).unwrap_or(0),
        usage: Usage { input, cached, output, reasoning },
        cost_micros: run.cost_micros,
    }
}
