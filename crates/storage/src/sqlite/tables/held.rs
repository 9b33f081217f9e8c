//! Held events: those that the limit on messages between agents holds back. They are released per space, in
//! their order, a bounded number at a time.

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::events::{Head, put_waiting};
use super::rows::{all, ms, principal_at, run};
use super::session::Session;
use crate::sqlite::engine::fault::Outcome;

/// The held events of one space, oldest first, found by the partial index over them.
pub(crate) const HELD: &str = "SELECT seq, urgent, principal_kind, principal FROM event INDEXED BY event_held_in \
    WHERE agent = ? AND space = ? AND state = 1 ORDER BY seq LIMIT ?";

/// Sets the time at which the newest event of an inbox is released by itself.
pub(crate) fn keep(db: &Connection, head: &Head, release_at: Option<Timestamp>) -> Outcome<()> {
    let sql = "UPDATE event SET release_at = ? WHERE agent = ? AND seq = ?";
    run(db, sql, params![release_at.map(ms), head.agent, head.head_seq]).map(drop)
}

/// Releases the held events of one space into the inbox, at most `room` of them. If more are left, the first of
/// them is due for release at once, so that the next sweep continues. Returns the time at which the agent is due
/// because of the released events.
pub(crate) fn release(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    space: i64,
    at: Timestamp,
    room: &mut u32,
) -> Outcome<Option<i64>> {
    let at = at.min(session.now());
    let mut held = all(db, HELD, params![head.agent, space, *room + 1], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?, principal_at(row, 2)?))
    })?;
    let left = if held.len() > *room as usize { held.pop() } else { None };
    let mut wake = None;
    if let Some((newest, ..)) = held.last() {
        let sql = "UPDATE event INDEXED BY event_held_in SET state = 0, release_at = NULL \
                   WHERE agent = ? AND space = ? AND state = 1 AND seq <= ?";
        run(db, sql, params![head.agent, space, newest])?;
    }
    for (seq, urgent, sender) in &held {
        wake = put_waiting(db, session, head, (*seq, *urgent, sender), ms(at) + head.debounce)?;
        head.held = head.held.saturating_sub(1);
        *room -= 1;
    }
    head.write(db)?;
    if let Some((seq, ..)) = left {
        let sql = "UPDATE event SET release_at = ? WHERE agent = ? AND seq = ?";
        run(db, sql, params![ms(at) + 1, head.agent, seq])?;
    }
    Ok(wake)
}

/// Decrements the count of held events. Does not read the inbox head, which may be damaged.
pub(crate) fn forget(db: &Connection, agent: i64) -> Outcome<()> {
    run(db, "UPDATE inbox_head SET held = held - 1 WHERE agent = ?", [agent]).map(drop)
}
