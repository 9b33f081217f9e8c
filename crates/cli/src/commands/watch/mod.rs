//! `viv watch`: a space, an agent or everything, as a readable live log.

pub(crate) mod follow;
mod lines;
pub(crate) mod log;
pub(crate) mod moment;
pub(crate) mod names;
pub(crate) mod past;

use std::sync::Arc;
use std::time::Duration;

use client::{Client, Subject};
use jiff::Timestamp;

use crate::args::WatchArgs;
use crate::commands::chat::terminal::{Bottom, size};
use crate::errors::{Exit, Failure, Result};
use crate::output::{self, Screen};
use crate::signals::Signals;
use follow::Follower;
use log::{Log, LogStyle};

pub(crate) async fn run(client: Client, screen: Screen, args: WatchArgs) -> Result<Exit> {
    if args.lines {
        return lines::run(client, screen, args).await;
    }
    if args.subjects.len() > 1 {
        return Err(Failure::usage("wanted one space or agent, got several")
            .hint("leave them out to follow everything, or add --lines to follow several agents"));
    }
    let since = moment::since_given(args.since.as_deref())?;
    let client = Arc::new(client);
    let mut log = Log::new(screen, moment::zone(), LogStyle::Full);
    let subject = Subject::find(&client, args.subjects.first().map(String::as_str), args.all).await?;
    log.names.of_subject(&screen, &subject);
    if args.thoughts && !matches!(subject, Subject::Agents { .. }) {
        return Err(Failure::usage("private text is shown for one agent only, got a space")
            .hint("name an agent, or leave out --thoughts"));
    }
    let mut follower = Follower::new(client, screen, subject, log, args.thoughts);
    follower.listen().await?;
    follower.past(args.history, since).await?;
    print(follower, screen).await
}

/// How often is looked whether anybody still reads the output while nothing happens.
const LOOK: Duration = Duration::from_millis(500);

/// Prints the log until a signal ends it or nobody reads it any more.
pub(crate) async fn print(mut follower: Follower, screen: Screen) -> Result<Exit> {
    let mut bottom = Bottom::default();
    let mut look = tokio::time::interval(LOOK);
    let mut signals = Signals::new()?;
    loop {
        let (width, height) = size();
        follower.log.resize(width + 1);
        let rows = follower.log.take_rows();
        let now = if screen.live { follower.log.live(Timestamp::now(), height - 1) } else { Vec::new() };
        if bottom.draw(&rows, &now, (0, 0)).is_err() {
            return Ok(Exit::Answered);
        }
        tokio::select! {
            received = follower.next() => follower.handle(received?).await?,
            _ = look.tick() => {
                if output::is_gone() {
                    break;
                }
            }
            () = signals.next() => break,
        }
    }
    // If nobody reads any more, there is nothing to clean up.
    let _ = bottom.draw(&[], &[], (0, 0));
    Ok(Exit::Answered)
}
