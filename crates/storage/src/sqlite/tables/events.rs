//! Rows of the ledger: writing an accepted event into an agent's inbox, and reading events back
//! with the words they refer to.

use agent::config::Urgency;
use agent::event::{Event, EventData, EventKind, Fate, Said, Stage, Waiting};
use agent::id::{CycleId, EntityId, EventId, MessageId, RootId, SpaceId};
use agent::life::Standing;
use agent::port::InboxRow;
use agent::quote::beginning;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use crate::sqlite::Session;
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::tables::rows::{
    CHANNELS, TRUSTS, all, channel_at, event_kind_at, from_json, ids_from, int, key, key_at, key_or_none,
    kind_at, ms, place_of, principal_at, principal_columns, run, standing_at, time_at, time_or_none, to_json,
    trust_at, u32_at, u64_at, uuid_at, uuid_or_none,
};
use crate::sqlite::tables::sums;
use crate::sqlite::tables::urgent;

/// What accepting an event needs to know of its agent.
#[derive(Clone, Debug)]
pub(in crate::sqlite) struct Head {
    pub(in crate::sqlite) agent: i64,
    pub(in crate::sqlite) standing: Standing,
    pub(in crate::sqlite) inbox_max: u32,
    pub(in crate::sqlite) debounce: i64,
    pub(in crate::sqlite) head_seq: i64,
    pub(in crate::sqlite) waiting: u32,
    pub(in crate::sqlite) due_at: Option<i64>,
    pub(in crate::sqlite) hold_until: Option<i64>,
    pub(in crate::sqlite) held: u32,
    pub(in crate::sqlite) urgency: Urgency,
}

/// Columns of [`Head::at`], for an `agent a` and its `inbox_head h`.
pub(in crate::sqlite) const HEAD: &str = "a.id, a.standing, a.inbox_max, a.debounce, h.head_seq, h.waiting, h.due_at, h.hold_until, h.held, a.urgency";

impl Head {
    pub(in crate::sqlite) fn at(row: &Row<'_>, at: usize) -> Outcome<Self> {
        Ok(Self {
            agent: row.get(at)?,
            standing: standing_at(row, at + 1)?,
            inbox_max: u32_at(row, at + 2)?,
            debounce: row.get(at + 3)?,
            head_seq: row.get(at + 4)?,
            waiting: u32_at(row, at + 5)?,
            due_at: row.get(at + 6)?,
            hold_until: time_or_none(row, at + 7)?.map(ms),
            held: u32_at(row, at + 8)?,
            urgency: match row.get::<_, Option<String>>(at + 9)? {
                Some(text) => from_json(&text, "an urgency")?,
                None => Urgency::default(),
            },
        })
    }

    pub(in crate::sqlite) fn read(db: &Connection, agent: i64) -> Outcome<Self> {
        let sql = format!("SELECT {HEAD} FROM agent a JOIN inbox_head h ON h.agent = a.id WHERE a.id = ?");
        crate::sqlite::tables::rows::first(db, &sql, [agent], |row| Self::at(row, 0))?
            .ok_or_else(|| damaged(format!("agent {agent} has no inbox")))
    }

    /// When something that may be lived from `not_before` on makes the agent due; never while it
    /// may not live.
    pub(in crate::sqlite) fn wake_at(&self, not_before: i64) -> Option<i64> {
        (self.standing == Standing::Active).then(|| not_before.max(self.hold_until.unwrap_or(i64::MIN)))
    }
}

/// Whether the ledger has the event already.
pub(in crate::sqlite) fn known(db: &Connection, agent: i64, id: &EventId) -> Outcome<bool> {
    Ok(db
        .prepare_cached("SELECT 1 FROM event WHERE agent = ? AND id = ?")?
        .exists(params![agent, key(&id.0)])?)
}

/// Writes an event into the ledger and, where it waits, into the inbox. `space` is the row of the
/// space that it refers to, if it refers to one. Returns from when on the
/// agent is due because of it; `None` where it wakes nobody (held, settled, known, suspended).
pub(in crate::sqlite) fn admit(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    event: &Event,
    space: Option<i64>,
    fate: &Fate,
) -> Outcome<Option<i64>> {
    let seq = head.head_seq + 1;
    if !append(db, head.agent, seq, event, space, fate)? {
        return Ok(None);
    }
    head.head_seq = seq;
    if *fate != Fate::Waiting {
        let sql = "UPDATE inbox_head SET head_seq = ? WHERE agent = ?";
        run(db, sql, params![seq, head.agent])?;
        return Ok(None);
    }
    put_waiting(db, session, head, event.urgent, seq, ms(event.at) + head.debounce)
}

/// Puts an event of the ledger into the inbox, its attempts begin at none. Returns from when on the
/// agent is due because of it.
pub(in crate::sqlite) fn put_waiting(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    urgent: bool,
    seq: i64,
    not_before: i64,
) -> Outcome<Option<i64>> {
    let sql = "INSERT INTO waiting (agent, seq, urgent, not_before, boot) VALUES (?, ?, ?, ?, ?)";
    run(db, sql, params![head.agent, seq, urgent, not_before, session.boot])?;
    let wake = head.wake_at(not_before);
    head.waiting += 1;
    head.due_at = [head.due_at, wake].into_iter().flatten().min();
    let sql = "UPDATE inbox_head SET head_seq = ?, waiting = waiting + 1, due_at = ? WHERE agent = ?";
    run(db, sql, params![head.head_seq, head.due_at, head.agent])?;
    Ok(wake)
}

/// Writes the ledger row; `false` where the event is known already.
fn append(
    db: &Connection,
    agent: i64,
    seq: i64,
    event: &Event,
    space: Option<i64>,
    fate: &Fate,
) -> Outcome<bool> {
    let envelope = &event.envelope;
    let State { code, cycle, step, reason } = State::of(fate);
    let (principal_kind, principal) = principal_columns(&envelope.principal);
    let (said, data) = match &event.data {
        EventData::Said { seq, .. } => (Some(int(*seq)), None),
        other => (None, Some(to_json(other)?)),
    };
    let sql = "INSERT INTO event (agent, seq, id, kind, urgent, at, state, cycle, step, reason, principal_kind, \
               principal, channel, trust, root, hop, space, from_seq, data, cites) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
               ON CONFLICT (agent, id) DO NOTHING";
    let row = params![
        agent,
        seq,
        key(&event.id.0),
        place_of(&EventKind::ALL, &event.kind),
        event.urgent,
        ms(event.at),
        code,
        cycle,
        step,
        reason,
        principal_kind,
        principal,
        place_of(&CHANNELS, &envelope.channel),
        place_of(&TRUSTS, &envelope.trust),
        key(&envelope.root.0),
        envelope.hop,
        space,
        said,
        data,
        event.cites.as_ref().map(|old| key(&old.0)),
    ];
    Ok(run(db, sql, row)? == 1)
}

/// The columns of a fate. Of a dead event `step` keeps how often it was tried, which nothing else knows when
/// it waits no more.
pub(in crate::sqlite) struct State {
    pub(in crate::sqlite) code: i64,
    pub(in crate::sqlite) cycle: Option<[u8; 16]>,
    pub(in crate::sqlite) step: Option<u32>,
    pub(in crate::sqlite) reason: Option<String>,
}

impl State {
    pub(in crate::sqlite) fn of(fate: &Fate) -> Self {
        let plain = |code| Self { code, cycle: None, step: None, reason: None };
        match fate {
            Fate::Waiting => plain(0),
            Fate::Held => plain(1),
            Fate::Lived { cycle, step } => {
                Self { cycle: Some(cycle.0.into_bytes()), step: Some(*step), ..plain(2) }
            }
            Fate::Skipped { reason } => Self { reason: reason.clone(), ..plain(3) },
            Fate::Canceled { reason } => Self { reason: reason.clone(), ..plain(4) },
            Fate::Dead { reason } => Self { reason: Some(reason.clone()), ..plain(5) },
            Fate::Dropped => plain(6),
        }
    }
}

/// The code of a state by its name.
pub(in crate::sqlite) fn state_code(name: &str) -> Option<i64> {
    let names = ["waiting", "held", "lived", "skipped", "canceled", "dead", "dropped"];
    names.iter().position(|known| *known == name).map(|at| int(at as u64))
}

/// A fate from four columns: state, cycle, step, reason.
pub(in crate::sqlite) fn fate_at(row: &Row<'_>, at: usize) -> Outcome<Fate> {
    let reason: Option<String> = row.get(at + 3)?;
    Ok(match row.get::<_, i64>(at)? {
        0 => Fate::Waiting,
        1 => Fate::Held,
        2 => Fate::Lived { cycle: CycleId(uuid_at(row, at + 1)?), step: u32_at(row, at + 2)? },
        3 => Fate::Skipped { reason },
        4 => Fate::Canceled { reason },
        5 => Fate::Dead { reason: reason.unwrap_or_default() },
        6 => Fate::Dropped,
        other => return Err(damaged(format!("`{other}` is no state of an event"))),
    })
}

/// Columns of [`event_at`] and [`said_at`].
pub(in crate::sqlite) const COLUMNS: &str = "e.seq, e.id, e.kind, e.urgent, e.at, e.principal_kind, e.principal, e.channel, e.trust, \
    e.root, e.hop, e.from_seq, p.name, e.data, s.uuid, s.display_name, m.uuid, m.text, m.at, p.uuid, \
    p.display_name, p.kind, s.id, e.cites, \
    m.uuid, m.kind, m.at, p.uuid, m.mentions, m.text, m.data, m.crc";
/// Joins for [`COLUMNS`]: the space, the message, its speaker.
pub(in crate::sqlite) const JOINS: &str = "LEFT JOIN space s ON s.id = e.space \
    LEFT JOIN message m ON m.space = e.space AND m.seq = e.from_seq LEFT JOIN entity p ON p.id = m.sender";
/// Where [`sums::message_is_whole`] finds its columns among these.
const WORDS: usize = 24;
/// The first column after [`COLUMNS`].
pub(in crate::sqlite) const NEXT: usize = WORDS + sums::WORDS;

pub(in crate::sqlite) fn event_at(row: &Row<'_>) -> Outcome<Event> {
    let id = EventId(key_at(row, 1)?);
    let space = uuid_or_none(row, 14)?.map(SpaceId);
    let data = match space {
        Some(space) => {
            let message = uuid_or_none(row, 16)?.or_else(|| id.0.parse().ok()).unwrap_or(Uuid::nil());
            EventData::Said { space, seq: u64_at(row, 11)?, message: MessageId(message) }
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
fn said_at(row: &Row<'_>) -> Outcome<Option<Said>> {
    let (Some(space), Some(message), Some(sender)) =
        (uuid_or_none(row, 14)?, uuid_or_none(row, 16)?, uuid_or_none(row, 19)?)
    else {
        return Ok(None);
    };
    Ok(Some(Said {
        id: MessageId(message),
        space: SpaceId(space),
        space_name: row.get(15)?,
        seq: u64_at(row, 11)?,
        sender: EntityId(sender),
        sender_name: row.get(20)?,
        sender_handle: row.get(12)?,
        sender_kind: kind_at(row, 21)?,
        text: sums::words_at(row, 17, WORDS)?,
        mentions: ids_from(row.get(WORDS + 4)?),
        at: time_at(row, 18)?,
    }))
}

/// Which waiting events to read.
pub(in crate::sqlite) enum Which {
    /// Those that the open cycle took.
    Taken,
    /// Those that it did not take.
    Others,
    /// The urgent ones of these, each with what its sender said before it. Where they are more than
    /// asked for, of each sender the first.
    Urgent,
}

/// Waiting events, oldest first, with what they refer to.
pub(in crate::sqlite) fn waiting(
    db: &Connection,
    agent: i64,
    which: &Which,
    limit: u32,
) -> Outcome<Vec<Waiting>> {
    let (condition, bound) = match which {
        Which::Taken => ("w.taken = 1 AND ?2 = 0", Value::Integer(0)),
        Which::Others => ("w.taken = 0 AND ?2 = 0", Value::Integer(0)),
        Which::Urgent => {
            let seqs = urgent::seqs(db, agent, limit)?;
            ("w.seq IN (SELECT value FROM json_each(?2))", Value::Text(to_json(&seqs)?))
        }
    };
    let sql = format!(
        "SELECT {COLUMNS}, w.attempts, w.deaths FROM waiting w JOIN event e ON e.agent = w.agent AND e.seq = w.seq \
         {JOINS} WHERE w.agent = ?1 AND {condition} ORDER BY w.seq LIMIT ?3"
    );
    all(db, &sql, params![agent, bound, limit], |row| {
        Ok(Waiting {
            seq: u64_at(row, 0)?,
            attempts: u32_at(row, NEXT)?,
            deaths: u32_at(row, NEXT + 1)?,
            event: event_at(row)?,
            said: said_at(row)?,
        })
    })
}

/// Columns and joins of [`said_by_name`].
const SAID: &str = "SELECT m.uuid, s.uuid, s.display_name, m.seq, p.uuid, p.display_name, p.kind, m.text, m.at, \
    m.uuid, m.kind, m.at, p.uuid, m.mentions, m.text, m.data, m.crc, p.name FROM message m JOIN space s ON s.id = m.space JOIN entity p ON p.id = m.sender";

/// What was said in a space with `from <= seq < before`, newest first, with names. Visible calls are for
/// watchers.
pub(in crate::sqlite) fn said(
    db: &Connection,
    space: i64,
    from: u64,
    before: u64,
    limit: i64,
) -> Outcome<Vec<Said>> {
    let sql = format!(
        "{SAID} WHERE m.space = ?1 AND m.seq >= ?2 AND m.seq < ?3 AND m.kind = 0 ORDER BY m.seq DESC LIMIT ?4"
    );
    all(db, &sql, params![space, int(from), int(before), limit], said_by_name)
}

fn said_by_name(row: &Row<'_>) -> Outcome<Said> {
    Ok(Said {
        id: MessageId(uuid_at(row, 0)?),
        space: SpaceId(uuid_at(row, 1)?),
        space_name: row.get(2)?,
        seq: u64_at(row, 3)?,
        sender: EntityId(uuid_at(row, 4)?),
        sender_name: row.get(5)?,
        sender_handle: row.get(17)?,
        sender_kind: kind_at(row, 6)?,
        text: sums::words_at(row, 7, 9)?,
        mentions: ids_from(row.get(9 + 4)?),
        at: time_at(row, 8)?,
    })
}

/// Rows of an agent's ledger, newest first: `condition` over `e`, with `?2` and `?3`.
pub(in crate::sqlite) fn ledger(
    db: &Connection,
    agent: i64,
    condition: &str,
    given: (Value, i64),
    limit: u32,
) -> Outcome<Vec<InboxRow>> {
    let sql = format!(
        "SELECT {COLUMNS}, e.state, e.cycle, e.step, e.reason, w.attempts, coalesce(w.taken, 0), l.open_cycle, \
         coalesce(r.ordinal, l.cycles + 1), e.release_at, e.addressed, json_extract(l.open, '$.step') FROM event e \
         JOIN life l ON l.agent = e.agent LEFT JOIN run r ON r.cycle = e.cycle LEFT JOIN waiting w ON w.agent = e.agent AND w.seq = e.seq {JOINS} \
         WHERE e.agent = ?1 AND {condition} ORDER BY e.seq DESC LIMIT ?4"
    );
    all(db, &sql, params![agent, given.0, given.1, limit], |row| {
        let preview = said_at(row)?.map(|said| beginning(&said.text)).unwrap_or_default();
        let fate = fate_at(row, NEXT)?;
        let tried = if matches!(fate, Fate::Dead { .. }) { row.get(NEXT + 2)? } else { None };
        let (taken, open) = (row.get(NEXT + 5)?, uuid_or_none(row, NEXT + 6)?.map(CycleId));
        let lived = match fate {
            Fate::Lived { cycle, .. } => Some(cycle),
            _ => None,
        };
        let step = match fate {
            Fate::Lived { step, .. } => Some(step),
            _ if taken => row.get(NEXT + 10)?,
            _ => None,
        };
        let stage = Stage::of(&fate, taken, lived.is_some() && lived == open, row.get(NEXT + 9)?);
        Ok(InboxRow {
            seq: u64_at(row, 0)?,
            event: event_at(row)?,
            fate,
            stage,
            cycle: lived.or(open.filter(|_| taken)),
            ordinal: lived.or(open.filter(|_| taken)).map(|_| u64_at(row, NEXT + 7)).transpose()?,
            step,
            release_at: time_or_none(row, NEXT + 8)?,
            attempts: row.get::<_, Option<u32>>(NEXT + 4)?.or(tried).unwrap_or(0),
            preview,
        })
    })
}
