//! An agent's facts: its spaces with their members, its memories, goals and plans as of now.

use agent::entity::Member;
use agent::id::{CallId, GoalId, PlanId};
use agent::life::{Facts, Goal, GoalStatus, Memory, PendingCall, Plan, SpaceFacts};
use rusqlite::{Connection, Row, params};

use super::fault::{Outcome, damaged};
use super::rows::{
    ENTITY, SPACE, all, entity_at, first, from_json, run, space_at, time_at, time_or_none, u64_at, uuid_at,
    uuid_or_none,
};

/// Everything that the agent's workspace is rendered from.
pub(super) fn facts(db: &Connection, agent: i64) -> Outcome<Facts> {
    let sql = "SELECT facts_rev FROM agent WHERE id = ?";
    Ok(Facts {
        rev: first(db, sql, [agent], |row| u64_at(row, 0))?.unwrap_or(0),
        spaces: spaces(db, agent)?,
        memories: memories(db, agent)?,
        goals: goals(db, agent)?,
        plans: plans(db, agent)?,
        pending: pending(db, agent)?,
    })
}

fn spaces(db: &Connection, agent: i64) -> Outcome<Vec<SpaceFacts>> {
    let sql = format!(
        "SELECT s.id, {SPACE} FROM member mine JOIN space s ON s.id = mine.space WHERE mine.entity = ? ORDER BY s.id"
    );
    let rows = all(db, &sql, [agent], |row| Ok((row.get::<_, i64>(0)?, space_at(row, 1)?)))?;
    rows.into_iter().map(|(id, space)| Ok(SpaceFacts { space, members: members(db, id)? })).collect()
}

/// Members of a space, oldest first.
pub(super) fn members(db: &Connection, space: i64) -> Outcome<Vec<Member>> {
    let sql = format!(
        "SELECT {ENTITY}, m.role, m.since FROM member m JOIN entity e ON e.id = m.entity \
         WHERE m.space = ? ORDER BY m.since, e.id"
    );
    all(db, &sql, [space], |row| {
        Ok(Member { entity: entity_at(row, 0)?, role: row.get(6)?, since: time_at(row, 7)? })
    })
}

/// Calls that go on beyond their cycles, by the index over those.
fn pending(db: &Connection, agent: i64) -> Outcome<Vec<PendingCall>> {
    let sql = "SELECT id, tool FROM call WHERE agent = ? AND state = 'detached' ORDER BY id";
    all(db, sql, [agent], |row| Ok(PendingCall { id: CallId(row.get(0)?), tool: row.get(1)? }))
}

fn memories(db: &Connection, agent: i64) -> Outcome<Vec<Memory>> {
    let sql = "SELECT key, value, at FROM memory WHERE agent = ? AND to_commit IS NULL ORDER BY at DESC, key";
    all(db, sql, [agent], |row| {
        Ok(Memory { key: row.get(0)?, value: row.get(1)?, updated_at: time_at(row, 2)? })
    })
}

fn goals(db: &Connection, agent: i64) -> Outcome<Vec<Goal>> {
    let sql = "SELECT id, parent, description, priority, status FROM goal \
               WHERE agent = ? AND to_commit IS NULL ORDER BY priority DESC, id";
    all(db, sql, [agent], |row| {
        let status: String = row.get(4)?;
        Ok(Goal {
            id: GoalId(uuid_at(row, 0)?),
            parent: uuid_or_none(row, 1)?.map(GoalId),
            description: row.get(2)?,
            priority: row.get(3)?,
            status: GoalStatus::parse(&status)
                .ok_or_else(|| damaged(format!("`{status}` is no status of a goal")))?,
        })
    })
}

fn plans(db: &Connection, agent: i64) -> Outcome<Vec<Plan>> {
    let sql = "SELECT id, name, instruction, schedule, next_at FROM plan \
               WHERE agent = ? AND to_commit IS NULL AND next_at IS NOT NULL ORDER BY next_at, id";
    all(db, sql, [agent], |row| plan_at(row, 0))
}

/// A plan from five columns: id, name, instruction, schedule, next_at.
pub(super) fn plan_at(row: &Row<'_>, at: usize) -> Outcome<Plan> {
    let schedule: String = row.get(at + 3)?;
    Ok(Plan {
        id: PlanId(uuid_at(row, at)?),
        name: row.get(at + 1)?,
        instruction: row.get(at + 2)?,
        schedule: from_json(&schedule, "a schedule")?,
        next_at: time_or_none(row, at + 4)?,
    })
}

/// The facts of every agent in the space have changed.
pub(super) fn touch_space(db: &Connection, space: i64) -> Outcome<()> {
    let sql = "UPDATE agent SET facts_rev = facts_rev + 1 \
               WHERE id IN (SELECT entity FROM member WHERE space = ?)";
    run(db, sql, [space]).map(drop)
}

/// The facts of one agent have changed.
pub(super) fn touch(db: &Connection, agent: i64) -> Outcome<()> {
    run(db, "UPDATE agent SET facts_rev = facts_rev + 1 WHERE id = ?", [agent]).map(drop)
}

/// The facts of every agent that shares a space with the entity, and its own, have changed.
pub(super) fn touch_entity(db: &Connection, entity: i64) -> Outcome<()> {
    let sql = "UPDATE agent SET facts_rev = facts_rev + 1 WHERE id = ?1 OR id IN \
               (SELECT other.entity FROM member mine JOIN member other ON other.space = mine.space \
                WHERE mine.entity = ?1)";
    run(db, sql, params![entity]).map(drop)
}
