//! Reads what an activation needs, from one snapshot. On the hot path (the agent's window is in memory and nothing
//! was committed since) it reads only the rows of the agent, waiting events and facts.

use agent::config::{Placement, WorkspacePart};
use agent::entity::Entity;
use agent::id::{AgentId, CycleId, SpaceId};
use agent::life::{Activation, Life, Window};
use agent::waits;
use jiff::Timestamp;
use rusqlite::Connection;

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::tables::entries::{layers, shown, view};
use crate::sqlite::tables::facts::facts;
use crate::sqlite::tables::inbox::{Which, waiting};
use crate::sqlite::tables::life::open_at;
use crate::sqlite::tables::recent::recent;
use crate::sqlite::tables::rows::{
    ENTITY, bytes, entity_at, first, standing_at, u32_at, u64_at, u64_or_none, uuid_or_none,
};
use crate::sqlite::tables::runs::steps;
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::waits::{is_due, is_from_before, waits_at};
use crate::sqlite::tables::{approval_rules, calls};

struct FoundAgent {
    agent: i64,
    entity: Entity,
    life: Life,
    newest_config: u64,
    waiting: u32,
    taken: u32,
    cancel: Option<CycleId>,
    /// The start of the store that runs the open cycle; 0 if the agent is idle.
    boot: i64,
    panicked: Option<u64>,
}

fn find(db: &Connection, agent: AgentId) -> Outcome<Option<FoundAgent>> {
    let sql = format!(
        "SELECT l.agent, l.epoch, l.commit_n, l.head_seq, l.cycles, a.standing, s.uuid, l.boot, l.failures, \
         l.notice, l.open, a.config_rev, h.waiting, h.taken, h.cancel, h.due_at, h.hold_until, h.idle_reason, l.panicked, {ENTITY} \
         FROM entity e JOIN life l ON l.agent = e.id JOIN agent a ON a.id = e.id \
         JOIN inbox_head h ON h.agent = e.id LEFT JOIN space s ON s.id = l.active_space WHERE e.uuid = ?"
    );
    first(db, &sql, [bytes(agent.0)], |row| {
        let open = open_at(row, 10)?;
        Ok(FoundAgent {
            agent: row.get(0)?,
            entity: entity_at(row, 19)?,
            life: Life {
                agent,
                epoch: u64_at(row, 1)?,
                commit_n: u64_at(row, 2)?,
                head_seq: u64_at(row, 3)?,
                cycles: u64_at(row, 4)?,
                standing: standing_at(row, 5)?,
                active_space: uuid_or_none(row, 6)?.map(SpaceId),
                failures: u32_at(row, 8)?,
                notice: row.get(9)?,
                open,
                not_before: waits::kept_until(waits_at(row, 15)?),
            },
            newest_config: u64_at(row, 11)?,
            waiting: u32_at(row, 12)?,
            taken: u32_at(row, 13)?,
            cancel: uuid_or_none(row, 14)?.map(CycleId),
            boot: row.get(7)?,
            panicked: u64_or_none(row, 18)?,
        })
    })
}

/// Reads everything that an activation needs.
pub(super) fn wake(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    now: Timestamp,
    known: Option<u64>,
) -> Outcome<Option<Activation>> {
    let Some(found) = find(db, agent)? else { return Ok(None) };
    let FoundAgent { agent: row, entity, mut life, newest_config, cancel, boot, panicked, .. } = found;
    let config_rev = life.open.as_ref().map_or(newest_config, |open| open.config_rev);
    let config = session.configs.get(db, row, config_rev)?;
    let view = view(db, row)?;
    let window = if known == Some(life.commit_n) {
        Window::Unchanged
    } else {
        Window::Loaded(shown(db, row, &view, u64::MAX)?)
    };
    let limit = config.limits.events_per_cycle;
    let (mut events, mut bytes) = (Vec::new(), 0);
    if found.taken > 0 {
        events = waiting(db, row, &Which::Taken, found.taken, &mut bytes)?;
    }
    if found.waiting > found.taken && !life.is_kept_back(now) && is_due(db, session.boot, row, now)? {
        // All waiting events join, also those that would wait longer: that keeps their order.
        events.extend(waiting(db, row, &Which::Others, limit, &mut bytes)?);
        events.sort_by_key(|event| event.seq);
    }
    let mut calls_ = Vec::new();
    let open = life.open.as_ref().map(|open| open.id);
    let layers_ = match (config.workspace.placement, open) {
        (Placement::Append, _) => layers(db, row, &view, u64::MAX, None)?,
        (Placement::Fresh, Some(open)) => layers(db, row, &view, u64::MAX, Some(open))?,
        (Placement::Fresh, None) => Vec::new(),
    };
    if let Some(open) = &mut life.open {
        calls_ = calls::of_step(db, row, open)?;
        open.steps.splice(..0, steps(db, row, open.id)?);
    }
    // What a cycle shows beside its events it shows before its first decision.
    let begins = life.open.as_ref().is_none_or(|open| !open.decided);
    let recent = match begins && config.workspace.show.contains(&WorkspacePart::Messages) {
        true => recent(db, row, &events)?,
        false => Vec::new(),
    };
    // An agent without a list of tools has none that reaches outside.
    let rules = match config.tools.is_some() {
        true => approval_rules::in_force(db, row, now)?,
        false => Vec::new(),
    };
    let before = life.open.is_some() && (1..session.boot).contains(&boot);
    Ok(Some(Activation {
        clean: session.clean || !(before || is_from_before(db, session.boot, row)?),
        died: before && !session.clean,
        panicked,
        facts: facts(db, row)?,
        life,
        entity,
        config_rev,
        config,
        view,
        window,
        calls: calls_,
        rules,
        waiting: events,
        recent,
        layers: layers_,
        cancel,
    }))
}
