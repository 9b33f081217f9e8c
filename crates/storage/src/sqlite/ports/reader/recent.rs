//! The newest messages and runs of the whole server, without an index by time: the newest time of each space and
//! agent is one lookup, and only the most recently active ones are read.

use agent::id::AgentId;
use agent::limits;
use agent::port::RecentItem;
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::tables::messages::{MESSAGE, message_at};
use crate::sqlite::tables::rows::{agent_row, all, ms, page_of, row_bytes, to_json};
use crate::sqlite::tables::runs::{RUN, run_at};

/// Spaces by the time of their newest message, newest first; only those of the given members, if any.
const BUSY_SPACES: &str = "SELECT s.id, (SELECT m.at FROM message m WHERE m.space = s.id AND m.seq = s.head_seq) AS last \
    FROM space s WHERE s.head_seq > 0 AND (?1 IS NULL OR s.id IN (SELECT x.space FROM member x \
    WHERE x.entity IN (SELECT value FROM json_each(?1)))) ORDER BY last DESC LIMIT ?2";
/// Agents by the end of their newest run, newest first; only the given ones, if any.
const BUSY_AGENTS: &str = "SELECT l.agent, (SELECT r.ended_at FROM run r WHERE r.agent = l.agent AND r.ordinal = l.cycles) AS last \
    FROM life l WHERE l.cycles > 0 AND (?1 IS NULL OR l.agent IN (SELECT value FROM json_each(?1))) \
    ORDER BY last DESC LIMIT ?2";

/// The newest messages and runs, oldest first.
pub(super) fn recent(
    db: &Connection,
    agents: Option<&[AgentId]>,
    since: Option<Timestamp>,
    limit: u32,
) -> Outcome<Vec<RecentItem>> {
    let of = match agents {
        None => None,
        Some(agents) => {
            let mut rows = Vec::with_capacity(agents.len());
            for agent in agents {
                rows.extend(agent_row(db, agent.0)?);
            }
            Some(to_json(&rows)?)
        }
    };
    let mut found = Newest { limit: limit as usize, since: since.map(ms), all: Vec::new() };
    for (space, last) in busy(db, BUSY_SPACES, of.as_deref(), limit)? {
        if !found.wants(last) {
            break;
        }
        let sql = format!("{MESSAGE} WHERE m.space = ? ORDER BY m.seq DESC LIMIT ?");
        found.take(read(db, &sql, params![space, limit], |row| message_at(row).map(RecentItem::Message))?);
    }
    for (agent, last) in busy(db, BUSY_AGENTS, of.as_deref(), limit)? {
        if !found.wants(last) {
            break;
        }
        let sql = format!("{RUN} WHERE r.agent = ? ORDER BY r.ordinal DESC LIMIT ?");
        found.take(read(db, &sql, params![agent, limit], |row| run_at(row).map(RecentItem::Run))?);
    }
    Ok(found.all.into_iter().rev().map(|(_, item)| item).collect())
}

/// The first rows of a query that fit into one page, each with its size.
fn read(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    decode: impl Fn(&Row<'_>) -> Outcome<RecentItem>,
) -> Outcome<Vec<(usize, RecentItem)>> {
    let decode = |row: &Row<'_>| Ok((row_bytes(row)?, decode(row)?));
    Ok(page_of(db, sql, params, (limits::PAGE_MAX, limits::PAGE_MAX_BYTES), row_bytes, decode)?.0)
}

fn busy(db: &Connection, sql: &str, of: Option<&str>, limit: u32) -> Outcome<Vec<(i64, i64)>> {
    all(db, sql, params![of, limit], |row| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(0))))
}

/// The newest items read so far, newest first.
struct Newest {
    limit: usize,
    since: Option<i64>,
    /// Each with its size.
    all: Vec<(usize, RecentItem)>,
}

impl Newest {
    /// Whether a space or agent whose newest item is from that time can have an item that belongs here.
    fn wants(&self, last: i64) -> bool {
        let bytes: usize = self.all.iter().map(|(bytes, _)| bytes).sum();
        let full = self.all.len() >= self.limit || bytes >= limits::PAGE_MAX_BYTES;
        let oldest = self.all.last().filter(|_| full).map_or(i64::MIN, |(_, oldest)| ms(oldest.at()));
        last >= oldest && self.since.is_none_or(|since| last > since)
    }

    fn take(&mut self, more: Vec<(usize, RecentItem)>) {
        let since = self.since.unwrap_or(i64::MIN);
        self.all.extend(more.into_iter().filter(|(_, item)| ms(item.at()) > since));
        // The sort is stable: items of one millisecond keep the order of their space or agent.
        self.all.sort_by_key(|(_, item)| std::cmp::Reverse(item.at()));
        let mut room = limits::PAGE_MAX_BYTES;
        let fitting = self.all.iter().take_while(|(bytes, _)| {
            let fits = *bytes <= room;
            room = room.saturating_sub(*bytes);
            fits
        });
        let fitting = fitting.count().max(1);
        self.all.truncate(self.limit.min(fitting));
    }
}
