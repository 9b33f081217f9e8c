//! What an agent lived and knows: runs, consciousness, facts.

use agent::entry::View;
use agent::id::CycleId;
use axum::Json;
use axum::extract::State;

use super::agent_called;
use super::messages::named;
use crate::api::{Consciousness, Facts, LogEntry, LogQuery, Page, PageQuery, Run, RunDetail};
use crate::extract::{At, HallState, Query, page, rows};
use crate::problem::Problem;

/// An agent's runs, newest first.
#[utoipa::path(get, path = "/v1/agents/{agent}/runs", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle."), PageQuery),
    responses((status = 200, description = "A page.", body = Page<Run>)))]
pub(super) async fn runs(
    State(hall): HallState,
    At(name): At<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Run>>, Problem> {
    let which = page(query.cursor, query.limit)?;
    let agent = agent_called(&hall, &name).await?.id;
    let found = hall.doors.reader.runs(agent, which).await?;
    Ok(Json(Page::of(found, Run::from)))
}

/// One run with what it said.
#[utoipa::path(get, path = "/v1/runs/{run}", tag = "runs",
    params(("run" = String, Path, description = "Id of the run, which is its cycle's.")),
    responses((status = 200, description = "The run.", body = RunDetail)))]
pub(super) async fn run(State(hall): HallState, At(id): At<String>) -> Result<Json<RunDetail>, Problem> {
    let missing = || Problem::not_found("run", &id);
    let cycle: CycleId = id.parse().map_err(|_| missing())?;
    let run = hall.doors.reader.run(cycle).await?.ok_or_else(missing)?;
    let said = hall.doors.reader.said_in(cycle).await?;
    Ok(Json(RunDetail { run: run.into(), said: named(&hall, said).await? }))
}

/// An agent's log, oldest first.
#[utoipa::path(get, path = "/v1/agents/{agent}/consciousness", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle."), LogQuery),
    responses((status = 200, description = "A part of it.", body = Consciousness)))]
pub(super) async fn consciousness(
    State(hall): HallState,
    At(name): At<String>,
    Query(query): Query<LogQuery>,
) -> Result<Json<Consciousness>, Problem> {
    let limit = rows(query.limit)?;
    let agent = agent_called(&hall, &name).await?.id;
    let entries = hall.doors.reader.entries(agent, query.after.unwrap_or(0), limit).await?;
    let view = hall.doors.reader.view(agent).await?.unwrap_or_else(View::whole);
    let full = entries.len() as u64 >= u64::from(limit);
    let next = entries.last().map(|entry| entry.seq).filter(|_| full);
    let total_tokens = entries.iter().map(|entry| u64::from(entry.tokens)).sum();
    let entries = entries.into_iter().map(|entry| {
        let agent::entry::Entry { seq, cycle, step, kind, message, tokens, at } = entry;
        LogEntry { seq, cycle, step, kind, message, tokens, at, in_view: view.shows(seq) }
    });
    Ok(Json(Consciousness { agent, entries: entries.collect(), total_tokens, next }))
}

/// What an agent knows besides its log: spaces, memories, goals, plans.
#[utoipa::path(get, path = "/v1/agents/{agent}/facts", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "All of them.", body = Facts)))]
pub(super) async fn facts(State(hall): HallState, At(name): At<String>) -> Result<Json<Facts>, Problem> {
    let agent = agent_called(&hall, &name).await?.id;
    let facts = hall.doors.reader.facts(agent).await?;
    Ok(Json(facts.ok_or_else(|| Problem::not_found("agent", &name))?.into()))
}
