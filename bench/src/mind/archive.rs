//! Agents whose archives grow by bare commits, without models and tools.

use std::sync::Arc;

use agent::changes::{Changes, CommitKind, CommitOutcome};
use agent::config::AgentConfig;
use agent::entry::{Entry, EntryKind};
use agent::id::{AgentId, CycleId};
use agent::life::{Lease, OpenCycle};
use agent::message::{ModelMessage, Part, Role};
use agent::port::{Clock, Ids, NewAgent, Registry, Store};
use anyhow::{Context, Result, bail};
use runtime::clock::SystemIds;
use storage::sqlite::Sqlite;

use crate::history::prose;

/// The text of an entry: prose, and a word that no other entry has.
pub(super) fn text_of(n: usize) -> String {
    format!("{} rare{n}", prose(n, 30))
}

/// An agent in an open cycle, to which entries are written.
pub(super) struct Writing {
    store: Sqlite,
    clock: Arc<dyn Clock>,
    pub(super) agent: AgentId,
    lease: Lease,
    n: u64,
    seq: u64,
    open: OpenCycle,
}

impl Writing {
    pub(super) async fn of(store: &Sqlite, clock: &Arc<dyn Clock>, name: &str) -> Result<Self> {
        let (agent, at) = (AgentId(SystemIds.uuid()), clock.now());
        store.create_agent(NewAgent::new(agent, name, AgentConfig::default(), at)).await?;
        let activation = store.wake(agent, at, None).await?.context("an agent")?;
        let lease = Lease { agent, epoch: activation.life.epoch + 1 };
        let open = OpenCycle::new(CycleId(SystemIds.uuid()), activation.config_rev, at);
        let mut writing = Self {
            store: store.clone(),
            clock: Arc::clone(clock),
            agent,
            lease,
            n: activation.life.commit_n,
            seq: 0,
            open,
        };
        writing.commit(CommitKind::Open, Vec::new()).await?;
        writing.open.decided = true;
        Ok(writing)
    }

    pub(super) async fn write(&mut self, from: usize, count: usize) -> Result<()> {
        let entry = |n: usize| Entry {
            seq: self.seq + 1 + (n - from) as u64,
            cycle: self.open.id,
            step: 0,
            kind: EntryKind::Assistant,
            message: ModelMessage {
                role: Role::Assistant,
                parts: vec![Part::Text { text: text_of(n) }],
                native: None,
            },
            tokens: 40,
            at: self.clock.now(),
            trust: agent::event::Trust::Member,
        };
        let entries = (from..from + count).map(entry).collect();
        self.commit(CommitKind::Decide, entries).await?;
        self.seq += count as u64;
        Ok(())
    }

    async fn commit(&mut self, kind: CommitKind, entries: Vec<Entry>) -> Result<()> {
        let mut changes = Changes::new(kind, self.open.id, self.open.step, self.n, self.clock.now());
        changes.open = Some(self.open.clone());
        changes.entries = entries;
        match self.store.commit(self.lease, changes).await?.0 {
            CommitOutcome::Committed { n, .. } => self.n = n,
            other => bail!("wanted a commit, got {other:?}"),
        }
        Ok(())
    }
}
