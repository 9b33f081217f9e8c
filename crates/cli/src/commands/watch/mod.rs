//! `viv watch`: a space, an agent or everything, as a readable live log.

pub(crate) mod follow;
pub(crate) mod log;
pub(crate) mod moment;
pub(crate) mod names;
mod past;
pub(crate) mod subject;
mod writer;

use std::sync::Arc;

use jiff::Timestamp;

use crate::args::WatchArgs;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use client::Client;

use follow::Follower;
use log::Log;
use subject::Subject;

/// Runs `viv watch`.
pub(crate) async fn run(client: Client, screen: Screen, args: WatchArgs) -> Result<Exit> {
    let since = args.since.as_deref().map(|text| moment::since(text, Timestamp::now())).transpose()?;
    let client = Arc::new(client);
    let mut log = Log::new(screen, moment::zone(), false);
    let subject = Subject::find(&client, &screen, args.subject.as_deref(), args.all, &mut log.names).await?;
    if args.thoughts && !matches!(subject, Subject::Agents { .. }) {
        return Err(Failure::usage("private text is shown for one agent only, got a space")
            .hint("name an agent, or leave out --thoughts"));
    }
    Follower::new(client, screen, subject, log, args.thoughts).run(args.history, since).await
}
