//! Memories, goals and plans: each row is valid from one commit of the agent to another. Overwriting ends the
//! old row and inserts a new one; within one commit the last change wins.

use agent::call::CallRow;
use agent::changes::{Changes, GoalChange, MemoryChange, PlanChange};
use agent::event::Trust;
use agent::fencing::{not_owned, pinned_too_many};
use agent::goals;
use agent::life::Goal;
use agent::memory::Importance;
use jiff::Timestamp;
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::facts::{goal, memory, pinned_memories};
use super::plans::{end_plan, is_kept, put_plan};
use super::queue::note_memory;
use super::rows::{bytes, code_of, int, ms, run};
use crate::sqlite::engine::fault::{Fault, Outcome};

/// Writes the notes that a commit's inward calls change; returns whether there were any.
pub(crate) fn write(db: &Connection, agent: i64, n: u64, changes: &Changes) -> Outcome<bool> {
    let Changes { inward, calls, at, .. } = changes;
    for change in &inward.memories {
        change_memory(db, agent, n, *at, changes.cause.trust, change)?;
    }
    if !inward.memories.is_empty()
        && let Some(refusals) = pinned_too_many(&pinned_memories(db, agent)?, changes)
    {
        return Err(Fault::Refused(refusals));
    }
    for change in &inward.goals {
        let id = match change {
            GoalChange::Set(goal) => goal.id.0,
            GoalChange::Delete(id) => id.0,
        };
        check_owner(db, "goal", agent, id, calls)?;
        if let GoalChange::Set(Goal { parent: Some(parent), .. }) = change {
            check_owner(db, "goal", agent, parent.0, calls)?;
        }
        change_goal(db, agent, n, changes.cause.trust, change)?;
    }
    for change in &inward.plans {
        let id = match change {
            PlanChange::Set(plan) => plan.id,
            PlanChange::Delete(id) => *id,
        };
        check_owner(db, "plan", agent, id.0, calls)?;
        if is_kept(db, agent, id)? {
            return Err(Fault::Refused(not_owned("plan", &id.to_string(), calls)));
        }
        match change {
            PlanChange::Set(plan) => put_plan(db, agent, n, plan, &changes.cause, None)?,
            PlanChange::Delete(_) => end_plan(db, agent, n, id)?,
        }
    }
    Ok(!(inward.memories.is_empty() && inward.goals.is_empty() && inward.plans.is_empty()))
}

/// Changes a memory as of commit `n`. A use, an importance and a pin are noted in the row as it is: they make no new version.
pub(crate) fn change_memory(
    db: &Connection,
    agent: i64,
    n: u64,
    at: Timestamp,
    trust: Trust,
    change: &MemoryChange,
) -> Outcome<()> {
    match change {
        MemoryChange::Set { key, value, importance, pinned, trust: own } => {
            let trust = own.map_or(trust, |own| own.min(trust));
            let before = memory(db, agent, key)?;
            let before = before.as_ref().map_or((Importance::default(), false), |m| (m.importance, m.pinned));
            let (importance, pinned) = (importance.unwrap_or(before.0), pinned.unwrap_or(before.1));
            note_memory(db, agent, at, key)?;
            end_memory(db, agent, n, key)?;
            let sql = "INSERT INTO memory (agent, key, from_commit, at, used_at, value, importance, pinned, trust) \
                       VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (agent, key, from_commit) \
                       DO UPDATE SET at = excluded.at, used_at = excluded.used_at, value = excluded.value, \
                       importance = excluded.importance, pinned = excluded.pinned, trust = excluded.trust, \
                       to_commit = NULL";
            let (importance, trust) = (code_of(&Importance::ALL, &importance), code_of(&Trust::ALL, &trust));
            run(db, sql, params![agent, key, int(n), ms(at), value, importance, pinned, trust]).map(drop)
        }
        MemoryChange::Mark { key, importance, pinned } => {
            note_memory(db, agent, at, key)?;
            let sql = "UPDATE memory SET importance = coalesce(?3, importance), pinned = coalesce(?4, pinned) \
                       WHERE agent = ?1 AND key = ?2 AND to_commit IS NULL \
                       AND from_commit = (SELECT max(from_commit) FROM memory WHERE agent = ?1 AND key = ?2)";
            let importance = importance.map(|importance| code_of(&Importance::ALL, &importance));
            run(db, sql, params![agent, key, importance, pinned]).map(drop)
        }
        MemoryChange::Used { key } => {
            let sql = "UPDATE memory SET used_at = max(used_at, ?3) WHERE agent = ?1 AND key = ?2 AND to_commit IS NULL \
                       AND from_commit = (SELECT max(from_commit) FROM memory WHERE agent = ?1 AND key = ?2)";
            run(db, sql, params![agent, key, ms(at)]).map(drop)
        }
        MemoryChange::Delete { key } => {
            note_memory(db, agent, at, key)?;
            let sql = "DELETE FROM memory WHERE agent = ?1 AND key = ?2 AND from_commit = ?3";
            run(db, sql, params![agent, key, int(n)])?;
            end_memory(db, agent, n, key)
        }
    }
}

/// Ends the row that an earlier commit wrote under that key. Only the newest row can be valid, so older ones are
/// not read, however many there are.
fn end_memory(db: &Connection, agent: i64, n: u64, key: &str) -> Outcome<()> {
    let sql = "UPDATE memory SET to_commit = ?3 WHERE agent = ?1 AND key = ?2 AND to_commit IS NULL AND from_commit = \
               (SELECT max(from_commit) FROM memory WHERE agent = ?1 AND key = ?2 AND from_commit < ?3)";
    run(db, sql, params![agent, key, int(n)]).map(drop)
}

/// Changes a goal as of commit `n`, by somebody of that trust.
pub(crate) fn change_goal(
    db: &Connection,
    agent: i64,
    n: u64,
    by: Trust,
    change: &GoalChange,
) -> Outcome<()> {
    match change {
        GoalChange::Set(after) => {
            let trust = goals::trust_after(goal(db, agent, after.id)?.as_ref(), after, by);
            end_goal(db, agent, after.id.0, n)?;
            put_goal(db, agent, n, after, trust)
        }
        GoalChange::Delete(id) => end_goal(db, agent, id.0, n),
    }
}

fn put_goal(db: &Connection, agent: i64, n: u64, goal: &Goal, trust: Trust) -> Outcome<()> {
    let sql = "INSERT INTO goal (agent, id, from_commit, parent, priority, status, description, trust) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let parent = goal.parent.map(|parent| bytes(parent.0));
    let (status, trust) = (goal.status.as_str(), code_of(&Trust::ALL, &trust));
    let Goal { priority, description, .. } = goal;
    run(db, sql, params![agent, bytes(goal.id.0), int(n), parent, priority, status, description, trust])
        .map(drop)
}

/// Ends the valid row, which is the newest. A row that this same commit wrote is deleted.
fn end_goal(db: &Connection, agent: i64, id: Uuid, n: u64) -> Outcome<()> {
    let sql = "DELETE FROM goal WHERE agent = ?1 AND id = ?2 AND from_commit = ?3";
    run(db, sql, params![agent, bytes(id), int(n)])?;
    let sql = "UPDATE goal SET to_commit = ?3 WHERE agent = ?1 AND id = ?2 AND to_commit IS NULL \
               AND from_commit = (SELECT max(from_commit) FROM goal WHERE agent = ?1 AND id = ?2)";
    run(db, sql, params![agent, bytes(id), int(n)]).map(drop)
}

/// Refuses the calls if the row belongs to another agent: an agent can change only its own rows.
fn check_owner(db: &Connection, table: &'static str, agent: i64, id: Uuid, calls: &[CallRow]) -> Outcome<()> {
    // Not `<>`: that would read all older versions of the row.
    let sql = format!(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM {table} WHERE id = ?1 AND agent < ?2) \
         OR EXISTS (SELECT 1 FROM {table} WHERE id = ?1 AND agent > ?2)"
    );
    if !db.prepare_cached(&sql)?.exists(params![bytes(id), agent])? {
        return Ok(());
    }
    Err(Fault::Refused(not_owned(table, &id.to_string(), calls)))
}
