//! Finds urgent events among those that wait, by a partial index, and the earlier events of the same senders: near
//! the front by a short scan, deeper ones by an index that only long inboxes use. The cost does not depend on the
//! backlog. What counts as urgent, and the order of senders, is decided by `agent`.

use agent::event::Principal;
use agent::inbox::{fits_read_limit, urgent_senders};
use agent::life::Requester;
use agent::limits;
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use super::life::Life;
use super::rows::{all, first, from_json, int, ms, principal_at, principal_columns, u32_at, u64_at};
use super::sums;
use crate::sqlite::engine::fault::Outcome;

/// Urgent events, newest first.
const URGENT: &str = "SELECT w.seq, e.principal_kind, e.principal FROM waiting w INDEXED BY waiting_urgent \
    CROSS JOIN event e ON e.agent = w.agent AND e.seq = w.seq \
    WHERE w.agent = ? AND w.urgent = 1 AND w.taken = 0 ORDER BY w.seq DESC LIMIT ?";
/// Of the first waiting events, those that are not taken and not found by [`DEEP`], each with the hash of its sender.
const NEAR: &str = "SELECT seq, speaker FROM \
    (SELECT seq, speaker, deep, taken FROM waiting WHERE agent = ? ORDER BY seq LIMIT ?) WHERE deep = 0 AND taken = 0";
/// Events of one sender that arrived when many others were waiting, and that are not taken.
const DEEP: &str = "SELECT w.seq, w.speaker FROM waiting w INDEXED BY waiting_deep \
    CROSS JOIN event e ON e.agent = w.agent AND e.seq = w.seq \
    WHERE w.agent = ? AND w.speaker = ? AND w.deep = 1 AND w.taken = 0 AND w.seq <= ? \
    AND e.principal_kind = ? AND e.principal IS ? ORDER BY w.seq LIMIT ?";
/// The size of an event in bytes, if it is from that sender.
const SIZE: &str = "SELECT coalesce(octet_length(e.data), 0) + coalesce(octet_length(m.text), 0) FROM event e \
    LEFT JOIN message m ON m.space = e.space AND m.seq = e.from_seq \
    WHERE e.agent = ? AND e.seq = ? AND e.principal_kind = ? AND e.principal IS ?";

/// Whether an urgent event waits that is not taken.
const ANY: &str =
    "SELECT 1 FROM waiting INDEXED BY waiting_urgent WHERE agent = ? AND urgent = 1 AND taken = 0 LIMIT 1";
/// Whether such an event of one sender, not older than a time, waits.
const ANY_OF: &str = "SELECT 1 FROM waiting w INDEXED BY waiting_urgent \
    CROSS JOIN event e ON e.agent = w.agent AND e.seq = w.seq WHERE w.agent = ? \
    AND w.urgent = 1 AND w.taken = 0 AND e.principal_kind = ? AND e.principal IS ? AND e.at >= ? LIMIT 1";

/// Seqs of urgent events and of the earlier events of the same senders: at most `limit`, and only as long as the
/// limit on bytes is not exceeded. Each sender's events start with the first one that waits.
pub(crate) fn seqs(db: &Connection, agent: i64, limit: u32) -> Outcome<Vec<i64>> {
    let urgent = all(db, URGENT, params![agent, limit], |row| Ok((u64_at(row, 0)?, principal_at(row, 1)?)))?;
    if urgent.is_empty() {
        return Ok(Vec::new());
    }
    let requesters = requesters(db, agent)?;
    let near = all(db, NEAR, params![agent, limits::URGENT_LOOK_MAX], seq_and_hash_at)?;
    let senders = urgent.iter().map(|(seq, sender)| (*seq, sender));
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (sender, last) in urgent_senders(senders, &requesters) {
        let (sum, (kind, principal)) = (sums::sender_hash(sender), principal_columns(sender));
        if found.len() >= limit as usize {
            break;
        }
        let mut candidates: Vec<_> =
            near.iter().copied().filter(|(seq, hash)| *hash == sum && *seq <= last).collect();
        candidates.extend(all(
            db,
            DEEP,
            params![agent, sum, int(last), kind, principal, limit],
            seq_and_hash_at,
        )?);
        candidates.sort_unstable();
        for (seq, _) in &candidates {
            let size = first(db, SIZE, params![agent, int(*seq), kind, principal], |row| u32_at(row, 0))?;
            // It is from another sender with the same hash.
            let Some(size) = size.map(|size| size as usize) else { continue };
            if found.len() >= limit as usize || !fits_read_limit(bytes, size) {
                break;
            }
            bytes += size;
            found.push(int(*seq));
        }
    }
    Ok(found)
}

fn seq_and_hash_at(row: &Row<'_>) -> Outcome<(u64, i64)> {
    Ok((u64_at(row, 0)?, row.get(1)?))
}

/// Whether an urgent event waits, not taken and not older than `since`, from one of these requesters of the open cycle.
pub(crate) fn waits_of(
    db: &Connection,
    life: &Life,
    requesters: &[Requester],
    since: Option<Timestamp>,
) -> Outcome<bool> {
    if life.inbox.waiting <= life.inbox.taken || !any(db, life.agent)? {
        return Ok(false);
    }
    let senders: Vec<&Principal> = requesters.iter().map(|requester| &requester.principal).collect();
    any_of(db, life.agent, &senders, since.map_or(i64::MIN, ms))
}

/// For whom the open cycle works.
pub(crate) fn requesters(db: &Connection, agent: i64) -> Outcome<Vec<Requester>> {
    let sql = "SELECT requesters FROM life WHERE agent = ?";
    let requesters = first(db, sql, [agent], |row| Ok(row.get::<_, Option<String>>(0)?))?.flatten();
    Ok(requesters.map(|text| from_json(&text, "requesters")).transpose()?.unwrap_or_default())
}

/// Whether an urgent event waits that is not taken.
pub(crate) fn any(db: &Connection, agent: i64) -> Outcome<bool> {
    Ok(db.prepare_cached(ANY)?.exists([agent])?)
}

/// Whether an urgent event of one of these senders waits that is not taken. This reads the rows and not a list of
/// waiting events: a list is bounded, and a "stop" beyond its end would be missed.
fn any_of(db: &Connection, agent: i64, senders: &[&Principal], since: i64) -> Outcome<bool> {
    let mut statement = db.prepare_cached(ANY_OF)?;
    for sender in senders {
        let (kind, principal) = principal_columns(sender);
        if statement.exists(params![agent, kind, principal, since])? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_events_and_their_senders_earlier_ones_are_found_by_index_for_any_backlog() {
        let db = crate::sqlite::engine::schema::open_memory().unwrap();
        let urgent = [URGENT, ANY, ANY_OF].map(|sql| (sql, "waiting_urgent"));
        for (sql, index) in
            urgent.into_iter().chain([(DEEP, "waiting_deep"), (SIZE, "sqlite_autoindex_event_1")])
        {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let blanks = vec![1i64; plan.parameter_count()];
            let steps = plan.query_map(rusqlite::params_from_iter(blanks), |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            assert!(steps[0].contains(index), "{sql}: {steps:?}");
            assert!(!steps.iter().any(|step| step.contains("SCAN") || step.contains("TEMP")), "{steps:?}");
        }
    }
}
