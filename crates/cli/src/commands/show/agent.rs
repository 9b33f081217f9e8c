//! `viv agents show`: an agent's state, spaces, memories, goals, plans and open calls.

use agent::life::Standing;
use api::{Agent, FactsJson, PlanJson};
use jiff::Timestamp;
use serde_json::json;

use super::{calls, section};
use crate::commands::{events, goals};
use crate::errors::Result;
use crate::output::{Screen, ago};
use client::{Client, agent_path, target};

pub(crate) async fn agent(client: &Client, screen: &Screen, wanted: Option<&str>) -> Result<()> {
    let agent = target::agent(client, wanted).await?;
    let (card, facts) = (agent_path(agent.id, ""), agent_path(agent.id, "/facts"));
    if screen.json {
        let (card, facts) = (client.get(&card).await?, client.get(&facts).await?);
        let calls = calls::fetched(client, agent.id).await?;
        screen.json_line(&json!({"agent": card, "facts": facts, "calls": calls}));
        return Ok(());
    }
    let facts: FactsJson = client.get_as(&facts).await?;
    let line = |text: &str| screen.clean_line(text);
    let about = Some(line(&agent.description)).filter(|about| !about.is_empty());
    let pairs = [
        ("name", Some(format!("{} ({})", line(&agent.display_name), line(&agent.handle)))),
        ("about", about),
        ("quarantined", agent.damage.as_deref().map(line)),
        ("id", Some(agent.id.to_string())),
        ("state", Some(state_of(&agent))),
        ("why", agent.why.as_deref().map(line)),
        ("model", Some(agent.model.as_deref().map_or_else(|| "the server's default".to_owned(), line))),
        ("left out", left_out(&agent).as_deref().map(line)),
        ("names nothing", Some(line(&agent.unmatched.join("; "))).filter(|what| !what.is_empty())),
        ("config", Some(format!("revision {}", agent.config_rev))),
        ("inbox", Some(format!("waiting {}, held {}", agent.waiting, agent.held))),
        ("dead", events::notice(&agent).as_deref().map(line)),
        ("cycles", Some(format!("{}, skipped {}", agent.cycles, agent.skips))),
        ("tokens", Some(tokens_of(&agent))),
        ("created", Some(ago(agent.created_at, Timestamp::now()))),
        ("cycle", agent.cycle.map(|cycle| cycle.to_string())),
    ];
    let pairs: Vec<_> = pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    screen.pairs(&pairs);
    let mut spaces: Vec<_> =
        facts.spaces.iter().map(|s| format!("{} ({})", s.display_name, s.handle)).collect();
    spaces.extend((facts.more_spaces > 0).then(|| format!("and {} more", facts.more_spaces)));
    section(screen, "spaces", spaces);
    section(screen, "memories", facts.memories.iter().map(|m| format!("{}: {}", m.key, m.value)).collect());
    section(screen, "goals", goals::lines(&facts.goals));
    section(screen, "plans", facts.plans.iter().map(plan_line).collect());
    section(screen, "open calls", calls::lines(client, screen, agent.id).await?);
    Ok(())
}

/// Tools that the agent's model is not offered.
fn left_out(agent: &Agent) -> Option<String> {
    let tools = agent.tools_left_out.join(", ");
    (!tools.is_empty()).then(|| format!("{tools} (more tools than its model accepts)"))
}

fn state_of(agent: &Agent) -> String {
    let reason = agent.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    // Only an active agent has a time at which it retries.
    let held = agent.not_before.filter(|at| agent.standing == Standing::Active && *at > Timestamp::now());
    let until = held.map(|at| format!(", until {at:.0}")).unwrap_or_default();
    format!("{}{reason}{until}", agent.state.as_str())
}

fn tokens_of(agent: &Agent) -> String {
    let shown = |n: Option<u64>| n.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    match (agent.usage.input, agent.usage.output) {
        (None, None) => "- (no model has reported any)".to_owned(),
        (input, output) => format!("{} in, {} out", shown(input), shown(output)),
    }
}

fn plan_line(plan: &PlanJson) -> String {
    format!("{} ({}): {}", plan.name, plan.schedule, plan.instruction)
}
