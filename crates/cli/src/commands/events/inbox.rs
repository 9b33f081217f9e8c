//! `viv events list`: the events of an agent and their states.

use agent::event::{EventData, EventProgress};
use api::LoggedEvent;
use jiff::Timestamp;
use serde_json::Value;

use crate::args::InboxArg;
use crate::errors::Result;
use crate::output::{Screen, ago, columns, shortened};
use client::{Client, agent_path, segment, target, typed};

/// Columns of a text in a list, and the fewest that are worth showing.
const PREVIEW: usize = 60;
const PREVIEW_MIN: usize = 12;

pub(super) async fn inbox(client: &Client, screen: &Screen, arg: &InboxArg) -> Result<()> {
    let agent = target::agent(client, arg.agent.as_deref()).await?;
    let query = arg.state.as_ref().map(|state| format!("?state={}", segment(state))).unwrap_or_default();
    let max = usize::try_from(arg.limit).unwrap_or(usize::MAX);
    let rows = client.list(&agent_path(agent.id, &format!("/events{query}")), max).await?;
    if screen.json {
        screen.json_list(rows);
        return Ok(());
    }
    let events: Vec<LoggedEvent> = typed("inbox", Value::Array(rows))?;
    if events.is_empty() {
        let kind = arg.state.as_ref().map(|state| format!(" that are {state}")).unwrap_or_default();
        screen.text(&format!("the inbox of `{}` has no events{kind}", agent.handle));
        return Ok(());
    }
    let now = Timestamp::now();
    let mut rows: Vec<Vec<String>> = events.iter().map(|event| event_row(screen, event, now)).collect();
    let head = ["SEQ", "WHEN", "KIND", "STATE", "WHAT"];
    // The last column takes what the others leave: the rows stay rows on a usual terminal.
    let widest = |i: usize| rows.iter().map(|row| columns(&row[i])).chain([head[i].len()]).max().unwrap_or(0);
    let others: usize = (0..4).map(|i| widest(i) + 2).sum();
    let room = screen.width.map_or(PREVIEW, |width| width.saturating_sub(others).max(PREVIEW_MIN));
    rows.iter_mut().for_each(|row| row[4] = shortened(&row[4], room));
    screen.table(&head, &rows);
    Ok(())
}

fn event_row(screen: &Screen, event: &LoggedEvent, now: Timestamp) -> Vec<String> {
    let urgent = if event.urgent { "!" } else { "" };
    let cycle = || match (event.ordinal, event.cycle) {
        (Some(ordinal), _) => ordinal.to_string(),
        (None, Some(cycle)) => cycle.to_string(),
        (None, None) => "-".to_owned(),
    };
    let step = event.step.unwrap_or(0);
    let state = match (event.progress, &event.reason) {
        (progress @ (EventProgress::Shown | EventProgress::Addressed | EventProgress::Read), _) => {
            format!("{} in cycle {} step {step}", progress.as_str(), cycle())
        }
        (EventProgress::Taken, _) => format!("taken by cycle {}, shown at step {step}", cycle()),
        (EventProgress::Held, _) => match event.release_at {
            Some(at) => format!("held until {at:.0}, or until a person posts"),
            None => "held until a person posts".to_owned(),
        },
        (_, Some(reason)) => format!("{} ({reason})", event.state),
        (EventProgress::Waiting, None) if event.attempts > 0 => {
            format!("waiting ({} attempts)", event.attempts)
        }
        (_, None) => event.state.clone(),
    };
    vec![
        event.seq.to_string(),
        ago(event.at, now),
        format!("{}{urgent}", event.kind.as_str()),
        shortened(&screen.clean_line(&state), screen.width.map_or(PREVIEW, |width| width * 2 / 5)),
        screen.clean_line(&content(event)),
    ]
}

/// The content of an event: a message's text, what a service sent, or which call a late result belongs to.
pub(crate) fn content(event: &LoggedEvent) -> String {
    match &event.data {
        EventData::ToolResult { call, tool, text, error, status } => {
            let plain = if *error { "error" } else { "ok" };
            let status = status.map_or(plain, agent::call::OutcomeStatus::as_str);
            format!("{tool} {status}, call {call}: {text}")
        }
        EventData::Service { name, payload } => format!("{name}: {payload}"),
        EventData::Plan { name, instruction, .. } => format!("{name}: {instruction}"),
        EventData::Message { .. } | EventData::Heartbeat => event.preview.clone(),
    }
}
