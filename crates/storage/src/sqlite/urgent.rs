//! What is urgent of what waits, by the partial index over it: a look costs the same behind any
//! backlog. What urgency means is not known here.

use agent::event::Principal;
use agent::limits;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};

use super::fault::Outcome;
use super::rows::{all, principal_columns};

/// Seqs of what is urgent, newest first and at most `limit` (by the partial index), and of what the same
/// speakers said before it, among the newest that wait: a look costs the same behind any backlog.
pub(super) fn seqs(db: &Connection, agent: i64, limit: u32) -> Outcome<Vec<i64>> {
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, (row.get::<_, i64>(1)?, row.get::<_, Value>(2)?)));
    let sql = "SELECT w.seq, e.principal_kind, e.principal FROM waiting w \
               JOIN event e ON e.agent = w.agent AND e.seq = w.seq \
               WHERE w.agent = ? AND w.urgent = 1 AND w.taken = 0 ORDER BY w.seq DESC LIMIT ?";
    let urgent = all(db, sql, params![agent, limit], read)?;
    let mut found: Vec<i64> = urgent.iter().map(|(seq, _)| *seq).collect();
    let Some(newest) = found.first().copied() else { return Ok(found) };
    let mut last: Vec<(i64, (i64, Value))> = Vec::new();
    for (seq, speaker) in urgent {
        if !last.iter().any(|(_, known)| *known == speaker) {
            last.push((seq, speaker));
        }
    }
    let sql = "SELECT e.seq, e.principal_kind, e.principal FROM (SELECT agent, seq FROM waiting \
               WHERE agent = ?1 AND taken = 0 AND urgent = 0 AND seq < ?2 ORDER BY seq DESC LIMIT ?3) w \
               JOIN event e ON e.agent = w.agent AND e.seq = w.seq ORDER BY e.seq DESC";
    let before = all(db, sql, params![agent, newest, limits::URGENT_LOOK], read)?;
    let of_them = |(seq, speaker): &(i64, _)| last.iter().any(|(last, known)| seq < last && known == speaker);
    let room = (limit as usize).saturating_sub(found.len());
    found.extend(before.iter().filter(|row| of_them(row)).map(|(seq, _)| *seq).take(room));
    Ok(found)
}

/// Whether anything urgent waits that is not taken.
pub(super) fn waits(db: &Connection, agent: i64) -> Outcome<bool> {
    let sql = "SELECT 1 FROM waiting WHERE agent = ? AND urgent = 1 AND taken = 0 LIMIT 1";
    Ok(db.prepare_cached(sql)?.exists([agent])?)
}

/// Whether one of them has said something urgent that is not taken. Asked of the rows themselves: a list of what waits has an end, behind which
/// a "stop" must not go unheard.
pub(super) fn waits_of(db: &Connection, agent: i64, speakers: &[&Principal]) -> Outcome<bool> {
    let sql = "SELECT 1 FROM waiting w JOIN event e ON e.agent = w.agent AND e.seq = w.seq WHERE w.agent = ? \
               AND w.urgent = 1 AND w.taken = 0 AND e.principal_kind = ? AND e.principal IS ? LIMIT 1";
    let mut statement = db.prepare_cached(sql)?;
    for speaker in speakers {
        let (kind, principal) = principal_columns(speaker);
        if statement.exists(params![agent, kind, principal])? {
            return Ok(true);
        }
    }
    Ok(false)
}
