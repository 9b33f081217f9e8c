//! Reads the past once, then updates as they arrive, across restarts of the server, into a log. `chat`, `watch` and
//! `tail` share it and differ in their log. Must not know where the rows of the log are shown.

use std::sync::Arc;
use std::time::Duration;

use agent::id::CycleId;
use agent::update::Update;
use client::{Client, PastUpdate, Source, StreamEvent, Subject};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::log::Log;
use super::past::{self, PAST_MAX};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, terminal_safe_json};

/// Missed items are read from this long before the last one that was received, because clocks differ.
const OVERLAP: Duration = Duration::from_secs(60);
const BUFFER: usize = 1_024;
/// How long the run of a cycle that posted nothing is waited for: the updates behind it wait, too.
const RUN_WAIT: Duration = Duration::from_secs(2);

pub(crate) type Received = (Source, StreamEvent);

pub(crate) struct Follower {
    client: Arc<Client>,
    screen: Screen,
    subject: Subject,
    pub(crate) log: Log,
    received: mpsc::Receiver<Received>,
    /// Time of the last message or run, by the server's clock.
    last: Option<Timestamp>,
    /// Time of the oldest item that was read at the start: what is older was not asked for.
    oldest: Option<Timestamp>,
    pub(crate) lost: bool,
    /// A snapshot was received before: another one means that something may have been missed.
    had_snapshot: bool,
    thoughts: bool,
}

impl Follower {
    /// Creates a follower; it does not listen yet.
    pub(crate) fn new(
        client: Arc<Client>,
        screen: Screen,
        subject: Subject,
        log: Log,
        thoughts: bool,
    ) -> Self {
        let (_, received) = mpsc::channel(1);
        let (last, oldest, lost, had_snapshot) = (None, None, false, false);
        Self { client, screen, subject, log, received, last, oldest, lost, had_snapshot, thoughts }
    }

    /// Starts to listen, before the past is read, so that nothing is missed in between.
    pub(crate) async fn listen(&mut self) -> Result<()> {
        let (sender, received) = mpsc::channel(BUFFER);
        for (source, path) in self.subject.streams() {
            let mut stream = client::listen(Arc::clone(&self.client), path).await?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Some(event) = stream.recv().await {
                    if sender.send((source, event)).await.is_err() {
                        return;
                    }
                }
            });
        }
        self.received = received;
        Ok(())
    }

    /// Adds the past: the last `history` items, or those after `since`. Items that were read but not shown count as
    /// shown.
    pub(crate) async fn past(&mut self, history: u32, since: Option<Timestamp>) -> Result<()> {
        let max = if since.is_some() { PAST_MAX } else { history.max(1) };
        let found = past::read(&self.client, &self.subject, since, max).await?;
        self.oldest = found.first().map(|item| item.at).or(since);
        for item in found {
            self.show_past(item, since.is_some() || history > 0).await;
        }
        Ok(())
    }

    async fn show_past(&mut self, item: PastUpdate, show: bool) {
        let PastUpdate { at, update } = item;
        self.last = self.last.max(Some(at));
        if self.log.shown_before(&update) || !show || self.oldest.is_some_and(|oldest| at < oldest) {
            return;
        }
        self.log.names.fetch_missing(&self.client, &self.screen, &update).await;
        self.show(at, &update);
    }

    /// The next item. May be dropped while it waits; [`Follower::handle`] takes the item.
    pub(crate) async fn next(&mut self) -> Result<Received> {
        self.received.recv().await.ok_or_else(|| {
            Failure::new(Exit::Unreachable, "unreachable", "the stream ended").hint("run the command again")
        })
    }

    pub(crate) fn arrived(&mut self) -> Option<Received> {
        self.received.try_recv().ok()
    }

    /// Handles an item. An error ends the command: the server refuses to go on.
    pub(crate) async fn handle(&mut self, (source, event): Received) -> Result<()> {
        let now = Timestamp::now();
        match event {
            StreamEvent::Update(update) => self.update(source, *update).await,
            // The other items of the second stream duplicate those of the first.
            _ if source == Source::Everything => {}
            StreamEvent::Snapshot(snapshot) => {
                if std::mem::take(&mut self.lost) {
                    self.note(now, "back", "reconnected", json!({}));
                }
                self.subject.snapshot(&snapshot);
                self.log.snapshot(&snapshot);
                if self.screen.json {
                    let data = serde_json::to_value(&snapshot).unwrap_or(Value::Null);
                    self.print(now, "snapshot", data);
                }
                if std::mem::replace(&mut self.had_snapshot, true) {
                    self.catch_up().await?;
                }
            }
            StreamEvent::Gap(gap) => {
                self.log.missed();
                let text = "some updates in between cannot be shown";
                self.note(now, "gap", text, json!({"from": gap.from, "to": gap.to}));
            }
            StreamEvent::Closed(closed) => {
                let why = match closed.reason.as_str() {
                    "shutdown" => "the server is stopping".to_owned(),
                    "slow_reader" => "this client read too slowly; reconnecting".to_owned(),
                    other => format!("the server ended the stream: {}", self.screen.clean_line(other)),
                };
                self.note(now, "closed", &why, json!({"reason": closed.reason}));
            }
            StreamEvent::Lost => {
                self.log.lost();
                if !std::mem::replace(&mut self.lost, true) {
                    self.note(now, "lost", "connection lost; reconnecting, Ctrl-C quits", json!({}));
                }
            }
            StreamEvent::Refused(failure) => return Err(failure.into()),
        }
        Ok(())
    }

    async fn update(&mut self, source: Source, update: Update) {
        let hidden = matches!(update, Update::Thought { .. }) && !self.thoughts && !self.screen.json;
        if hidden || !self.subject.includes(source, &update) || self.log.shown_before(&update) {
            return;
        }
        let mut at = Timestamp::now();
        if let Update::Message { message } = &update {
            (at, self.last) = (message.at, self.last.max(Some(message.at)));
        }
        self.log.names.fetch_missing(&self.client, &self.screen, &update).await;
        if let Some(cycle) = self.log.ends_silently(&update)
            && wrote_text(&self.client, cycle).await
        {
            self.log.wrote(cycle);
        }
        self.show(at, &update);
    }

    /// Reads what was missed while the connection was lost. If that fails too, the connection is about to
    /// be lost again.
    async fn catch_up(&mut self) -> Result<()> {
        let since = self.last.and_then(|last| last.checked_sub(OVERLAP).ok());
        let found = match past::read(&self.client, &self.subject, since, PAST_MAX).await {
            Ok(found) => found,
            Err(failure) if failure.is_temporary() => return Ok(()),
            Err(failure) => return Err(failure.into()),
        };
        for item in found {
            self.show_past(item, true).await;
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

    /// Prints one JSON value as a row: the time, the type and its own fields.
    fn print(&mut self, at: Timestamp, name: &str, data: Value) {
        let mut row = json!({"at": at, "type": name});
        if let (Some(row), Value::Object(fields)) = (row.as_object_mut(), data) {
            row.extend(fields);
        }
        self.log.print(terminal_safe_json(&row));
    }
}

/// Whether an ended cycle wrote text that was not sent. Only operators may know; for others, and if the server does
/// not answer soon, it did not.
async fn wrote_text(client: &Client, cycle: CycleId) -> bool {
    let path = format!("/v1/runs/{cycle}");
    let Ok(Ok(run)) = timeout(RUN_WAIT, client.get(&path)).await else { return false };
    run["steps"].as_array().is_some_and(|steps| steps.iter().any(|step| step["unsent"].is_string()))
}
