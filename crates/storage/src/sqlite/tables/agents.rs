//! The row of an agent by its id, and quarantine.

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

/// Whether an `agent a` is quarantined or retired; `NULL` if it has no row. Damage in its records is then ignored.
pub(crate) const QUARANTINED: &str = "(a.standing = 2 OR a.damage IS NOT NULL)";

/// Suspends an agent that is not retired and stores the reason. Makes an agent of any standing never due: an open
/// cycle of a retired one could not be closed. Reads no record of the agent.
pub(crate) fn quarantine(db: &Connection, agent: i64, why: &str) -> Outcome<()> {
    let sql = "UPDATE agent SET standing = 1, damage = ? WHERE id = ? AND standing <> 2";
    run(db, sql, params![why, agent])?;
    run(db, "UPDATE inbox_head SET due_at = NULL WHERE agent = ?", [agent])?;
    hold_plans(db, agent)
}
