//! An agent's facts: its spaces with their members, and its current memories, goals and plans.

use agent::entity::Member;
use agent::id::{CallId, GoalId};
use agent::life::{Facts, Goal, GoalStatus, PendingCall, SpaceFacts};
use agent::limits::{
    EVENTS_PER_CYCLE, MEMBERS_SHOWN_MAX, MEMORIES_MAX, SPACES_COUNTED_MAX, SPACES_LOOK, SPACES_SHOWN_MAX,
};
use agent::memory::Memory;
use rusqlite::{Connection, Row, params};

use super::plans::plans;
use super::rows::{
    ENTITY, SPACE, all, bytes, entity_at, first, importance_at, int, run, space_at, time_at, to_json,
    trust_at, u32_at, u64_at, uuid_at, uuid_or_none,
};
use crate::sqlite::engine::fault::{Outcome, damaged};

/// Everything from which the agent's workspace is rendered.
pub(crate) fn facts(db: &Connection, agent: i64) -> Outcome<Facts> {
    let (spaces, more_spaces) = spaces(db, agent)?;
    let more_told = more_spaces > 0 && is_told(db, TOLD_ANYWHERE, agent)?;
    let sql = "SELECT facts_rev FROM agent WHERE id = ?";
    Ok(Facts {
        rev: first(db, sql, [agent], |row| u64_at(row, 0))?.unwrap_or(0),
        spaces,
        more_spaces,
        memories: memories(db, agent)?,
        goals: goals(db, agent)?,
        plans: plans(db, agent)?,
        pending: pending(db, agent)?,
        told: is_told(db, TOLD_OF_AGENT, agent)?,
        more_told,
    })
}

/// The spaces from which those in the workspace are chosen: the newest ones of the agent, the active one, and those
/// of waiting events.
const SPACES: &str = "WITH sought AS (SELECT space FROM (SELECT space FROM member WHERE entity = ?1 ORDER BY space DESC LIMIT ?2) \
    UNION SELECT active_space FROM life WHERE agent = ?1 \
    UNION SELECT e.space FROM (SELECT seq FROM waiting WHERE agent = ?1 ORDER BY seq LIMIT ?3) w \
      JOIN event e ON e.agent = ?1 AND e.seq = w.seq)";
/// The first members of each of these spaces, and the agent itself.
const MEMBERS: &str = "FROM json_each(?1) j CROSS JOIN member m ON m.space = j.value AND m.entity IN \
    (SELECT entity FROM (SELECT entity FROM member WHERE space = j.value ORDER BY entity LIMIT ?2) UNION SELECT ?3) \
    JOIN entity e ON e.id = m.entity LEFT JOIN agent a ON a.id = e.id ORDER BY m.since, e.id";
/// Whether the agent `a`, if it is one, is retired: it stays in its spaces, and is no member that anybody can reach.
const RETIRED: &str = "coalesce(a.standing = 2, 0)";

/// The spaces in the workspace (the active one, then those with the newest messages), and how many more there are.
fn spaces(db: &Connection, agent: i64) -> Outcome<(Vec<SpaceFacts>, usize)> {
    let sql = format!(
        "{SPACES} SELECT s.id, {SPACE}, (SELECT count(*) FROM member o WHERE o.space = s.id), {TOLD} FROM sought \
         CROSS JOIN member mine ON mine.space = sought.space AND mine.entity = ?1 JOIN space s ON s.id = mine.space \
         ORDER BY s.id = (SELECT active_space FROM life WHERE agent = ?1) DESC, s.active_at DESC, s.id LIMIT ?4"
    );
    let bounds = [SPACES_LOOK, EVENTS_PER_CYCLE as usize, SPACES_SHOWN_MAX].map(|bound| int(bound as u64));
    let mut found = all(db, &sql, params![agent, bounds[0], bounds[1], bounds[2]], |row| {
        let more_members = u32_at(row, 10)? as usize;
        let told = row.get(11)?;
        let facts = SpaceFacts { space: space_at(row, 1)?, members: Vec::new(), more_members, told };
        Ok((row.get::<_, i64>(0)?, facts))
    })?;
    let ids: Vec<i64> = found.iter().map(|(id, _)| *id).collect();
    let sql = format!("SELECT {ENTITY}, m.role, m.since, m.space, {RETIRED} {MEMBERS}");
    let most = int(MEMBERS_SHOWN_MAX as u64);
    let known = all(db, &sql, params![to_json(&ids)?, most, agent], |row| {
        Ok((row.get::<_, i64>(8)?, (!row.get::<_, bool>(9)?).then(|| member_at(row)).transpose()?))
    })?;
    for (space, member) in known {
        if let Some((_, facts)) = found.iter_mut().find(|(id, _)| *id == space) {
            facts.members.extend(member);
            facts.more_members = facts.more_members.saturating_sub(1);
        }
    }
    let more = match found.len() < SPACES_SHOWN_MAX {
        true => 0,
        false => counted(db, agent)?.saturating_sub(found.len()),
    };
    Ok((found.into_iter().map(|(_, facts)| facts).collect(), more))
}

/// Whether a target is told what is posted in the space `s`.
pub(crate) const TOLD: &str =
    "EXISTS (SELECT 1 FROM target t WHERE t.space = s.id AND t.off IS NULL AND t.kinds & 1)";
/// A target that is told what the agent posts anywhere, and one that is told what is posted in one of its spaces: there are few
/// targets, and an agent may have many spaces.
const TOLD_OF_AGENT: &str = "SELECT 1 FROM target WHERE agent = ? AND off IS NULL AND kinds & 1 LIMIT 1";
const TOLD_ANYWHERE: &str = "SELECT 1 FROM target t CROSS JOIN member m ON m.space = t.space AND m.entity = ? \
    WHERE t.off IS NULL AND t.kinds & 1 LIMIT 1";

fn is_told(db: &Connection, sql: &str, agent: i64) -> Outcome<bool> {
    Ok(first(db, sql, [agent], |_| Ok(()))?.is_some())
}

fn counted(db: &Connection, agent: i64) -> Outcome<usize> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM member WHERE entity = ? LIMIT ?)";
    let most = int(SPACES_COUNTED_MAX as u64);
    Ok(first(db, sql, params![agent, most], |row| u32_at(row, 0))?.unwrap_or(0) as usize)
}

fn member_at(row: &Row<'_>) -> Outcome<Member> {
    Ok(Member { entity: entity_at(row, 0)?, role: row.get(6)?, since: time_at(row, 7)? })
}

/// The members of a space but retired agents, oldest first.
pub(crate) fn members(db: &Connection, space: i64) -> Outcome<Vec<Member>> {
    let sql = format!(
        "SELECT {ENTITY}, m.role, m.since FROM member m JOIN entity e ON e.id = m.entity \
         LEFT JOIN agent a ON a.id = e.id WHERE m.space = ? AND NOT {RETIRED} ORDER BY m.since, e.id"
    );
    all(db, &sql, [space], member_at)
}

/// The agent's detached calls, found by the index over them.
fn pending(db: &Connection, agent: i64) -> Outcome<Vec<PendingCall>> {
    let sql = "SELECT id, tool FROM call WHERE agent = ? AND state = 'detached' ORDER BY id";
    all(db, sql, [agent], |row| Ok(PendingCall { id: CallId(row.get(0)?), tool: row.get(1)? }))
}

fn memories(db: &Connection, agent: i64) -> Outcome<Vec<Memory>> {
    let sql = format!(
        "SELECT {MEMORY} FROM memory m WHERE agent = ? AND to_commit IS NULL \
         ORDER BY pinned DESC, importance DESC, used_at DESC, key"
    );
    all(db, &sql, [agent], memory_at)
}

/// The columns of [`memory_at`].
pub(crate) const MEMORY: &str = "m.key, m.value, m.importance, m.pinned, m.at, m.used_at, m.trust";

/// A memory from the columns [`MEMORY`].
pub(crate) fn memory_at(row: &Row<'_>) -> Outcome<Memory> {
    Ok(Memory {
        key: row.get(0)?,
        value: row.get(1)?,
        importance: importance_at(row, 2)?,
        pinned: row.get(3)?,
        updated_at: time_at(row, 4)?,
        used_at: time_at(row, 5)?,
        trust: trust_at(row, 6)?,
    })
}

/// The pinned memories of an agent: few.
pub(crate) fn pinned_memories(db: &Connection, agent: i64) -> Outcome<Vec<Memory>> {
    let sql =
        format!("SELECT {MEMORY} FROM memory m WHERE agent = ? AND to_commit IS NULL AND pinned = 1 LIMIT ?");
    all(db, &sql, params![agent, int(MEMORIES_MAX as u64)], memory_at)
}

/// An agent's memory under a key.
pub(crate) fn memory(db: &Connection, agent: i64, key: &str) -> Outcome<Option<Memory>> {
    let sql = format!("SELECT {MEMORY} FROM memory m WHERE {NEWEST} AND to_commit IS NULL");
    first(db, &sql, params![agent, key], memory_at)
}

/// The newest row of an agent and a key. Only that one can be valid, so older ones are not read, however many there are.
const NEWEST: &str = "m.agent = ?1 AND m.key = ?2 AND m.from_commit = \
    (SELECT max(from_commit) FROM memory WHERE agent = ?1 AND key = ?2)";

const GOAL: &str =
    "SELECT id, parent, description, priority, status, trust FROM goal WHERE agent = ? AND to_commit IS NULL";

/// The agent's goals, highest priority first.
pub(crate) fn goals(db: &Connection, agent: i64) -> Outcome<Vec<Goal>> {
    all(db, &format!("{GOAL} ORDER BY priority DESC, id"), [agent], goal_at)
}

/// One of them.
pub(crate) fn goal(db: &Connection, agent: i64, id: GoalId) -> Outcome<Option<Goal>> {
    first(db, &format!("{GOAL} AND id = ?"), params![agent, bytes(id.0)], goal_at)
}

fn goal_at(row: &Row<'_>) -> Outcome<Goal> {
    let status: String = row.get(4)?;
    Ok(Goal {
        id: GoalId(uuid_at(row, 0)?),
        parent: uuid_or_none(row, 1)?.map(GoalId),
        description: row.get(2)?,
        priority: row.get(3)?,
        status: GoalStatus::try_from(&*status)
            .map_err(|_| damaged(format!("`{status}` is not a status of a goal")))?,
        trust: trust_at(row, 5)?,
    })
}

/// Marks the facts of every agent in the space as changed.
pub(crate) fn touch_space(db: &Connection, space: i64) -> Outcome<()> {
    let sql = "UPDATE agent SET facts_rev = facts_rev + 1 \
               WHERE id IN (SELECT entity FROM member WHERE space = ?)";
    run(db, sql, [space]).map(drop)
}

/// Marks the facts of one agent as changed.
pub(crate) fn touch(db: &Connection, agent: i64) -> Outcome<()> {
    run(db, "UPDATE agent SET facts_rev = facts_rev + 1 WHERE id = ?", [agent]).map(drop)
}

/// Marks the facts of the entity and of every agent that shares a space with it as changed.
pub(crate) fn touch_entity(db: &Connection, entity: i64) -> Outcome<()> {
    let sql = "UPDATE agent SET facts_rev = facts_rev + 1 WHERE id = ?1 OR id IN \
               (SELECT other.entity FROM member mine JOIN member other ON other.space = mine.space \
                WHERE mine.entity = ?1)";
    run(db, sql, params![entity]).map(drop)
}
