//! Handles damaged records in commands and queries about several agents: each affected agent is quarantined and
//! skipped from then on, so that the others continue.

use std::sync::Arc;

use rusqlite::Connection;

use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::ports::{Caller, Sqlite};
use crate::sqlite::tables::agents::quarantine;
use crate::sqlite::tables::session::Session;

/// How work on several agents accesses the store.
#[derive(Clone, Copy)]
pub(super) enum Access {
    /// As a command.
    Write,
    /// As a query.
    Read(Caller),
}

impl Sqlite {
    /// Runs `work` on several agents. If a record of one is damaged, quarantines that agent and runs `work` again.
    pub(super) async fn for_several<T, F>(&self, access: Access, work: F) -> Outcome<T>
    where
        T: Send + 'static,
        F: Fn(&Connection, &Session) -> Outcome<T> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let mut quarantined = Vec::new();
        loop {
            let work = Arc::clone(&work);
            let once = move |db: &Connection, session: &Session| work(db, session);
            let done = match access {
                Access::Write => self.write(once),
                Access::Read(who) => self.read(who, once),
            };
            match done.await {
                Err(Fault::DamagedAgent(agent, why)) if !quarantined.contains(&agent) => {
                    quarantined.push(agent);
                    self.write(move |db, session| quarantine(db, agent, &why, session.now())).await?;
                }
                done => return done,
            }
        }
    }
}
