//! `viv ps`: all agents and what they do.

use serde_json::{Value, json};
use server::api::{Agent, Ready};

use crate::client::{Client, typed};
use crate::commands::top::tokens_of;
use crate::errors::{Exit, Result};
use crate::output::{Screen, short_count};
use crate::target::agent_path;

/// Agents listed at most.
const MOST: usize = 100_000;
/// Agents up to which the last run of each is looked up: one request per agent.
const WITH_LAST: usize = 200;

/// Lists them.
pub(crate) async fn run(client: Client, screen: Screen) -> Result<Exit> {
    let mut rows = client.list("/v1/agents", MOST).await?;
    let agents: Vec<Agent> = typed("/v1/agents", Value::Array(rows.clone()))?;
    let ready: Ready = client.get_as("/v1/ready").await?;
    let default = ready.model.map_or_else(|| "-".to_owned(), |model| model.name);
    let mut table = Vec::new();
    for (i, agent) in agents.iter().enumerate() {
        let last = if i < WITH_LAST { last_ending(&client, agent).await? } else { None };
        table.push(row(&screen, agent, &default, last.as_deref()));
        rows[i]["last_ending"] = json!(last);
    }
    if screen.json {
        screen.json_line(&json!({"agents": rows, "default_model": default}));
    } else if table.is_empty() {
        screen.line("no agents");
    } else {
        screen.table(&["NAME", "STATE", "WAITING", "CYCLES", "TOKENS", "MODEL", "LAST"], &table);
    }
    Ok(Exit::Answered)
}

fn row(screen: &Screen, agent: &Agent, default: &str, last: Option<&str>) -> Vec<String> {
    let state = match &agent.reason {
        Some(reason) => format!("{} ({reason})", agent.state.as_str()),
        None => agent.state.as_str().to_owned(),
    };
    let lived = agent.cycles > 0 || agent.skips > 0;
    // What no model reported is not nothing; and of who never lived there is nothing to know.
    let tokens = tokens_of(agent).map_or_else(|| if lived { "unknown" } else { "-" }.to_owned(), short_count);
    let waiting = match agent.held {
        0 => agent.waiting.to_string(),
        held => format!("{} +{held} held", agent.waiting),
    };
    [
        agent.name.clone(),
        state,
        waiting,
        agent.cycles.to_string(),
        tokens,
        agent.model.clone().unwrap_or_else(|| default.to_owned()),
        last.unwrap_or("-").to_owned(),
    ]
    .iter()
    .map(|cell| screen.clean_line(cell))
    .collect()
}

async fn last_ending(client: &Client, agent: &Agent) -> Result<Option<String>> {
    if agent.cycles == 0 {
        return Ok(None);
    }
    let page = client.get(&agent_path(agent.id, "/runs?limit=1")).await?;
    Ok(page["items"][0]["ending"].as_str().map(str::to_owned))
}
