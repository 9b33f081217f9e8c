//! Alerts: what operators should know of, written in the commit in which it happens.

use agent::alert::{Alert, AlertKind};
use agent::id::{AgentId, CycleId, EventId};
use agent::limits;
use rusqlite::{Connection, Row, params};

use super::rows::{agent_row, bytes, int, ms, run, time_at, u64_at, uuid_or_none};
use crate::sqlite::engine::fault::{Outcome, damaged};

/// Keeps an alert, and forgets the oldest one of whose it is if there are too many.
pub(crate) fn put(db: &Connection, alert: &Alert) -> Outcome<()> {
    let Alert { at, alert, text, agent, cycle, event, target } = alert;
    let agent = match agent {
        Some(agent) => agent_row(db, agent.0)?,
        None => None,
    };
    let sql = "INSERT INTO alert (agent, kind, text, cycle, event, target, at) VALUES (?, ?, ?, ?, ?, ?, ?)";
    let (cycle, event) = (cycle.map(|cycle| bytes(cycle.0)), event.as_ref().map(|event| &event.0));
    run(db, sql, params![agent, alert.as_str(), text, cycle, event, target, ms(*at)])?;
    let sql = "DELETE FROM alert WHERE agent IS ?1 AND n <= \
               (SELECT n FROM alert WHERE agent IS ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2)";
    run(db, sql, params![agent, int(limits::ALERTS_KEPT as u64)]).map(drop)
}

pub(crate) fn alert_at(row: &Row<'_>) -> Outcome<(u64, Alert)> {
    let kind: String = row.get(1)?;
    let alert = Alert {
        at: time_at(row, 0)?,
        alert: AlertKind::try_from(&*kind).map_err(|_| damaged(format!("`{kind}` is no kind of alert")))?,
        text: row.get(2)?,
        agent: uuid_or_none(row, 3)?.map(AgentId),
        cycle: uuid_or_none(row, 4)?.map(CycleId),
        event: row.get::<_, Option<String>>(5)?.map(EventId),
        target: row.get(6)?,
    };
    Ok((u64_at(row, 7)?, alert))
}
