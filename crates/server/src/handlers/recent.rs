//! The recent past of the whole server: what was said and which cycles came to rest.

use agent::id::AgentId;
use agent::limits;
use agent::port;
use axum::Json;
use axum::extract::State;

use super::agents::agent_called;
use super::messages::named;
use crate::api::{Recent, RecentItemJson, RecentQuery};
use crate::app_state::{AppState, HallState};
use crate::extract::{Query, rows};
use crate::problem::{Code, Problem};

/// What happened last, oldest first: messages and runs, of all or of some agents.
#[utoipa::path(get, path = "/v1/recent", tag = "streams", params(RecentQuery),
    responses((status = 200, description = "The newest of it.", body = Recent)))]
pub(super) async fn list(
    State(app): HallState,
    Query(query): Query<RecentQuery>,
) -> Result<Json<Recent>, Problem> {
    let limit = rows(query.limit)?;
    let agents = match query.agents.as_deref() {
        None => None,
        Some(names) => Some(agents_called(&app, names).await?),
    };
    let found = app.ports.reader.recent(agents, query.since, limit).await?;
    let mut said = Vec::new();
    let mut runs = Vec::new();
    for happening in found {
        let at = happening.at();
        match happening {
            port::RecentItem::Message(message) => said.push(message),
            port::RecentItem::Run(run) => runs.push((at, RecentItemJson::Run(Box::new(run.into())))),
        }
    }
    let said = named(&app, said).await?.into_iter();
    let mut items: Vec<_> =
        said.map(|message| (message.at, RecentItemJson::Message(Box::new(message)))).chain(runs).collect();
    // Stable, and messages first: an answer stands before the end of the cycle that gave it.
    items.sort_by_key(|(at, _)| *at);
    Ok(Json(Recent { items: items.into_iter().map(|(_, item)| item).collect() }))
}

async fn agents_called(app: &AppState, names: &str) -> Result<Vec<AgentId>, Problem> {
    let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() || names.len() > limits::RECENT_AGENTS_MAX {
        let most = limits::RECENT_AGENTS_MAX;
        let detail = format!("`agents` must name 1 to {most} agents, got {}", names.len());
        return Err(Problem::new(Code::BadQuery, detail));
    }
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        ids.push(agent_called(app, name).await?.id);
    }
    Ok(ids)
}
