//! What is due, found by index: agents with work, and plans that become events.

use agent::delivery::is_urgent;
use agent::event::{Event, Fate};
use agent::id::AgentId;
use agent::life::{Plan, Standing};
use agent::limits;
use agent::port::{Due, Waken};
use agent::waits;
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::Session;
use super::events::{Head, admit};
use super::facts::{plan_at, touch};
use super::fault::{Outcome, torn};
use super::held::release;
use super::notes::put_plan;
use super::rows::{agent_row, all, first, ms, time, time_at, time_or_none, u64_at, uuid_at};

/// By the partial index over those that are due at all, behind one of them.
pub(super) const DUE: &str = "SELECT e.uuid, h.due_at FROM inbox_head h JOIN entity e ON e.id = h.agent \
    WHERE h.due_at <= ?1 AND (h.due_at, h.agent) > (?2, ?3) ORDER BY h.due_at, h.agent LIMIT ?4";
/// The next agent, by the same index.
pub(super) const NEXT_AGENT: &str = "SELECT min(due_at) FROM inbox_head WHERE due_at > ?";
/// The next plan.
pub(super) const NEXT_PLAN: &str = "SELECT min(next_at) FROM plan WHERE to_commit IS NULL AND next_at > ?";
/// Plans whose time has come.
pub(super) const PLANS: &str = "SELECT p.agent, e.uuid, l.commit_n, p.id, p.name, p.instruction, p.schedule, p.next_at \
    FROM plan p JOIN entity e ON e.id = p.agent JOIN life l ON l.agent = p.agent \
    JOIN agent a ON a.id = p.agent AND a.damage IS NULL WHERE p.to_commit IS NULL AND p.next_at <= ? ORDER BY p.next_at LIMIT ?";

/// The next held event that time lets go.
pub(super) const NEXT_RELEASE: &str = "SELECT min(release_at) FROM event WHERE release_at > ?";
/// Held events that time lets go, the oldest first.
pub(super) const RELEASE: &str = "SELECT e.agent, a.uuid, e.space FROM event e JOIN entity a ON a.id = e.agent \
    JOIN agent g ON g.id = e.agent AND g.damage IS NULL WHERE e.release_at <= ? ORDER BY e.release_at LIMIT 1";

pub(super) fn due(db: &Connection, now: Timestamp, after: Option<Due>, limit: u32) -> Outcome<Vec<Due>> {
    let (at, agent) = match after {
        Some(Due { agent, at }) => (ms(at), agent_row(db, agent.0)?.unwrap_or(0)),
        None => (i64::MIN, 0),
    };
    all(db, DUE, params![ms(now), at, agent, limit], |row| {
        let agent = AgentId(uuid_at(row, 0)?);
        Ok(Due { agent, at: time_at(row, 1).map_err(torn(agent))? })
    })
}

pub(super) fn next_due(db: &Connection, now: Timestamp) -> Outcome<Option<Timestamp>> {
    let read = |sql| first(db, sql, [ms(now)], |row| Ok(row.get::<_, Option<i64>>(0)?)).map(Option::flatten);
    let next = [read(NEXT_AGENT)?, read(NEXT_PLAN)?, read(NEXT_RELEASE)?].into_iter().flatten().min();
    Ok(next.and_then(|at| time(at).ok()))
}

/// Turns due plans into events of their agents, and lets go what was held long enough.
pub(super) fn fire_due(
    db: &Connection,
    session: &Session,
    now: Timestamp,
    limit: u32,
) -> Outcome<Vec<Waken>> {
    let plans = all(db, PLANS, params![ms(now), limit], |row| {
        let agent = AgentId(uuid_at(row, 1)?);
        let plan = u64_at(row, 2).and_then(|n| Ok((n, plan_at(row, 3)?)));
        let (n, plan) = plan.map_err(torn(agent))?;
        Ok(((row.get::<_, i64>(0)?, agent), n, plan))
    })?;
    let mut wake = Vec::new();
    for (who, n, plan) in plans {
        wake.extend(fire(db, session, who, n, &plan, now).map_err(torn(who.1))?);
    }
    let mut room = limits::RELEASE_MAX;
    for _ in 0..limit {
        if room == 0 {
            break;
        }
        let next = first(db, RELEASE, [ms(now)], |row| {
            Ok((row.get::<_, i64>(0)?, AgentId(uuid_at(row, 1)?), row.get::<_, i64>(2)))
        })?;
        let Some((row, agent, space)) = next else { break };
        let release = || release(db, session, &mut Head::read(db, row)?, space?, now, &mut room);
        if let Some(at) = release().map_err(torn(agent))? {
            wake.push(Waken { agent, at: time(at)?, urgent: false });
        }
    }
    Ok(wake)
}

/// One plan becomes an event of its agent, and waits for its next time.
fn fire(
    db: &Connection,
    session: &Session,
    (row, agent): (i64, AgentId),
    n: u64,
    plan: &Plan,
    now: Timestamp,
) -> Outcome<Option<Waken>> {
    let Some((event, after)) = agent::plan::fire(plan, now) else { return Ok(None) };
    let mut head = Head::read(db, row)?;
    let urgent = is_urgent(&event, &head.urgency);
    let event = Event { urgent, ..event };
    let due = admit(db, session, &mut head, &event, None, &Fate::Waiting)?;
    put_plan(db, row, n, &after)?;
    touch(db, row)?;
    due.map(|at| Ok(Waken { agent, at: time(at)?, urgent })).transpose()
}

/// From when on an agent without an open cycle has something to do; not before `hold`.
pub(super) fn due_at(
    db: &Connection,
    session: &Session,
    agent: i64,
    standing: Standing,
    hold: Option<Timestamp>,
    now: Timestamp,
) -> Outcome<Option<Timestamp>> {
    let sql = "SELECT min(not_before), min(boot) < ? FROM waiting WHERE agent = ?";
    let waits_from = first(db, sql, params![session.boot, agent], |row| {
        let before = row.get::<_, Option<bool>>(1)?.unwrap_or(false);
        Ok(time_or_none(row, 0)?.map(|not_before| waits::first_due(not_before, before, now)))
    })?;
    Ok(waits::due(standing, waits_from.flatten(), hold))
}

#[cfg(test)]
mod tests {
    use super::super::calls::DETACHED;
    use super::super::held::HELD;
    use super::*;

    #[test]
    fn what_is_due_is_found_by_index_and_never_by_a_scan() {
        let db = super::super::schema::open_memory().unwrap();
        for (sql, index) in [
            (DUE, "inbox_due"),
            (NEXT_AGENT, "inbox_due"),
            (NEXT_PLAN, "plan_due"),
            (PLANS, "plan_due"),
            (NEXT_RELEASE, "event_release"),
            (RELEASE, "event_release"),
            (HELD, "event_held_in"),
            (DETACHED, "call_detached"),
        ] {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let blanks = vec![1i64; plan.parameter_count()];
            let steps: Vec<String> = plan
                .query_map(rusqlite::params_from_iter(blanks), |row| row.get(3))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert!(steps[0].contains(index), "{sql}: {steps:?}");
            assert!(!steps.iter().any(|step| step.contains("SCAN") || step.contains("TEMP")), "{steps:?}");
        }
    }
}
