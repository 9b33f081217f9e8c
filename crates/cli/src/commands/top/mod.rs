//! `viv top`: all agents live, on the whole screen; one table if output is not a terminal.

mod cells;
mod detail;
mod draw;
mod live;
mod overview;
mod pulse;

use std::io::IsTerminal;
use std::sync::Arc;

use jiff::Timestamp;

use crate::args::TopArgs;
use crate::errors::{Exit, Result};
use crate::output::Screen;
use client::Client;

use cells::{ALL, CellContext, Column};
use overview::Overview;

pub(crate) use overview::tokens_of;

/// Runs `viv top`.
pub(crate) async fn run(client: Client, screen: Screen, args: TopArgs) -> Result<Exit> {
    let mut overview = Overview::new(args.sort, args.filter);
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let live = !args.once && !screen.json && !dumb && std::io::stdout().is_terminal();
    if live {
        return live::run(Arc::new(client), screen, overview).await;
    }
    overview.listed(live::agents(&client).await?);
    if screen.json {
        screen.json_list(overview.shown().collect::<Vec<_>>());
        return Ok(Exit::Answered);
    }
    let context = CellContext { screen: &screen, pulses: &overview.pulses, now: Timestamp::now() };
    let columns = ALL.into_iter().filter(|column| *column != Column::Pulse);
    let row = |agent| columns.clone().map(|column| context.cell(column, agent)).collect();
    let rows: Vec<Vec<String>> = overview.shown().map(row).collect();
    if rows.is_empty() {
        let none =
            if overview.filter.is_empty() { "there is no agent" } else { "no agent matches the filter" };
        screen.note(none);
        return Ok(Exit::Answered);
    }
    screen.table(&columns.map(Column::head).collect::<Vec<_>>(), &rows);
    Ok(Exit::Answered)
}
