//! Creates and changes people and agents, suspends, resumes and retires agents, and cancels their cycles.
//! `agent::registry` decides what is allowed.

use agent::changes::{GoalEdit, MemoryChange, PlanChange};
use agent::config::{AgentConfig, Urgency};
use agent::entity::{Entity, EntityKind};
use agent::event::Trust;
use agent::id::{AgentId, CycleId};
use agent::life::{Goal, Standing};
use agent::memory::Memory;
use agent::plan::Plan;
use agent::port::{Denial, NewAgent, NewHuman};
use agent::registry::{self, StandingChange, cancel_cycle, change_standing};
use jiff::Timestamp;
use rusqlite::{Connection, params};
use serde_json::Value;

use crate::sqlite::engine::fault::{Outcome, damaged, name_agent};
use crate::sqlite::tables::agents::{free_name, known_agent};
use crate::sqlite::tables::approvals;
use crate::sqlite::tables::configs::config_of;
use crate::sqlite::tables::events::cancel_all;
use crate::sqlite::tables::facts::{goal, goals, memory, pinned_memories, touch, touch_entity};
use crate::sqlite::tables::life::open_at;
use crate::sqlite::tables::notes;
use crate::sqlite::tables::plans::{self, end_plans, follow_config, hold_plans, resume_plans};
use crate::sqlite::tables::rows::{
    bytes, code_of, entity_row, first, int, kind_code, ms, run, standing_at, to_json, u64_at, uuid_or_none,
    wake_on_code,
};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::{shift, waits};

fn create_entity(db: &Connection, entity: &Entity) -> Outcome<i64> {
    if entity_row(db, entity.id.0)?.is_some() || !free_name(db, &entity.name)? {
        return Err(Denial::NameTaken { what: "entity", name: entity.name.clone() }.into());
    }
    let sql = "INSERT INTO entity (uuid, kind, name, display_name, external_id, created_at) VALUES (?, ?, ?, ?, ?, ?)";
    let row = params![
        bytes(entity.id.0),
        kind_code(entity.kind),
        entity.name,
        entity.display_name,
        entity.external_id,
        ms(entity.created_at)
    ];
    Ok(db.prepare_cached(sql)?.insert(row)?)
}

pub(super) fn create_human(db: &Connection, new: NewHuman) -> Outcome<Entity> {
    let NewHuman { id, name, display_name, external_id, at } = new;
    let entity = Entity { id, kind: EntityKind::Human, name, display_name, external_id, created_at: at };
    create_entity(db, &entity)?;
    Ok(entity)
}

pub(super) fn create_agent(db: &Connection, new: NewAgent) -> Outcome<Entity> {
    let entity = Entity {
        id: new.id.entity(),
        kind: EntityKind::Agent,
        name: new.name,
        display_name: new.display_name,
        external_id: None,
        created_at: new.at,
    };
    let row = create_entity(db, &entity)?;
    let sql = "INSERT INTO agent (id, standing, config_rev, wake_on, hop_limit, inbox_max, debounce) \
               VALUES (?, 0, 0, 0, 0, 0, 0)";
    run(db, sql, [row])?;
    run(db, "INSERT INTO inbox_head (agent) VALUES (?)", [row])?;
    run(db, "INSERT INTO life (agent) VALUES (?)", [row])?;
    put_config(db, row, 1, &new.config, new.at)?;
    Ok(entity)
}

/// Inserts a revision of the config, and copies what accepting needs of it to the agent's row.
fn put_config(db: &Connection, agent: i64, rev: u64, config: &AgentConfig, at: Timestamp) -> Outcome<()> {
    let sql = "INSERT INTO config_rev (agent, rev, at, config) VALUES (?, ?, ?, ?)";
    run(db, sql, params![agent, int(rev), ms(at), to_json(config)?])?;
    let sql = "UPDATE agent SET config_rev = ?, wake_on = ?, hop_limit = ?, inbox_max = ?, debounce = ?, \
               urgency = ? WHERE id = ?";
    let wake_on = wake_on_code(config.wake_on);
    let (inbox_max, debounce) = (config.limits.inbox_max, int(config.debounce));
    let urgency = Some(&config.urgency).filter(|urgency| **urgency != Urgency::default());
    let urgency = urgency.map(to_json).transpose()?;
    run(db, sql, params![int(rev), wake_on, config.hop_limit, inbox_max, debounce, urgency, agent])?;
    let n = first(db, "SELECT commit_n FROM life WHERE agent = ?", [agent], |row| u64_at(row, 0))?;
    if follow_config(db, agent, n.unwrap_or(0), config, at)? {
        touch(db, agent)?;
    }
    Ok(())
}

pub(super) fn amend_agent(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    display_name: Option<&str>,
    patch: Option<&Value>,
    at: Timestamp,
) -> Outcome<u64> {
    let row = known_agent(db, agent)?;
    let found = first(db, "SELECT config_rev, standing FROM agent WHERE id = ?", [row], |row| {
        Ok((u64_at(row, 0)?, standing_at(row, 1)?))
    });
    let (rev, standing) = found.map_err(name_agent(agent))?.ok_or_else(|| damaged("it has no row"))?;
    registry::amend_agent(agent, standing)?;
    if let Some(name) = display_name {
        run(db, "UPDATE entity SET display_name = ? WHERE id = ?", params![name, row])?;
        touch_entity(db, row)?;
    }
    let Some(patch) = patch else { return Ok(rev) };
    let old = config_of(db, row, rev).map_err(name_agent(agent))?;
    let new = old.amended(patch)?;
    if new == old {
        return Ok(rev);
    }
    put_config(db, row, rev + 1, &new, at)?;
    // The new config may have fixed what made the agent back off, so it tries again at once.
    let sql = "SELECT l.open_cycle IS NOT NULL FROM inbox_head h JOIN life l ON l.agent = h.agent \
               JOIN agent a ON a.id = h.agent AND a.standing = 0 WHERE h.agent = ? AND h.idle_reason IS NOT NULL";
    if let Some(open) = first(db, sql, [row], |row| Ok(row.get::<_, bool>(0)?))? {
        shift::settle(db, session, row)?;
        waits::end(db, row, open, at)?;
    }
    Ok(rev + 1)
}

pub(super) fn change_memory(
    db: &Connection,
    agent: AgentId,
    change: &MemoryChange,
    at: Timestamp,
) -> Outcome<Option<Memory>> {
    let row = known_agent(db, agent)?;
    let key = change.key();
    let sql = "SELECT a.standing, l.commit_n, coalesce(sum(m.key <> ?2), 0) \
               FROM agent a JOIN life l ON l.agent = a.id \
               LEFT JOIN memory m ON m.agent = a.id AND m.to_commit IS NULL WHERE a.id = ?1";
    let found =
        first(db, sql, params![row, key], |row| Ok((standing_at(row, 0)?, u64_at(row, 1)?, u64_at(row, 2)?)));
    let found = found.map_err(name_agent(agent))?;
    let (standing, n, others) = found.ok_or_else(|| damaged("it has no life"))?;
    let others = usize::try_from(others).unwrap_or(usize::MAX);
    let has = memory(db, row, key)?;
    registry::change_memory(agent, standing, change, has.as_ref(), others, &pinned_memories(db, row)?)?;
    notes::change_memory(db, row, n, at, Trust::Operator, change)?;
    touch(db, row)?;
    memory(db, row, key)
}

pub(super) fn change_goal(db: &Connection, agent: AgentId, edit: &GoalEdit) -> Outcome<Option<Goal>> {
    let row = known_agent(db, agent)?;
    let sql = "SELECT a.standing, l.commit_n FROM agent a JOIN life l ON l.agent = a.id WHERE a.id = ?";
    let found = first(db, sql, [row], |row| Ok((standing_at(row, 0)?, u64_at(row, 1)?)));
    let (standing, n) = found.map_err(name_agent(agent))?.ok_or_else(|| damaged("it has no life"))?;
    for change in registry::change_goal(agent, standing, edit, &goals(db, row)?)? {
        notes::change_goal(db, row, n, Trust::Operator, &change)?;
    }
    touch(db, row)?;
    goal(db, row, edit.id())
}

pub(super) fn change_plan(db: &Connection, agent: AgentId, change: &PlanChange) -> Outcome<Option<Plan>> {
    let row = known_agent(db, agent)?;
    let sql = "SELECT a.standing, l.commit_n FROM agent a JOIN life l ON l.agent = a.id WHERE a.id = ?";
    let found = first(db, sql, [row], |row| Ok((standing_at(row, 0)?, u64_at(row, 1)?)));
    let (standing, n) = found.map_err(name_agent(agent))?.ok_or_else(|| damaged("it has no life"))?;
    for replaced in registry::change_plan(agent, standing, change, &plans::plans(db, row)?)? {
        plans::change_plan(db, row, n, &PlanChange::Delete(replaced))?;
    }
    plans::change_plan(db, row, n, change)?;
    touch(db, row)?;
    match change {
        PlanChange::Set(plan) => plans::plan(db, row, plan.id),
        PlanChange::Delete(_) => Ok(None),
    }
}

pub(super) fn set_standing(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    standing: Standing,
    at: Timestamp,
) -> Outcome<()> {
    let row = known_agent(db, agent)?;
    let was = first(db, "SELECT standing FROM agent WHERE id = ?", [row], |row| standing_at(row, 0));
    // An agent whose standing cannot be read may be suspended or retired, too.
    let was = was.ok().flatten().unwrap_or(Standing::Active);
    match change_standing(agent, was, standing)? {
        StandingChange::Nothing => return Ok(()),
        StandingChange::Resume => return resume(db, session, row, at).map_err(name_agent(agent)),
        StandingChange::Suspend => {
            run(db, "UPDATE inbox_head SET due_at = NULL WHERE agent = ?", [row])?;
            hold_plans(db, row)?;
        }
        StandingChange::Retire => retire(db, session, row, at)?,
    }
    let sql = "UPDATE agent SET standing = ?, damage = NULL WHERE id = ?";
    run(db, sql, params![code_of(&Standing::ALL, &standing), row]).map(drop)
}

/// Resumes an agent, whose config and open cycle must be readable. It also ends all its waits, so that it tries
/// again at once.
fn resume(db: &Connection, session: &Session, row: i64, at: Timestamp) -> Outcome<()> {
    let sql = "SELECT l.commit_n, l.open_cycle, a.config_rev, l.open, a.standing FROM agent a \
               JOIN life l ON l.agent = a.id WHERE a.id = ?";
    let read = first(db, sql, [row], |found| {
        standing_at(found, 4)?;
        config_of(db, row, u64_at(found, 2)?)?;
        open_at(found, 3)?;
        u64_at(found, 0)?;
        uuid_or_none(found, 1)
    })?;
    let open = read.ok_or_else(|| damaged("it has no life"))?;
    run(db, "UPDATE agent SET standing = 0, damage = NULL WHERE id = ?", [row])?;
    resume_plans(db, row)?;
    shift::settle(db, session, row)?;
    waits::end(db, row, open.is_some(), at)
}

/// Ends everything that an agent has begun. Works even if its records are damaged: nothing else could end it.
fn retire(db: &Connection, session: &Session, row: i64, at: Timestamp) -> Outcome<()> {
    shift::settle(db, session, row)?;
    let n = first(db, "SELECT max(commit_n, 0) FROM life WHERE agent = ?", [row], |row| u64_at(row, 0))?;
    end_plans(db, row, n.unwrap_or(0))?;
    approvals::end_all(db, row)?;
    cancel_all(db, row)?;
    touch_entity(db, row)?;
    // A running cycle is closed at its next commit; an agent with a parked one is due, so that it is closed.
    let sql = "UPDATE inbox_head SET (cancel, due_at) = (SELECT max(open_cycle), iif(max(open_cycle) IS NULL, NULL, ?2) \
               FROM life WHERE agent = ?1), hold_until = NULL, idle_reason = NULL WHERE agent = ?1";
    run(db, sql, params![row, ms(at)]).map(drop)
}

pub(super) fn cancel(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    cycle: Option<CycleId>,
) -> Outcome<CycleId> {
    let (row, now) = (known_agent(db, agent)?, session.now());
    shift::settle(db, session, row)?;
    let open = first(db, "SELECT open_cycle FROM life WHERE agent = ?", [row], |row| uuid_or_none(row, 0))?;
    let open = cancel_cycle(agent, open.flatten().map(CycleId), cycle)?;
    // A parked cycle must be canceled too, even if it backs off or its agent is suspended.
    let sql = "UPDATE inbox_head SET cancel = ?1, hold_until = NULL, idle_reason = NULL, \
               due_at = min(coalesce(due_at, ?2), ?2) WHERE agent = ?3";
    run(db, sql, params![bytes(open.0), ms(now), row])?;
    Ok(open)
}
