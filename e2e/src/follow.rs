//! Follows each agent's commits over all lives, as a watcher would: with `Last-Event-ID` after
//! every kill. What a watcher was once told must still be true afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::client::Client;

/// A commit as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Commit {
    /// Its number in the agent's life.
    pub n: u64,
    /// The cycle.
    pub cycle: String,
    /// The step.
    pub step: u32,
    /// Which commit.
    pub kind: String,
}

/// What was told of one agent.
#[derive(Clone, Debug, Default)]
pub struct SeenUpdates {
    /// Commits, in the order told.
    pub commits: Vec<Commit>,
    /// What should never have been told.
    pub wrong: Vec<String>,
}

impl SeenUpdates {
    /// The last number that was told.
    pub fn last(&self) -> u64 {
        self.commits.last().map_or(0, |commit| commit.n)
    }

    /// Cycles that were opened again behind a decision: a kill had cut them in two.
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

    fn hear(&mut self, event: &str, data: &str) {
        match event {
            "commit" => match serde_json::from_str::<Commit>(data) {
                Ok(commit) if commit.n == self.last() + 1 => self.commits.push(commit),
                Ok(commit) => self.wrong.push(format!("commit {} was told behind {}", commit.n, self.last())),
                Err(error) => self.wrong.push(format!("a commit that is none: `{data}`: {error}")),
            },
            "gap" => self.wrong.push(format!("a gap behind commit {}: {data}", self.last())),
            "snapshot" => {
                let now = serde_json::from_str::<Value>(data).unwrap_or_default()["commit_n"].as_u64();
                if now.is_none_or(|now| now < self.last()) {
                    self.wrong
                        .push(format!("commit {} was told, and the snapshot stands at {now:?}", self.last()));
                }
            }
            _ => {}
        }
    }
}

/// What was told of each agent, by handle.
#[derive(Clone, Debug, Default)]
pub struct Followers {
    told: Arc<Mutex<BTreeMap<String, SeenUpdates>>>,
    /// Commits of all agents.
    count: watch::Sender<usize>,
}

impl Followers {
    /// What was told so far.
    pub fn told(&self) -> MutexGuard<'_, BTreeMap<String, SeenUpdates>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many more commits were told, or the patience is over.
    pub async fn hear(&self, more: usize, patience: Duration) {
        let mut count = self.count.subscribe();
        let goal = *count.borrow() + more;
        // In time or not: whoever waits goes on.
        let _ = tokio::time::timeout(patience, count.wait_for(|count| *count >= goal)).await;
    }

    /// Follows an agent until the server dies.
    pub async fn follow(self, client: Client, agent: &'static str) {
        let last = self.told().entry(agent.to_owned()).or_default().last();
        // Refused connections are a server that died at once: the next life is followed again.
        if let Ok(stream) = client.open(&format!("/v1/agents/{agent}/stream"), last).await {
            let hear = |event: &str, data: &str| {
                if let Some(told) = self.told().get_mut(agent) {
                    told.hear(event, data);
                }
                if event == "commit" {
                    self.count.send_modify(|count| *count += 1);
                }
                true
            };
            read(stream, hear).await;
        }
    }
}

/// The commits that the server tells behind `after`, up to `to`: a replay from its store.
pub async fn replay(client: &Client, agent: &str, after: u64, to: u64) -> SeenUpdates {
    let mut told = SeenUpdates::default();
    let mut last = after;
    if let Ok(stream) = client.open(&format!("/v1/agents/{agent}/stream"), after).await {
        read(stream, |event, data| {
            match serde_json::from_str::<Commit>(data) {
                Ok(commit) if event == "commit" => {
                    last = commit.n;
                    told.commits.push(commit);
                }
                _ if event == "gap" => told.wrong.push(format!("a gap behind commit {last}: {data}")),
                _ => {}
            }
            last < to
        })
        .await;
    }
    told
}

/// Splits server-sent events until the stream ends or `hear` has heard enough.
async fn read(mut stream: impl Stream<Item = Bytes> + Unpin, mut hear: impl FnMut(&str, &str) -> bool) {
    let mut waiting = Vec::new();
    while let Some(bytes) = stream.next().await {
        waiting.extend_from_slice(&bytes);
        while let Some(end) = waiting.windows(2).position(|pair| pair == b"\n\n") {
            let frame = String::from_utf8_lossy(&waiting[..end]).into_owned();
            waiting.drain(..end + 2);
            let field = |name: &str| {
                frame.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
            };
            if !hear(field("event:"), field("data:")) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_goes_back_or_jumps_is_noticed() {
        let commit = |n: u64| format!(r#"{{"type":"commit","n":{n},"cycle":"c","step":0,"kind":"open"}}"#);
        let mut told = SeenUpdates::default();
        told.hear("commit", &commit(1));
        told.hear("commit", &commit(2));
        told.hear("snapshot", r#"{"commit_n":2}"#);
        assert_eq!((told.last(), told.wrong.len()), (2, 0));
        told.hear("commit", &commit(2));
        told.hear("commit", &commit(4));
        told.hear("gap", "{}");
        told.hear("snapshot", r#"{"commit_n":1}"#);
        assert_eq!((told.last(), told.wrong.len()), (2, 4));
    }

    #[tokio::test]
    async fn frames_are_put_together_from_any_pieces() {
        let pieces = ["event: a\nda", "ta: 1\n", "\n: ping\n\nevent: b\ndata: 2\n\n"].map(Bytes::from);
        let mut heard = Vec::new();
        read(futures_util::stream::iter(pieces), |event, data| {
            heard.push(format!("{event}={data}"));
            true
        })
        .await;
        assert_eq!(heard, ["a=1", "=", "b=2"]);
    }
}
