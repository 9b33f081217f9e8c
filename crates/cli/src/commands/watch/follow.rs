//! Following: the past once, then updates as they come, across restarts of the server. Both `watch`
//! and `tail` are this loop with another log.

use std::sync::Arc;
use std::time::Duration;

use agent::update::Update;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::log::Log;
use super::paper::{Closed, Paper};
use super::past::{self, Happened, MOST};
use super::subject::{Feed, Subject};
use crate::client::Client;
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, harmless_json};
use crate::sse::{self, StreamEvent};

/// How often what takes long is told, and the time in the last row moves on.
const TICK: Duration = Duration::from_millis(500);
/// What was missed is read from this long before the last thing that was heard: clocks differ.
const OVERLAP: Duration = Duration::from_secs(60);
/// Updates of the second stream that wait.
const BUFFER: usize = 256;

/// One that follows.
pub(crate) struct Follower {
    pub(crate) client: Arc<Client>,
    pub(crate) screen: Screen,
    pub(crate) subject: Subject,
    pub(crate) log: Log,
    paper: Paper,
    /// By the server's clock.
    last: Option<Timestamp>,
    lost: bool,
    /// A snapshot came before: another one means that something may have been missed.
    begun: bool,
    /// What is told only of the model's thoughts.
    thoughts: bool,
}

/// The stream went on, or nobody reads any more.
type Told = std::result::Result<(), Closed>;

impl Follower {
    /// Nothing is followed yet.
    pub(crate) fn new(
        client: Arc<Client>,
        screen: Screen,
        subject: Subject,
        log: Log,
        thoughts: bool,
    ) -> Self {
        let paper = Paper::of(&screen);
        Self { client, screen, subject, log, paper, last: None, lost: false, begun: false, thoughts }
    }

    /// Prints the past: `history` things, or those since then. What is read beyond that counts as seen.
    pub(crate) async fn past(&mut self, history: u32, since: Option<Timestamp>) -> Result<bool> {
        let most = if since.is_some() { MOST } else { history.max(1) };
        let found = past::read(&self.client, &self.subject, since, most).await?;
        let shown = if since.is_none() && history == 0 { 0 } else { found.len() };
        let skipped = found.len() - shown;
        for (i, happened) in found.into_iter().enumerate() {
            self.happened(happened, i >= skipped).await;
        }
        Ok(self.flush().is_ok())
    }

    async fn happened(&mut self, happened: Happened, show: bool) {
        let Happened { at, update, sender, spoke } = happened;
        if let Some(cycle) = spoke {
            self.log.spoke(cycle);
        }
        self.last = self.last.max(Some(at));
        if self.log.shown_before(&update) || !show {
            return;
        }
        if let (Update::Message { message }, Some(name), Some(_)) = (&update, sender, self.subject.space()) {
            // Those who left the space since are known by their messages only.
            if !self.log.names.knows(message.sender) {
                self.log.names.entity(&self.screen, message.sender, &name);
            }
        }
        self.log.names.learn(&self.client, &self.screen, &update).await;
        self.show(at, &update);
    }

    /// Follows until the reader leaves or the server refuses.
    pub(crate) async fn run(mut self, history: u32, since: Option<Timestamp>) -> Result<Exit> {
        // Listening begins before the past is read, so that nothing falls between the two.
        let mut own = None;
        let (other, mut others) = mpsc::channel(BUFFER);
        for (feed, path) in self.subject.feeds() {
            let heard = sse::listen(Arc::clone(&self.client), path).await?;
            match feed {
                Feed::Own => own = Some(heard),
                Feed::Everything => pass_on(heard, other.clone()),
            }
        }
        let Some(mut own) = own else { return Ok(Exit::Answered) };
        if !self.past(history, since).await? {
            return Ok(Exit::Answered);
        }
        let mut end = Ends::listen()?;
        let mut tick = tokio::time::interval(TICK);
        loop {
            let on = tokio::select! {
                heard = own.recv() => match heard {
                    Some(heard) => self.hear(heard).await?,
                    None => return Err(Failure::new(Exit::Unreachable, "unreachable", "the stream ended")
                        .hint("run the command again")),
                },
                Some(update) = others.recv() => self.update(Feed::Everything, update).await,
                _ = tick.tick() => {
                    self.log.tick(Timestamp::now());
                    self.flush()
                }
                () = end.came() => Err(Closed),
            };
            if on.is_err() {
                return Ok(Exit::Answered);
            }
        }
    }

    async fn hear(&mut self, heard: StreamEvent) -> Result<Told> {
        let now = Timestamp::now();
        match heard {
            StreamEvent::Update(update) => return Ok(self.update(Feed::Own, *update).await),
            StreamEvent::Snapshot(snapshot) => {
                if std::mem::take(&mut self.lost) {
                    self.note(now, "back", "the server is back", json!({}));
                }
                self.subject.snapshot(&snapshot);
                self.log.snapshot(&snapshot);
                if self.screen.json {
                    let data = serde_json::to_value(&snapshot).unwrap_or(Value::Null);
                    self.print(now, "snapshot", data);
                }
                if std::mem::replace(&mut self.begun, true) {
                    self.catch_up().await?;
                }
            }
            StreamEvent::Gap(gap) => {
                let text = "more happened meanwhile than can be shown";
                self.note(now, "gap", text, json!({"from": gap.from, "to": gap.to}));
            }
            StreamEvent::Closed(closed) => {
                let why = match closed.reason.as_str() {
                    "shutdown" => "the server stops".to_owned(),
                    "slow_reader" => "this was too slow to read; it connects again".to_owned(),
                    other => format!("the server ended the stream: {}", self.screen.clean_line(other)),
                };
                self.note(now, "closed", &why, json!({"reason": closed.reason}));
            }
            StreamEvent::Lost => {
                if !std::mem::replace(&mut self.lost, true) {
                    self.note(now, "lost", "no server; looking for it, Ctrl-C ends", json!({}));
                }
            }
            StreamEvent::Refused(failure) => return Err(failure),
        }
        Ok(self.flush())
    }

    async fn update(&mut self, feed: Feed, update: Update) -> Told {
        let hidden = matches!(update, Update::Thought { .. }) && !self.thoughts && !self.screen.json;
        if hidden || !self.subject.admits(feed, &update) || self.log.shown_before(&update) {
            return Ok(());
        }
        let mut at = Timestamp::now();
        if let Update::Message { message } = &update {
            (at, self.last) = (message.at, self.last.max(Some(message.at)));
        }
        self.log.names.learn(&self.client, &self.screen, &update).await;
        self.show(at, &update);
        self.flush()
    }

    /// Reads what was missed while the line was lost. Where that fails too, the line is about to be
    /// lost again.
    async fn catch_up(&mut self) -> Result<()> {
        let since = self.last.and_then(|last| last.checked_sub(OVERLAP).ok());
        let found = match past::read(&self.client, &self.subject, since, MOST).await {
            Ok(found) => found,
            Err(failure) if failure.exit == Exit::Unreachable || failure.code == "key_invalid" => {
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        for happened in found {
            self.happened(happened, true).await;
        }
        Ok(())
    }

    fn show(&mut self, at: Timestamp, update: &Update) {
        if self.screen.json {
            let data = serde_json::to_value(update).unwrap_or(Value::Null);
            self.print(at, update.name(), data);
        } else {
            self.log.update(at, update);
        }
    }

    fn note(&mut self, at: Timestamp, name: &str, text: &str, data: Value) {
        if self.screen.json {
            self.print(at, name, data);
        } else {
            self.log.note(at, text);
        }
    }

    /// One JSON value as a row: when, what, and its own fields.
    fn print(&mut self, at: Timestamp, name: &str, data: Value) {
        let mut row = json!({"at": at, "type": name});
        if let (Some(row), Value::Object(fields)) = (row.as_object_mut(), data) {
            row.extend(fields);
        }
        self.log.print(harmless_json(&row));
    }

    fn flush(&mut self) -> Told {
        let width = self.paper.width();
        self.log.resize(width + 1);
        let rows = self.log.take_rows();
        let last = if self.screen.json { None } else { self.log.unfinished(Timestamp::now(), width) };
        self.paper.write(&rows, last)
    }
}

/// Passes updates of the second stream on; what it says of itself, the first one says too.
fn pass_on(mut heard: mpsc::Receiver<StreamEvent>, to: mpsc::Sender<Update>) {
    tokio::spawn(async move {
        while let Some(heard) = heard.recv().await {
            if let StreamEvent::Update(update) = heard
                && to.send(*update).await.is_err()
            {
                return;
            }
        }
    });
}

/// What ends a process that follows.
struct Ends {
    interrupted: Signal,
    terminated: Signal,
    hung_up: Signal,
}

impl Ends {
    fn listen() -> Result<Self> {
        let on = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
                    .hint("run it on its own, without a wrapper that holds signals back")
            })
        };
        Ok(Self {
            interrupted: on(SignalKind::interrupt())?,
            terminated: on(SignalKind::terminate())?,
            hung_up: on(SignalKind::hangup())?,
        })
    }

    async fn came(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
            _ = self.hung_up.recv() => {}
        }
    }
}
