//! Data directories with very many sleeping agents. They are created through the registry, as the API does,
//! with as many commands at a time as one group of the writer takes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::changes::PlanChange;
use agent::config::AgentConfig;
use agent::event::Event;
use agent::id::{AgentId, EventId, PlanId};
use agent::limits;
use agent::plan::{Plan, Schedule};
use agent::port::{Accept, Accepted, Clock, NewAgent, Registry, Store};
use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use runtime::clock::SystemClock;
use storage::sqlite::Sqlite;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use uuid::Uuid;

/// A store on disk, opened to create agents and to send them events.
pub(crate) struct Population<'a> {
    threads: &'a Runtime,
    store: Sqlite,
    clock: Arc<SystemClock>,
}

impl<'a> Population<'a> {
    /// Opens the data directory.
    pub(crate) fn open(threads: &'a Runtime, dir: &Path) -> Result<Self> {
        let clock = Arc::new(SystemClock::new());
        let _in = threads.enter();
        let store =
            Sqlite::open(dir, Arc::clone(&clock) as Arc<dyn Clock>).context("the store does not open")?;
        Ok(Self { threads, store, clock })
    }

    /// Creates agents with the numbers `from` up to (not including) `to`.
    pub(crate) fn create_agents(&self, from: usize, to: usize) -> Result<()> {
        self.create_agents_with(from, to, &AgentConfig::default())
    }

    /// Creates such agents with this config.
    pub(crate) fn create_agents_with(&self, from: usize, to: usize, config: &AgentConfig) -> Result<()> {
        self.in_groups(from, to, |store, n, at| {
            let new = NewAgent::new(agent(n), format!("a{n:07}"), config.clone(), at);
            async move { store.create_agent(new).await.map(drop).context("an agent cannot be created") }
        })
    }

    /// Sets so many plans for each of the first `agents` agents; all are due in a year.
    pub(crate) fn set_plans(&self, agents: usize, each: usize) -> Result<()> {
        self.in_groups(0, agents * each, |store, n, at| async move {
            let due = at + Duration::from_secs(365 * 24 * 3_600);
            let id = PlanId(Uuid::from_u64_pair(at.as_millisecond().cast_unsigned(), n as u64));
            let plan =
                Plan { next_at: Some(due), ..Plan::new(id, "look", "Look.", Schedule::At { at: due }) };
            let set = store.change_plan(agent(n / each), PlanChange::Set(plan)).await;
            set.context("a plan is not stored")?.map(drop).context("there is no such agent")
        })
    }

    /// Sends each of these agents an event, without a signal to a keeper.
    pub(crate) fn send_events(&self, from: usize, to: usize) -> Result<()> {
        self.in_groups(from, to, |store, n, at| async move {
            match store.accept(event_for(agent(n), at), None).await.context("an event is not accepted")? {
                Accepted::Fresh { wake, .. } if wake.len() == 1 => Ok(()),
                other => bail!("wanted an event that wakes its agent, got {other:?}"),
            }
        })
    }

    fn in_groups<F>(&self, from: usize, to: usize, work: impl Fn(Sqlite, usize, Timestamp) -> F) -> Result<()>
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
                    done.context("a command failed")??;
                }
            }
            Ok(())
        })
    }

    /// Closes the store.
    pub(crate) fn close(self) -> Result<()> {
        self.threads.block_on(self.store.close()).context("the store did not close cleanly")
    }

    /// Drops the store without closing it: the next start takes it for a crash.
    pub(crate) fn drop_unclosed(self) {
        drop(self.store);
    }
}

/// The agent with this number.
pub(crate) fn agent(n: usize) -> AgentId {
    // Like real ids: an increasing time, then random bytes.
    let mixed = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let mut random = [0; 10];
    random[..8].copy_from_slice(&mixed);
    let at = 1_800_000_000_000 + n as u64 / 8;
    AgentId(uuid::Builder::from_unix_timestamp_millis(at, &random).into_uuid())
}

fn event_for(to: AgentId, at: Timestamp) -> Accept {
    // An agent gets at most one event in a millisecond, so the ids are unique.
    let id = Uuid::from_u64_pair(at.as_millisecond().cast_unsigned(), to.0.as_u64_pair().1).to_string();
    let payload = serde_json::json!({"ring": true});
    Accept::Event(to, Event::of_service(EventId(id), "bench", "bell", payload, at))
}
