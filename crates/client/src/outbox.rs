//! Messages that a person has written and the server has not accepted yet: posted one after the other, in the order in
//! which they were written, for as long as no server answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agent::id::SpaceId;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::{ErrorClass, Result};
use crate::exchange::{RESEND, fresh_id, post_once};
use crate::http::Client;

/// Maximum number of messages that wait.
const UNSENT_MAX: usize = 64;
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What became of the oldest unsent message.
#[derive(Debug)]
pub enum PostOutcome {
    /// The server accepted it.
    Posted,
    /// No server answers: it is posted as soon as one does.
    Waits,
    /// The server refuses it.
    Refused(String, crate::ClientError),
}

/// Posts the messages of one sender in one space.
pub struct Outbox {
    unsent: VecDeque<String>,
    waits: bool,
    texts: mpsc::Sender<String>,
    results: mpsc::Receiver<Option<Result<()>>>,
}

impl Outbox {
    /// An empty outbox. `sender` is a handle or id, needed with an admin key only.
    pub fn new(client: Arc<Client>, space: SpaceId, sender: Option<String>) -> Self {
        let (texts, mut received) = mpsc::channel::<String>(UNSENT_MAX);
        let (out, results) = mpsc::channel(UNSENT_MAX);
        tokio::spawn(async move {
            while let Some(text) = received.recv().await {
                let posted = deliver(&client, space, sender.as_deref(), &text, &out).await;
                if out.send(Some(posted)).await.is_err() {
                    return;
                }
            }
        });
        Self { unsent: VecDeque::new(), waits: false, texts, results }
    }

    /// Adds a message; `false` if too many wait already.
    pub fn push(&mut self, text: &str) -> bool {
        let taken = self.texts.try_send(text.to_owned()).is_ok();
        if taken {
            self.unsent.push_back(text.to_owned());
        }
        taken
    }

    /// Messages that wait because no server answers, oldest first.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &str> {
        let waiting = if self.waits { self.unsent.len() } else { 0 };
        self.unsent.iter().take(waiting).map(String::as_str)
    }

    /// What becomes of the oldest message. May be dropped while it waits.
    pub async fn next(&mut self) -> PostOutcome {
        let Some(result) = self.results.recv().await else { return std::future::pending().await };
        self.waits = result.is_none();
        match result {
            None => PostOutcome::Waits,
            Some(posted) => match (posted, self.unsent.pop_front()) {
                (Err(error), text) => PostOutcome::Refused(text.unwrap_or_default(), error),
                (Ok(()), _) => PostOutcome::Posted,
            },
        }
    }

    /// Waits at most that long for what is being posted. Returns what the server has not accepted.
    pub async fn close(mut self, limit: Duration) -> Vec<String> {
        let mut left = Vec::new();
        let all = async {
            while !self.unsent.is_empty() && !self.waits {
                if let PostOutcome::Refused(text, _) = self.next().await {
                    left.push(text);
                }
            }
        };
        // What is not known to be accepted by then counts as unsent.
        let _ = tokio::time::timeout(limit, all).await;
        left.extend(self.unsent);
        left
    }
}

/// Posts one message, again and again while no server answers. The same id makes that harmless.
async fn deliver(
    client: &Client,
    space: SpaceId,
    sender: Option<&str>,
    text: &str,
    out: &mpsc::Sender<Option<Result<()>>>,
) -> Result<()> {
    let id = fresh_id()?;
    let (mut pause, began) = (PAUSE_FIRST, Instant::now());
    let mut says_it_waits = true;
    loop {
        let error = match post_once(client, space, sender, id, text).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        // Another key may be written when the server has started again; if not, this one is revoked.
        let again = match error.class {
            ErrorClass::Unreachable => true,
            ErrorClass::KeyReplaced => began.elapsed() < RESEND,
            _ => false,
        };
        if !again {
            return Err(error);
        }
        if std::mem::take(&mut says_it_waits) && out.send(None).await.is_err() {
            return Err(error);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = out.closed() => return Err(error),
        }
        pause = (pause * 2).min(PAUSE_MAX);
        client.refresh();
    }
}
