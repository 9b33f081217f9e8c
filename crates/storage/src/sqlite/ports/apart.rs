//! Agents of which a record cannot be read, inside what is about several agents: each is set apart, and passed
//! over from then on, so that it stops nobody else.

use std::sync::Arc;

use agent::id::AgentId;
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::{Fault, Outcome, torn};
use crate::sqlite::ports::registry::known_agent;
use crate::sqlite::tables::notes::hold_plans;
use crate::sqlite::tables::rows::run;
use crate::sqlite::{Session, Sqlite, Who};

/// Of an `agent a`: whether it is set apart, or over. A `NULL` says that it has no such row at all.
pub(in crate::sqlite) const APART: &str = "(a.standing = 2 OR a.damage IS NOT NULL)";

/// What something about several agents is.
#[derive(Clone, Copy)]
pub(in crate::sqlite) enum Way {
    /// A command.
    Write,
    /// A question.
    Read(Who),
}

impl Sqlite {
    /// Runs `work` on several agents. One of whom a record is damaged is set apart, and the work is done again.
    pub(in crate::sqlite) async fn among<T, F>(&self, way: Way, work: F) -> Outcome<T>
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
                Way::Write => self.write(once),
                Way::Read(who) => self.read(who, once),
            };
            match done.await {
                Err(Fault::Torn(agent, why)) if !apart.contains(&agent) => {
                    apart.push(agent);
                    self.write(move |db, _| set_apart(db, known_agent(db, agent)?, &why)).await?;
                }
                done => return done,
            }
        }
    }
}

/// What one agent's part in something about several comes to. A damaged record of it names the agent; nothing
/// comes of it where the agent is apart already.
pub(in crate::sqlite) fn part<T>(agent: AgentId, apart: bool, done: Outcome<T>) -> Outcome<Option<T>> {
    match done.map(Some).map_err(torn(agent)) {
        Err(Fault::Torn(..)) if apart => Ok(None),
        done => done,
    }
}

/// Suspends whoever may live, and keeps the reason. Reads nothing of the agent. Whoever is retired has no
/// cycle to be closed any more: nobody could.
pub(in crate::sqlite) fn set_apart(db: &Connection, agent: i64, why: &str) -> Outcome<()> {
    let sql = "UPDATE agent SET standing = 1, damage = ? WHERE id = ? AND standing <> 2";
    run(db, sql, params![why, agent])?;
    run(db, "UPDATE inbox_head SET due_at = NULL WHERE agent = ?", [agent])?;
    hold_plans(db, agent)
}
