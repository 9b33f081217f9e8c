//! Follows the commits of each agent over all restarts, as a client of its stream does: with `Last-Event-ID` after
//! every kill. A commit that was streamed once must still be there afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::client::HttpClient;

/// A commit as it is streamed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Commit {
    /// Its number, counted per agent.
    pub n: u64,
    /// The cycle.
    pub cycle: String,
    /// The step.
    pub step: u32,
    /// The kind of commit.
    pub kind: String,
}

/// The updates that were streamed of one agent.
#[derive(Clone, Debug, Default)]
pub struct SeenUpdates {
    /// The commits, in the order in which they were streamed.
    pub commits: Vec<Commit>,
    /// Updates that should never have been streamed.
    pub errors: Vec<String>,
}

impl SeenUpdates {
    /// The number of the last commit; 0 if there is none.
    pub fn last(&self) -> u64 {
        self.commits.last().map_or(0, |commit| commit.n)
    }

    /// The number of cycles that were opened again after a decision: they were interrupted by a kill.
    pub fn resumed(&self) -> usize {
        let mut decided: Option<&str> = None;
        let mut resumed = BTreeSet::new();
        for commit in &self.commits {
            match commit.kind.as_str() {
                "decide" => decided = Some(&commit.cycle),
                "open" if decided == Some(&commit.cycle) => drop(resumed.insert(&commit.cycle)),
                _ => {}
            }
        }
        resumed.len()
    }

    fn record(&mut self, event: &str, data: &str) {
        match event {
            "commit" => match serde_json::from_str::<Commit>(data) {
                Ok(commit) if commit.n == self.last() + 1 => self.commits.push(commit),
                Ok(commit) => {
                    self.errors.push(format!("commit {} was streamed after {}", commit.n, self.last()))
                }
                Err(error) => self.errors.push(format!("not a commit: `{data}`: {error}")),
            },
            "gap" => self.errors.push(format!("a gap after commit {}: {data}", self.last())),
            "snapshot" => {
                let now = serde_json::from_str::<Value>(data).unwrap_or_default()["commit_n"].as_u64();
                if now.is_none_or(|now| now < self.last()) {
                    self.errors
                        .push(format!("commit {} was streamed, and the snapshot is at {now:?}", self.last()));
                }
            }
            _ => {}
        }
    }
}

/// The updates that were streamed of each agent, by handle.
#[derive(Clone, Debug, Default)]
pub struct Followers {
    updates: Arc<Mutex<BTreeMap<String, SeenUpdates>>>,
    /// The number of commits of all agents.
    count: watch::Sender<usize>,
}

impl Followers {
    /// The updates so far.
    pub fn seen(&self) -> MutexGuard<'_, BTreeMap<String, SeenUpdates>> {
        self.updates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many more commits were streamed, or until the timeout.
    pub async fn wait_for_commits(&self, more: usize, timeout: Duration) {
        let mut count = self.count.subscribe();
        let goal = *count.borrow() + more;
        // The caller continues in both cases.
        let _ = tokio::time::timeout(timeout, count.wait_for(|count| *count >= goal)).await;
    }

    /// Follows an agent until the server dies.
    pub async fn follow(self, client: HttpClient, agent: &'static str) {
        let last = self.seen().entry(agent.to_owned()).or_default().last();
        // The connection is refused if the server died at once; its next process is followed again.
        if let Ok(stream) = client.open(&format!("/v1/agents/{agent}/stream"), last).await {
            let on_event = |event: &str, data: &str| {
                if let Some(updates) = self.seen().get_mut(agent) {
                    updates.record(event, data);
                }
                if event == "commit" {
                    self.count.send_modify(|count| *count += 1);
                }
                true
            };
            read(stream, on_event).await;
        }
    }
}

/// The commits after `after` up to `to`, as the server replays them from its store.
pub async fn replay(client: &HttpClient, agent: &str, after: u64, to: u64) -> SeenUpdates {
    let mut updates = SeenUpdates::default();
    let mut last = after;
    if let Ok(stream) = client.open(&format!("/v1/agents/{agent}/stream"), after).await {
        read(stream, |event, data| {
            match serde_json::from_str::<Commit>(data) {
                Ok(commit) if event == "commit" => {
                    last = commit.n;
                    updates.commits.push(commit);
                }
                _ if event == "gap" => updates.errors.push(format!("a gap after commit {last}: {data}")),
                _ => {}
            }
            last < to
        })
        .await;
    }
    updates
}

/// Splits server-sent events until the stream ends or `on_event` returns false.
async fn read(mut stream: impl Stream<Item = Bytes> + Unpin, mut on_event: impl FnMut(&str, &str) -> bool) {
    let mut buffer = Vec::new();
    while let Some(bytes) = stream.next().await {
        buffer.extend_from_slice(&bytes);
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let frame = String::from_utf8_lossy(&buffer[..end]).into_owned();
            buffer.drain(..end + 2);
            let field = |name: &str| {
                frame.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
            };
            if !on_event(field("event:"), field("data:")) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_numbers_that_decrease_or_skip_are_errors() {
        let commit = |n: u64| format!(r#"{{"type":"commit","n":{n},"cycle":"c","step":0,"kind":"open"}}"#);
        let mut updates = SeenUpdates::default();
        updates.record("commit", &commit(1));
        updates.record("commit", &commit(2));
        updates.record("snapshot", r#"{"commit_n":2}"#);
        assert_eq!((updates.last(), updates.errors.len()), (2, 0));
        updates.record("commit", &commit(2));
        updates.record("commit", &commit(4));
        updates.record("gap", "{}");
        updates.record("snapshot", r#"{"commit_n":1}"#);
        assert_eq!((updates.last(), updates.errors.len()), (2, 4));
    }

    #[tokio::test]
    async fn frames_are_assembled_from_arbitrary_pieces() {
        let pieces = ["event: a\nda", "ta: 1\n", "\n: ping\n\nevent: b\ndata: 2\n\n"].map(Bytes::from);
        let mut frames = Vec::new();
        read(futures_util::stream::iter(pieces), |event, data| {
            frames.push(format!("{event}={data}"));
            true
        })
        .await;
        assert_eq!(frames, ["a=1", "=", "b=2"]);
    }
}
