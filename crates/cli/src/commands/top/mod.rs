//! `viv top`: all agents live, on the whole screen; one table if output is not a terminal.

mod cells;
mod draw;
mod live;
mod overview;

use std::sync::Arc;

use jiff::Timestamp;

use crate::args::TopArgs;
use crate::errors::{Exit, Result};
use crate::output::Screen;
use client::Client;

use cells::COLUMNS;
use overview::Overview;

pub(crate) use cells::tokens;

pub(crate) async fn run(client: Client, screen: Screen, args: TopArgs) -> Result<Exit> {
    let mut overview = Overview::new(args.sort, args.filter);
    if screen.live && !args.once {
        return live::run(Arc::new(client), screen, overview).await;
    }
    overview.listed(live::agents(&client).await?);
    if screen.json {
        screen.json_list(overview.shown().collect::<Vec<_>>());
        return Ok(Exit::Answered);
    }
    let now = Timestamp::now();
    let row = |agent| COLUMNS.iter().map(|column| screen.clean_line(&(column.text)(agent, now))).collect();
    let rows: Vec<Vec<String>> = overview.shown().map(row).collect();
    match overview.none() {
        Some(none) => screen.note(none),
        None => screen.table(&COLUMNS.map(|column| column.head), &rows),
    }
    Ok(Exit::Answered)
}
