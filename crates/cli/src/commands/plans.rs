//! `viv plans`: when an agent is woken, as an operator reads and changes it.

use agent::limits;
use agent::plan::{Schedule, span_text, times};
use api::{Agent, NewPlanJson, PlanJson};
use client::{Client, ErrorClass, agent_path};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::args::{AddPlanArgs, PlansArgs, PlansVerb};
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::{Screen, shortened};

/// Agents whose plans are listed.
const AGENTS_MAX: usize = 10_000;
/// Columns of what an agent is to do.
const WHAT_COLUMNS: usize = 60;

pub(crate) async fn run(client: Client, screen: Screen, args: PlansArgs) -> Result<Exit> {
    match args.verb.unwrap_or(PlansVerb::List { agent: args.agent }) {
        PlansVerb::List { agent } => list(&client, &screen, agent.as_deref()).await?,
        PlansVerb::Add(args) => add(&client, &screen, args).await?,
        PlansVerb::Show { agent, plan } => {
            let agent = client.agent(&agent).await?;
            let plan = find(&client, &agent, &plan).await?;
            let next = plan.next_at.map_or_else(|| "-".to_owned(), |at| local(&plan.schedule, at));
            screen.object(
                &json!(plan),
                vec![
                    ("plan", plan.name),
                    ("next", next),
                    ("when", plan.schedule.to_string()),
                    ("missed", plan.missed.as_str().to_owned()),
                    ("set by", plan.source.as_str().to_owned()),
                    ("id", plan.id.to_string()),
                    ("what", plan.instruction),
                ],
            );
        }
        PlansVerb::Remove { agent, plan } => {
            let agent = client.agent(&agent).await?;
            let plan = find(&client, &agent, &plan).await?;
            client.delete(&agent_path(agent.id, &format!("/plans/{}", plan.id))).await?;
            let line = format!("`{}` no longer has the plan `{}`", agent.handle, plan.name);
            screen.result(&json!({"deleted": plan.id}), &screen.clean_line(&line));
        }
        PlansVerb::Fire { agent, plan } => {
            let agent = client.agent(&agent).await?;
            let plan = find(&client, &agent, &plan).await?;
            let path = agent_path(agent.id, &format!("/plans/{}/fire", plan.id));
            let answer = client.post_empty(&path).await?;
            let line =
                format!("`{}` has an event of `{}`; its schedule stays as it is", agent.handle, plan.name);
            screen.result(&answer, &screen.clean_line(&line));
        }
        PlansVerb::Next { agent, plan, count } => {
            let agent = client.agent(&agent).await?;
            let plan = find(&client, &agent, &plan).await?;
            next(&screen, &plan, usize::from(count))?;
        }
    }
    Ok(Exit::Answered)
}

/// The plans of an agent, or of all, the next one first.
async fn list(client: &Client, screen: &Screen, wanted: Option<&str>) -> Result<()> {
    let agents: Vec<Agent> = match wanted {
        Some(wanted) => vec![client.agent(wanted).await?],
        None => client.list_as("/v1/agents?brief=true", AGENTS_MAX).await?,
    };
    let mut found: Vec<(String, PlanJson)> = Vec::new();
    // Whoever has no next plan has none at all.
    for agent in agents.iter().filter(|agent| wanted.is_some() || agent.next_plan_at.is_some()) {
        let plans = all(client, agent).await?;
        found.extend(plans.into_iter().map(|plan| (agent.handle.clone(), plan)));
    }
    found.sort_by_key(|(_, plan)| (plan.next_at.is_none(), plan.next_at));
    if screen.json {
        let row = |(agent, plan): (String, PlanJson)| {
            let mut row = json!(plan);
            row["agent_handle"] = json!(agent);
            row
        };
        screen.json_list(found.into_iter().map(row).collect::<Vec<_>>());
        return Ok(());
    }
    if found.is_empty() {
        screen.text(
            &wanted.map_or("no agent has plans".to_owned(), |wanted| format!("`{wanted}` has no plans")),
        );
        return Ok(());
    }
    let rows: Vec<Vec<String>> = found.iter().map(|(agent, plan)| row(screen, agent, plan)).collect();
    screen.table(&["AGENT", "NAME", "NEXT", "WHEN", "MISSED", "SET BY", "ID", "WHAT"], &rows);
    Ok(())
}

async fn add(client: &Client, screen: &Screen, args: AddPlanArgs) -> Result<()> {
    let AddPlanArgs { agent, name, instruction, at, after, every, cron, from, zone, missed, max_lateness } =
        args;
    let instruction = match instruction.as_str() {
        "-" => input::text(limits::PLAN_INSTRUCTION_MAX_BYTES)?,
        _ => instruction,
    };
    let new = NewPlanJson { name, instruction, at, after, every, from, cron, zone, missed, max_lateness };
    let agent = client.agent(&agent).await?;
    let before = all(client, &agent).await?;
    let answer = client.post(&agent_path(agent.id, "/plans"), &new, None).await;
    let answer = answer.map_err(|failure| match failure.class {
        ErrorClass::Refused => {
            Failure::from(failure).hint("`viv plans add --help` explains when a plan can fire")
        }
        _ => failure.into(),
    })?;
    let set: PlanJson = client::typed("plan", answer.clone())?;
    let next = set.next_at.map_or_else(|| "never".to_owned(), |at| local(&set.schedule, at));
    let is_replaced =
        |plan: &PlanJson| plan.source == set.source && plan.name == set.name && plan.id != set.id;
    let instead = if before.iter().any(is_replaced) { ", which replaces the plan before" } else { "" };
    let either = if is_either(&set.schedule) { "; day and weekday: it fires on either" } else { "" };
    let line = format!("`{}` is woken by `{}`, next {next}{instead}{either}", agent.handle, set.name);
    screen.result(&answer, &screen.clean_line(&line));
    Ok(())
}

/// Whether an expression names a day and a weekday: it fires on each of both, as cron does.
fn is_either(schedule: &Schedule) -> bool {
    let Schedule::Cron { expression, .. } = schedule else { return false };
    let fields: Vec<&str> = expression.split(' ').collect();
    matches!(fields.as_slice(), [_, _, day, _, weekday] if !day.starts_with('*') && !weekday.starts_with('*'))
}

/// Prints the next times of a plan, in its own zone.
fn next(screen: &Screen, plan: &PlanJson, count: usize) -> Result<()> {
    let mut found: Vec<Timestamp> = plan.next_at.into_iter().collect();
    if let Some(first) = plan.next_at {
        let more = times(&plan.schedule, first, count - 1);
        found.extend(more.map_err(|why| Failure::usage(why.to_string()))?);
    }
    if screen.json {
        screen.json_list(found);
        return Ok(());
    }
    for at in found {
        screen.text(&local(&plan.schedule, at));
    }
    Ok(())
}

async fn all(client: &Client, agent: &Agent) -> Result<Vec<PlanJson>> {
    Ok(client.all_as(&agent_path(agent.id, "/plans")).await?)
}

/// The plan of that id, or the only one of that name.
async fn find(client: &Client, agent: &Agent, wanted: &str) -> Result<PlanJson> {
    let plans = all(client, agent).await?;
    let is_wanted = |plan: &&PlanJson| plan.id.to_string() == wanted || plan.name == wanted;
    let mut found = plans.iter().filter(is_wanted);
    let list = format!("`viv plans {}` lists its plans with their ids", agent.handle);
    match (found.next(), found.next()) {
        (Some(plan), None) => Ok(plan.clone()),
        (None, _) => {
            let message = format!("`{}` has no plan `{wanted}`", agent.handle);
            Err(Failure::new(Exit::NotFound, "not_found", message).hint(list))
        }
        _ => Err(Failure::usage(format!("`{}` has several plans `{wanted}`", agent.handle)).hint(list)),
    }
}

fn row(screen: &Screen, agent: &str, plan: &PlanJson) -> Vec<String> {
    let PlanJson { id, name, instruction, schedule, missed, max_late_ms, next_at, source, .. } = plan;
    let late = max_late_ms.map_or_else(String::new, |ms| format!(", at most {} late", span_text(ms)));
    let cells = [
        agent.to_owned(),
        name.clone(),
        next_at.map_or_else(|| "-".to_owned(), |at| local(schedule, at)),
        schedule.to_string(),
        format!("{}{late}", missed.as_str()),
        source.as_str().to_owned(),
        id.to_string(),
        shortened(instruction, WHAT_COLUMNS),
    ];
    cells.iter().map(|cell| screen.clean_line(cell)).collect()
}

/// A time in the zone of the schedule, or in UTC if it has none: always in one form.
fn local(schedule: &Schedule, at: Timestamp) -> String {
    let zone = match schedule {
        Schedule::Cron { zone, .. } | Schedule::Hours { zone, .. } => TimeZone::get(zone).ok(),
        Schedule::At { .. } | Schedule::After { .. } | Schedule::Every { .. } => None,
    };
    let form = if at.as_second() % 60 == 0 { "%Y-%m-%d %H:%M %Z" } else { "%Y-%m-%d %H:%M:%S %Z" };
    at.to_zoned(zone.unwrap_or(TimeZone::UTC)).strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_schedules_have_one_form() {
        let at: Timestamp = "2026-11-26T18:34:21.76Z".parse().unwrap();
        let (zone, expression) = ("Europe/Berlin".to_owned(), "34 19 * * *".to_owned());
        let minute: Timestamp = "2026-11-26T18:34:00Z".parse().unwrap();
        for (schedule, at, shown) in [
            (Schedule::At { at }, at, "2026-11-26 18:34:21 UTC"),
            (Schedule::After { at, after_ms: 5 }, at, "2026-11-26 18:34:21 UTC"),
            (Schedule::Every { every_ms: 5, from: at }, minute, "2026-11-26 18:34 UTC"),
            (Schedule::Cron { expression, zone }, minute, "2026-11-26 19:34 CET"),
        ] {
            assert_eq!(local(&schedule, at), shown);
        }
    }
}
