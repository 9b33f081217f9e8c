//! The goals of an agent, as operators read, set and end them.

use agent::changes::GoalEdit;
use agent::event::Trust;
use agent::id::{AgentId, GoalId};
use agent::life::{Goal, GoalStatus};
use agent::limits;
use axum::Json;
use axum::extract::State;
use uuid::Uuid;

use super::agents::find_agent;
use super::denied::refused;
use crate::app_state::{AppState, SharedState};
use crate::extract::{Exact, Named, PathParam, Sent, bounded_text, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done};
use crate::problem::{Code, Problem, WriteResponse};
use api::{GoalChangeJson, GoalJson, NewGoalJson, PageJson, PageQuery};

/// Lists the goals of an agent, also those that have ended, the most important first.
#[utoipa::path(get, path = "/v1/agents/{agent}/goals", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle."), PageQuery),
    responses((status = 200, description = "A page of goals.", body = PageJson<GoalJson>)))]
pub(super) async fn list_goals(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    list: List<PageQuery>,
) -> Result<Listed<GoalJson>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let page = list.cut(goals(&app, agent).await?, |goal| goal.id.to_string(), |_| 0);
    Ok(list.answer(page, GoalJson::from))
}

/// Sets a goal. The agent sees it from its next cycle on, and may end it.
#[utoipa::path(post, path = "/v1/agents/{agent}/goals", tag = "agents", request_body = NewGoalJson,
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 201, description = "The new goal.", body = GoalJson),
              (status = 200, description = "The goal was set before by this request.", body = GoalJson)))]
pub(super) async fn set_goal(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { body: Sent(new), once }: Change<Sent<NewGoalJson>>,
) -> Result<Done<WriteResponse<GoalJson>>, Problem> {
    let NewGoalJson { description, priority, parent } = new;
    let description = text(description)?;
    let priority = level(priority)?.unwrap_or(limits::GOAL_PRIORITY_DEFAULT);
    let agent = find_agent(&app, &name).await?.id;
    let fresh = app.ports.ids.uuid();
    run_to_completion(async move {
        let app = &app;
        let make = async move |id| {
            let (status, trust) = (GoalStatus::Active, Trust::Operator);
            let goal = Goal { id: GoalId(id), parent, description, priority, status, trust };
            let set = edit(app, agent, GoalEdit::Set(goal)).await?;
            Ok(WriteResponse::Created(format!("/v1/agents/{agent}/goals"), set))
        };
        let find = async |id: Uuid| {
            let found = goals(app, agent).await?.into_iter().find(|goal| goal.id == GoalId(id));
            Ok(found.map(GoalJson::from))
        };
        once.create(fresh, make, find).await
    })
    .await
}

/// Changes a goal, also one that the agent has set itself, or ends it.
#[utoipa::path(patch, path = "/v1/agents/{agent}/goals/{goal}", tag = "agents", request_body = GoalChangeJson,
    params(("agent" = String, Path, description = "Id or handle."), ("goal" = String, Path, description = "Its id.")),
    responses((status = 200, description = "The goal as it is now.", body = GoalJson)))]
pub(super) async fn change_goal(
    State(app): SharedState,
    PathParam((name, goal)): PathParam<(Named, Exact)>,
    Change { body: Sent(change), once }: Change<Sent<GoalChangeJson>>,
) -> Result<Done<Json<GoalJson>>, Problem> {
    let GoalChangeJson { description, priority, status } = change;
    let (description, priority) = (description.map(text).transpose()?, level(priority)?);
    if description.is_none() && priority.is_none() && status.is_none() {
        return Err(Problem::new(Code::BadValue, "wanted `description`, `priority` or `status`, got none"));
    }
    let (agent, id) = (find_agent(&app, &name).await?.id, known(&goal)?);
    let change = GoalEdit::Change { id, description, priority, status };
    run_to_completion(async move { once.answer(async || edit(&app, agent, change).await).await }).await
}

/// Deletes a goal, with its sub-goals.
#[utoipa::path(delete, path = "/v1/agents/{agent}/goals/{goal}", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle."), ("goal" = String, Path, description = "Its id.")),
    responses((status = 204, description = "The goal is deleted.")))]
pub(super) async fn delete_goal(
    State(app): SharedState,
    PathParam((name, goal)): PathParam<(Named, Exact)>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<GoalJson>>, Problem> {
    let (agent, id) = (find_agent(&app, &name).await?.id, known(&goal)?);
    run_to_completion(async move {
        let run = async || match app.ports.registry.change_goal(agent, GoalEdit::Delete(id)).await {
            Ok(_) => Ok(WriteResponse::Removed),
            Err(error) => Err(refused(&app, error).await),
        };
        once.change(run, async || Ok(WriteResponse::Removed)).await
    })
    .await
}

async fn goals(app: &AppState, agent: AgentId) -> Result<Vec<Goal>, Problem> {
    Ok(app.ports.reader.facts(agent).await?.map(|facts| facts.goals).unwrap_or_default())
}

async fn edit(app: &AppState, agent: AgentId, edit: GoalEdit) -> Result<GoalJson, Problem> {
    let id = edit.id();
    match app.ports.registry.change_goal(agent, edit).await {
        Ok(now) => Ok(now.ok_or_else(|| Problem::not_found("goal", &id.to_string()))?.into()),
        Err(error) => Err(refused(app, error).await),
    }
}

fn known(goal: &Exact) -> Result<GoalId, Problem> {
    goal.parse().map_err(|_| Problem::not_found("goal", goal))
}

fn text(description: String) -> Result<String, Problem> {
    let description = bounded_text("description", description, limits::GOAL_DESCRIPTION_MAX_BYTES)?;
    match description.trim() {
        "" => Err(Problem::new(
            Code::BadValue,
            "wanted what the agent is to reach as `description`, got nothing",
        )),
        description => Ok(description.to_owned()),
    }
}

fn level(priority: Option<i32>) -> Result<Option<i32>, Problem> {
    let most = limits::GOAL_PRIORITY_MAX;
    match priority {
        Some(level) if !(1..=most).contains(&level) => {
            Err(Problem::new(Code::BadValue, format!("`priority`: wanted 1 to {most}, got {level}")))
        }
        priority => Ok(priority),
    }
}
