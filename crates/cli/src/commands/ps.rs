//! `viv ps`, and `viv agents` without a verb: all agents and what they do.

use std::collections::BTreeMap;

use agent::life::Standing;
use agent::update::AgentState;
use api::{Agent, ApprovalJson};
use client::{Client, typed, why_it_is_idle};
use serde_json::Value;

use crate::args::StateArgs;
use crate::commands::top::tokens;
use crate::commands::{alerts, events};
use crate::errors::{Exit, Result};
use crate::output::{Screen, counted};

const JSON_MAX: usize = 100_000;
/// Maximum number of agents in the table: a longer one needs a filter.
const TABLE_MAX: usize = 1_000;
/// Calls that wait for people and are counted.
const ASKED_MAX: usize = 1_000;

/// Lists the agents: those in a state, else all but the retired ones, else all.
pub(crate) async fn run(client: Client, screen: Screen, args: StateArgs) -> Result<Exit> {
    // Configs are only for scripts: with many agents they are most of the bytes.
    let (path, max) =
        if screen.json { ("/v1/agents", JSON_MAX) } else { ("/v1/agents?brief=true", TABLE_MAX) };
    let rows = client.list(path, max).await?;
    let cut = rows.len() == max;
    let mut found: Vec<(Agent, Value)> = Vec::new();
    for row in rows {
        found.push((typed(path, row.clone())?, row));
    }
    found.retain(|(agent, _)| match &args.state {
        Some(state) => state_of(agent) == state,
        None => args.all || agent.standing != Standing::Retired,
    });
    if screen.json {
        screen.json_list(found.into_iter().map(|(_, row)| row).collect::<Vec<_>>());
        return Ok(Exit::Answered);
    }
    let table: Vec<_> = found.iter().map(|(agent, _)| row(&screen, agent)).collect();
    if table.is_empty() {
        screen.line(if args.state.is_some() { "no such agents" } else { "no agents" });
    } else {
        screen.table(&["NAME", "STATE", "WAITING", "CYCLES", "TOKENS", "MODEL", "LAST"], &table);
    }
    for (agent, _) in &found {
        if let Some(why) = why_it_is_idle(agent) {
            let until = agent.not_before.map(|at| format!(" until {at:.0}")).unwrap_or_default();
            let how = match agent.reason.as_deref() {
                _ if agent.state == AgentState::Paused => "is paused",
                Some("debounce") => "gathers what arrives",
                _ => "is backing off",
            };
            screen.note(&format!("`{}` {how}{until}: {why}", agent.handle));
        } else if let Some(why) = agent.why.as_ref().filter(|_| agent.state == AgentState::Thinking) {
            screen.note(&format!("`{}` makes no progress: {why}", agent.handle));
        }
    }
    for (name, count) in asked(&client, &found).await {
        let calls = counted(count, "call");
        screen.note(&format!("`{name}` has {calls} for a person to answer: `viv approvals --agent {name}`"));
    }
    for (agent, notice) in found.iter().filter_map(|(agent, _)| Some((agent, events::notice(agent)?))) {
        screen.note(&format!("`{}`: {notice}", agent.handle));
    }
    if let Some(alerts) = alerts::recent(&client).await {
        screen.note(&format!("{alerts}; see `viv agents alerts`"));
    }
    for note in unmatched(&client, &found) {
        screen.note(&note);
    }
    for problem in client.data_dir().map(project::reconcile::problems).into_iter().flatten() {
        screen.note(&format!("{problem}; {}", problem.while_running()));
    }
    if cut {
        screen.note(&format!("these are from the first {max} agents by name; `viv ps --json` lists more"));
    }
    Ok(Exit::Answered)
}

/// What the configs of these agents name although it does not exist, unless a mistake in an agent's file says so.
fn unmatched(client: &Client, found: &[(Agent, Value)]) -> Vec<String> {
    let dir = client.data_dir();
    let problems = dir.map(project::reconcile::problems).unwrap_or_default();
    let said = |agent: &Agent| {
        let file =
            dir.filter(|_| !problems.is_empty()).and_then(|dir| project::reconcile::file_of(dir, agent.id));
        file.is_some_and(|file| problems.iter().any(|problem| problem.file == file))
    };
    let unsaid = found.iter().filter(|(agent, _)| !agent.unmatched.is_empty() && !said(agent));
    unsaid.flat_map(|(agent, _)| unmatched_of(agent)).collect()
}

/// What the config of an agent names although it does not exist.
pub(crate) fn unmatched_of(agent: &Agent) -> impl Iterator<Item = String> {
    agent.unmatched.iter().map(|what| format!("`{}`: {what}", agent.handle))
}

/// How many calls of these agents wait for people without their cycles, by name. A paused agent says so itself. If that cannot
/// be read, only these notes are missing.
async fn asked(client: &Client, found: &[(Agent, Value)]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    if found.is_empty() {
        return counts;
    }
    let waiting: Vec<ApprovalJson> = client.list_as("/v1/approvals", ASKED_MAX).await.unwrap_or_default();
    for one in waiting {
        let is_shown =
            |(agent, _): &&(Agent, Value)| agent.id == one.agent && agent.state != AgentState::Paused;
        if let Some((agent, _)) = found.iter().find(is_shown) {
            *counts.entry(agent.handle.clone()).or_insert(0) += 1;
        }
    }
    counts
}

/// The state to filter by: a suspended agent also sleeps, but `suspended` says more.
fn state_of(agent: &Agent) -> &'static str {
    match agent.standing {
        Standing::Suspended => "suspended",
        Standing::Retired => "retired",
        Standing::Active => agent.state.as_str(),
    }
}

fn row(screen: &Screen, agent: &Agent) -> Vec<String> {
    let state = match (&agent.reason, agent.running_tools.as_slice()) {
        (Some(reason), _) => format!("{} ({reason})", agent.state.as_str()),
        (None, []) => agent.state.as_str().to_owned(),
        (None, [tool]) => format!("{} (runs {tool})", agent.state.as_str()),
        (None, [tool, more @ ..]) => format!("{} (runs {tool} +{})", agent.state.as_str(), more.len()),
    };
    let waiting = match agent.held {
        0 => agent.waiting.to_string(),
        held => format!("{} +{held} held", agent.waiting),
    };
    [
        agent.handle.clone(),
        state,
        waiting,
        agent.cycles.to_string(),
        tokens(agent),
        agent.model.clone().unwrap_or_else(|| "-".to_owned()),
        agent.last_run.as_ref().map_or("-", |last| last.ending.as_str()).to_owned(),
    ]
    .iter()
    .map(|cell| screen.clean_line(cell))
    .collect()
}
