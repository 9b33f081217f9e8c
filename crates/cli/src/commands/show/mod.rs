//! `viv show`: an agent, a run or a context.

pub(crate) mod agent;
mod calls;
mod context;
mod run;

pub(super) use context::read_all;
pub(super) use run::waterfall;

use crate::args::Show;
use crate::errors::{Exit, Result};
use crate::output::{Screen, Style};
use client::Client;

pub(crate) async fn run(client: Client, screen: Screen, what: Show) -> Result<Exit> {
    match what {
        Show::Agent { agent } => agent::agent(&client, &screen, agent.as_deref()).await?,
        Show::Run { run } => run::run(&client, &screen, run.as_deref()).await?,
        Show::Context { agent, at: Some(run), .. } => {
            context::sent(&client, &screen, agent.as_deref(), run).await?
        }
        Show::Context { agent, layers, all, at: None } => {
            let what = match (layers, all) {
                (true, _) => context::Entries::None,
                (_, true) => context::Entries::All,
                _ => context::Entries::Sent,
            };
            context::context(&client, &screen, agent.as_deref(), what).await?
        }
    }
    Ok(Exit::Answered)
}

/// Prints lines under a heading; nothing if there are none.
fn section(screen: &Screen, name: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    screen.line(&format!("\n{}", screen.paint(Style::Bold, name)));
    for line in lines {
        screen.wrapped(&format!("  {}", screen.clean_line(&line)), 4);
    }
}
