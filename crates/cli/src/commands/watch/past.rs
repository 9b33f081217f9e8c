//! What happened before, and what was missed: as updates, so that past and present look the same.

use agent::id::CycleId;
use agent::run::{Spent, Usage};
use agent::update::Update;
use jiff::Timestamp;
use server::api::RunJson;

use super::subject::Subject;
use crate::api::{Past, Recent};
use crate::client::{Client, typed};
use crate::errors::Result;
use agent::space::Spoken;

/// Things read at once: the server's bound.
pub(crate) const MOST: u32 = 200;

/// Something that happened, and when.
pub(crate) struct Happened {
    pub(crate) at: Timestamp,
    pub(crate) update: Update,
    /// Who spoke, for a sender who is gone.
    pub(crate) sender: Option<String>,
    /// The cycle in which something was said, where its words may be older than all that is read.
    pub(crate) spoke: Option<CycleId>,
}

/// The last `most` things, oldest first; after `since` where given.
pub(crate) async fn read(
    client: &Client,
    subject: &Subject,
    since: Option<Timestamp>,
    most: u32,
) -> Result<Vec<Happened>> {
    if let Some(path) = subject.past() {
        let since = since.map(|at| format!("since={at}&")).unwrap_or_default();
        let recent: Recent = client.get_as(&format!("{path}{since}limit={}", most.max(1))).await?;
        return Ok(recent.items.into_iter().map(happened).collect());
    }
    let Some(space) = subject.space() else { return Ok(Vec::new()) };
    let path = format!("/v1/spaces/{space}/messages?limit={}", most.max(1));
    let answer = client.get(&path).await?;
    let messages: Vec<Spoken> = typed(&path, answer["items"].clone())?;
    let after = |spoken: &Spoken| since.is_none_or(|since| spoken.message.at > since);
    Ok(messages.into_iter().filter(after).map(said).collect())
}

fn happened(past: Past) -> Happened {
    match past {
        Past::Message(spoken) => said(*spoken),
        Past::Run(run) => {
            let spent = Some(spent(&run));
            let spoke = run.steps.iter().any(|step| step.tools.iter().any(|tool| tool == "send_message"));
            let RunJson { id, agent, ended_at, ending, reason, .. } = *run;
            let spoke = spoke.then_some(id);
            let update = Update::CycleEnded { agent, cycle: id, ending, reason, spent };
            Happened { at: ended_at, update, sender: None, spoke }
        }
    }
}

fn said(spoken: Spoken) -> Happened {
    let sender = Some(spoken.sender_name.clone());
    Happened { at: spoken.at, update: Update::Message { message: spoken }, sender, spoke: None }
}

fn spent(run: &RunJson) -> Spent {
    let ms = run.ended_at.as_millisecond().saturating_sub(run.opened_at.as_millisecond());
    let server::api::UsageJson { input, cached, output, reasoning } = run.usage;
    Spent {
        steps: u32::try_from(run.steps.len()).unwrap_or(u32::MAX),
        ms: u64::try_from(ms).unwrap_or(0),
        usage: Usage { input, cached, output, reasoning },
        cost_micros: run.cost_micros,
    }
}
