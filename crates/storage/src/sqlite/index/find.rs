//! Finds documents by their words, and ranks them as BM25 does for words that occur once: the rarer the words of the
//! query that a text has, and the shorter the text, the better. How rare a word is, is counted among the agent's own
//! texts, so that no other agent changes what is found. Must not know texts.

use std::cmp::Reverse;
use std::collections::HashMap;

use agent::id::CycleId;
use agent::limits;
use rusqlite::{Connection, Row, params};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::index::excerpt::is_prefix;
use crate::sqlite::index::feed::{MEMORY, SEQ_BITS, SPACE, first_id};
use crate::sqlite::tables::rows::{all, bytes, first, int, uuid_or_none};

/// How soon further words count less in BM25.
const K1: f64 = 1.2;
/// How much the length of a text counts.
const B: f64 = 0.75;

/// What is sought among the documents of one agent and of its spaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sought {
    pub(crate) agent: i64,
    pub(crate) spaces: Vec<i64>,
    /// Each once, as [`super::words`] forms them.
    pub(crate) words: Vec<String>,
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
    pub(crate) kind: Option<i64>,
    pub(crate) space: Option<i64>,
}

impl Sought {
    /// The owners of the documents that are searched.
    fn owners(&self) -> impl Iterator<Item = i64> {
        [self.agent].into_iter().chain(self.spaces.iter().map(|space| SPACE | space))
    }
}

/// A document that was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hit {
    pub(crate) id: i64,
    pub(crate) at: i64,
    pub(crate) kind: i64,
    pub(crate) cycle: Option<CycleId>,
    pub(crate) score: f64,
    words: i64,
}

impl Hit {
    /// The seq of its entry or message; `None` if it is a memory.
    pub(crate) fn seq(&self) -> Option<i64> {
        (self.id & MEMORY == 0).then_some(self.id & (MEMORY - 1))
    }

    /// The space, if it is a message.
    pub(crate) fn posted_in(&self) -> Option<i64> {
        let owner = self.id >> SEQ_BITS;
        (owner >= SPACE).then_some(owner - SPACE)
    }

    /// The key of its memory.
    pub(crate) fn key(&self, db: &Connection) -> Outcome<Option<String>> {
        let sql = "SELECT key FROM memory WHERE agent = ? AND slot = ?";
        first(db, sql, [self.id >> SEQ_BITS, self.id & (MEMORY - 1)], |row| Ok(row.get(0)?))
    }

    /// The lowest trust of the events of its cycle, and the spaces that the cycle was about: at most two.
    pub(crate) fn origin(&self, db: &Connection) -> Outcome<(Option<i64>, Vec<i64>)> {
        let Some(cycle) = self.cycle else { return Ok((None, self.posted_in().into_iter().collect())) };
        let cycle = (self.id >> SEQ_BITS, bytes(cycle.0));
        let sql = "SELECT trust FROM cycle WHERE agent = ? AND cycle = ?";
        let trust = first(db, sql, cycle, |row| Ok(row.get::<_, Option<i64>>(0)?))?.flatten();
        let sql = "SELECT space FROM cycle_space WHERE agent = ? AND cycle = ? LIMIT 2";
        Ok((trust, all(db, sql, cycle, |row| Ok(row.get(0)?))?))
    }
}

/// Whether a cycle of the agent was about the space.
pub(crate) fn is_about(db: &Connection, agent: i64, space: i64) -> Outcome<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM cycle_space WHERE agent = ? AND space = ?)";
    Ok(first(db, sql, [agent, space], |row| Ok(row.get(0)?))?.unwrap_or(false))
}

/// Spaces that the agent's cycles were about, at most [`limits::RECALL_SPACES`].
pub(crate) fn processed_spaces(db: &Connection, agent: i64) -> Outcome<Vec<i64>> {
    let sql = "SELECT DISTINCT space FROM cycle_space WHERE agent = ? LIMIT ?";
    all(db, sql, params![agent, limits::RECALL_SPACES], |row| Ok(row.get(0)?))
}

/// The best documents, at most [`limits::RECALL_READ`].
pub(crate) fn find(db: &Connection, sought: &Sought) -> Outcome<Vec<Hit>> {
    let sql = "SELECT docs, words FROM done WHERE owner = ?";
    let (mut docs, mut words) = (0, 0);
    for owner in sought.owners() {
        let counted = first(db, sql, [owner], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        let (more, their_words) = counted.unwrap_or((0, 0));
        (docs, words) = (docs + more, words + their_words);
    }
    if docs == 0 {
        return Ok(Vec::new());
    }
    let percent = docs.unsigned_abs() * limits::RECALL_COMMON_PERCENT / 100;
    let most = int(percent.max(limits::RECALL_COMMON_MIN).min(limits::RECALL_CANDIDATES as u64));
    let mut scores: HashMap<i64, f64> = HashMap::new();
    for word in &sought.words {
        let ids = having(db, sought, word, most + 1)?;
        // A word in too many texts says little. Beside rarer words it finds nothing; where all are common, they filter.
        if ids.len() as i64 > most {
            continue;
        }
        let have = ids.len() as f64;
        let rarity = (1.0 + (docs as f64 - have + 0.5).max(0.0) / (have + 0.5)).ln();
        ids.into_iter().for_each(|id| *scores.entry(id).or_default() += rarity);
    }
    let mut hits = documents(db, sought, scores)?;
    if hits.is_empty() {
        // No rarer word is in a text that is wanted.
        hits = newest(db, sought)?;
    }
    let average = words as f64 / docs as f64;
    for hit in &mut hits {
        let length = 1.0 - B + B * hit.words as f64 / average.max(1.0);
        hit.score *= (K1 + 1.0) / (1.0 + K1 * length);
    }
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.at.cmp(&a.at)));
    hits.truncate(limits::RECALL_READ);
    Ok(hits)
}

/// The documents with a word, in any order.
fn having(db: &Connection, sought: &Sought, word: &str, most: i64) -> Outcome<Vec<i64>> {
    let sql = "SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ? LIMIT ?";
    let (phrase, mut ids) = (phrase(word), Vec::new());
    for owner in sought.owners() {
        let left = most - ids.len() as i64;
        let given = params![phrase, first_id(owner), first_id(owner + 1), left];
        ids.extend(all(db, sql, given, |row| Ok(row.get::<_, i64>(0)?))?);
    }
    Ok(ids)
}

/// A word as a query of FTS5. It has only letters, digits and marks, so that it cannot end the string.
fn phrase(word: &str) -> String {
    format!("\"{word}\"{}", if is_prefix(word) { "*" } else { "" })
}

const DOCUMENT: &str = "d.id, d.at, d.kind, d.cycle, d.words";

fn hit_at(row: &Row<'_>) -> Outcome<Hit> {
    let cycle = uuid_or_none(row, 3)?.map(CycleId);
    Ok(Hit { id: row.get(0)?, at: row.get(1)?, kind: row.get(2)?, cycle, score: 1.0, words: row.get(4)? })
}

/// The conditions of a query on a document `d`, as `?1` to `?6`. Of spaces only the one is searched that is sought.
const WANTED: &str = "(?2 IS NULL OR d.at >= ?2) AND (?3 IS NULL OR d.at < ?3) AND (?4 IS NULL OR d.kind = ?4) \
    AND (?5 IS NULL OR d.id >= ?6 OR EXISTS (SELECT 1 FROM cycle_space s WHERE s.agent = ?1 AND s.cycle = d.cycle AND s.space = ?5))";

/// The documents with the best scores that the query wants.
fn documents(db: &Connection, sought: &Sought, scores: HashMap<i64, f64>) -> Outcome<Vec<Hit>> {
    let mut scores: Vec<(i64, f64)> = scores.into_iter().collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    let sql = format!("SELECT {DOCUMENT} FROM doc d WHERE d.id = ?7 AND {WANTED}");
    let Sought { agent, from, to, kind, space, .. } = sought;
    let mut hits = Vec::new();
    for (id, score) in scores {
        let found = first(db, &sql, params![agent, from, to, kind, space, first_id(SPACE), id], hit_at)?;
        hits.extend(found.map(|hit| Hit { score, ..hit }));
        if hits.len() >= limits::RECALL_CANDIDATES {
            break;
        }
    }
    Ok(hits)
}

/// The newest documents that have all the words, else those that have any.
fn newest(db: &Connection, sought: &Sought) -> Outcome<Vec<Hit>> {
    let Sought { agent, words, from, to, kind, space, .. } = sought;
    let sql = format!(
        "SELECT {DOCUMENT} FROM words w CROSS JOIN doc d ON d.id = w.rowid WHERE w.words MATCH ?7 \
         AND w.rowid >= ?8 AND w.rowid < ?9 AND {WANTED} ORDER BY w.rowid DESC LIMIT ?10"
    );
    for join in [" AND ", " OR "] {
        if words.is_empty() {
            break;
        }
        let phrases = words.iter().map(|word| phrase(word)).collect::<Vec<_>>().join(join);
        let most = int(limits::RECALL_CANDIDATES as u64);
        let mut hits = Vec::new();
        for owner in sought.owners() {
            let (first, end) = (first_id(owner), first_id(owner + 1));
            let given = params![agent, from, to, kind, space, first_id(SPACE), phrases, first, end, most];
            hits.extend(all(db, &sql, given, hit_at)?);
        }
        hits.sort_by_key(|hit: &Hit| Reverse(hit.at));
        hits.truncate(limits::RECALL_CANDIDATES);
        if !hits.is_empty() {
            return Ok(hits);
        }
    }
    Ok(Vec::new())
}
