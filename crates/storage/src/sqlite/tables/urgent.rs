//! What is urgent of what waits, by a partial index over it, and what the same speakers said before it: among the
//! first that wait, and behind those by an index that only long inboxes pay for. A look costs the same behind any
//! backlog. What urgency means, and who is heard first, is not known here.

use agent::event::Principal;
use agent::inbox::{is_read, speakers};
use agent::life::Requester;
use agent::limits;
use rusqlite::{Connection, Row, params};

use super::rows::{all, first, from_json, int, principal_at, principal_columns, u32_at, u64_at};
use super::sums;
use crate::sqlite::engine::fault::Outcome;

/// What is urgent, the newest first.
const URGENT: &str = "SELECT w.seq, e.principal_kind, e.principal FROM waiting w INDEXED BY waiting_urgent \
    CROSS JOIN event e ON e.agent = w.agent AND e.seq = w.seq \
    WHERE w.agent = ? AND w.urgent = 1 AND w.taken = 0 ORDER BY w.seq DESC LIMIT ?";
/// Of the first that wait those that are not taken and not found by index, and a hash of who said each.
const NEAR: &str = "SELECT seq, speaker FROM \
    (SELECT seq, speaker, deep, taken FROM waiting WHERE agent = ? ORDER BY seq LIMIT ?) WHERE deep = 0 AND taken = 0";
/// What arrived behind many others and is not taken, of one speaker.
const DEEP: &str = "SELECT w.seq, w.speaker FROM waiting w INDEXED BY waiting_deep \
    CROSS JOIN event e ON e.agent = w.agent AND e.seq = w.seq \
    WHERE w.agent = ? AND w.speaker = ? AND w.deep = 1 AND w.taken = 0 AND w.seq <= ? \
    AND e.principal_kind = ? AND e.principal IS ? ORDER BY w.seq LIMIT ?";
/// What an event weighs, where it is that speaker's.
const WORD: &str = "SELECT coalesce(octet_length(e.data), 0) + coalesce(octet_length(m.text), 0) FROM event e \
    LEFT JOIN message m ON m.space = e.space AND m.seq = e.from_seq \
    WHERE e.agent = ? AND e.seq = ? AND e.principal_kind = ? AND e.principal IS ?";

/// Whether anything is urgent.
const WAITS: &str =
    "SELECT 1 FROM waiting INDEXED BY waiting_urgent WHERE agent = ? AND urgent = 1 AND taken = 0 LIMIT 1";
/// Whether something of one speaker is.
const WAITS_OF: &str = "SELECT 1 FROM waiting w INDEXED BY waiting_urgent \
    CROSS JOIN event e ON e.agent = w.agent AND e.seq = w.seq WHERE w.agent = ? \
    AND w.urgent = 1 AND w.taken = 0 AND e.principal_kind = ? AND e.principal IS ? LIMIT 1";

/// Seqs of what is urgent and of what the same speakers said before it, at most `limit` and as many as are
/// read: of each speaker from the first that waits, whatever else does.
pub(crate) fn seqs(db: &Connection, agent: i64, limit: u32) -> Outcome<Vec<i64>> {
    let urgent = all(db, URGENT, params![agent, limit], |row| Ok((u64_at(row, 0)?, principal_at(row, 1)?)))?;
    if urgent.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT requesters FROM life WHERE agent = ?";
    let requesters = first(db, sql, [agent], |row| Ok(row.get::<_, Option<String>>(0)?))?.flatten();
    let requesters: Vec<Requester> =
        requesters.map(|text| from_json(&text, "requesters")).transpose()?.unwrap_or_default();
    let near = all(db, NEAR, params![agent, limits::URGENT_LOOK_MAX], word_at)?;
    let words = urgent.iter().map(|(seq, speaker)| (*seq, speaker));
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (speaker, last) in speakers(words, &requesters) {
        let (sum, (kind, principal)) = (sums::speaker(speaker), principal_columns(speaker));
        if found.len() >= limit as usize {
            break;
        }
        let mut said: Vec<_> =
            near.iter().copied().filter(|(seq, whose)| *whose == sum && *seq <= last).collect();
        said.extend(all(db, DEEP, params![agent, sum, int(last), kind, principal, limit], word_at)?);
        said.sort_unstable();
        for (seq, _) in &said {
            let size = first(db, WORD, params![agent, int(*seq), kind, principal], |row| u32_at(row, 0))?;
            // Somebody else's, whose hash is the same.
            let Some(size) = size.map(|size| size as usize) else { continue };
            if found.len() >= limit as usize || !is_read(bytes, size) {
                break;
            }
            bytes += size;
            found.push(int(*seq));
        }
    }
    Ok(found)
}

fn word_at(row: &Row<'_>) -> Outcome<(u64, i64)> {
    Ok((u64_at(row, 0)?, row.get(1)?))
}

/// Whether anything urgent waits that is not taken.
pub(crate) fn waits(db: &Connection, agent: i64) -> Outcome<bool> {
    Ok(db.prepare_cached(WAITS)?.exists([agent])?)
}

/// Whether one of them has said something urgent that is not taken. Asked of the rows themselves: a list of what waits has an end, behind which
/// a "stop" must not go unheard.
pub(crate) fn waits_of(db: &Connection, agent: i64, speakers: &[&Principal]) -> Outcome<bool> {
    let mut statement = db.prepare_cached(WAITS_OF)?;
    for speaker in speakers {
        let (kind, principal) = principal_columns(speaker);
        if statement.exists(params![agent, kind, principal])? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_urgent_word_and_those_before_it_are_found_by_index_behind_any_backlog() {
        let db = crate::sqlite::engine::schema::open_memory().unwrap();
        let urgent = [URGENT, WAITS, WAITS_OF].map(|sql| (sql, "waiting_urgent"));
        for (sql, index) in
            urgent.into_iter().chain([(DEEP, "waiting_deep"), (WORD, "sqlite_autoindex_event_1")])
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
