//! `viv show`: an agent, a run, an inbox, a mind.

use agent::event::Fate;
use agent::goals::Branch;
use agent::id::AgentId;
use agent::life::{Goal, Schedule};
use agent::message::Part;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use server::api::{Agent, Facts, LogEntry, LoggedEvent, RunDetail};

use crate::args::{InboxArg, MindArg, Show};
use crate::client::{Client, segment, typed};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, Style, ago, shortened};
use crate::target::{self, agent_path};

/// Columns of a text in a list.
const PREVIEW: usize = 60;
/// Entries per page: the server's bound.
const PAGE: usize = 200;

/// One page of a consciousness.
#[derive(Deserialize)]
struct MindPage {
    agent: AgentId,
    entries: Vec<Value>,
    total_tokens: u64,
    next: Option<u64>,
}

/// Shows it.
pub(crate) async fn run(client: Client, screen: Screen, what: Show) -> Result<Exit> {
    match what {
        Show::Agent(arg) => agent(&client, &screen, arg.agent.as_deref()).await?,
        Show::Run(arg) => run_of(&client, &screen, arg.run.as_deref()).await?,
        Show::Inbox(arg) => inbox(&client, &screen, &arg).await?,
        Show::Mind(arg) => mind(&client, &screen, &arg).await?,
    }
    Ok(Exit::Answered)
}

async fn agent(client: &Client, screen: &Screen, wanted: Option<&str>) -> Result<()> {
    let agent = target::agent(client, wanted).await?;
    let (card, facts) = (agent_path(agent.id, ""), agent_path(agent.id, "/facts"));
    if screen.json {
        let (card, facts) = (client.get(&card).await?, client.get(&facts).await?);
        screen.json_line(&json!({"agent": card, "facts": facts}));
        return Ok(());
    }
    let facts: Facts = client.get_as(&facts).await?;
    let line = |text: &str| screen.clean_line(text);
    let mut pairs = vec![
        ("name", format!("{} ({})", line(&agent.display_name), line(&agent.name))),
        ("id", agent.id.to_string()),
        ("state", state_of(&agent)),
        ("model", agent.model.as_deref().map_or_else(|| "the server's default".to_owned(), line)),
        ("config", format!("revision {}", agent.config_rev)),
        ("inbox", format!("waiting {}, held {}", agent.waiting, agent.held)),
        ("life", format!("cycles {}, skipped {}", agent.cycles, agent.skips)),
        ("tokens", tokens_of(&agent)),
        ("made", ago(agent.created_at, Timestamp::now())),
    ];
    if !agent.description.is_empty() {
        pairs.insert(1, ("is", line(&agent.description)));
    }
    if let Some(cycle) = agent.cycle {
        pairs.push(("cycle", cycle.to_string()));
    }
    screen.pairs(&pairs);
    section(
        screen,
        "spaces",
        facts.spaces.iter().map(|s| format!("{} ({})", s.display_name, s.name)).collect(),
    );
    section(screen, "memories", facts.memories.iter().map(|m| format!("{}: {}", m.key, m.value)).collect());
    section(screen, "goals", goal_lines(&facts.goals));
    section(screen, "plans", facts.plans.iter().map(plan_line).collect());
    Ok(())
}

fn state_of(agent: &Agent) -> String {
    let reason = agent.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let until = agent.not_before.map(|at| format!(", until {at:.0}")).unwrap_or_default();
    format!("{}{reason}{until}", agent.state.as_str())
}

fn tokens_of(agent: &Agent) -> String {
    let shown = |n: Option<u64>| n.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    format!("{} in, {} out", shown(agent.usage.input), shown(agent.usage.output))
}

/// The tree, with ids, finished ones too.
fn goal_lines(goals: &[Goal]) -> Vec<String> {
    let line = |Branch { goal, depth }| {
        let indent = "  ".repeat(depth);
        let (text, status) = (&goal.description, goal.status.as_str());
        format!("{indent}{text} ({status}, priority {}, {})", goal.priority, goal.id)
    };
    agent::goals::tree(goals).into_iter().map(line).collect()
}

fn plan_line(plan: &agent::life::Plan) -> String {
    let when = match &plan.schedule {
        Schedule::At { at } => format!("at {at}"),
        Schedule::Cron { expression, zone } => format!("`{expression}` {zone}"),
    };
    format!("{} ({when}): {}", plan.name, plan.instruction)
}

fn section(screen: &Screen, name: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    screen.line(&format!("\n{}", screen.paint(Style::Bold, name)));
    for line in lines {
        screen.line(&format!("  {}", screen.clean_line(&line)));
    }
}

async fn run_of(client: &Client, screen: &Screen, wanted: Option<&str>) -> Result<()> {
    let id = match wanted {
        Some(id) if id.parse::<agent::id::CycleId>().is_ok() && is_run(client, id).await? => id.to_owned(),
        wanted => newest_run(client, wanted).await?,
    };
    let path = format!("/v1/runs/{}", segment(&id));
    let answer = client.get(&path).await?;
    if screen.json {
        screen.json_line(&answer);
        return Ok(());
    }
    let RunDetail { run, said } = typed(&path, answer)?;
    let line = |text: &str| screen.clean_line(text);
    let ending = match &run.reason {
        Some(reason) => format!("{} ({})", run.ending.as_str(), line(reason)),
        None => run.ending.as_str().to_owned(),
    };
    let took = run.ended_at.duration_since(run.opened_at).as_millis();
    let shown = |n: Option<u64>| n.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    let mut pairs = vec![
        ("run", format!("{} (cycle {})", run.id, run.ordinal)),
        ("woke for", line(&run.woke_for)),
        ("ending", ending),
        ("took", format!("{took} ms, {}", ago(run.ended_at, Timestamp::now()))),
        ("model", line(&run.model)),
        ("tokens", format!("{} in, {} out", shown(run.usage.input), shown(run.usage.output))),
        ("cost", cost(run.cost_micros)),
    ];
    if let Some(summary) = &run.summary {
        pairs.push(("summary", line(summary)));
    }
    screen.pairs(&pairs);
    section(screen, "steps", run.steps.iter().map(step_line).collect());
    section(screen, "said", said.iter().map(|spoken| spoken.text.clone()).collect());
    Ok(())
}

fn step_line(step: &agent::run::StepReceipt) -> String {
    let tools = if step.tools.is_empty() { "no calls".to_owned() } else { step.tools.join(", ") };
    let tokens = step.usage.output.map(|n| format!(", {n} tokens")).unwrap_or_default();
    let attempts = if step.attempts > 1 { format!(", {} attempts", step.attempts) } else { String::new() };
    format!("{}: {tools} ({} ms{tokens}{attempts})", step.step, step.model_ms)
}

fn cost(micros: Option<u64>) -> String {
    match micros {
        Some(micros) => format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000),
        None => "unknown".to_owned(),
    }
}

/// An id may be a run's or an agent's.
async fn is_run(client: &Client, id: &str) -> Result<bool> {
    match client.get(&format!("/v1/runs/{}", segment(id))).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.exit == Exit::NotFound => {
            match client.get(&format!("/v1/agents/{}", segment(id))).await {
                Ok(_) => Ok(false),
                Err(_) => Err(failure),
            }
        }
        Err(failure) => Err(failure),
    }
}

async fn newest_run(client: &Client, wanted: Option<&str>) -> Result<String> {
    let agent = target::agent(client, wanted).await?;
    let page = client.get(&agent_path(agent.id, "/runs?limit=1")).await?;
    page["items"][0]["id"].as_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(Exit::NotFound, "not_found", format!("`{}` has no run yet", agent.name))
            .hint("say something to it with `viv say`")
    })
}

async fn inbox(client: &Client, screen: &Screen, arg: &InboxArg) -> Result<()> {
    let agent = target::agent(client, arg.agent.as_deref()).await?;
    let query = arg.state.as_ref().map(|state| format!("?state={}", segment(state))).unwrap_or_default();
    let most = usize::try_from(arg.limit).unwrap_or(usize::MAX);
    let rows = client.list(&agent_path(agent.id, &format!("/inbox{query}")), most).await?;
    if screen.json {
        screen.json_line(&json!({"agent": agent.name, "events": rows}));
        return Ok(());
    }
    let events: Vec<LoggedEvent> = typed("inbox", Value::Array(rows))?;
    if events.is_empty() {
        screen.line(&format!("the inbox of `{}` has no such events", screen.clean_line(&agent.name)));
        return Ok(());
    }
    let now = Timestamp::now();
    let rows: Vec<Vec<String>> = events.iter().map(|event| event_row(screen, event, now)).collect();
    screen.table(&["SEQ", "WHEN", "KIND", "FATE", "WHAT"], &rows);
    Ok(())
}

fn event_row(screen: &Screen, event: &LoggedEvent, now: Timestamp) -> Vec<String> {
    let urgent = if event.urgent { "!" } else { "" };
    let fate = match &event.fate {
        Fate::Lived { cycle, step } => format!("lived in {cycle} step {step}"),
        Fate::Skipped { reason: Some(reason) } => format!("skipped ({reason})"),
        Fate::Dead { reason } => format!("dead ({reason})"),
        Fate::Waiting if event.attempts > 0 => format!("waiting ({} attempts)", event.attempts),
        other => other.as_str().to_owned(),
    };
    vec![
        event.seq.to_string(),
        ago(event.at, now),
        format!("{}{urgent}", event.kind.as_str()),
        shortened(&screen.clean_line(&fate), PREVIEW),
        shortened(&screen.clean_line(&event.preview), PREVIEW),
    ]
}

async fn mind(client: &Client, screen: &Screen, arg: &MindArg) -> Result<()> {
    let agent = target::agent(client, arg.agent.as_deref()).await?;
    let mut entries = Vec::new();
    let mut after = 0;
    let (id, total) = loop {
        let path = agent_path(agent.id, &format!("/consciousness?limit={PAGE}&after={after}"));
        // Entries are handed on as the server wrote them.
        let page: MindPage = client.get_as(&path).await?;
        let empty = page.entries.is_empty();
        entries.extend(page.entries);
        match page.next {
            Some(next) if !empty && next > after => after = next,
            _ => break (page.agent, page.total_tokens),
        }
    };
    if screen.json {
        screen.json_line(&json!({"agent": id, "entries": entries, "total_tokens": total}));
        return Ok(());
    }
    let entries: Vec<LogEntry> = typed("consciousness", Value::Array(entries))?;
    let mut cycle = None;
    for entry in entries.iter().filter(|_| !arg.layers) {
        if cycle != Some(entry.cycle) {
            cycle = Some(entry.cycle);
            screen.line(&screen.paint(Style::Bold, &format!("cycle {}", entry.cycle)));
        }
        let out = if entry.in_view { "" } else { ", not in view" };
        let head = format!(
            "#{} step {} {} ({} tokens{out})",
            entry.seq,
            entry.step,
            entry.kind.as_str(),
            entry.tokens
        );
        screen.line(&format!("  {}", screen.paint(Style::Dim, &head)));
        for part in &entry.message.parts {
            for line in screen.clean(&part_text(part)).lines() {
                screen.line(&format!("    {line}"));
            }
        }
    }
    screen.line(&format!("{} entries, {total} tokens", entries.len()));
    Ok(())
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Text { text } => text.clone(),
        Part::Reasoning { text } => format!("(reasoning) {text}"),
        Part::ToolCall { name, arguments, .. } => format!("-> {name} {arguments}"),
        Part::ToolResult { name, text, error, .. } => {
            format!("<- {name}{} {text}", if *error { " failed:" } else { "" })
        }
        Part::Image { media_type, .. } => format!("(image, {media_type})"),
        Part::File { name, media_type, .. } => format!("(file `{name}`, {media_type})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_cost_is_not_nothing() {
        assert_eq!(cost(None), "unknown");
        assert_eq!(cost(Some(1_234_567)), "$1.234567");
    }

    #[test]
    fn a_step_names_its_tools() {
        let step = agent::run::StepReceipt {
            step: 0,
            tools: vec!["send_message".into()],
            usage: agent::run::Usage { output: Some(7), ..Default::default() },
            model_ms: 12,
            attempts: 2,
        };
        assert_eq!(step_line(&step), "0: send_message (12 ms, 7 tokens, 2 attempts)");
    }
}
