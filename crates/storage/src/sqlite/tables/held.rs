//! Events that the bound on agents' messages keeps back, and how those of one space are let go: each as
//! itself and in their order, so many at a time.

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::events::{Head, put_waiting};
use super::rows::{all, ms, principal_at, run};
use super::session::Session;
use crate::sqlite::engine::fault::Outcome;

/// What is held of one space, the oldest first, by the partial index over it.
pub(crate) const HELD: &str = "SELECT seq, urgent, principal_kind, principal FROM event INDEXED BY event_held_in \
    WHERE agent = ? AND space = ? AND state = 1 ORDER BY seq LIMIT ?";

/// Notes when time alone lets the newest event of an inbox go.
pub(crate) fn keep(db: &Connection, head: &Head, release_at: Option<Timestamp>) -> Outcome<()> {
    let sql = "UPDATE event SET release_at = ? WHERE agent = ? AND seq = ?";
    run(db, sql, params![release_at.map(ms), head.agent, head.head_seq]).map(drop)
}

/// Lets go what is held of one space, as far as this command has room for it: it waits from now on. What is
/// left is due at once, so that the next sweep goes on with it. Returns from when on the agent is due because
/// of what was let go.
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
    for (seq, urgent, speaker) in &held {
        wake = put_waiting(db, session, head, (*seq, *urgent, speaker), ms(at) + head.debounce)?;
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

/// One held event less. Its head need not be readable for that.
pub(crate) fn forget(db: &Connection, agent: i64) -> Outcome<()> {
    run(db, "UPDATE inbox_head SET held = held - 1 WHERE agent = ?", [agent]).map(drop)
}
