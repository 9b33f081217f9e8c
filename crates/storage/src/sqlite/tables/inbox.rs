//! Reads events of the ledger with the messages that they refer to.

use agent::event::{Event, EventData, EventProgress, EventState, NamedMessage, Waiting};
use agent::id::{CycleId, EntityId, EventId, MessageId, RootId, SpaceId};
use agent::inbox::fits_read_limit;
use agent::port::InboxRow;
use agent::quote::beginning;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::events::state_at;
use super::rows::{
    channel_at, event_kind_at, from_json, ids_from, key_at, key_or_none, kind_at, page_of, principal_at,
    time_at, time_or_none, to_json, trust_at, u32_at, u64_at, uuid_or_none,
};
use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::tables::{sums, urgent};

/// Columns of [`event_at`] and [`message_of_event_at`].
pub(crate) const COLUMNS: &str = "e.seq, e.id, e.kind, e.urgent, e.at, e.principal_kind, e.principal, e.channel, e.trust, \
    e.root, e.hop, e.from_seq, p.name, e.data, s.uuid, s.name, m.uuid, m.text, m.at, p.uuid, \
    p.display_name, p.kind, s.id, e.cites, \
    m.uuid, m.kind, m.at, p.uuid, m.mentions, m.text, m.data, m.crc";

/// Joins for [`COLUMNS`]: the space, the message, its sender.
pub(crate) const JOINS: &str = "LEFT JOIN space s ON s.id = e.space \
    LEFT JOIN message m ON m.space = e.space AND m.seq = e.from_seq LEFT JOIN entity p ON p.id = m.sender";

/// The first of the columns for [`sums::message_is_intact`] among [`COLUMNS`].
const SUM_COLUMNS: usize = 24;

/// The first column after [`COLUMNS`].
pub(crate) const NEXT: usize = SUM_COLUMNS + sums::COLUMNS;

pub(crate) fn event_at(row: &Row<'_>) -> Outcome<Event> {
    let id = EventId(key_at(row, 1)?);
    let space = uuid_or_none(row, 14)?.map(SpaceId);
    let data = match space {
        Some(space) => {
            let message = uuid_or_none(row, 16)?.or_else(|| id.0.parse().ok()).unwrap_or(Uuid::nil());
            EventData::Message { space, seq: u64_at(row, 11)?, message: MessageId(message) }
        }
        None => from_json(&row.get::<_, String>(13)?, "an event's data")?,
    };
    Ok(Event {
        id,
        kind: event_kind_at(row, 2)?,
        urgent: row.get(3)?,
        at: time_at(row, 4)?,
        envelope: agent::event::Envelope {
            principal: principal_at(row, 5)?,
            channel: channel_at(row, 7)?,
            trust: trust_at(row, 8)?,
            root: RootId(key_at(row, 9)?),
            hop: u32_at(row, 10)?,
        },
        data,
        cites: key_or_none(row, 23)?.map(EventId),
    })
}

/// The message that an event refers to.
fn message_of_event_at(row: &Row<'_>) -> Outcome<Option<NamedMessage>> {
    let (Some(space), Some(message), Some(sender)) =
        (uuid_or_none(row, 14)?, uuid_or_none(row, 16)?, uuid_or_none(row, 19)?)
    else {
        return Ok(None);
    };
    Ok(Some(NamedMessage {
        id: MessageId(message),
        space: SpaceId(space),
        space_handle: row.get(15)?,
        seq: u64_at(row, 11)?,
        sender: EntityId(sender),
        sender_name: row.get(20)?,
        sender_handle: row.get(12)?,
        sender_kind: kind_at(row, 21)?,
        text: sums::text_at(row, 17, SUM_COLUMNS)?,
        mentions: ids_from(row.get(SUM_COLUMNS + 4)?),
        at: time_at(row, 18)?,
        // A message and its event have the same one.
        trust: trust_at(row, 8)?,
    }))
}

/// Which waiting events to read.
pub(crate) enum Which {
    /// Those that the open cycle took.
    Taken,
    /// Those that it did not take.
    Others,
    /// The urgent ones of these, each with its sender's earlier events. If there are more than the limit,
    /// the earliest of each sender.
    Urgent,
}

/// Waiting events with their messages, oldest first: at most `limit`, and only as long as the limit on bytes is not
/// exceeded; the sizes are added to `bytes`. Events that the open cycle took are all read: it has read them before.
pub(crate) fn waiting(
    db: &Connection,
    agent: i64,
    which: &Which,
    limit: u32,
    bytes: &mut usize,
) -> Outcome<Vec<Waiting>> {
    let (index, condition, given) = match which {
        Which::Taken => ("INDEXED BY waiting_taken", "w.taken = 1 AND ?2 = 0", Value::Integer(0)),
        Which::Others => ("", "w.taken = 0 AND ?2 = 0", Value::Integer(0)),
        Which::Urgent => {
            let seqs = urgent::seqs(db, agent, limit)?;
            ("", "w.seq IN (SELECT value FROM json_each(?2))", Value::Text(to_json(&seqs)?))
        }
    };
    let sql = format!(
        "SELECT {COLUMNS}, w.attempts, w.deaths FROM waiting w {index} JOIN event e ON e.agent = w.agent AND e.seq = w.seq \
         {JOINS} WHERE w.agent = ?1 AND {condition} ORDER BY w.seq LIMIT ?3"
    );
    let mut ask = db.prepare_cached(&sql)?;
    let (mut rows, mut found) = (ask.query(params![agent, given, limit])?, Vec::new());
    while let Some(row) = rows.next()? {
        let size = size_at(row)?;
        if !matches!(which, Which::Taken) && !fits_read_limit(*bytes, size) {
            break;
        }
        *bytes += size;
        found.push(Waiting {
            seq: u64_at(row, 0)?,
            attempts: u32_at(row, NEXT)?,
            deaths: u32_at(row, NEXT + 1)?,
            event: event_at(row)?,
            message: message_of_event_at(row)?,
        });
    }
    Ok(found)
}

/// The size of an event: its data plus the text of its message, in bytes.
fn size_at(row: &Row<'_>) -> Outcome<usize> {
    let size = |at| -> Outcome<usize> {
        Ok(row.get_ref(at)?.as_bytes_or_null().map_err(rusqlite::Error::from)?.map_or(0, <[u8]>::len))
    };
    Ok(size(13)? + size(17)?)
}

/// Rows of an agent's ledger, newest first, and whether more follow. `condition` is SQL over `e`; the values in `given`
/// are its parameters from `?3` on.
pub(crate) fn ledger(
    db: &Connection,
    agent: i64,
    condition: &str,
    given: &[Value],
    bounds: (u32, usize),
) -> Outcome<(Vec<InboxRow>, bool)> {
    let sql = format!(
        "SELECT {COLUMNS}, e.state, e.cycle, e.step, e.reason, w.attempts, coalesce(w.taken, 0), l.open_cycle, \
         coalesce(r.ordinal, l.cycles + 1), e.release_at, e.addressed, json_extract(l.open, '$.step') FROM event e \
         JOIN life l ON l.agent = e.agent LEFT JOIN run r ON r.cycle = e.cycle LEFT JOIN waiting w ON w.agent = e.agent AND w.seq = e.seq {JOINS} \
         WHERE e.agent = ?1 AND {condition} ORDER BY e.seq DESC LIMIT ?2"
    );
    let own = [Value::Integer(agent), Value::Integer(i64::from(bounds.0) + 1)];
    let given = rusqlite::params_from_iter(own.iter().chain(given));
    page_of(db, &sql, given, bounds, size_at, |row| {
        let preview = message_of_event_at(row)?.map(|message| beginning(&message.text)).unwrap_or_default();
        let state = state_at(row, NEXT)?;
        let tried = if matches!(state, EventState::Dead { .. }) { row.get(NEXT + 2)? } else { None };
        let (taken, open) = (row.get(NEXT + 5)?, uuid_or_none(row, NEXT + 6)?.map(CycleId));
        let processed_in = match state {
            EventState::Processed { cycle, .. } => Some(cycle),
            _ => None,
        };
        let step = match state {
            EventState::Processed { step, .. } => Some(step),
            _ if taken => row.get(NEXT + 10)?,
            _ => None,
        };
        let progress = EventProgress::of(
            &state,
            taken,
            processed_in.is_some() && processed_in == open,
            row.get(NEXT + 9)?,
        );
        Ok(InboxRow {
            seq: u64_at(row, 0)?,
            event: event_at(row)?,
            state,
            progress,
            cycle: processed_in.or(open.filter(|_| taken)),
            ordinal: processed_in.or(open.filter(|_| taken)).map(|_| u64_at(row, NEXT + 7)).transpose()?,
            step,
            release_at: time_or_none(row, NEXT + 8)?,
            attempts: row.get::<_, Option<u32>>(NEXT + 4)?.or(tried).unwrap_or(0),
            preview,
        })
    })
}
