//! Queries on behalf of an agent: each one names the agent, so that it never returns what that agent may not read.

use agent::call::CallRow;
use agent::event::NamedMessage;
use agent::id::{AgentId, CallId, SpaceId};
use agent::life::SpaceFacts;
use agent::port::{BoxFuture, Lookup, StoreError};
use agent::run::Run;
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::ports::{Caller, Sqlite};
use crate::sqlite::tables::calls;
use crate::sqlite::tables::facts::{TOLD, members};
use crate::sqlite::tables::messages::named_messages;
use crate::sqlite::tables::rows::{SPACE, agent_row, bytes, first, id_or_name, space_at, u64_at};
use crate::sqlite::tables::runs::newest_runs;

impl Lookup for Sqlite {
    fn messages(
        &self,
        agent: AgentId,
        space: SpaceId,
        before: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Option<(Vec<NamedMessage>, u64)>, StoreError>> {
        let done = self.read(Caller::Agents, move |db, _| messages(db, agent, space, before, limit));
        Box::pin(async move { Ok(done.await?) })
    }

    fn space(
        &self,
        agent: AgentId,
        id_or_name: String,
    ) -> BoxFuture<'_, Result<Option<SpaceFacts>, StoreError>> {
        let done = self.read_inline(Caller::Agents, move |db, _| space(db, agent, &id_or_name));
        Box::pin(async move { Ok(done.await?) })
    }

    fn call(&self, agent: AgentId, call: CallId) -> BoxFuture<'_, Result<Option<CallRow>, StoreError>> {
        let done = self.read(Caller::Agents, move |db, _| match agent_row(db, agent.0)? {
            Some(row) => calls::of_agent(db, row, &call),
            None => Ok(None),
        });
        Box::pin(async move { Ok(done.await?) })
    }

    fn runs(&self, agent: AgentId, limit: u32) -> BoxFuture<'_, Result<Vec<Run>, StoreError>> {
        let done = self.read(Caller::Agents, move |db, _| match agent_row(db, agent.0)? {
            Some(row) => newest_runs(db, row, limit),
            None => Ok(Vec::new()),
        });
        Box::pin(async move { Ok(done.await?) })
    }
}

fn space(db: &Connection, agent: AgentId, text: &str) -> Outcome<Option<SpaceFacts>> {
    let (column, value) = id_or_name(text, "s.uuid", "s.name");
    let sql = format!(
        "SELECT s.id, {SPACE}, {TOLD} FROM space s JOIN entity e ON e.uuid = ?1 \
         JOIN member mine ON mine.space = s.id AND mine.entity = e.id WHERE {column} = ?2"
    );
    let found = first(db, &sql, params![bytes(agent.0), value], |row| {
        Ok((row.get::<_, i64>(0)?, space_at(row, 1)?, row.get(10)?))
    })?;
    let Some((row, space, told)) = found else { return Ok(None) };
    Ok(Some(SpaceFacts { space, members: members(db, row)?, more_members: 0, told }))
}

fn messages(
    db: &Connection,
    agent: AgentId,
    space: SpaceId,
    before: Option<u64>,
    limit: u32,
) -> Outcome<Option<(Vec<NamedMessage>, u64)>> {
    let sql = "SELECT s.id, s.head_seq FROM space s JOIN member m ON m.space = s.id \
               JOIN entity e ON e.id = m.entity WHERE s.uuid = ? AND e.uuid = ?";
    let head = first(db, sql, params![bytes(space.0), bytes(agent.0)], |row| {
        Ok((row.get::<_, i64>(0)?, u64_at(row, 1)?))
    })?;
    let Some((row, total)) = head else { return Ok(None) };
    let mut found = named_messages(db, row, 0, before.unwrap_or(u64::MAX), limit.into())?;
    found.reverse();
    Ok(Some((found, total)))
}
