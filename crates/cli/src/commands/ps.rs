//! `viv ps`: all agents and what they do.

use api::{Agent, ReadyJson};
use serde_json::{Value, json};

use crate::commands::top::tokens_of;
use crate::errors::{Exit, Result};
use crate::output::{Screen, short_count};
use client::why_it_is_idle;
use client::{Client, typed};

/// Maximum number of agents with `--json`.
const JSON_MAX: usize = 100_000;
/// Maximum number of agents in the table: a longer one needs a filter.
const TABLE_MAX: usize = 1_000;

/// Lists the agents.
pub(crate) async fn run(client: Client, screen: Screen, retired: bool) -> Result<Exit> {
    let ready: ReadyJson = client.get_as("/v1/ready").await?;
    let default = ready.model.map_or_else(|| "-".to_owned(), |model| model.name);
    // Configs are only for scripts: with many agents they are most of the bytes.
    let (path, max) =
        if screen.json { ("/v1/agents", JSON_MAX) } else { ("/v1/agents?brief=true", TABLE_MAX) };
    let mut rows = client.list(path, max).await?;
    let cut = rows.len() == max;
    rows.retain(|row| retired || row["standing"] != "retired");
    let agents: Vec<Agent> = typed(path, Value::Array(rows.clone()))?;
    if screen.json {
        for (row, agent) in rows.iter_mut().zip(&agents) {
            row["last_ending"] = json!(last_ending(agent));
        }
        screen.json_line(&json!({"agents": rows, "default_model": default}));
        return Ok(Exit::Answered);
    }
    let table: Vec<_> = agents.iter().map(|agent| row(&screen, agent, &default)).collect();
    if table.is_empty() {
        screen.line("no agents");
    } else {
        screen.table(&["NAME", "STATE", "WAITING", "CYCLES", "TOKENS", "MODEL", "LAST"], &table);
    }
    for agent in &agents {
        if let Some(why) = why_it_is_idle(agent) {
            let until = agent.not_before.map(|at| format!(" until {at:.0}")).unwrap_or_default();
            screen.note(&screen.clean_line(&format!("`{}` is backing off{until}: {why}", agent.name)));
        }
    }
    let all = ready.totals.unwrap_or_default().agents;
    if cut && all > max as u64 {
        screen.note(&format!(
            "these are from the first {max} of {all} agents by name; `viv ps --json` lists more"
        ));
    }
    Ok(Exit::Answered)
}

fn row(screen: &Screen, agent: &Agent, default: &str) -> Vec<String> {
    let state = match &agent.reason {
        Some(reason) => format!("{} ({reason})", agent.state.as_str()),
        None => agent.state.as_str().to_owned(),
    };
    let has_run = agent.cycles > 0 || agent.skips > 0;
    // Unreported tokens are unknown, not zero; an agent without cycles has none to report.
    let tokens =
        tokens_of(agent).map_or_else(|| if has_run { "unknown" } else { "-" }.to_owned(), short_count);
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
        last_ending(agent).unwrap_or("-").to_owned(),
    ]
    .iter()
    .map(|cell| screen.clean_line(cell))
    .collect()
}

fn last_ending(agent: &Agent) -> Option<&'static str> {
    agent.last.as_ref().map(|last| last.ending.as_str())
}
