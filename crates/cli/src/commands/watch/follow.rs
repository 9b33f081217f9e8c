//! Prints the past once, then updates as they arrive, across restarts of the server. `watch` and `tail`
//! share this loop and differ in their log.

use std::sync::Arc;
use std::time::Duration;

use agent::update::Update;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::log::Log;
use super::past::{self, PAST_MAX, PastUpdate};
use super::subject::{Source, Subject};
use super::writer::{Closed, LogWriter};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, terminal_safe_json};
use client::{Client, StreamEvent};

/// How often long calls are checked and the time in the last row is updated.
const TICK: Duration = Duration::from_millis(500);
/// Missed items are read from this long before the last one that was received, because clocks differ.
const OVERLAP: Duration = Duration::from_secs(60);
/// Maximum number of updates of the second stream that wait.
const BUFFER: usize = 256;

/// Follows a subject and prints its log.
pub(crate) struct Follower {
    client: Arc<Client>,
    screen: Screen,
    subject: Subject,
    log: Log,
    writer: LogWriter,
    /// Time of the last message or run, by the server's clock.
    last: Option<Timestamp>,
    /// Time of the oldest item that was read at the start: what is older was not asked for.
    oldest: Option<Timestamp>,
    lost: bool,
    /// A snapshot was received before: another one means that something may have been missed.
    had_snapshot: bool,
    /// Whether to show the model's private text.
    thoughts: bool,
}

/// `Err` if nobody reads the output any more.
type WriteResult = std::result::Result<(), Closed>;

impl Follower {
    /// Creates a follower; it does not follow yet.
    pub(crate) fn new(
        client: Arc<Client>,
        screen: Screen,
        subject: Subject,
        log: Log,
        thoughts: bool,
    ) -> Self {
        let writer = LogWriter::of(&screen);
        let (last, oldest, lost, had_snapshot) = (None, None, false, false);
        Self { client, screen, subject, log, writer, last, oldest, lost, had_snapshot, thoughts }
    }

    /// Prints the past: the last `history` items, or those after `since`. Items that were read but not
    /// printed count as shown. `false` if nobody reads the output any more.
    pub(crate) async fn past(&mut self, history: u32, since: Option<Timestamp>) -> Result<bool> {
        let max = if since.is_some() { PAST_MAX } else { history.max(1) };
        let found = past::read(&self.client, &self.subject, since, max).await?;
        self.oldest = found.first().map(|item| item.at).or(since);
        for item in found {
            self.print_past(item, since.is_some() || history > 0).await;
        }
        Ok(self.flush().is_ok())
    }

    async fn print_past(&mut self, item: PastUpdate, show: bool) {
        let PastUpdate { at, update, sender, posted_cycle } = item;
        posted_cycle.into_iter().for_each(|cycle| self.log.mark_visible(cycle));
        self.last = self.last.max(Some(at));
        if self.log.shown_before(&update) || !show || self.oldest.is_some_and(|oldest| at < oldest) {
            return;
        }
        if let (Update::Message { message }, Some(name), Some(_)) = (&update, sender, self.subject.space()) {
            // Members who left the space are known only from their messages.
            if !self.log.names.knows(message.sender) {
                self.log.names.entity(&self.screen, message.sender, &name);
            }
        }
        self.log.names.fetch_missing(&self.client, &self.screen, &update).await;
        self.show(at, &update);
    }

    /// Follows until the reader is gone or the server refuses.
    pub(crate) async fn run(mut self, history: u32, since: Option<Timestamp>) -> Result<Exit> {
        // Start to listen before the past is read, so that nothing is missed between the two.
        let mut own = None;
        let (other, mut others) = mpsc::channel(BUFFER);
        for (source, path) in self.subject.streams() {
            let updates = client::listen(Arc::clone(&self.client), path).await?;
            match source {
                Source::Own => own = Some(updates),
                Source::Everything => pass_on(updates, other.clone()),
            }
        }
        let Some(mut own) = own else { return Ok(Exit::Answered) };
        if !self.past(history, since).await? {
            return Ok(Exit::Answered);
        }
        let mut end = StopSignals::listen()?;
        let mut tick = tokio::time::interval(TICK);
        loop {
            let written = tokio::select! {
                event = own.recv() => match event {
                    Some(event) => self.handle(event).await?,
                    None => return Err(Failure::new(Exit::Unreachable, "unreachable", "the stream ended")
                        .hint("run the command again")),
                },
                Some(update) = others.recv() => self.update(Source::Everything, update).await,
                _ = tick.tick() => {
                    self.log.tick(Timestamp::now());
                    self.flush()
                }
                () = end.received() => Err(Closed),
            };
            if written.is_err() {
                return Ok(Exit::Answered);
            }
        }
    }

    async fn handle(&mut self, event: StreamEvent) -> Result<WriteResult> {
        let now = Timestamp::now();
        match event {
            StreamEvent::Update(update) => return Ok(self.update(Source::Own, *update).await),
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
                if !std::mem::replace(&mut self.lost, true) {
                    self.note(now, "lost", "connection lost; reconnecting, Ctrl-C quits", json!({}));
                }
            }
            StreamEvent::Refused(failure) => return Err(failure.into()),
        }
        Ok(self.flush())
    }

    async fn update(&mut self, source: Source, update: Update) -> WriteResult {
        let hidden = matches!(update, Update::Thought { .. }) && !self.thoughts && !self.screen.json;
        if hidden || !self.subject.includes(source, &update) || self.log.shown_before(&update) {
            return Ok(());
        }
        let mut at = Timestamp::now();
        if let Update::Message { message } = &update {
            (at, self.last) = (message.at, self.last.max(Some(message.at)));
        }
        self.log.names.fetch_missing(&self.client, &self.screen, &update).await;
        self.show(at, &update);
        self.flush()
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
            self.print_past(item, true).await;
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

    fn flush(&mut self) -> WriteResult {
        let width = self.writer.width();
        self.log.resize(width + 1);
        let rows = self.log.take_rows();
        let last = if self.screen.json { None } else { self.log.unfinished(Timestamp::now(), width) };
        self.writer.write(&rows, last)
    }
}

/// Passes on updates of the second stream; its other items duplicate those of the first.
fn pass_on(mut stream: mpsc::Receiver<StreamEvent>, to: mpsc::Sender<Update>) {
    tokio::spawn(async move {
        while let Some(event) = stream.recv().await {
            if let StreamEvent::Update(update) = event
                && to.send(*update).await.is_err()
            {
                return;
            }
        }
    });
}

/// The signals that end a follower.
struct StopSignals([Signal; 3]);

impl StopSignals {
    fn listen() -> Result<Self> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
                    .hint("run it on its own, without a wrapper that blocks signals")
            })
        };
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(listen);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    async fn received(&mut self) {
        let [interrupted, terminated, hung_up] = &mut self.0;
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
            _ = hung_up.recv() => {}
        }
    }
}
