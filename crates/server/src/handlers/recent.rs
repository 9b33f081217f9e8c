//! The recent history of the server: messages and ended cycles.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use agent::id::AgentId;
use agent::limits;
use agent::port;
use axum::Json;
use axum::extract::State;

use super::agents::{find_agent, handle_of};
use super::messages::messages_json;
use crate::app_state::{AppState, SharedState};
use crate::extract::{Query, rows};
use crate::problem::{Code, Problem};
use api::{Recent, RecentItemJson, RecentQuery, RunJson};

/// Lists the newest messages and runs of all or of some agents, oldest first.
#[utoipa::path(get, path = "/v1/recent", tag = "streams", params(RecentQuery),
    responses((status = 200, description = "The newest items.", body = Recent)))]
pub(super) async fn list(
    State(app): SharedState,
    Query(query): Query<RecentQuery>,
) -> Result<Json<Recent>, Problem> {
    let limit = rows(query.limit)?;
    let agents = match query.agents.as_deref() {
        None => None,
        Some(names) => Some(find_agents(&app, names).await?),
    };
    let found = app.ports.reader.recent(agents, query.since, limit).await?;
    let mut messages = Vec::new();
    let mut runs = Vec::new();
    let mut handles: HashMap<AgentId, String> = HashMap::new();
    for item in found {
        let at = item.at();
        match item {
            port::RecentItem::Message(message) => messages.push(message),
            port::RecentItem::Run(run) => {
                let handle = match handles.entry(run.agent) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(vacant) => vacant.insert(handle_of(&app, run.agent).await?),
                };
                runs.push((at, RecentItemJson::Run(Box::new(RunJson::of(run, handle.clone())))));
            }
        }
    }
    let messages = messages_json(&app, messages).await?.into_iter();
    let mut items: Vec<_> = messages
        .map(|message| (message.at, RecentItemJson::Message(Box::new(message))))
        .chain(runs)
        .collect();
    // The sort is stable and messages come first: a reply is listed before the run of its cycle.
    items.sort_by_key(|(at, _)| *at);
    Ok(Json(Recent { items: items.into_iter().map(|(_, item)| item).collect() }))
}

async fn find_agents(app: &AppState, names: &str) -> Result<Vec<AgentId>, Problem> {
    let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() || names.len() > limits::RECENT_AGENTS_MAX {
        let most = limits::RECENT_AGENTS_MAX;
        let detail = format!("`agents` must name 1 to {most} agents, got {}", names.len());
        return Err(Problem::new(Code::BadQuery, detail));
    }
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        ids.push(find_agent(app, name).await?.id);
    }
    Ok(ids)
}
