//! Data directories with very many agents that sleep, made the way the doors make them: through the
//! registry, as many commands at a time as one group of the writer takes.

use std::path::Path;
use std::sync::Arc;

use agent::config::AgentConfig;
use agent::event::Event;
use agent::id::{AgentId, EventId};
use agent::limits;
use agent::port::{Accept, Accepted, Clock, NewAgent, Registry, Store};
use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use runtime::clock::SystemClock;
use storage::sqlite::Sqlite;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use uuid::Uuid;

/// A store on disk, opened for making and ringing agents.
pub(crate) struct Town<'a> {
    threads: &'a Runtime,
    store: Sqlite,
    clock: Arc<SystemClock>,
}

impl<'a> Town<'a> {
    /// Opens the data directory.
    pub(crate) fn open(threads: &'a Runtime, dir: &Path) -> Result<Self> {
        let clock = Arc::new(SystemClock::new());
        let _in = threads.enter();
        let store =
            Sqlite::open(dir, Arc::clone(&clock) as Arc<dyn Clock>).context("the store does not open")?;
        Ok(Self { threads, store, clock })
    }

    /// Makes agents with the numbers `from` up to (not including) `to`.
    pub(crate) fn settle(&self, from: usize, to: usize) -> Result<()> {
        self.in_groups(from, to, |store, n, at| async move {
            let new = NewAgent::new(agent(n), format!("a{n:07}"), AgentConfig::default(), at);
            store.create_agent(new).await.map(drop).context("an agent cannot be made")
        })
    }

    /// Sends each of these agents an event, and tells no keeper.
    pub(crate) fn ring(&self, from: usize, to: usize) -> Result<()> {
        self.in_groups(from, to, |store, n, at| async move {
            match store.accept(bell(agent(n), at), None).await.context("an event is not accepted")? {
                Accepted::Fresh { wake, .. } if wake.len() == 1 => Ok(()),
                other => bail!("wanted an event that wakes its agent, got {other:?}"),
            }
        })
    }

    fn in_groups<F>(&self, from: usize, to: usize, work: fn(Sqlite, usize, Timestamp) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.threads.block_on(async {
            for first in (from..to).step_by(limits::GROUP_MAX) {
                let mut group = JoinSet::new();
                for n in first..to.min(first + limits::GROUP_MAX) {
                    group.spawn(work(self.store.clone(), n, self.clock.now()));
                }
                while let Some(done) = group.join_next().await {
                    done.context("a command broke")??;
                }
            }
            Ok(())
        })
    }

    /// Ends it in peace.
    pub(crate) fn close(self) -> Result<()> {
        self.threads.block_on(self.store.close()).context("the store did not close cleanly")
    }

    /// Ends it without a word: to the next start it looks like a crash.
    pub(crate) fn abandon(self) {
        drop(self.store);
    }
}

/// The agent of that number.
pub(crate) fn agent(n: usize) -> AgentId {
    // As ids are: a time that grows, then nothing that repeats.
    let mixed = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let mut random = [0; 10];
    random[..8].copy_from_slice(&mixed);
    let at = 1_800_000_000_000 + n as u64 / 8;
    AgentId(uuid::Builder::from_unix_timestamp_millis(at, &random).into_uuid())
}

fn bell(to: AgentId, at: Timestamp) -> Accept {
    // Once per agent and millisecond is as often as anybody rings here.
    let id = Uuid::from_u64_pair(at.as_millisecond().cast_unsigned(), to.0.as_u64_pair().1).to_string();
    let payload = serde_json::json!({"ring": true});
    Accept::Event(to, Event::of_service(EventId(id), "bench", "bell", payload, at))
}
