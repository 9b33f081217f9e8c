//! Plans: each row is valid from one commit of the agent to another. A plan that has ended keeps its last row.

use agent::changes::PlanChange;
use agent::config::AgentConfig;
use agent::event::{Cause, Trust};
use agent::id::{AgentId, PlanId, RootId};
use agent::plan::{Missed, Plan, PlanSource, of_config};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::rows::{
    all, bytes, code_of, first, from_code, from_json, int, key, ms, run, time_or_none, to_json, trust_at,
    u64_at, uuid_at,
};
use crate::sqlite::engine::fault::Outcome;

/// The columns of [`plan_at`].
pub(crate) const PLAN: &str =
    "p.id, p.name, p.instruction, p.schedule, p.next_at, p.missed, p.max_late, p.source, p.trust";

/// A plan from the columns [`PLAN`].
pub(crate) fn plan_at(row: &Row<'_>, at: usize) -> Outcome<Plan> {
    let schedule: String = row.get(at + 3)?;
    let late = row.get::<_, Option<i64>>(at + 6)?.map(|_| u64_at(row, at + 6)).transpose()?;
    Ok(Plan {
        id: PlanId(uuid_at(row, at)?),
        name: row.get(at + 1)?,
        instruction: row.get(at + 2)?,
        schedule: from_json(&schedule, "a schedule")?,
        next_at: time_or_none(row, at + 4)?,
        missed: from_code(&Missed::ALL, row.get(at + 5)?, "rule for missed slots")?,
        max_late_ms: late,
        source: from_code(&PlanSource::ALL, row.get(at + 7)?, "source of a plan")?,
        trust: trust_at(row, at + 8)?,
    })
}

/// The agent's plans that will fire, the next one first.
pub(crate) fn plans(db: &Connection, agent: i64) -> Outcome<Vec<Plan>> {
    let sql = format!(
        "SELECT {PLAN} FROM plan p WHERE agent = ? AND to_commit IS NULL AND next_at IS NOT NULL ORDER BY next_at, id"
    );
    all(db, &sql, [agent], |row| plan_at(row, 0))
}

/// A plan of the agent by id, also one that has ended: it has no next slot.
pub(crate) fn plan(db: &Connection, agent: i64, id: PlanId) -> Outcome<Option<Plan>> {
    let sql = format!(
        "SELECT {PLAN}, p.to_commit IS NULL FROM plan p WHERE agent = ?1 AND id = ?2 \
         AND from_commit = (SELECT max(from_commit) FROM plan WHERE agent = ?1 AND id = ?2)"
    );
    first(db, &sql, params![agent, bytes(id.0)], |row| {
        let plan = plan_at(row, 0)?;
        Ok(Plan { next_at: plan.next_at.filter(|_| row.get(9).unwrap_or(false)), ..plan })
    })
}

/// Writes a plan as of commit `n`. `fired` is the seq of its last event since it was set.
pub(crate) fn put_plan(
    db: &Connection,
    agent: i64,
    n: u64,
    plan: &Plan,
    cause: &Cause,
    fired: Option<i64>,
) -> Outcome<()> {
    let id = bytes(plan.id.0);
    run(db, "DELETE FROM plan WHERE agent = ? AND id = ? AND from_commit = ?", params![agent, id, int(n)])?;
    end_plan(db, agent, n, plan.id)?;
    let sql = "INSERT INTO plan (agent, id, from_commit, next_at, name, schedule, instruction, root, hop, trust, \
               fired, missed, max_late, source, fire_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, \
               ?13, ?14, (SELECT ?4 FROM agent WHERE id = ?1 AND standing = 0))";
    let row = params![
        agent,
        id,
        int(n),
        plan.next_at.map(ms),
        plan.name,
        to_json(&plan.schedule)?,
        plan.instruction,
        key(&cause.root.0),
        cause.hop,
        code_of(&Trust::ALL, &cause.trust),
        fired,
        code_of(&Missed::ALL, &plan.missed),
        plan.max_late_ms.map(int),
        code_of(&PlanSource::ALL, &plan.source),
    ];
    run(db, sql, row).map(drop)
}

/// Ends a plan as of commit `n`.
pub(crate) fn end_plan(db: &Connection, agent: i64, n: u64, id: PlanId) -> Outcome<()> {
    let sql = "UPDATE plan SET to_commit = ?3 WHERE agent = ?1 AND id = ?2 AND to_commit IS NULL \
               AND from_commit = (SELECT max(from_commit) FROM plan WHERE agent = ?1 AND id = ?2)";
    run(db, sql, params![agent, bytes(id.0), int(n)]).map(drop)
}

/// What makes an operator's plan fire: nobody but the operator.
fn by_operator() -> Cause {
    Cause { root: RootId(String::new()), hop: 0, trust: Trust::Operator }
}

/// Sets or ends a plan for an operator.
pub(crate) fn change_plan(db: &Connection, agent: i64, n: u64, change: &PlanChange) -> Outcome<()> {
    match change {
        PlanChange::Set(plan) => put_plan(db, agent, n, plan, &by_operator(), None),
        PlanChange::Delete(id) => end_plan(db, agent, n, *id),
    }
}

/// Brings the agent's plans in line with those of its config; returns whether any changed.
pub(crate) fn follow_config(
    db: &Connection,
    agent: i64,
    n: u64,
    config: &AgentConfig,
    now: Timestamp,
) -> Outcome<bool> {
    let current = plans(db, agent)?;
    let uuid = first(db, "SELECT uuid FROM entity WHERE id = ?", [agent], |row| uuid_at(row, 0))?;
    let changes = of_config(AgentId(uuid.unwrap_or(Uuid::nil())), config, &current, now);
    changes.iter().try_for_each(|change| change_plan(db, agent, n, change))?;
    Ok(!changes.is_empty())
}

/// Whether the agent itself may not change the plan, because its config or an operator has set it.
pub(crate) fn is_kept(db: &Connection, agent: i64, id: PlanId) -> Outcome<bool> {
    Ok(plan(db, agent, id)?.is_some_and(|plan| plan.source != PlanSource::Agent && plan.next_at.is_some()))
}

/// Stops the plans of an agent that may not run: until it may, no query finds them.
pub(crate) fn hold_plans(db: &Connection, agent: i64) -> Outcome<()> {
    run(db, "UPDATE plan SET fire_at = NULL WHERE agent = ? AND to_commit IS NULL", [agent]).map(drop)
}

/// Lets the agent's plans fire again, including for the times that they have missed.
pub(crate) fn resume_plans(db: &Connection, agent: i64) -> Outcome<()> {
    run(db, "UPDATE plan SET fire_at = next_at WHERE agent = ? AND to_commit IS NULL", [agent]).map(drop)
}

/// Ends all plans of an agent that is retired.
pub(crate) fn end_plans(db: &Connection, agent: i64, n: u64) -> Outcome<()> {
    let sql = "UPDATE plan SET to_commit = ?2 WHERE agent = ?1 AND to_commit IS NULL";
    run(db, sql, params![agent, int(n)]).map(drop)
}
