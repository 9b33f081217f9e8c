//! `viv chat`: a conversation in one space.

mod command;
mod editor;
pub(crate) mod flow;
mod keys;
mod live;
mod plain;
mod talk;
mod terminal;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use super::dead;
use crate::args::ChatArgs;
use crate::errors::{Exit, Result};
use crate::output::Screen;
use crate::target;
use client::Client;

/// Runs the chat.
pub(crate) async fn run(client: Client, screen: Screen, args: ChatArgs) -> Result<Exit> {
    let client = Arc::new(client);
    let space = args.space.as_deref();
    let agent = args.agent.as_deref();
    let target = target::resolve(&client, space, agent, args.sender.as_deref()).await?;
    if let Some(agent) = agent {
        target.agent(Some(agent))?;
    }
    if target.admin {
        let agents: Vec<String> = target.agents().map(|agent| agent.id.to_string()).collect();
        dead::note(&client, &screen, &agents).await?;
    }
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if screen.json || dumb || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return plain::run(client, screen, target, Duration::from_secs(args.timeout)).await;
    }
    live::run(client, screen, target, args.history).await
}
