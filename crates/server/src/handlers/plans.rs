//! The plans of an agent, as operators read, set and delete them.

use agent::changes::PlanChange;
use agent::id::PlanId;
use agent::plan::{PlanSource, PlanTerms};
use axum::Json;
use axum::extract::State;
use uuid::Uuid;

use super::agents::find_agent;
use super::refused;
use crate::app_state::SharedState;
use crate::auth::Caller;
use crate::extract::{Body, Idempotency, PathParam, run_to_completion};
use crate::once;
use crate::problem::{Code, Problem, WriteResponse};
use api::{NewPlanJson, PageJson, PlanJson};

/// Lists the plans of an agent that will fire, the next one first: its own, those of operators and those of its config.
#[utoipa::path(get, path = "/v1/agents/{agent}/plans", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "All plans in one page.", body = PageJson<PlanJson>)))]
pub(super) async fn list_plans(
    State(app): SharedState,
    PathParam(name): PathParam<String>,
) -> Result<Json<PageJson<PlanJson>>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let plans = app.ports.reader.plans(agent).await?;
    Ok(Json(PageJson { items: plans.into_iter().map(PlanJson::from).collect(), next: None }))
}

/// Sets a plan, in place of the operators' plan of the same name if there is one. Each time it fires, the agent gets an event of
/// kind `plan`. Only operators can change it.
#[utoipa::path(post, path = "/v1/agents/{agent}/plans", tag = "agents", request_body = NewPlanJson,
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 201, description = "The new plan.", body = PlanJson),
              (status = 200, description = "The plan was set before by this request.", body = PlanJson)))]
pub(super) async fn set_plan(
    State(app): SharedState,
    PathParam(name): PathParam<String>,
    caller: Caller,
    idempotency: Idempotency,
    body: Body<NewPlanJson>,
) -> Result<WriteResponse<PlanJson>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let request = idempotency.request(caller.principal(), &format!("plan {agent}"), &body.raw);
    let terms = PlanTerms::from(body.value);
    let fresh = app.ports.ids.uuid();
    let new = move |id, now| {
        let plan = terms.plan(PlanId(id), None, PlanSource::Operator, now);
        plan.map_err(|why| Problem::new(Code::BadPlan, why.to_string()))
    };
    // Without a key, a wrong plan is refused before anything is noted.
    if request.is_none() {
        new(fresh, app.ports.clock.now())?;
    }
    run_to_completion(async move {
        let app = &app;
        let make = |id| async move {
            let plan = new(id, app.ports.clock.now())?;
            let set = match app.ports.registry.change_plan(agent, PlanChange::Set(plan.clone())).await {
                Ok(set) => {
                    let set = set.unwrap_or(plan);
                    app.node.planned(set.next_at);
                    set
                }
                Err(error) => return Err(refused(app, error).await),
            };
            Ok(WriteResponse::Created(format!("/v1/agents/{agent}/plans/{}", set.id), set.into()))
        };
        let find =
            |id: Uuid| async move { Ok(app.ports.reader.plan(agent, PlanId(id)).await?.map(PlanJson::from)) };
        once::create(app, request, fresh, make, find).await
    })
    .await
}

/// Returns a plan, also one that has fired for the last time or was deleted: `next_at` is `null`.
#[utoipa::path(get, path = "/v1/agents/{agent}/plans/{plan}", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle."), ("plan" = String, Path, description = "Its id.")),
    responses((status = 200, description = "The plan.", body = PlanJson)))]
pub(super) async fn get_plan(
    State(app): SharedState,
    PathParam((name, plan)): PathParam<(String, String)>,
) -> Result<Json<PlanJson>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let missing = || Problem::not_found("plan", &plan);
    let id: PlanId = plan.parse().map_err(|_| missing())?;
    let found = app.ports.reader.plan(agent, id).await?;
    Ok(Json(found.ok_or_else(missing)?.into()))
}

/// Deletes a plan: one of an operator, or one that the agent has set itself.
#[utoipa::path(delete, path = "/v1/agents/{agent}/plans/{plan}", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle."), ("plan" = String, Path, description = "Its id.")),
    responses((status = 204, description = "The plan is deleted.")))]
pub(super) async fn delete_plan(
    State(app): SharedState,
    PathParam((name, plan)): PathParam<(String, String)>,
) -> Result<WriteResponse<PlanJson>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let id: PlanId = plan.parse().map_err(|_| Problem::not_found("plan", &plan))?;
    run_to_completion(async move {
        match app.ports.registry.change_plan(agent, PlanChange::Delete(id)).await {
            Ok(_) => Ok(WriteResponse::Removed),
            Err(error) => Err(refused(&app, error).await),
        }
    })
    .await
}
