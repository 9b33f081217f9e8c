//! Agents of which a record cannot be read, inside what is about several agents: each is quarantined, and passed
//! over from then on, so that it stops nobody else.

use std::sync::Arc;

use rusqlite::Connection;

use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::ports::{Sqlite, Who};
use crate::sqlite::tables::agents::{known_agent, quarantine};
use crate::sqlite::tables::session::Session;

/// What something about several agents is.
#[derive(Clone, Copy)]
pub(super) enum Access {
    /// A command.
    Write,
    /// A question.
    Read(Who),
}

impl Sqlite {
    /// Runs `work` on several agents. One of whom a record is damaged is quarantined, and the work is done again.
    pub(super) async fn among<T, F>(&self, way: Access, work: F) -> Outcome<T>
    where
        T: Send + 'static,
        F: Fn(&Connection, &Session) -> Outcome<T> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let mut apart = Vec::new();
        loop {
            let work = Arc::clone(&work);
            let once = move |db: &Connection, session: &Session| work(db, session);
            let done = match way {
                Access::Write => self.write(once),
                Access::Read(who) => self.read(who, once),
            };
            match done.await {
                Err(Fault::Torn(agent, why)) if !apart.contains(&agent) => {
                    apart.push(agent);
                    self.write(move |db, _| quarantine(db, known_agent(db, agent)?, &why)).await?;
                }
                done => return done,
            }
        }
    }
}
