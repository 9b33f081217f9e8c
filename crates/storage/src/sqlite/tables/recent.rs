//! The messages before those that wake an agent, which it has not been shown: another agent's messages that do not wake
//! it, those that a rule skipped, and those from before it became a member. What the agent itself skipped it has seen, and a
//! skip leaves no trace.

use std::collections::BTreeMap;

use agent::event::{EventData, NamedMessage, Waiting};
use agent::id::SpaceId;
use agent::limits::{RECENT_LOOK, RECENT_MESSAGES_MAX, RECENT_SPACES_MAX};
use rusqlite::{Connection, params};

use super::messages::{NAMED_COLUMNS, named_message_at};
use super::rows::{bytes, int};
use crate::sqlite::engine::fault::Outcome;

/// States of events as the column `event.state` has them.
const PROCESSED: i64 = 2;
const SKIPPED: i64 = 3;

/// The last messages before the newest of these events in each space, oldest first, back to the last one that the agent has
/// processed. So no message is returned again after a later one of its space was processed. Reads few rows, all by key,
/// however long the space and the agent's ledger are.
pub(crate) fn recent(db: &Connection, agent: i64, events: &[Waiting]) -> Outcome<Vec<NamedMessage>> {
    let mut ends: BTreeMap<SpaceId, u64> = BTreeMap::new();
    let mut spaces = Vec::new();
    for waiting in events.iter().rev() {
        let EventData::Message { space, seq, .. } = waiting.event.data else { continue };
        let end = ends.entry(space).or_insert(seq);
        *end = seq.max(*end);
        if !spaces.contains(&space) {
            spaces.push(space);
        }
    }
    let mut found = Vec::new();
    for space in spaces.into_iter().take(RECENT_SPACES_MAX) {
        let end = ends.get(&space).copied().unwrap_or(0);
        unread(db, agent, (space, end), &mut found)?;
    }
    found.sort_by_key(|message| (message.at, message.seq));
    Ok(found)
}

fn unread(
    db: &Connection,
    agent: i64,
    (space, end): (SpaceId, u64),
    found: &mut Vec<NamedMessage>,
) -> Outcome<()> {
    // Of a space that it has left, the agent is shown nothing.
    let sql = format!(
        "SELECT {NAMED_COLUMNS}, e.state, m.sender = ?1, e.cycle IS NOT NULL FROM space s \
         JOIN member mine ON mine.space = s.id AND mine.entity = ?1 \
         JOIN message m ON m.space = s.id AND m.seq >= ?3 AND m.seq < ?4 AND m.kind = 0 \
         JOIN entity p ON p.id = m.sender LEFT JOIN event e ON e.agent = ?1 AND e.id = m.uuid \
         WHERE s.uuid = ?2 ORDER BY m.seq DESC"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let from = end.saturating_sub(RECENT_LOOK);
    let mut rows = statement.query(params![agent, bytes(space.0), int(from), int(end)])?;
    while found.len() < RECENT_MESSAGES_MAX
        && let Some(row) = rows.next()?
    {
        let (state, own) = (row.get::<_, Option<i64>>(STATE)?, row.get::<_, bool>(STATE + 1)?);
        let in_cycle = row.get::<_, bool>(STATE + 2)?;
        match state {
            Some(PROCESSED) => break,
            Some(SKIPPED) if in_cycle => {}
            // Its own messages are in its history.
            None | Some(SKIPPED) if !own => found.push(named_message_at(row)?),
            // It will be shown later, or an operator has taken it away, or its text has made cycles fail.
            _ => {}
        }
    }
    Ok(())
}

/// The first column after [`NAMED_COLUMNS`].
const STATE: usize = 19;
