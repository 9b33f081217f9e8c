//! `viv agents goals`, `set-goal` and `end-goal`: the goals of an agent, read and changed by an operator.

use agent::goals::{Branch, tree};
use agent::id::{AgentId, GoalId};
use agent::life::{Goal, GoalStatus};
use agent::limits;
use api::{GoalChangeJson, GoalJson, NewGoalJson};
use client::{Client, ClientError, ErrorClass, agent_path, target, typed};
use serde_json::json;

use crate::errors::{Failure, Result};
use crate::output::Screen;

pub(super) async fn list(client: &Client, screen: &Screen, agent: Option<&str>) -> Result<()> {
    let agent = target::agent(client, agent).await?;
    let path = agent_path(agent.id, "/goals");
    let goals: Vec<GoalJson> = client.list_as(&path, limits::GOALS_MAX).await?;
    if screen.json {
        screen.json_list(goals);
        return Ok(());
    }
    if goals.is_empty() {
        screen.text(&format!("`{}` has no goals", agent.handle));
    }
    let goals: Vec<Goal> = goals.into_iter().map(goal_of).collect();
    lines(&goals).iter().for_each(|line| screen.wrapped(&screen.clean_line(line), 2));
    Ok(())
}

pub(super) async fn set(client: &Client, screen: &Screen, agent: &str, goal: &NewGoalJson) -> Result<()> {
    let agent = client.agent(agent).await?;
    let answer = client.post(&agent_path(agent.id, "/goals"), goal, None).await?;
    let set: GoalJson = typed("goal", answer.clone())?;
    screen.result(&answer, &format!("`{}` will see the goal {} in its next cycle", agent.handle, set.id));
    Ok(())
}

/// Ends a goal with that status, or deletes it.
pub(super) async fn end(
    client: &Client,
    screen: &Screen,
    agent: &str,
    goal: GoalId,
    status: Option<GoalStatus>,
) -> Result<()> {
    let agent = client.agent(agent).await?;
    let path = path(agent.id, goal);
    let unknown = |failure: ClientError| match failure.class {
        ErrorClass::NotFound => {
            Failure::from(failure).hint(format!("`viv agents goals {}` lists what it has", agent.handle))
        }
        _ => failure.into(),
    };
    if status.is_none() {
        client.delete(&path).await.map_err(unknown)?;
        screen
            .result(&json!({"deleted": goal}), &format!("`{}` no longer has the goal {goal}", agent.handle));
        return Ok(());
    }
    let change = GoalChangeJson { status, ..GoalChangeJson::default() };
    let answer = client.patch(&path, &change).await.map_err(unknown)?;
    let now: GoalJson = typed("goal", answer.clone())?;
    screen.result(&answer, &format!("the goal {goal} of `{}` is {}", agent.handle, now.status.as_str()));
    Ok(())
}

/// Goals as a tree, with ids, including those that have ended.
pub(crate) fn lines(goals: &[Goal]) -> Vec<String> {
    let line = |Branch { goal, depth }| {
        let indent = "  ".repeat(depth);
        let text = &goal.description;
        let status = goal.status.as_str();
        format!("{indent}{text} ({status}, priority {}, {})", goal.priority, goal.id)
    };
    tree(goals).into_iter().map(line).collect()
}

fn goal_of(goal: GoalJson) -> Goal {
    let GoalJson { id, parent, description, priority, status, trust } = goal;
    Goal { id, parent, description, priority, status, trust }
}

fn path(agent: AgentId, goal: GoalId) -> String {
    agent_path(agent, &format!("/goals/{goal}"))
}
