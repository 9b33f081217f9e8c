//! The memories of an agent, as operators read and change them.

use agent::changes::MemoryChange;
use agent::id::AgentId;
use agent::limits;
use agent::memory::{self, Memory};
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;

use super::agents::find_agent;
use super::denied::refused;
use crate::app_state::{AppState, SharedState};
use crate::extract::{Exact, Named, PathParam, Sent, bounded_text, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done};
use crate::problem::{Code, Problem, WriteResponse};
use api::{MemoryJson, MemoryValue, PageJson, PageQuery};

/// Lists the memories of an agent by key.
#[utoipa::path(get, path = "/v1/agents/{agent}/memories", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle."), PageQuery),
    responses((status = 200, description = "A page of memories.", body = PageJson<MemoryJson>)))]
pub(super) async fn list_memories(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    list: List<PageQuery>,
) -> Result<Listed<MemoryJson>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let found = app.ports.reader.memories(agent, list.page.clone()).await?;
    Ok(list.answer(found, MemoryJson::from))
}

/// Sets a memory. The agent sees it from its next cycle on, and often already in the next step of a running one.
#[utoipa::path(put, path = "/v1/agents/{agent}/memories/{key}", tag = "agents", request_body = MemoryValue,
    params(("agent" = String, Path, description = "Id or handle."),
           ("key" = String, Path, description = "Key of the memory, 1 to 120 bytes.")),
    responses((status = 200, description = "The memory as it is now.", body = MemoryJson)))]
pub(super) async fn set_memory(
    State(app): SharedState,
    PathParam((name, key)): PathParam<(Named, Exact)>,
    Change { body: Sent(new), once }: Change<Sent<MemoryValue>>,
) -> Result<Done<Json<MemoryJson>>, Problem> {
    let Exact(key) = key;
    let MemoryValue { value, importance, pinned, trust } = new;
    let key = key.trim().to_owned();
    if let Some(flaw) = memory::flaw(&key, value.as_deref().unwrap_or_default()) {
        return Err(Problem::new(Code::BadValue, flaw));
    }
    let set = match value {
        Some(value) => {
            let value = bounded_text("value", value, limits::MEMORY_VALUE_MAX_BYTES)?;
            MemoryChange::Set { key, value, importance, pinned, trust }
        }
        None if trust.is_some() => {
            return Err(Problem::new(Code::BadValue, "`trust` belongs to a `value`"));
        }
        None if importance.is_none() && pinned.is_none() => {
            return Err(Problem::new(Code::BadValue, "wanted `value`, `importance` or `pinned`, got none"));
        }
        None => MemoryChange::Mark { key, importance, pinned },
    };
    let agent = find_agent(&app, &name).await?.id;
    let at = app.ports.clock.now();
    run_to_completion(async move {
        let run = async || {
            let written = change(&app, agent, set, at).await?;
            Ok(written.ok_or_else(|| Problem::not_found("agent", &name))?.into())
        };
        once.answer(run).await
    })
    .await
}

/// Deletes a memory.
#[utoipa::path(delete, path = "/v1/agents/{agent}/memories/{key}", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle."),
           ("key" = String, Path, description = "Key of the memory.")),
    responses((status = 204, description = "The memory is deleted.")))]
pub(super) async fn delete_memory(
    State(app): SharedState,
    PathParam((name, key)): PathParam<(Named, Exact)>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<MemoryJson>>, Problem> {
    let Exact(key) = key;
    let agent = find_agent(&app, &name).await?.id;
    let at = app.ports.clock.now();
    run_to_completion(async move {
        let run = async || {
            change(&app, agent, MemoryChange::Delete { key: key.trim().to_owned() }, at).await?;
            Ok(WriteResponse::Removed)
        };
        once.change(run, async || Ok(WriteResponse::Removed)).await
    })
    .await
}

async fn change(
    app: &AppState,
    agent: AgentId,
    change: MemoryChange,
    at: Timestamp,
) -> Result<Option<Memory>, Problem> {
    match app.ports.registry.change_memory(agent, change, at).await {
        Ok(now) => Ok(now),
        Err(error) => Err(refused(app, error).await),
    }
}
