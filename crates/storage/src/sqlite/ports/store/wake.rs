//! What a waking reads, as of one moment. On the hot path (a warm agent, nothing committed since)
//! it reads only the life row, what waits, and the facts.

use std::sync::Arc;

use agent::call::{CallRow, CallState, Effect};
use agent::entity::Entity;
use agent::entry::{Entry, EntryKind, View};
use agent::id::{AgentId, CallId, CycleId, SpaceId};
use agent::life::{Layer, Life, OpenCycle, Standing, Waking, Window};
use agent::message::ModelMessage;
use agent::run::StepReceipt;
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::sqlite::Session;
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::tables::events::{Which, waiting};
use crate::sqlite::tables::facts::facts;
use crate::sqlite::tables::rows::{
    ENTITY, all, bytes, entity_at, first, from_json, int, ms, standing_at, time_at, time_or_none, u32_at,
    u64_at, uuid_at, uuid_or_none,
};

struct Found {
    agent: i64,
    entity: Entity,
    life: Life,
    newest_config: u64,
    waiting: u32,
    taken: u32,
    cancel: Option<CycleId>,
    /// The start of the store that lives the open cycle; 0 where it rests.
    boot: i64,
}

fn find(db: &Connection, agent: AgentId) -> Outcome<Option<Found>> {
    let sql = format!(
        "SELECT l.agent, l.epoch, l.commit_n, l.head_seq, l.cycles, a.standing, s.uuid, l.boot, l.failures, \
         l.notice, l.open, a.config_rev, h.hold_until, h.waiting, h.taken, h.cancel, {ENTITY} \
         FROM entity e JOIN life l ON l.agent = e.id JOIN agent a ON a.id = e.id \
         JOIN inbox_head h ON h.agent = e.id LEFT JOIN space s ON s.id = l.active_space WHERE e.uuid = ?"
    );
    first(db, &sql, [bytes(agent.0)], |row| {
        let open = open_at(row, 10)?;
        Ok(Found {
            agent: row.get(0)?,
            entity: entity_at(row, 16)?,
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
                not_before: time_or_none(row, 12)?,
            },
            newest_config: u64_at(row, 11)?,
            waiting: u32_at(row, 13)?,
            taken: u32_at(row, 14)?,
            cancel: uuid_or_none(row, 15)?.map(CycleId),
            boot: row.get(7)?,
        })
    })
}

/// Everything that a waking needs.
pub(in crate::sqlite) fn wake(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    now: Timestamp,
    known: Option<u64>,
) -> Outcome<Option<Waking>> {
    let Some(found) = find(db, agent)? else { return Ok(None) };
    let Found { agent: row, entity, mut life, newest_config, cancel, boot, .. } = found;
    let config_rev = life.open.as_ref().map_or(newest_config, |open| open.config_rev);
    let config = session.configs.get(db, row, config_rev)?;
    let view = view(db, row)?;
    let window =
        if known == Some(life.commit_n) { Window::Unchanged } else { Window::Loaded(shown(db, row, &view)?) };
    let limit = config.limits.events_per_cycle;
    let held = life.standing != Standing::Active || life.not_before.is_some_and(|until| until > now);
    let mut events = Vec::new();
    if found.taken > 0 {
        events = waiting(db, row, &Which::Taken, found.taken)?;
    }
    if found.waiting > found.taken && !held && is_due(db, session, row, now)? {
        events.extend(waiting(db, row, &Which::Others, limit)?);
        events.sort_by_key(|event| event.seq);
    }
    let (mut calls_, mut layers_) = (Vec::new(), Vec::new());
    if let Some(open) = &mut life.open {
        calls_ = calls(db, row, open)?;
        layers_ = layers(db, row, open.id)?;
        open.steps = steps(db, row, open.id)?;
    }
    let before = life.open.is_some() && (1..session.boot).contains(&boot);
    Ok(Some(Waking {
        clean: session.clean || !(before || stale(db, session, row)?),
        died: before && !session.clean,
        facts: facts(db, row)?,
        life,
        entity,
        config_rev,
        config,
        view,
        window,
        calls: calls_,
        waiting: events,
        layers: layers_,
        cancel,
    }))
}

/// Whether the first of what waits is due, as [`crate::sqlite::ports::store::due::due_at`] finds it. Then all that waits rides along:
/// that is what was waited for, and nothing is overtaken by what came later.
fn is_due(db: &Connection, session: &Session, agent: i64, now: Timestamp) -> Outcome<bool> {
    let sql = "SELECT 1 FROM waiting WHERE agent = ? AND taken = 0 AND (not_before <= ? OR boot < ?) LIMIT 1";
    Ok(db.prepare_cached(sql)?.exists(params![agent, ms(now), session.boot])?)
}

/// Whether something waits that was accepted before this start of a store that had crashed.
fn stale(db: &Connection, session: &Session, agent: i64) -> Outcome<bool> {
    let sql = "SELECT 1 FROM waiting WHERE agent = ? AND boot < ? LIMIT 1";
    Ok(db.prepare_cached(sql)?.exists(params![agent, session.boot])?)
}

/// The newest view of an agent.
pub(in crate::sqlite) fn view(db: &Connection, agent: i64) -> Outcome<View> {
    let sql = "SELECT rev, summary, ranges, tail, reasoning_from, native_from FROM view WHERE agent = ? ORDER BY rev DESC LIMIT 1";
    let found = first(db, sql, [agent], |row| {
        Ok(View {
            rev: u64_at(row, 0)?,
            summary: row.get(1)?,
            ranges: from_json(&row.get::<_, String>(2)?, "a view")?,
            tail: u64_at(row, 3)?,
            reasoning_from: u64_at(row, 4)?,
            native_from: u64_at(row, 5)?,
        })
    })?;
    Ok(found.unwrap_or_else(View::whole))
}

fn shown(db: &Connection, agent: i64, view: &View) -> Outcome<Vec<Arc<Entry>>> {
    let mut shown = Vec::new();
    for (from, to) in &view.ranges {
        let to = (*to).min(view.tail.saturating_sub(1));
        shown.extend(entries(db, agent, (*from, to), i64::MAX)?);
    }
    shown.extend(entries(db, agent, (view.tail, u64::MAX), i64::MAX)?);
    Ok(shown.into_iter().map(Arc::new).collect())
}

/// Entries of a range of seqs, inclusive, oldest first, each checked against its checksum.
pub(in crate::sqlite) fn entries(
    db: &Connection,
    agent: i64,
    (from, to): (u64, u64),
    limit: i64,
) -> Outcome<Vec<Entry>> {
    let sql = "SELECT seq, cycle, step, kind, tokens, at, crc, message FROM entry \
               WHERE agent = ? AND seq >= ? AND seq <= ? ORDER BY seq LIMIT ?";
    all(db, sql, params![agent, int(from), int(to), limit], entry_at)
}

pub(in crate::sqlite) fn entry_at(row: &Row<'_>) -> Outcome<Entry> {
    let seq = u64_at(row, 0)?;
    let (kind, crc): (String, i64) = (row.get(3)?, row.get(6)?);
    let message = row.get_ref(7)?.as_bytes().map_err(rusqlite::Error::from)?;
    if i64::from(crc32fast::hash(message)) != crc {
        return Err(damaged(format!("entry {seq}: its checksum does not match")));
    }
    let message: ModelMessage = serde_json::from_slice(message)
        .map_err(|error| damaged(format!("entry {seq}: it does not decode: {error}")))?;
    let kind = EntryKind::parse(&kind);
    Ok(Entry {
        seq,
        cycle: CycleId(uuid_at(row, 1)?),
        step: u32_at(row, 2)?,
        kind: kind.ok_or_else(|| damaged(format!("entry {seq}: its kind is unknown")))?,
        message,
        tokens: u32_at(row, 4)?,
        at: time_at(row, 5)?,
    })
}

/// Calls of the present step of a cycle, in order: outcomes of those before it are in the log.
fn calls(db: &Connection, agent: i64, open: &OpenCycle) -> Outcome<Vec<CallRow>> {
    let sql = format!("SELECT {CALL} FROM call WHERE agent = ? AND cycle = ? AND step = ? ORDER BY idx");
    all(db, &sql, params![agent, bytes(open.id.0), open.step], |row| call_at(row, 0))
}

/// Receipts of the steps of an open cycle.
fn steps(db: &Connection, agent: i64, cycle: CycleId) -> Outcome<Vec<StepReceipt>> {
    let sql = "SELECT receipt FROM step WHERE agent = ? AND cycle = ? ORDER BY step";
    all(db, sql, params![agent, bytes(cycle.0)], |row| from_json(&row.get::<_, String>(0)?, "a receipt"))
}

/// Columns of [`call_at`].
pub(in crate::sqlite) const CALL: &str =
    "id, cycle, step, idx, tool, arguments, effect, tool_version, awaited, state, outcome";

pub(in crate::sqlite) fn call_at(row: &Row<'_>, at: usize) -> Outcome<CallRow> {
    let (effect, state): (String, String) = (row.get(at + 6)?, row.get(at + 9)?);
    let outcome: Option<String> = row.get(at + 10)?;
    Ok(CallRow {
        id: CallId(row.get(at)?),
        cycle: CycleId(uuid_at(row, at + 1)?),
        step: u32_at(row, at + 2)?,
        index: u32_at(row, at + 3)?,
        tool: row.get(at + 4)?,
        arguments: row.get(at + 5)?,
        effect: Effect::parse(&effect).ok_or_else(|| damaged(format!("`{effect}` is no effect")))?,
        tool_version: row.get(at + 7)?,
        awaited: row.get(at + 8)?,
        state: CallState::parse(&state).ok_or_else(|| damaged(format!("`{state}` is no state of a call")))?,
        outcome: outcome.map(|outcome| from_json(&outcome, "an outcome")).transpose()?,
    })
}

/// What the model was sent in a cycle besides its entries, in the order in which it was.
pub(in crate::sqlite) fn layers(db: &Connection, agent: i64, cycle: CycleId) -> Outcome<Vec<Layer>> {
    let sql = "SELECT after, text FROM layer WHERE agent = ? AND cycle = ? ORDER BY request, idx";
    all(db, sql, params![agent, bytes(cycle.0)], |row| {
        Ok(Layer { after: u64_at(row, 0)?, text: row.get::<_, String>(1)?.into() })
    })
}

/// An open cycle from its column.
pub(in crate::sqlite) fn open_at(row: &Row<'_>, at: usize) -> Outcome<Option<OpenCycle>> {
    row.get::<_, Option<String>>(at)?.map(|open| from_json(&open, "its open cycle")).transpose()
}
