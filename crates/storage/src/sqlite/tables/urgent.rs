//! What is urgent of what waits, by partial indexes over it and over what one speaker said: a look costs the
//! same behind any backlog. What urgency means, and who is heard first, is not known here.

use agent::event::Principal;
use agent::inbox::{is_read, speakers};
use agent::life::Requester;
use rusqlite::{Connection, params};

use super::rows::{all, first, from_json, int, principal_at, principal_columns, u32_at, u64_at};
use crate::sqlite::engine::fault::Outcome;

/// What is urgent, the newest first.
const URGENT: &str = "SELECT w.seq, e.principal_kind, e.principal FROM waiting w INDEXED BY waiting_urgent \
    CROSS JOIN event e ON e.agent = w.agent AND e.seq = w.seq \
    WHERE w.agent = ? AND w.urgent = 1 AND w.taken = 0 ORDER BY w.seq DESC LIMIT ?";
/// What waits of one speaker up to some word, the oldest first, with what each weighs.
const WORDS: &str = "SELECT e.seq, coalesce(octet_length(e.data), 0) + coalesce(octet_length(m.text), 0) \
    FROM event e INDEXED BY event_speaker CROSS JOIN waiting w ON w.agent = e.agent AND w.seq = e.seq \
    LEFT JOIN message m ON m.space = e.space AND m.seq = e.from_seq WHERE e.agent = ? AND e.state = 0 AND e.principal_kind = ? AND e.principal IS ? AND e.seq <= ? AND w.taken = 0 \
    ORDER BY e.seq LIMIT ?";

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
    let sql = "SELECT requesters FROM life WHERE agent = ?";
    let requesters = first(db, sql, [agent], |row| Ok(row.get::<_, Option<String>>(0)?))?.flatten();
    let requesters: Vec<Requester> =
        requesters.map(|text| from_json(&text, "requesters")).transpose()?.unwrap_or_default();
    let words = urgent.iter().map(|(seq, speaker)| (*seq, speaker));
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (speaker, last) in speakers(words, &requesters) {
        let (kind, principal) = principal_columns(speaker);
        let room = (limit as usize).saturating_sub(found.len()) as u64;
        let row = params![agent, kind, principal, int(last), int(room)];
        for (seq, size) in all(db, WORDS, row, |row| Ok((row.get::<_, i64>(0)?, u32_at(row, 1)? as usize)))? {
            if !is_read(bytes, size) {
                break;
            }
            bytes += size;
            found.push(seq);
        }
    }
    Ok(found)
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
        for (sql, index) in urgent.into_iter().chain([(WORDS, "event_speaker")]) {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let blanks = vec![1i64; plan.parameter_count()];
            let steps = plan.query_map(rusqlite::params_from_iter(blanks), |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            assert!(steps[0].contains(index), "{sql}: {steps:?}");
            assert!(!steps.iter().any(|step| step.contains("SCAN") || step.contains("TEMP")), "{steps:?}");
        }
    }
}
