//! `viv chat`: a conversation in one space, line by line.

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

use crate::args::ChatArgs;
use crate::client::Client;
use crate::errors::{Exit, Result};
use crate::output::Screen;
use crate::target;

/// Talks.
pub(crate) async fn run(client: Client, screen: Screen, args: ChatArgs) -> Result<Exit> {
    let client = Arc::new(client);
    let space = args.space.as_deref();
    let agent = args.agent.as_deref();
    let place = target::place(&client, space, agent, args.sender.as_deref()).await?;
    if let Some(agent) = agent {
        place.agent(Some(agent))?;
    }
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if screen.json || dumb || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return plain::run(client, screen, place, Duration::from_secs(args.timeout)).await;
    }
    live::run(client, screen, place, args.history).await
}
