//! Tool calls of an agent: list the open ones, cancel one.

use agent::id::CallId;
use axum::Json;
use axum::extract::State;

use super::agents::find_agent;
use crate::app_state::SharedState;
use crate::extract::{Exact, Named, PathParam, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done};
use crate::problem::Problem;
use api::{Call, PageJson, PageQuery};

/// Lists the calls of an agent that have no result yet, in the order in which they were made.
#[utoipa::path(get, path = "/v1/agents/{agent}/calls", tag = "calls",
    params(("agent" = String, Path, description = "Id or handle."), PageQuery),
    responses((status = 200, description = "A page of open calls.", body = PageJson<Call>)))]
pub(super) async fn open(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    list: List<PageQuery>,
) -> Result<Listed<Call>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let rows = app.ports.reader.open_calls(agent).await?;
    let page = list.cut(rows, |row| row.id.0.clone(), |_| 0);
    Ok(list.answer(page, |row| Call::of(agent, row)))
}

/// Cancels a call that has no result yet. The agent is told that the call was canceled, and continues with its other
/// calls.
#[utoipa::path(post, path = "/v1/agents/{agent}/calls/{call}/cancel", tag = "calls",
    params(("agent" = String, Path, description = "Id or handle."),
           ("call" = String, Path, description = "The call's id.")),
    responses((status = 200, description = "The canceled call.", body = Call)))]
pub(super) async fn cancel(
    State(app): SharedState,
    PathParam((name, call)): PathParam<(Named, Exact)>,
    change: Change<()>,
) -> Result<Done<Json<Call>>, Problem> {
    let Exact(call) = call;
    let agent = find_agent(&app, &name).await?.id;
    run_to_completion(async move {
        let run = async || {
            let canceled = app.ports.registry.cancel_call(agent, CallId(call.clone())).await?;
            app.node.answered(agent, canceled.call.id.clone(), canceled.notifications);
            Ok(Json(Call::of(agent, canceled.call)))
        };
        let again = async || {
            let found = app.ports.reader.call(agent, CallId(call.clone())).await?;
            Ok(Json(Call::of(agent, found.ok_or_else(|| Problem::not_found("call", &call))?)))
        };
        change.once.change(run, again).await
    })
    .await
}
