//! Past and missed items, converted to updates, so that they look the same as live ones.

use jiff::Timestamp;

use agent::space::PostedMessage;
use client::{Client, Past, PastUpdate, Result, Subject, typed};

/// Maximum number of items that are read at once: the server's limit.
pub(crate) const PAST_MAX: u32 = 200;

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
        return Ok(recent.into_updates());
    }
    let Some(space) = subject.space() else { return Ok(Vec::new()) };
    let path = format!("/v1/spaces/{space}/messages?limit={}", max.max(1));
    let answer = client.get(&path).await?;
    let messages: Vec<PostedMessage> = typed(&path, answer["items"].clone())?;
    let after = |posted: &PostedMessage| since.is_none_or(|since| posted.message.at > since);
    Ok(messages.into_iter().filter(after).map(PastUpdate::from).collect())
}
