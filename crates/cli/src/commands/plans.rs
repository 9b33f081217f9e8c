//! `viv plans`: when an agent is woken, as an operator reads and changes it.

use agent::limits;
use agent::plan::{Schedule, span_text, times};
use api::{Agent, NewPlanJson, PageJson, PlanJson};
use client::{Client, ErrorClass, agent_path};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::args::{AddPlanArgs, PlansVerb};
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::Screen;

pub(crate) async fn run(client: Client, screen: Screen, verb: PlansVerb) -> Result<Exit> {
    match verb {
        PlansVerb::List { agent } => {
            let agent = client.agent(&agent).await?;
            let plans = all(&client, &agent).await?;
            if screen.json {
                screen.json_list(plans);
                return Ok(Exit::Answered);
            }
            if plans.is_empty() {
                screen.text(&format!("`{}` has no plans", agent.name));
            }
            for plan in &plans {
                screen.wrapped(&screen.clean_line(&line_of(plan)), 2);
            }
        }
        PlansVerb::Add(args) => add(&client, &screen, args).await?,
        PlansVerb::Rm { agent, plan } => {
            let agent = client.agent(&agent).await?;
            let plan = find(&client, &agent, &plan).await?;
            client.delete(&agent_path(agent.id, &format!("/plans/{}", plan.id))).await?;
            let line = format!("`{}` no longer has the plan `{}`", agent.name, plan.name);
            screen.result(&json!({"deleted": plan.id}), &screen.clean_line(&line));
        }
        PlansVerb::Next { agent, plan, count } => {
            let agent = client.agent(&agent).await?;
            let plan = find(&client, &agent, &plan).await?;
            next(&screen, &plan, usize::from(count))?;
        }
    }
    Ok(Exit::Answered)
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
    let line = format!("`{}` is woken by `{}`, next {next}{instead}", agent.name, set.name);
    screen.result(&answer, &screen.clean_line(&line));
    Ok(())
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
    let page: PageJson<PlanJson> = client.get_as(&agent_path(agent.id, "/plans")).await?;
    Ok(page.items)
}

/// The plan of that id, or the only one of that name.
async fn find(client: &Client, agent: &Agent, wanted: &str) -> Result<PlanJson> {
    let plans = all(client, agent).await?;
    let is_wanted = |plan: &&PlanJson| plan.id.to_string() == wanted || plan.name == wanted;
    let mut found = plans.iter().filter(is_wanted);
    let list = format!("`viv plans list {}` lists its plans with their ids", agent.name);
    match (found.next(), found.next()) {
        (Some(plan), None) => Ok(plan.clone()),
        (None, _) => {
            let message = format!("`{}` has no plan `{wanted}`", agent.name);
            Err(Failure::new(Exit::NotFound, "not_found", message).hint(list))
        }
        _ => Err(Failure::usage(format!("`{}` has several plans `{wanted}`", agent.name)).hint(list)),
    }
}

/// A plan in one line.
fn line_of(plan: &PlanJson) -> String {
    let PlanJson { id, name, instruction, schedule, missed, max_late_ms, next_at, source, .. } = plan;
    let next = next_at.map_or_else(String::new, |at| format!(", next {}", local(schedule, at)));
    let late = max_late_ms.map_or_else(String::new, |ms| format!(", at most {} late", span_text(ms)));
    let missed = missed.as_str();
    // A heartbeat has no instruction.
    let mark = if instruction.is_empty() { "" } else { ": " };
    let source = source.as_str();
    format!("{name} ({schedule}{next}, missed {missed}{late}, set by {source}, {id}){mark}{instruction}")
}

/// A time in the zone of the schedule.
fn local(schedule: &Schedule, at: Timestamp) -> String {
    match schedule {
        Schedule::Cron { zone, .. } | Schedule::Hours { zone, .. } => match TimeZone::get(zone) {
            Ok(zone) => at.to_zoned(zone).strftime("%Y-%m-%d %H:%M %Z").to_string(),
            Err(_) => at.to_string(),
        },
        _ => at.to_string(),
    }
}
