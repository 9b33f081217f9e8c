//! Events that the bound on agents' messages keeps back: kept, and let go together, each with its
//! ledger row.

use agent::delivery::Together;
use agent::event::{Event, Fate};
use agent::limits;
use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::Session;
use super::events::{Head, admit, ledger, put_waiting};
use super::fault::{Outcome, damaged};
use super::rows::{all, first, int, ms, run};

/// Counts an event that was just written as held, and notes when time alone lets it go. Where too many
/// are held, those of each space become one.
pub(super) fn keep(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    release_at: Option<Timestamp>,
    at: Timestamp,
) -> Outcome<()> {
    count(db, head, release_at.map(ms))?;
    if head.held > limits::HELD_MAX {
        let sql = "SELECT DISTINCT space FROM event WHERE agent = ? AND state = 1 AND space IS NOT NULL";
        for space in all(db, sql, [head.agent], |row| Ok(row.get::<_, i64>(0)?))? {
            put_together(db, session, head, space, at)?;
        }
    }
    Ok(())
}

fn count(db: &Connection, head: &mut Head, release_at: Option<i64>) -> Outcome<()> {
    head.held += 1;
    run(db, "UPDATE inbox_head SET held = held + 1 WHERE agent = ?", [head.agent])?;
    let sql = "UPDATE event SET release_at = ? WHERE agent = ? AND seq = ?";
    run(db, sql, params![release_at, head.agent, head.head_seq]).map(drop)
}

fn discount(db: &Connection, head: &mut Head, less: u32) -> Outcome<()> {
    head.held = head.held.saturating_sub(less);
    run(db, "UPDATE inbox_head SET held = held - ? WHERE agent = ?", params![less, head.agent]).map(drop)
}

/// All that is held of one space becomes one held event, which is let go when the first of them would
/// have been. Each keeps its row.
fn put_together(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    space: i64,
    at: Timestamp,
) -> Outcome<()> {
    let held = gather(db, head.agent, space)?;
    let Some(range) = held.together.event(at) else { return Ok(()) };
    let sql = "SELECT min(release_at) FROM event WHERE agent = ? AND state = 1 AND space = ?";
    let release_at = first(db, sql, params![head.agent, space], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
    let before = head.head_seq;
    admit(db, session, head, &range, Some(space), &Fate::Held)?;
    if head.head_seq == before {
        return Err(damaged(format!("`{}` stands for what is held already", range.id)));
    }
    stand_for(db, head, space)?;
    discount(db, head, held.count)?;
    count(db, head, release_at.flatten())
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
    let held = gather(db, head.agent, space)?;
    let Some((seq, oldest)) = held.oldest else { return Ok(None) };
    discount(db, head, held.count)?;
    if held.count == 1 {
        let sql = "UPDATE event SET state = 0, release_at = NULL WHERE agent = ? AND seq = ?";
        run(db, sql, params![head.agent, seq])?;
        return put_waiting(db, session, head, &oldest, seq, ms(at) + head.debounce);
    }
    let range = held.together.event(at).ok_or_else(|| damaged("what is held was not said in a space"))?;
    let wake = admit(db, session, head, &range, Some(space), &Fate::Waiting)?;
    stand_for(db, head, space)?;
    Ok(wake)
}

/// What is held of one space.
#[derive(Default)]
struct Gathered {
    together: Together,
    oldest: Option<(i64, Event)>,
    count: u32,
}

/// Reads it page by page, the newest first.
fn gather(db: &Connection, agent: i64, space: i64) -> Outcome<Gathered> {
    let condition = "e.state = 1 AND e.space = ?2 AND e.seq < ?3";
    let mut held = Gathered::default();
    let mut before = i64::MAX;
    loop {
        let rows = ledger(db, agent, condition, (Value::Integer(space), before), limits::PAGE_MAX)?;
        let last = rows.len() < limits::PAGE_MAX as usize;
        for row in rows {
            before = int(row.seq);
            held.count += 1;
            held.together.add(&row.event);
            held.oldest = Some((before, row.event));
        }
        if last {
            return Ok(held);
        }
    }
}

/// The newest event of the agent stands for all that is held of the space, and for what stood for some of
/// it before: they share its state from now on.
fn stand_for(db: &Connection, head: &Head, space: i64) -> Outcome<()> {
    let sql = "UPDATE event SET range_of = ?3 WHERE agent = ?1 AND range_of IN \
               (SELECT seq FROM event WHERE agent = ?1 AND state = 1 AND space = ?2 AND seq < ?3)";
    run(db, sql, params![head.agent, space, head.head_seq])?;
    let sql = "UPDATE event SET state = 0, release_at = NULL, range_of = ?3 \
               WHERE agent = ?1 AND state = 1 AND space = ?2 AND seq < ?3";
    run(db, sql, params![head.agent, space, head.head_seq]).map(drop)
}

/// One held event less.
pub(super) fn forget(db: &Connection, agent: i64) -> Outcome<()> {
    run(db, "UPDATE inbox_head SET held = held - 1 WHERE agent = ?", [agent]).map(drop)
}
