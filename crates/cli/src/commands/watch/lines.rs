//! `viv watch --lines`: the recent activity of the whole server, or of agents, one line each.

use std::sync::Arc;

use super::follow::Follower;
use super::log::{Log, LogStyle};
use super::moment;
use crate::args::WatchArgs;
use crate::commands::events;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use client::{Client, Subject};

/// Maximum number of agents that may be named: the server's limit.
const AGENTS: usize = agent::limits::RECENT_AGENTS_MAX;

pub(super) async fn run(client: Client, screen: Screen, args: WatchArgs) -> Result<Exit> {
    if args.subjects.len() > AGENTS {
        let got = args.subjects.len();
        return Err(Failure::usage(format!("wanted at most {AGENTS} agents, got {got}"))
            .hint("leave them out to see all"));
    }
    let client = Arc::new(client);
    events::note(&client, &screen, &args.subjects).await?;
    let mut ids = Vec::with_capacity(args.subjects.len());
    for name in &args.subjects {
        ids.push(client.agent(name).await?.id);
    }
    let subject = if ids.is_empty() { Subject::Everything } else { Subject::agents(&client, ids).await? };
    let log = Log::new(screen, moment::zone(), LogStyle::Brief);
    let mut follower = Follower::new(client, screen, subject, log, false);
    if !args.no_follow {
        follower.listen().await?;
    }
    let since = moment::since_given(args.since.as_deref())?;
    follower.past(args.history, since).await?;
    if args.no_follow {
        follower.log.take_rows().iter().for_each(|row| screen.line(row));
        return Ok(Exit::Answered);
    }
    super::print(follower, screen).await
}
