//! `viv runs`: which cycles ran or run, what each was asked and what came back.

use agent::id::{AgentId, CycleId};
use agent::run::{PersonWait, StepRecord};
use agent::space::MessageKind;
use api::{Agent, OpenCycleJson, RunDetail, RunJson, UsageJson};
use client::{Client, ErrorClass, Past, PastItem, agent_path};
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
/// Agents that are looked at for open cycles.
const AGENTS_MAX: usize = 1_000;
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
    let most = args.limit as usize;
    let open = open(client, agent, most).await?;
    let runs = newest(client, agent, most - open.len()).await?;
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
        screen.json_list(
            open.iter().map(|open| json!(open)).chain(details.iter().map(row)).collect::<Vec<_>>(),
        );
        return Ok(());
    }
    if details.is_empty() && open.is_empty() {
        screen.text("no cycle has run yet");
        return Ok(());
    }
    let now = Timestamp::now();
    let rows = open.iter().map(|open| open_row(screen, open));
    let rows: Vec<Vec<String>> = rows.chain(details.iter().map(|detail| row(screen, detail, now))).collect();
    screen
        .table(&["RUN", "AGENT", "WHEN", "TOOK", "STEPS", "TOKENS", "ENDED", "ASKED BY", "CAME BACK"], &rows);
    screen.note("`viv runs show RUN` shows one, step by step");
    Ok(())
}

/// The cycle that an agent has open; `None` if it has none.
pub(crate) async fn open_of(client: &Client, agent: AgentId) -> Result<Option<OpenCycleJson>> {
    match client.get_as(&agent_path(agent, "/cycle")).await {
        Ok(open) => Ok(Some(open)),
        Err(failure) if failure.code == "no_open_cycle" || failure.class == ErrorClass::NotFound => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// The open cycles of an agent, or of all, the newest first. With a worker's or a person's key there are none.
async fn open(client: &Client, agent: Option<AgentId>, most: usize) -> Result<Vec<OpenCycleJson>> {
    if let Some(agent) = agent {
        return Ok(open_of(client, agent).await?.into_iter().collect());
    }
    let agents: Vec<Agent> = client.list_as("/v1/agents?brief=true", AGENTS_MAX).await?;
    let mut busy: Vec<Agent> = agents.into_iter().filter(|agent| agent.cycle.is_some()).collect();
    busy.sort_by_key(|agent| std::cmp::Reverse(agent.cycle));
    let found = join_all(busy.iter().take(most).map(|agent| open_of(client, agent.id))).await;
    Ok(found.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The waits for a person that have no end yet, with the tools of their calls.
pub(crate) fn waits(steps: &[StepRecord]) -> impl Iterator<Item = (&str, &PersonWait)> {
    let calls = steps.iter().flat_map(|step| &step.calls).filter(|call| call.status.is_none());
    let asked = calls.filter_map(|call| Some((call.tool.as_str(), call.asked.as_ref()?)));
    asked.filter(|(_, asked)| asked.waited_ms.is_none())
}

/// Whom a call waits for.
pub(crate) fn whom(asked: &PersonWait) -> String {
    if asked.approvers.is_empty() { "a person".to_owned() } else { asked.approvers.join(", ") }
}

/// How long a cycle has been open, in milliseconds.
pub(crate) fn so_far(open: &OpenCycleJson) -> u64 {
    u64::try_from(open.at.as_millisecond() - open.opened_at.as_millisecond()).unwrap_or(0)
}

fn open_row(screen: &Screen, open: &OpenCycleJson) -> Vec<String> {
    let id = open.id.to_string();
    let waits: Vec<String> =
        waits(&open.steps).map(|(tool, asked)| format!("{tool} waits for {}", whom(asked))).collect();
    let cells = [
        id.get(..ID_SHOWN).unwrap_or(&id).to_owned(),
        format!("{} #{}", open.agent_handle, open.ordinal),
        ago(open.opened_at, open.at),
        span(so_far(open)),
        open.steps.len().to_string(),
        tokens(&open.usage),
        format!("{}, open", open.state.as_str()),
        open.woke_for.clone(),
        if waits.is_empty() { "-".to_owned() } else { shortened(&waits.join("; "), BACK_COLUMNS) },
    ];
    cells.iter().map(|cell| screen.clean_line(cell)).collect()
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
        tokens(&run.usage),
        run.ending.as_str().to_owned(),
        run.woke_for.clone(),
        shortened(&came_back(detail).replace('\n', " "), BACK_COLUMNS),
    ];
    cells.iter().map(|cell| screen.clean_line(cell)).collect()
}

fn tokens(usage: &UsageJson) -> String {
    let all = [usage.input, usage.output].into_iter().flatten().reduce(u64::saturating_add);
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

/// A run, or the cycle that will be one.
pub(crate) enum Named {
    /// Its id.
    Run(CycleId),
    Open(Box<OpenCycleJson>),
}

/// The only recent run or open cycle whose id begins so; `None` if there is none.
pub(crate) async fn with_prefix(client: &Client, prefix: &str) -> Result<Option<Named>> {
    let mut open = open(client, None, usize::MAX).await?;
    open.retain(|open| open.id.to_string().starts_with(prefix));
    let runs = newest(client, None, usize::MAX).await?.into_iter().map(|run| run.id);
    let runs = runs.filter(|id| id.to_string().starts_with(prefix) && open.iter().all(|open| open.id != *id));
    let found: Vec<CycleId> = open.iter().map(|open| open.id).chain(runs).collect();
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(open.pop().map_or(Named::Run(*one), |open| Named::Open(Box::new(open))))),
        several => {
            let ids: Vec<String> = several.iter().take(4).map(|id| format!("`{id}`")).collect();
            let message = format!("{} runs begin with `{prefix}`", several.len());
            Err(Failure::usage(message).hint(format!("name one in full: {}", ids.join(", "))))
        }
    }
}
