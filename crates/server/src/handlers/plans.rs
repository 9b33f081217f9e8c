//! The plans of an agent, as operators read, set and delete them.

use agent::changes::PlanChange;
use agent::id::PlanId;
use agent::plan::{PlanSource, PlanTerms, fired_now};
use axum::Json;
use axum::extract::State;
use uuid::Uuid;

use super::agents::find_agent;
use super::denied::refused;
use super::events::{accept_once, new_event_id};
use crate::app_state::SharedState;
use crate::extract::{Exact, Named, PathParam, Sent, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done};
use crate::problem::{Code, Problem, WriteResponse};
use api::{EventAccepted, NewPlanJson, PageJson, PageQuery, PlanJson};

/// Lists the plans of an agent that will fire, the next one first: its own, those of operators and those of its config.
#[utoipa::path(get, path = "/v1/agents/{agent}/plans", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle."), PageQuery),
    responses((status = 200, description = "A page of plans.", body = PageJson<PlanJson>)))]
pub(super) async fn list_plans(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    list: List<PageQuery>,
) -> Result<Listed<PlanJson>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let plans = app.ports.reader.plans(agent).await?;
    let page = list.cut(plans, |plan| plan.id.to_string(), |_| 0);
    Ok(list.answer(page, PlanJson::from))
}

/// Sets a plan, in place of the operators' plan of the same name if there is one. Each time it fires, the agent gets an event of
/// kind `plan`. Only operators can change it.
#[utoipa::path(post, path = "/v1/agents/{agent}/plans", tag = "agents", request_body = NewPlanJson,
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 201, description = "The new plan.", body = PlanJson),
              (status = 200, description = "The plan was set before by this request.", body = PlanJson)))]
pub(super) async fn set_plan(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { body: Sent(new), once }: Change<Sent<NewPlanJson>>,
) -> Result<Done<WriteResponse<PlanJson>>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let terms = PlanTerms::from(new);
    let fresh = app.ports.ids.uuid();
    let new = move |id, now| {
        let plan = terms.plan(PlanId(id), None, PlanSource::Operator, now);
        plan.map_err(|why| Problem::new(Code::BadPlan, why.to_string()))
    };
    run_to_completion(async move {
        let app = &app;
        let make = async move |id| {
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
        let find = async |id: Uuid| Ok(app.ports.reader.plan(agent, PlanId(id)).await?.map(PlanJson::from));
        once.create(fresh, make, find).await
    })
    .await
}

/// Returns a plan, also one that has fired for the last time or was deleted: `next_at` is `null`.
#[utoipa::path(get, path = "/v1/agents/{agent}/plans/{plan}", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle."), ("plan" = String, Path, description = "Its id.")),
    responses((status = 200, description = "The plan.", body = PlanJson)))]
pub(super) async fn get_plan(
    State(app): SharedState,
    PathParam((name, plan)): PathParam<(Named, Exact)>,
) -> Result<Json<PlanJson>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let missing = || Problem::not_found("plan", &plan);
    let id: PlanId = plan.parse().map_err(|_| missing())?;
    let found = app.ports.reader.plan(agent, id).await?;
    Ok(Json(found.ok_or_else(missing)?.into()))
}

/// Lets a plan fire now, beside its schedule, which goes on as if it had not: the agent gets the event that it gets when the plan
/// is due.
#[utoipa::path(post, path = "/v1/agents/{agent}/plans/{plan}/fire", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle."), ("plan" = String, Path, description = "Its id.")),
    responses((status = 201, description = "The event is accepted.", body = EventAccepted),
              (status = 200, description = "The event was accepted before.", body = EventAccepted)))]
pub(super) async fn fire_plan(
    State(app): SharedState,
    PathParam((name, plan)): PathParam<(Named, Exact)>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<EventAccepted>>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let missing = || Problem::not_found("plan", &plan);
    let id: PlanId = plan.parse().map_err(|_| missing())?;
    let plan = app.ports.reader.plan(agent, id).await?.ok_or_else(missing)?;
    // What the same request did before stays, whatever has become of the plan.
    if plan.next_at.is_none() && once.noted().is_none() {
        let detail = format!("the plan `{}` has ended", plan.name);
        return Err(
            Problem::new(Code::PlanOver, detail).hint("set a new one with `POST /v1/agents/AGENT/plans`")
        );
    }
    let event = fired_now(&plan, new_event_id(&app, &once), app.ports.clock.now());
    accept_once(app, agent, event, once).await
}

/// Deletes a plan: one of an operator, or one that the agent has set itself.
#[utoipa::path(delete, path = "/v1/agents/{agent}/plans/{plan}", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle."), ("plan" = String, Path, description = "Its id.")),
    responses((status = 204, description = "The plan is deleted.")))]
pub(super) async fn delete_plan(
    State(app): SharedState,
    PathParam((name, plan)): PathParam<(Named, Exact)>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<PlanJson>>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let id: PlanId = plan.parse().map_err(|_| Problem::not_found("plan", &plan))?;
    run_to_completion(async move {
        let run = async || match app.ports.registry.change_plan(agent, PlanChange::Delete(id)).await {
            Ok(_) => Ok(WriteResponse::Removed),
            Err(error) => Err(refused(&app, error).await),
        };
        once.change(run, async || Ok(WriteResponse::Removed)).await
    })
    .await
}
