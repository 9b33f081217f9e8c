//! Tool calls of an agent: list the open ones, cancel one.

use agent::id::CallId;
use axum::Json;
use axum::extract::State;

use super::agents::find_agent;
use crate::app_state::SharedState;
use crate::auth::Caller;
use crate::extract::{Idempotency, PathParam, run_to_completion};
use crate::once;
use crate::problem::Problem;
use api::{Call, PageJson};

/// Lists the calls of an agent that have no result yet, in the order in which they were made.
#[utoipa::path(get, path = "/v1/agents/{agent}/calls", tag = "calls",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "All open calls in one page.", body = PageJson<Call>)))]
pub(super) async fn open(
    State(app): SharedState,
    PathParam(name): PathParam<String>,
) -> Result<Json<PageJson<Call>>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let rows = app.ports.reader.open_calls(agent).await?;
    let items = rows.into_iter().map(|row| Call::of(agent, row)).collect();
    Ok(Json(PageJson { items, next: None }))
}

/// Cancels a call that has no result yet. The agent is told that the call was canceled, and continues with its other
/// calls.
#[utoipa::path(post, path = "/v1/agents/{agent}/calls/{call}/cancel", tag = "calls",
    params(("agent" = String, Path, description = "Id or handle."),
           ("call" = String, Path, description = "The call's id.")),
    responses((status = 200, description = "The canceled call.", body = Call)))]
pub(super) async fn cancel(
    State(app): SharedState,
    PathParam((name, call)): PathParam<(String, String)>,
    caller: Caller,
    key: Idempotency,
) -> Result<Json<Call>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let request = key.request(caller.principal(), &format!("cancel call {agent} {call}"), &[]);
    run_to_completion(async move {
        let run = async || {
            let canceled = app.ports.registry.cancel_call(agent, CallId(call.clone())).await?;
            app.node.answered(agent, canceled.call.id.clone(), canceled.notifications);
            Ok((agent.0, Json(Call::of(agent, canceled.call))))
        };
        let again = async |_| {
            let found = app.ports.reader.call(agent, CallId(call.clone())).await?;
            Ok(Json(Call::of(agent, found.ok_or_else(|| Problem::not_found("call", &call))?)))
        };
        once::change(&app, request, run, again).await
    })
    .await
}
