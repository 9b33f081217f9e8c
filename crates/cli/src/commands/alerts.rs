//! `viv agents alerts`: what operators should know of, after it has happened.

use agent::alert::AlertKind;
use agent::limits;
use api::AlertJson;
use client::{Client, typed};
use jiff::{SignedDuration, Timestamp};

use super::watch::moment::moment;
use crate::args::AlertArgs;
use crate::errors::{Failure, Result};
use crate::output::{Screen, Style, ago, counted};

/// Alerts that are counted in a note.
const COUNTED: usize = 100;

pub(crate) async fn list(client: &Client, screen: &Screen, args: AlertArgs) -> Result<()> {
    let mut query = Vec::new();
    if let Some(agent) = &args.agent {
        query.push(format!("agent={}", client.agent(agent).await?.id));
    }
    if let Some(kind) = &args.kind {
        let known = || format!("known are `{}`", AlertKind::NAMES.join("`, `"));
        let wrong = |_| Failure::usage(format!("there is no kind of alert `{kind}`")).hint(known());
        query.push(format!("alert={}", AlertKind::try_from(kind.as_str()).map_err(wrong)?.as_str()));
    }
    let now = Timestamp::now();
    if let Some(since) = &args.since {
        query.push(format!("since={}", moment("--since", since, now)?));
    }
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let path = format!("/v1/alerts{query}");
    let rows = client.list(&path, args.limit as usize).await?;
    if screen.json {
        screen.json_list(rows);
        return Ok(());
    }
    if rows.is_empty() {
        screen.line("no alerts");
    }
    for row in rows {
        let alert: AlertJson = typed("alerts", row)?;
        screen.wrapped(&screen.paint(Style::Dim, &screen.clean_line(&heading(&alert, now))), 2);
        screen.wrapped(&screen.clean_line(&format!("  {}", alert.text)), 2);
    }
    Ok(())
}

/// When an alert was, what it is about and whose it is.
fn heading(alert: &AlertJson, now: Timestamp) -> String {
    let AlertJson { at, alert, agent_handle, cycle, event, target, .. } = alert;
    let agent = agent_handle.clone();
    let parts = [
        agent,
        target.as_ref().map(|target| format!("target {target}")),
        event.as_ref().map(|event| format!("event {event}")),
        cycle.map(|cycle| format!("cycle {cycle}")),
    ];
    let whose: Vec<String> = parts.into_iter().flatten().collect();
    format!("{at:.0} ({})  {alert}  {}", ago(*at, now), whose.join("  "))
}

/// How many alerts there were lately, and the last one; `None` if there were none or they cannot be read.
pub(crate) async fn recent(client: &Client) -> Option<String> {
    let now = Timestamp::now();
    let day = SignedDuration::from_millis(limits::ALERT_RECENT_MS.cast_signed());
    let since = now.checked_sub(day).ok()?;
    let found: Vec<AlertJson> = client.list_as(&format!("/v1/alerts?since={since}"), COUNTED).await.ok()?;
    let last = found.first()?;
    let count = match found.len() {
        COUNTED.. => format!("{COUNTED} alerts or more"),
        n => counted(n, "alert"),
    };
    let whose = last.agent_handle.as_ref().or(last.target.as_ref());
    let whose = whose.map(|name| format!(" of `{name}`")).unwrap_or_default();
    Some(format!("{count} in the last day, the last one{whose} {}: {}", ago(last.at, now), last.alert))
}
