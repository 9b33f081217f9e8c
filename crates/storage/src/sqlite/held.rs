//! Events that the bound on agents' messages keeps back: kept, and let go together, each with its
//! ledger row.

use agent::delivery::together;
use agent::event::{Event, Fate};
use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::Session;
use super::events::{Head, admit, ledger, put_waiting};
use super::fault::{Outcome, damaged};
use super::rows::{int, ms, run};

/// Counts an event that was just written as held, and notes when time alone lets it go.
pub(super) fn keep(db: &Connection, head: &mut Head, release_at: Option<Timestamp>) -> Outcome<()> {
    head.held += 1;
    run(db, "UPDATE inbox_head SET held = held + 1 WHERE agent = ?", [head.agent])?;
    let sql = "UPDATE event SET release_at = ? WHERE agent = ? AND seq = ?";
    run(db, sql, params![release_at.map(ms), head.agent, head.head_seq]).map(drop)
}

/// Lets go all that is held of one space: it waits from now on, as one event where it is several.
/// Returns from when on the agent is due because of it.
pub(super) fn release(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    space: i64,
    at: Timestamp,
) -> Outcome<Option<i64>> {
    let condition = "e.state = 1 AND e.space = ?2 AND e.seq < ?3";
    let mut rows = ledger(db, head.agent, condition, (Value::Integer(space), i64::MAX), u32::MAX)?;
    rows.reverse();
    let Some(first) = rows.first() else { return Ok(None) };
    let (seq, alone) = (int(first.seq), first.event.clone());
    let count = rows.len() as u64;
    let events: Vec<Event> = rows.into_iter().map(|row| row.event).collect();
    let range = match events.len() {
        1 => None,
        _ => Some(together(&events, at).ok_or_else(|| damaged("what is held was not said in a space"))?),
    };
    let (range_of, wake) = match range {
        None => (None, put_waiting(db, session, head, &alone, seq, ms(at) + head.debounce)?),
        Some(range) => {
            let wake = admit(db, session, head, &range, Some(space), &Fate::Waiting)?;
            (Some(head.head_seq), wake)
        }
    };
    let sql = "UPDATE event SET state = 0, release_at = NULL, range_of = ? WHERE agent = ? AND state = 1 AND space = ?";
    run(db, sql, params![range_of, head.agent, space])?;
    head.held = head.held.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
    run(db, "UPDATE inbox_head SET held = held - ? WHERE agent = ?", params![int(count), head.agent])?;
    Ok(wake)
}

/// One held event less.
pub(super) fn forget(db: &Connection, agent: i64) -> Outcome<()> {
    run(db, "UPDATE inbox_head SET held = held - 1 WHERE agent = ?", [agent]).map(drop)
}
