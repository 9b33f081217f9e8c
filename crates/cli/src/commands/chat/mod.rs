//! `viv chat`: a conversation in one space.

mod answer;
pub(crate) mod cards;
mod command;
mod editor;
pub(crate) mod flow;
mod live;
mod plain;
pub(crate) mod terminal;

use std::io::{BufRead, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::events;
use crate::args::ChatArgs;
use crate::errors::{Exit, Result};
use crate::output::Screen;
use client::{Client, target};

/// The file in the data directory with the lines that were typed.
const HISTORY: &str = "chat_history";
/// How often the space is asked for before the command gives up.
const QUESTIONS: usize = 3;

pub(crate) async fn run(client: Client, data_dir: &Path, screen: Screen, args: ChatArgs) -> Result<Exit> {
    let client = Arc::new(client);
    let agent = args.agent.as_deref();
    let live = screen.live && std::io::stdin().is_terminal();
    let space = match args.space {
        None if live => chosen_space(&client, &screen, agent).await?,
        named => named,
    };
    let target = target::resolve(&client, space.as_deref(), agent, args.sender.as_deref()).await?;
    if args.sender.is_some() {
        target.check_sender()?;
    }
    if let Some(agent) = agent {
        target.agent(Some(agent))?;
    }
    if target.admin {
        let agents: Vec<String> = target.agents().map(|agent| agent.id.to_string()).collect();
        events::note(&client, &screen, &agents).await?;
    }
    if live {
        let history = data_dir.is_dir().then(|| data_dir.join(HISTORY));
        return live::run(client, screen, target, args.history, history).await;
    }
    plain::run(client, screen, target, Duration::from_secs(args.timeout)).await
}

/// Asks which space if there are several. `None` if there is nothing to choose, or without a valid answer: then the
/// search for the only space succeeds, or its error lists all.
async fn chosen_space(client: &Client, screen: &Screen, agent: Option<&str>) -> Result<Option<String>> {
    let spaces = target::spaces(client, agent).await?;
    if spaces.len() < 2 {
        return Ok(None);
    }
    for (i, (name, _)) in spaces.iter().enumerate() {
        screen.line(&format!("{:>3}  {}", i + 1, screen.clean_line(name)));
    }
    for _ in 0..QUESTIONS {
        screen.ask(&format!("Which space? (1-{} or its name) ", spaces.len()));
        let mut answer = String::new();
        if !std::io::stdin().lock().read_line(&mut answer).is_ok_and(|read| read > 0) {
            break;
        }
        let number = answer.trim().parse().ok().and_then(|n: usize| spaces.get(n.checked_sub(1)?));
        let named = || spaces.iter().find(|(name, _)| name == answer.trim());
        if let Some((_, id)) = number.or_else(named) {
            return Ok(Some(id.to_string()));
        }
    }
    Ok(None)
}
