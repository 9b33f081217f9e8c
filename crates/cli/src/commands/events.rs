//! `viv events`: list, show, send, retry, drop and cancel events of an inbox; cancel single calls.

mod inbox;
mod send;

use agent::event::{EventData, Principal};
use agent::id::{CallId, EventId};
use api::{Agent, Call, EventAccepted, LoggedEvent, ReadyJson};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::{Canceled, Events, EventsArgs, EventsVerb, OneEvent};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, ago, shortened};
use client::{Client, ErrorClass, agent_path, segment, typed};

/// Maximum number of events that are listed, and of agents that are searched.
const EVENTS_MAX: usize = 10_000;
/// Maximum number of named agents whose dead events are noted.
const NOTED: usize = 32;
/// Columns of a text in a list.
const PREVIEW: usize = 48;

pub(crate) async fn run(client: Client, screen: Screen, args: EventsArgs) -> Result<Exit> {
    match args.verb.unwrap_or(EventsVerb::List(args.list)) {
        // Dead events wait for an operator, whoever's they are.
        EventsVerb::List(wanted) if wanted.state.as_deref() == Some("dead") => {
            list(&client, &screen, wanted.agent.as_deref()).await?;
        }
        EventsVerb::List(wanted) => inbox::inbox(&client, &screen, &wanted).await?,
        EventsVerb::Send(args) => send::run(&client, &screen, args).await?,
        EventsVerb::Show(one) => show(&client, &screen, &one).await?,
        EventsVerb::Retry(events) => apply(&client, &screen, events, "retry").await?,
        EventsVerb::Drop(events) => apply(&client, &screen, events, "drop").await?,
        EventsVerb::Cancel(Canceled { wanted, agent }) => {
            apply(&client, &screen, Events { events: wanted, agent }, "cancel").await?;
        }
    }
    Ok(Exit::Answered)
}

/// That events of an agent are dead, why, and what to do; `None` if none is.
pub(crate) fn notice(agent: &Agent) -> Option<String> {
    let dead = agent.dead_events.as_ref()?;
    let events = match dead.count {
        1 => "1 event is dead".to_owned(),
        n => format!("{n} events are dead, the last one"),
    };
    Some(format!("{events}: {}; {}", dead.reason, advice(&dead.last_event, &agent.handle)))
}

/// Notes which of these agents (by handle or id; without any, which of all) have dead events.
pub(crate) async fn note(client: &Client, screen: &Screen, agents: &[String]) -> Result<()> {
    let mut found: Vec<Agent> = Vec::new();
    for agent in agents.iter().take(NOTED) {
        found.push(client.agent(agent).await?);
    }
    if agents.is_empty() {
        found = all_if_dead(client).await?;
    }
    for (agent, notice) in found.iter().filter_map(|agent| Some((agent, notice(agent)?))) {
        screen.note(&format!("`{}`: {notice}", agent.handle));
    }
    Ok(())
}

pub(crate) use inbox::content as content_of;

pub(crate) fn advice(event: &EventId, agent: &str) -> String {
    format!(
        "see `viv events show {event} --agent {agent}`, try again with `viv events retry {event} --agent {agent}`"
    )
}

/// Cancels a call of the named agent, or of the agent that has it; returns the server's answer.
async fn cancel_call(client: &Client, screen: &Screen, call: &str, wanted: Option<&str>) -> Result<Value> {
    for agent in candidates(client, wanted).await? {
        let path = agent_path(agent.id, &format!("/calls/{call}/cancel"));
        let answer = match client.post_empty(&path).await {
            Err(failure) if failure.class == ErrorClass::NotFound => continue,
            answer => answer?,
        };
        if screen.json {
            return Ok(answer);
        }
        let canceled: Call = typed(&path, answer)?;
        let outcome = canceled.outcome.unwrap_or_default();
        let line =
            format!("call {call} of `{}` is canceled; `{}` receives: {outcome}", canceled.tool, agent.handle);
        screen.wrapped(&screen.clean_line(&line), 2);
        return Ok(Value::Null);
    }
    Err(Failure::new(Exit::NotFound, "not_found", format!("no agent has a call `{call}`"))
        .hint("`viv agents show NAME` lists the calls that have no answer yet"))
}

async fn list(client: &Client, screen: &Screen, wanted: Option<&str>) -> Result<()> {
    let agents = match wanted {
        Some(wanted) => vec![client.agent(wanted).await?],
        None => all_if_dead(client).await?,
    };
    let mut rows = Vec::new();
    let mut table = Vec::new();
    let now = Timestamp::now();
    for agent in agents {
        for row in client.list(&agent_path(agent.id, "/events?state=dead"), EVENTS_MAX).await? {
            let event: LoggedEvent = typed("inbox", row.clone())?;
            table.push(dead_row(screen, &agent, &event, now));
            rows.push(with_agent(row, &agent));
        }
    }
    if screen.json {
        screen.json_list(rows);
    } else if table.is_empty() {
        screen.line("no dead letters");
    } else {
        screen.table(&["AGENT", "SEQ", "EVENT", "WHEN", "KIND", "WHY"], &table);
        screen.note("`viv events show EVENT` shows one, `viv events retry EVENT` retries it");
    }
    Ok(())
}

/// The event with the id and the handle of its agent.
fn with_agent(mut event: Value, agent: &Agent) -> Value {
    event["agent"] = json!(agent.id);
    event["agent_handle"] = json!(agent.handle);
    event
}

/// All agents; none if no event is dead at all, which is the usual case.
async fn all_if_dead(client: &Client) -> Result<Vec<Agent>> {
    match client.get_as::<ReadyJson>("/v1/ready").await?.totals.map_or(1, |all| all.dead) {
        0 => Ok(Vec::new()),
        _ => all(client).await,
    }
}

/// The agent named, else all.
async fn candidates(client: &Client, wanted: Option<&str>) -> Result<Vec<Agent>> {
    match wanted {
        Some(wanted) => Ok(vec![client.agent(wanted).await?]),
        None => all(client).await,
    }
}

async fn all(client: &Client) -> Result<Vec<Agent>> {
    Ok(client.list_as("/v1/agents?brief=true", EVENTS_MAX).await?)
}

fn dead_row(screen: &Screen, agent: &Agent, event: &LoggedEvent, now: Timestamp) -> Vec<String> {
    let why = event.reason.as_deref().unwrap_or(&event.state);
    vec![
        screen.clean_line(&agent.handle),
        event.seq.to_string(),
        screen.clean_line(&event.id.0),
        ago(event.at, now),
        event.kind.as_str().to_owned(),
        shortened(&screen.clean_line(why), PREVIEW),
    ]
}

async fn show(client: &Client, screen: &Screen, one: &OneEvent) -> Result<()> {
    let (agent, row) = find(client, &one.event, one.agent.as_deref()).await?;
    if screen.json {
        screen.json_line(&with_agent(row, &agent));
        return Ok(());
    }
    let event: LoggedEvent = typed("event", row)?;
    let content = content(client, &event).await?;
    let mut pairs = vec![
        ("agent", agent.handle),
        ("event", event.id.0.clone()),
        ("when", event.at.to_string()),
        ("kind", event.kind.as_str().to_owned()),
        ("state", event.state.clone()),
        ("from", from(&event)),
    ];
    pairs.extend(event.reason.map(|reason| ("why", reason)));
    if let Some(old) = event.cites {
        pairs.push(("retry of", old.0));
    }
    pairs.iter_mut().for_each(|(_, text)| *text = screen.clean_line(text));
    screen.pairs(&pairs);
    screen.line("");
    for line in screen.clean(&content).lines() {
        screen.wrapped(&format!("  {line}"), 2);
    }
    Ok(())
}

/// The principal of the event, and how far it is trusted.
fn from(event: &LoggedEvent) -> String {
    let who = match &event.envelope.principal {
        Principal::Entity(id) => format!("member {id}"),
        Principal::Credential(id) => format!("key {id}"),
        Principal::Webhook(name) => format!("webhook {name}"),
        Principal::Own => "itself".to_owned(),
    };
    format!("{who} (trust: {})", event.envelope.trust.as_str())
}

/// The event's content in full: a message's text, else its data.
async fn content(client: &Client, event: &LoggedEvent) -> Result<String> {
    match &event.data {
        EventData::Message { message, .. } => {
            let message = client.get(&format!("/v1/messages/{message}")).await?;
            Ok(message["text"].as_str().unwrap_or_default().to_owned())
        }
        other => {
            let data = serde_json::to_value(other).and_then(|data| serde_json::to_string_pretty(&data));
            Ok(data.unwrap_or_default())
        }
    }
}

/// Does the same with every event, or cancels a call.
async fn apply(client: &Client, screen: &Screen, wanted: Events, verb: &str) -> Result<()> {
    let (mut answers, agent) = (Vec::new(), wanted.agent.as_deref());
    for id in &wanted.events {
        answers.push(match verb == "cancel" && CallId::is_whole(id) {
            true => cancel_call(client, screen, id, agent).await?,
            false => apply_to(client, screen, id, agent, verb).await?,
        });
    }
    if screen.json {
        screen.json_list(answers);
    }
    Ok(())
}

/// Does it with one event and says so; returns the server's answer.
async fn apply_to(
    client: &Client,
    screen: &Screen,
    event: &str,
    wanted: Option<&str>,
    verb: &str,
) -> Result<Value> {
    let (agent, row) = find(client, event, wanted).await?;
    let event = row["id"].as_str().unwrap_or(event);
    let path = agent_path(agent.id, &format!("/events/{}/{verb}", segment(event)));
    let answer = client.post_empty(&path).await?;
    if screen.json {
        return Ok(answer);
    }
    let result = match verb {
        "drop" => "is dropped".to_owned(),
        "cancel" => "is canceled".to_owned(),
        _ => match typed::<EventAccepted>(&path, answer)?.id.0 {
            id if id == event => "waits again".to_owned(),
            id => format!("is sent again as event {id}"),
        },
    };
    screen.text(&format!("event {event} of `{}` {result}", agent.handle));
    Ok(Value::Null)
}

async fn find_event(client: &Client, agent: &Agent, event: &str) -> Result<Option<Value>> {
    if let Ok(seq) = event.parse::<u64>() {
        let rows = client.list(&agent_path(agent.id, "/events"), EVENTS_MAX).await?;
        return Ok(rows.into_iter().find(|row| row["seq"] == json!(seq)));
    }
    match client.get(&agent_path(agent.id, &format!("/events/{}", segment(event)))).await {
        Ok(row) => Ok(Some(row)),
        Err(failure) if failure.class == ErrorClass::NotFound => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// The event and its agent: the agent named, or the only one that has the event.
async fn find(client: &Client, event: &str, wanted: Option<&str>) -> Result<(Agent, Value)> {
    let mut sent: Vec<(Agent, Value)> = Vec::new();
    for agent in candidates(client, wanted).await? {
        if let Some(row) = find_event(client, &agent, event).await? {
            sent.push((agent, row));
        }
    }
    match sent.len() {
        1 => Ok(sent.remove(0)),
        0 => Err(Failure::new(Exit::NotFound, "not_found", format!("no agent was sent an event `{event}`"))
            .hint("`viv events list NAME` lists what an agent was sent")),
        n => {
            let names: Vec<String> =
                sent.iter().take(8).map(|(agent, _)| format!("`{}`", agent.handle)).collect();
            Err(Failure::usage(format!("{n} agents were sent the event `{event}`"))
                .hint(format!("name one with --agent: {}", names.join(", "))))
        }
    }
}
