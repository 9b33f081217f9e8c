//! Calls of an agent's tools: which are open, and one taken back.

use agent::id::CallId;
use axum::Json;
use axum::extract::State;

use super::agents::agent_called;
use crate::api::{Call, PageJson};
use crate::app_state::HallState;
use crate::extract::{At, to_the_end};
use crate::problem::Problem;

/// The calls of an agent that have no answer yet, in the order in which they were decided.
#[utoipa::path(get, path = "/v1/agents/{agent}/calls", tag = "calls",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "All of them: one page.", body = PageJson<Call>)))]
pub(super) async fn open(
    State(app): HallState,
    At(name): At<String>,
) -> Result<Json<PageJson<Call>>, Problem> {
    let agent = agent_called(&app, &name).await?.id;
    let rows = app.ports.reader.open_calls(agent).await?;
    let items = rows.into_iter().map(|row| Call::of(agent, row)).collect();
    Ok(Json(PageJson { items, next: None }))
}

/// Takes back one call that has no answer yet. Its agent reads that it was canceled, and goes on with
/// the others.
#[utoipa::path(post, path = "/v1/agents/{agent}/calls/{call}/cancel", tag = "calls",
    params(("agent" = String, Path, description = "Id or handle."),
           ("call" = String, Path, description = "The call's id.")),
    responses((status = 200, description = "The call as it is now.", body = Call)))]
pub(super) async fn cancel(
    State(app): HallState,
    At((name, call)): At<(String, String)>,
) -> Result<Json<Call>, Problem> {
    let agent = agent_called(&app, &name).await?.id;
    to_the_end(async move {
        let canceled = app.ports.registry.cancel_call(agent, CallId(call)).await?;
        app.node.answered(agent, canceled.call.id.clone(), canceled.echo);
        Ok(Json(Call::of(agent, canceled.call)))
    })
    .await
}
