//! `viv tail`: the recent activity of the whole server, one line each, then follows.

use std::sync::Arc;

use super::dead;
use super::watch::follow::Follower;
use super::watch::log::{Log, LogStyle};
use super::watch::{self, moment};
use crate::args::TailArgs;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use client::{Client, Subject};

/// Maximum number of agents that may be named: the server's limit.
const AGENTS: usize = agent::limits::RECENT_AGENTS_MAX;

pub(crate) async fn run(client: Client, screen: Screen, args: TailArgs) -> Result<Exit> {
    if args.agents.len() > AGENTS {
        let got = args.agents.len();
        return Err(Failure::usage(format!("wanted at most {AGENTS} agents, got {got}"))
            .hint("leave them out to see all"));
    }
    let client = Arc::new(client);
    dead::note(&client, &screen, &args.agents).await?;
    let mut ids = Vec::with_capacity(args.agents.len());
    for name in &args.agents {
        ids.push(client.agent(name).await?.id);
    }
    let subject = if ids.is_empty() { Subject::Everything } else { Subject::agents(&client, ids).await? };
    let log = Log::new(screen, moment::zone(), LogStyle::Brief);
    let mut follower = Follower::new(client, screen, subject, log, false);
    if !args.no_follow {
        follower.listen().await?;
    }
    follower.past(args.lines, None).await?;
    if args.no_follow {
        follower.log.take_rows().iter().for_each(|row| screen.line(row));
        return Ok(Exit::Answered);
    }
    watch::print(follower, screen).await
}
