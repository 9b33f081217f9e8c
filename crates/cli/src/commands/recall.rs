//! `viv agents recall`: searches an agent's archive.

use agent::limits;
use agent::port::time_limit;
use api::{ExcerptJson, RecallParams};
use client::Client;
use jiff::Timestamp;
use serde_json::json;

use super::watch::moment::moment;
use crate::args::SearchArgs;
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, Style};

pub(crate) async fn run(client: Client, screen: Screen, args: SearchArgs) -> Result<Exit> {
    let now = Timestamp::now();
    let time = |name: &str, text: Option<String>| {
        let at = text.map(|text| match time_limit(name, &text) {
            Ok(at) => Ok(at.to_string()),
            Err(_) => moment(&format!("--{name}"), &text, now).map(|at| at.to_string()),
        });
        at.transpose()
    };
    let query = args.query.join(" ");
    let most = limits::RECALL_QUERY_MAX_BYTES;
    if query.trim().is_empty() || query.len() > most {
        let message = format!("wanted words to search for, at most {most} bytes, got {}", query.len());
        return Err(Failure::usage(message).hint("rare words find best"));
    }
    let params = RecallParams {
        query,
        from: time("from", args.from)?,
        to: time("to", args.to)?,
        space: args.space,
        kind: args.kind,
        limit: args.limit,
    };
    let agent = client.agent(&args.agent).await?;
    let found = client.recall(agent.id, &params).await?;
    if screen.json {
        screen.json_line(&json!(found));
        return Ok(Exit::Answered);
    }
    if found.items.is_empty() {
        screen.text(&format!("`{}` finds nothing", agent.handle));
    }
    for excerpt in &found.items {
        screen.wrapped(&screen.paint(Style::Dim, &screen.clean_line(&heading(excerpt))), 2);
        screen.wrapped(&screen.clean_line(&format!("  {}", excerpt.text)), 2);
    }
    if found.building {
        screen.note("the index is still being built; older texts may be missing");
    }
    if found.newest_spaces_only {
        let searched =
            format!("of messages, only those in its {} most recently active spaces", limits::RECALL_SPACES);
        screen.note(&format!("{searched} were searched; --space searches another"));
    }
    Ok(Exit::Answered)
}

/// Where an excerpt is from.
fn heading(excerpt: &ExcerptJson) -> String {
    let ExcerptJson { at, kind, cycle, space_handle, .. } = excerpt;
    let mut heading = format!("{}  {}", at.strftime("%Y-%m-%d %H:%M"), kind.as_str());
    if let Some(space) = space_handle {
        heading += &format!("  {space}");
    }
    if let Some(cycle) = cycle {
        heading += &format!("  cycle {cycle}");
    }
    heading
}
