//! The row of an agent by its id, free handles, and quarantine.

use agent::alert::Alert;
use agent::id::AgentId;
use agent::port::Denial;
use agent::registry::former_name;
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::alerts;
use super::facts::touch_entity;
use super::plans::hold_plans;
use super::rows::{agent_row, first, run, uuid_at};
use crate::sqlite::engine::fault::Outcome;

pub(crate) fn known_agent(db: &Connection, agent: AgentId) -> Outcome<i64> {
    let denial = || Denial::NotFound { what: "agent", name: agent.to_string() };
    Ok(agent_row(db, agent.0)?.ok_or_else(denial)?)
}

/// Whether a handle is free. That of a retired agent is: the agent keeps a former name, as handle and as display name,
/// so that its messages are told apart from those of the agent that takes the handle.
pub(crate) fn free_name(db: &Connection, name: &str) -> Outcome<bool> {
    let sql = "SELECT e.id, e.uuid, coalesce(a.standing, 0) = 2, e.display_name FROM entity e \
               LEFT JOIN agent a ON a.id = e.id WHERE e.name = ?";
    let holder = first(db, sql, [name], |row| {
        Ok((row.get::<_, i64>(0)?, uuid_at(row, 1)?, row.get(2)?, row.get::<_, String>(3)?))
    })?;
    let Some((row, id, retired, display_name)) = holder else { return Ok(true) };
    if retired {
        let sql = "UPDATE entity SET name = ?, display_name = ? WHERE id = ?";
        run(db, sql, params![former_name(name, id), former_name(&display_name, id), row])?;
        touch_entity(db, row)?;
    }
    Ok(retired)
}

/// Whether an `agent a` is quarantined or retired; `NULL` if it has no row. Damage in its records is then ignored.
pub(crate) const QUARANTINED: &str = "(a.standing = 2 OR a.damage IS NOT NULL)";

/// Suspends an agent that is not retired and stores the reason. Makes an agent of any standing never due: an open
/// cycle of a retired one could not be closed. Reads no record of the agent.
pub(crate) fn quarantine(db: &Connection, id: AgentId, why: &str, now: Timestamp) -> Outcome<()> {
    let agent = known_agent(db, id)?;
    let sql = "UPDATE agent SET standing = 1, damage = ? WHERE id = ? AND standing <> 2";
    if run(db, sql, params![why, agent])? > 0 {
        alerts::put(db, &Alert::of_damage(id, why, now))?;
    }
    run(db, "UPDATE inbox_head SET due_at = NULL WHERE agent = ?", [agent])?;
    hold_plans(db, agent)
}
