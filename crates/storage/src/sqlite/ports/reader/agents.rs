//! Queries about agents: cards and inboxes.

use std::sync::Arc;

use agent::entity::Entity;
use agent::event::EventKind;
use agent::id::{AgentId, CycleId, EventId, SpaceId};
use agent::life::{IdleUntil, Standing};
use agent::port::{AgentCard, DeadEvents, InboxFilter, InboxRow, LastRun, Page, PageRequest, RunFilter};
use agent::run::{Ending, Run, Usage};
use agent::waits;
use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};

use crate::sqlite::engine::fault::{Outcome, damaged_agent, unless_quarantined};
use crate::sqlite::ports::reader::page::{before, bounds, look_down_to, paged, paged_down};
use crate::sqlite::tables::agents::QUARANTINED;
use crate::sqlite::tables::configs::Configs;
use crate::sqlite::tables::events::state_code;
use crate::sqlite::tables::inbox::ledger;
use crate::sqlite::tables::life::open_at;
use crate::sqlite::tables::rows::{
    ENTITY, agent_row, all, bytes, code_of, entity_at, first, int, key, key_at, ms, page_of, reason_or_none,
    row_bytes, standing_at, time_at, time_or_none, u32_at, u64_at, usage_at, uuid_at, uuid_or_none,
};
use crate::sqlite::tables::runs::{RUN, ending_of, run_at};
use crate::sqlite::tables::waits::waits_at;

const CARD: &str = "a.id, a.config_rev, a.standing, l.open, h.waiting, \
    h.held, l.cycles, l.skips, \
    l.usage_input, l.usage_cached, l.usage_output, l.usage_reasoning, h.due_at, h.hold_until, h.idle_reason, s.uuid, \
    l.commit_n, l.cost_micros, l.unpriced, last.cycle, last.ending, last.ended_at, \
    (SELECT min(p.next_at) FROM plan p WHERE p.agent = a.id AND p.to_commit IS NULL), a.damage, \
    dead.id, dead.reason, (SELECT count(*) FROM event d WHERE d.agent = a.id AND d.state = 5)";
const CARD_FROM: &str = "FROM agent a JOIN entity e ON e.id = a.id JOIN life l ON l.agent = a.id \
    JOIN inbox_head h ON h.agent = a.id LEFT JOIN space s ON s.id = l.active_space \
    LEFT JOIN run last ON last.agent = a.id AND last.ordinal = l.cycles \
    LEFT JOIN event dead ON dead.agent = a.id \
    AND dead.seq = (SELECT max(d.seq) FROM event d WHERE d.agent = a.id AND d.state = 5)";

/// Reads a card. For a quarantined or retired agent with damaged records it has only the name and the reason.
fn card_at(db: &Connection, configs: &Configs, row: &Row<'_>) -> Outcome<AgentCard> {
    let entity = entity_at(row, 28)?;
    let (id, quarantined) = (entity.id.agent(), row.get(27)?);
    if let Some(card) = unless_quarantined(id, quarantined, whole_card(db, configs, row, &entity))? {
        return Ok(card);
    }
    let damage: Option<String> = row.get(23)?;
    Ok(AgentCard {
        id,
        entity,
        config_rev: 0,
        config: Arc::default(),
        // Without a stored reason the agent must be retired: only then is damage ignored.
        standing: if damage.is_some() { Standing::Suspended } else { Standing::Retired },
        open: None,
        waiting: 0,
        held: 0,
        cycles: 0,
        skips: 0,
        usage: Usage::default(),
        not_before: None,
        idle_reason: None,
        active_space: None,
        commit_n: 0,
        cost_micros: None,
        unpriced: 0,
        last: None,
        next_plan: None,
        damage: Some(damage.unwrap_or_else(|| "one of its records cannot be read".into())),
        dead: None,
    })
}

/// Reads a card whose records are all readable.
fn whole_card(db: &Connection, configs: &Configs, row: &Row<'_>, entity: &Entity) -> Outcome<AgentCard> {
    let (id, config_rev): (i64, u64) = (row.get(0)?, u64_at(row, 1)?);
    let (standing, open) = (standing_at(row, 2)?, open_at(row, 3)?);
    let idle = waits::idle_until(waits_at(row, 12)?, standing, open.is_some());
    Ok(AgentCard {
        id: entity.id.agent(),
        config_rev,
        config: configs.get(db, id, config_rev)?,
        standing,
        open,
        waiting: u32_at(row, 4)?,
        held: u32_at(row, 5)?,
        cycles: u64_at(row, 6)?,
        skips: u64_at(row, 7)?,
        usage: usage_at(row, 8)?,
        not_before: idle.map(|idle| idle.until),
        idle_reason: idle.map(|idle| idle.reason),
        active_space: uuid_or_none(row, 15)?.map(SpaceId),
        commit_n: u64_at(row, 16)?,
        cost_micros: row.get::<_, Option<i64>>(17)?.and_then(|cost| u64::try_from(cost).ok()),
        unpriced: u64_at(row, 18)?,
        last: last_at(row, 19)?,
        next_plan: time_or_none(row, 22)?,
        damage: row.get(23)?,
        dead: dead_at(row, 24)?,
        entity: entity.clone(),
    })
}

fn last_at(row: &Row<'_>, at: usize) -> Outcome<Option<LastRun>> {
    let Some(id) = uuid_or_none(row, at)? else { return Ok(None) };
    let ending: String = row.get(at + 1)?;
    Ok(Some(LastRun { id: CycleId(id), ending: ending_of(&ending)?, ended_at: time_at(row, at + 2)? }))
}

fn dead_at(row: &Row<'_>, at: usize) -> Outcome<Option<DeadEvents>> {
    let count = u32_at(row, at + 2)?;
    if count == 0 {
        return Ok(None);
    }
    let reason: Option<String> = row.get(at + 1)?;
    Ok(Some(DeadEvents { count, last: EventId(key_at(row, at)?), reason: reason.unwrap_or_default() }))
}

pub(super) fn agents(
    db: &Connection,
    configs: &Configs,
    standing: Option<Standing>,
    page: &PageRequest,
) -> Outcome<Page<AgentCard>> {
    let bounds = bounds(page.limit);
    let after = page.cursor.as_deref().unwrap_or("");
    let sql = format!(
        "SELECT {CARD}, {QUARANTINED}, {ENTITY}, (SELECT octet_length(c.config) FROM config_rev c \
         WHERE c.agent = a.id AND c.rev = a.config_rev) AS config_bytes {CARD_FROM} \
         WHERE e.kind = 1 AND e.name > ?1 AND (?2 IS NULL OR a.standing = ?2) ORDER BY e.name LIMIT ?3"
    );
    let size = |row: &Row<'_>| {
        let config: Option<i64> = row.get("config_bytes")?;
        Ok(row_bytes(row)? + config.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0))
    };
    let standing = standing.map(|standing| code_of(&Standing::ALL, &standing));
    let given = params![after, standing, bounds.0 + 1];
    let found = page_of(db, &sql, given, bounds, size, |row| card_at(db, configs, row))?;
    Ok(paged(found, |card| card.entity.name.clone()))
}

pub(crate) fn agent(db: &Connection, configs: &Configs, agent: AgentId) -> Outcome<Option<AgentCard>> {
    let sql = format!("SELECT {CARD}, {QUARANTINED}, {ENTITY} {CARD_FROM} WHERE e.uuid = ?");
    first(db, &sql, [bytes(agent.0)], |row| card_at(db, configs, row))
}

/// Idle members of a space for which events of that space wait, or whose open cycle is about it.
pub(super) fn idle_members(
    db: &Connection,
    space: SpaceId,
    now: Timestamp,
) -> Outcome<Vec<(AgentId, IdleUntil)>> {
    let sql = "SELECT e.uuid, h.idle_reason, h.hold_until FROM space s JOIN member m ON m.space = s.id \
               JOIN inbox_head h ON h.agent = m.entity JOIN entity e ON e.id = m.entity \
               JOIN life l ON l.agent = m.entity JOIN agent a ON a.id = m.entity AND a.damage IS NULL \
               WHERE s.uuid = ?1 AND h.idle_reason IS NOT NULL AND h.hold_until > ?2 \
               AND (instr(coalesce(l.requesters, ''), ?3) > 0 OR EXISTS (SELECT 1 FROM waiting w \
                 JOIN event v ON v.agent = w.agent AND v.seq = w.seq WHERE w.agent = h.agent AND v.space = s.id)) \
               ORDER BY e.uuid";
    let found = all(db, sql, params![bytes(space.0), ms(now), space.to_string()], |row| {
        let agent = AgentId(uuid_at(row, 0)?);
        let idle = || Ok(reason_or_none(row, 1)?.zip(time_or_none(row, 2)?));
        let idle = idle().map_err(damaged_agent(agent))?;
        Ok(idle.map(|(reason, until)| (agent, IdleUntil { reason, until })))
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// An agent's ledger, newest first. An unknown state has no rows.
pub(super) fn inbox(
    db: &Connection,
    agent: AgentId,
    filter: &InboxFilter,
    page: &PageRequest,
) -> Outcome<Page<InboxRow>> {
    let Some(row) = agent_row(db, agent.0)? else { return Ok(Page { items: Vec::new(), next: None }) };
    let state = filter.state.as_deref().map(|state| state_code(state).unwrap_or(-1));
    // Waiting, held and dead events are found by index, however many settled rows there are.
    let (condition, indexed) = match state {
        None => ("?5 IS NULL", true),
        Some(0) => ("?5 = 0 AND e.seq IN (SELECT seq FROM waiting WHERE agent = ?1)", true),
        Some(1) => ("?5 = 1 AND e.state = 1", true),
        Some(5) => ("?5 = 5 AND e.state = 5", true),
        Some(_) => ("e.state = ?5", false),
    };
    let newest =
        first(db, "SELECT head_seq FROM inbox_head WHERE agent = ?", [row], |row| Ok(row.get::<_, i64>(0)?))?;
    let before = before(page, newest.and_then(|seq| u64::try_from(seq).ok()).unwrap_or(u64::MAX - 1));
    let floor = look_down_to(before, !indexed || filter.kind.is_some() || filter.since.is_some());
    let condition = format!(
        "e.seq > ?3 AND e.seq < ?4 AND {condition} AND (?6 IS NULL OR e.kind = ?6) AND (?7 IS NULL OR e.at >= ?7)"
    );
    let optional = |value: Option<i64>| value.map_or(Value::Null, Value::Integer);
    let given = [
        Value::Integer(int(floor)),
        Value::Integer(int(before)),
        optional(state),
        optional(filter.kind.map(|kind| code_of(&EventKind::ALL, &kind))),
        optional(filter.since.map(ms)),
    ];
    let found = ledger(db, row, &condition, &given, bounds(page.limit))?;
    Ok(paged_down(found, floor, |row| row.seq))
}

pub(super) fn event(db: &Connection, agent: AgentId, event: &EventId) -> Outcome<Option<InboxRow>> {
    let Some(row) = agent_row(db, agent.0)? else { return Ok(None) };
    Ok(ledger(db, row, "e.id = ?3", &[key(&event.0)], (1, usize::MAX))?.0.pop())
}

/// An agent's runs, newest first.
pub(super) fn runs(
    db: &Connection,
    agent: AgentId,
    filter: &RunFilter,
    page: &PageRequest,
) -> Outcome<Page<Run>> {
    let Some(row) = agent_row(db, agent.0)? else { return Ok(Page { items: Vec::new(), next: None }) };
    let newest = first(db, "SELECT cycles FROM life WHERE agent = ?", [row], |row| u64_at(row, 0))?;
    let before = before(page, newest.unwrap_or(u64::MAX - 1));
    let floor = look_down_to(before, *filter != RunFilter::default());
    let bounds = bounds(page.limit);
    let sql = format!(
        "{RUN} WHERE r.agent = ?1 AND r.ordinal > ?2 AND r.ordinal < ?3 AND (?4 IS NULL OR r.ending = ?4) \
         AND (?5 IS NULL OR r.ended_at >= ?5) ORDER BY r.ordinal DESC LIMIT ?6"
    );
    let ending = filter.ending.map(Ending::as_str);
    let given = params![row, int(floor), int(before), ending, filter.since.map(ms), bounds.0 + 1];
    let found = page_of(db, &sql, given, bounds, row_bytes, run_at)?;
    Ok(paged_down(found, floor, |run| run.ordinal))
}
