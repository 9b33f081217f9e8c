//! What happens, written for the targets that are told it, in the commit in which it happens.

use agent::alert::Alert;
use agent::call::CallRow;
use agent::changes::EventMoved;
use agent::entity::EntityKind;
use agent::event::EventProgress;
use agent::id::{AgentId, hashed_uuid};
use agent::limits;
use agent::news::{self, NamedAgent};
use agent::port::{AfterFailure, NewsKind};
use agent::run::Run;
use agent::space::Message;
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use super::alerts;
use super::rows::{all, bytes, first, int, ms, run, uuid_at, uuid_or_none};
use crate::sqlite::engine::fault::Outcome;

const OF_SPACE: &str = "SELECT t.id, s.name FROM target t JOIN space s ON s.id = ?1 \
    WHERE (t.space = ?1 OR t.agent = ?2) AND t.off IS NULL AND t.kinds & ?3";
const OF_AGENT: &str = "SELECT t.id, e.uuid, e.name FROM target t JOIN entity e ON e.id = t.agent \
    WHERE t.agent = ?1 AND t.off IS NULL AND t.kinds & ?2";

const OF_ASKED: &str = "SELECT t.id, e.uuid, e.name, s.name FROM entity e LEFT JOIN space s ON s.uuid = ?2 \
    JOIN target t ON t.agent = e.id OR t.space = s.id WHERE e.id = ?1 AND t.off IS NULL AND t.kinds & ?3";

/// The bit of a kind in `target.kinds`.
pub(crate) fn bit(kind: NewsKind) -> i64 {
    1 << NewsKind::ALL.iter().position(|known| *known == kind).unwrap_or(0)
}

/// Tells that a message was posted. `space` and `sender` are rows.
pub(crate) fn message(
    db: &Connection,
    (space, sender): (i64, i64),
    message: &Message,
    handle: &str,
    by: EntityKind,
) -> Outcome<()> {
    let row = params![space, sender, bit(NewsKind::Message)];
    for (target, space) in all(db, OF_SPACE, row, |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))? {
        let body = news::of_message(message, &space, handle, by == EntityKind::Agent);
        put(db, target, &["message", &message.id.to_string()], &body, message.at)?;
    }
    Ok(())
}

/// Tells that a cycle of the agent ended.
pub(crate) fn run_ended(db: &Connection, agent: i64, record: &Run) -> Outcome<()> {
    for (target, agent) in of_agent(db, agent, NewsKind::CycleEnded)? {
        put(
            db,
            target,
            &["cycle", &record.id.to_string()],
            &news::of_run(record, &agent.handle),
            record.ended_at,
        )?;
    }
    Ok(())
}

/// Tells which events of the agent failed for good with its commit `n`.
pub(crate) fn dead_events(
    db: &Connection,
    agent: i64,
    n: u64,
    moved: &[EventMoved],
    at: Timestamp,
) -> Outcome<()> {
    for dead in moved.iter().filter(|moved| moved.progress == EventProgress::Dead) {
        for (target, agent) in of_agent(db, agent, NewsKind::Alert)? {
            let body = news::of_dead_event(&dead.event, &agent, at);
            put(db, target, &["dead", &dead.event.0, &n.to_string()], &body, at)?;
        }
    }
    Ok(())
}

/// Tells which of these new calls of the agent wait for a person, to targets of the agent and of the space with the card.
pub(crate) fn asked_calls(db: &Connection, agent: i64, calls: &[CallRow]) -> Outcome<()> {
    for call in calls {
        let Some(asked) = call.approval.as_deref().filter(|asked| asked.is_wanted()) else { continue };
        let space = asked.space.map(|space| bytes(space.0));
        let row = params![agent, space, bit(NewsKind::ApprovalWanted)];
        let named = |row: &Row<'_>| Ok((row.get(0)?, agent_at(row)?, row.get(3)?));
        let told: Vec<(i64, NamedAgent, Option<String>)> = all(db, OF_ASKED, row, named)?;
        for (target, agent, space) in told {
            let body = news::of_asked_call(call, asked, &agent, space.as_deref());
            put(db, target, &["asked", &call.id.0], &body, asked.asked_at)?;
        }
    }
    Ok(())
}

fn of_agent(db: &Connection, agent: i64, kind: NewsKind) -> Outcome<Vec<(i64, NamedAgent)>> {
    all(db, OF_AGENT, params![agent, bit(kind)], |row| Ok((row.get(0)?, agent_at(row)?)))
}

/// The agent of a row whose columns after the first one are its id and handle.
fn agent_at(row: &Row<'_>) -> Outcome<NamedAgent> {
    Ok(NamedAgent { id: AgentId(uuid_at(row, 1)?), handle: row.get(2)? })
}

/// Adds a delivery. A target for which too many wait is switched off.
fn put(db: &Connection, target: i64, subject: &[&str], body: &str, at: Timestamp) -> Outcome<()> {
    let most = limits::TARGET_QUEUE_MAX;
    let sql = "SELECT 1 FROM outgoing WHERE target = ? AND dead = 0 LIMIT 1 OFFSET ?";
    if first(db, sql, params![target, int(most as u64 - 1)], |_| Ok(()))?.is_some() {
        let why = format!("{most} deliveries wait, so nothing more is kept for it");
        let sql = "UPDATE target SET off = ?1 WHERE id = ?2 \
                   RETURNING name, (SELECT e.uuid FROM entity e WHERE e.id = target.agent)";
        let named = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, uuid_or_none(row, 1)?.map(AgentId)));
        let Some((name, agent)) = first(db, sql, params![why, target], named)? else { return Ok(()) };
        let alert = Alert::of_target(&name, agent, &AfterFailure::Off, false, &why, at);
        return alert.map_or(Ok(()), |alert| alerts::put(db, &alert));
    }
    let number = target.to_string();
    let id = format!("msg_{}", hashed_uuid(&[&["target", &number], subject].concat()).simple());
    let sql = "INSERT INTO outgoing (target, id, body, at) VALUES (?, ?, ?, ?)";
    run(db, sql, params![target, id, body, ms(at)]).map(drop)
}
