//! Where an agent is, and whether it is quarantined.

use agent::id::AgentId;
use agent::port::Denial;
use rusqlite::{Connection, params};

use super::notes::hold_plans;
use super::rows::{agent_row, run};
use crate::sqlite::engine::fault::Outcome;

pub(crate) fn known_agent(db: &Connection, agent: AgentId) -> Outcome<i64> {
    let denial = || Denial::NotFound { what: "agent", name: agent.to_string() };
    Ok(agent_row(db, agent.0)?.ok_or_else(denial)?)
}

/// Of an `agent a`: whether it is quarantined, or over. A `NULL` says that it has no such row at all.
pub(crate) const APART: &str = "(a.standing = 2 OR a.damage IS NOT NULL)";

/// Suspends whoever may live, and keeps the reason. Reads nothing of the agent. Whoever is retired has no
/// cycle to be closed any more: nobody could.
pub(crate) fn quarantine(db: &Connection, agent: i64, why: &str) -> Outcome<()> {
    let sql = "UPDATE agent SET standing = 1, damage = ? WHERE id = ? AND standing <> 2";
    run(db, sql, params![why, agent])?;
    run(db, "UPDATE inbox_head SET due_at = NULL WHERE agent = ?", [agent])?;
    hold_plans(db, agent)
}
