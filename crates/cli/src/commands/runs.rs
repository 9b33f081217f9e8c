//! `viv runs`: which cycles ran, what each was asked and what came back.

use agent::id::{AgentId, CycleId};
use agent::space::MessageKind;
use api::{RunDetail, RunJson};
use client::{Client, Past, PastItem, agent_path};
use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::json;

use super::show;
use crate::args::{RunsArgs, RunsList, RunsVerb};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, ago, short_count, shortened, span};

/// Items of the recent past that are read to list the runs of all agents: the server's limit.
const RECENT_MAX: u32 = 200;
/// Characters of a run's id that tell it from others: its time, to the millisecond.
const ID_SHOWN: usize = 13;
/// Fewer characters of an id name no run: they are the same for an hour.
const PREFIX_MIN: usize = 6;
/// Columns of what came back.
const BACK_COLUMNS: usize = 60;

pub(crate) async fn run(client: Client, screen: Screen, args: RunsArgs) -> Result<Exit> {
    match args.verb.unwrap_or(RunsVerb::List(args.list)) {
        RunsVerb::List(wanted) => list(&client, &screen, &wanted).await?,
        RunsVerb::Show { run } => show::run::run(&client, &screen, run.as_deref()).await?,
    }
    Ok(Exit::Answered)
}

async fn list(client: &Client, screen: &Screen, args: &RunsList) -> Result<()> {
    let agent = match &args.agent {
        Some(agent) => Some(client.agent(agent).await?.id),
        None => None,
    };
    let runs = newest(client, agent, args.limit as usize).await?;
    let detail = |run: &RunJson| {
        let path = format!("/v1/runs/{}", run.id);
        async move { client.get_as::<RunDetail>(&path).await }
    };
    let details =
        join_all(runs.iter().map(detail)).await.into_iter().collect::<client::Result<Vec<RunDetail>>>()?;
    if screen.json {
        let row = |detail: &RunDetail| {
            let mut row = json!(detail.run);
            row["came_back"] = json!(came_back(detail));
            row
        };
        screen.json_list(details.iter().map(row).collect::<Vec<_>>());
        return Ok(());
    }
    if details.is_empty() {
        screen.text("no cycle has run yet");
        return Ok(());
    }
    let now = Timestamp::now();
    let rows: Vec<Vec<String>> = details.iter().map(|detail| row(screen, detail, now)).collect();
    screen
        .table(&["RUN", "AGENT", "WHEN", "TOOK", "STEPS", "TOKENS", "ENDED", "ASKED BY", "CAME BACK"], &rows);
    screen.note("`viv runs show RUN` shows one, step by step");
    Ok(())
}

/// The newest runs of an agent, or of all, the newest first.
async fn newest(client: &Client, agent: Option<AgentId>, most: usize) -> Result<Vec<RunJson>> {
    if let Some(agent) = agent {
        return Ok(client.list_as(&agent_path(agent, "/runs"), most).await?);
    }
    let recent: Past = client.get_as(&format!("/v1/recent?limit={RECENT_MAX}")).await?;
    let runs = recent.items.into_iter().rev().filter_map(|item| match item {
        PastItem::Run(run) => Some(*run),
        PastItem::Message(_) => None,
    });
    Ok(runs.take(most).collect())
}

fn row(screen: &Screen, detail: &RunDetail, now: Timestamp) -> Vec<String> {
    let run = &detail.run;
    let took = run.ended_at.as_millisecond().saturating_sub(run.opened_at.as_millisecond());
    let id = run.id.to_string();
    let cells = [
        id.get(..ID_SHOWN).unwrap_or(&id).to_owned(),
        format!("{} #{}", run.agent_handle, run.ordinal),
        ago(run.ended_at, now),
        span(u64::try_from(took).unwrap_or(0)),
        run.steps.len().to_string(),
        tokens(run),
        run.ending.as_str().to_owned(),
        run.woke_for.clone(),
        shortened(&came_back(detail).replace('\n', " "), BACK_COLUMNS),
    ];
    cells.iter().map(|cell| screen.clean_line(cell)).collect()
}

fn tokens(run: &RunJson) -> String {
    let all = [run.usage.input, run.usage.output].into_iter().flatten().reduce(u64::saturating_add);
    all.map_or_else(|| "-".to_owned(), short_count)
}

/// The last message that the run posted; without one why it ended so, or the agent's own summary.
fn came_back(detail: &RunDetail) -> String {
    let posted = detail.messages.iter().rev().find(|message| message.kind == MessageKind::Text);
    let run = &detail.run;
    let text = posted.map(|message| &message.text).or(run.reason.as_ref()).or(run.summary.as_ref());
    text.cloned().unwrap_or_else(|| "-".to_owned())
}

/// Whether this can be the beginning of a run's id.
pub(crate) fn is_prefix(text: &str) -> bool {
    let is_hex = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    text.len() >= PREFIX_MIN && is_hex && text.bytes().any(|b| b.is_ascii_digit())
}

/// The only recent run whose id begins so; `None` if there is none.
pub(crate) async fn with_prefix(client: &Client, prefix: &str) -> Result<Option<CycleId>> {
    let mut found = newest(client, None, usize::MAX).await?;
    found.retain(|run| run.id.to_string().starts_with(prefix));
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.id)),
        several => {
            let ids: Vec<String> = several.iter().take(4).map(|run| format!("`{}`", run.id)).collect();
            let message = format!("{} runs begin with `{prefix}`", several.len());
            Err(Failure::usage(message).hint(format!("name one in full: {}", ids.join(", "))))
        }
    }
}
