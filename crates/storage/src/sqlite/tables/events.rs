//! Rows of the ledger (table `event`): writes accepted events into it and into the inbox, and changes their states.

use agent::config::Urgency;
use agent::event::{Channel, Event, EventData, EventKind, EventState, Principal, Trust};
use agent::id::{CycleId, EventId};
use agent::life::{IdleReason, Standing};
use agent::limits;
use agent::registry::retired;
use agent::waits;
use rusqlite::{Connection, Row, params};

use super::rows::{
    code_of, from_json, int, key, ms, principal_columns, reason_or_none, run, standing_at, time_or_none,
    to_json, u32_at, uuid_at, uuid_or_none,
};
use super::session::Session;
use super::{shift, sums};
use crate::sqlite::engine::fault::{Outcome, damaged};

/// What is needed of an agent to accept an event for it.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) agent: i64,
    pub(crate) standing: Standing,
    pub(crate) inbox_max: u32,
    pub(crate) debounce: i64,
    pub(crate) head_seq: i64,
    pub(crate) waiting: u32,
    pub(crate) due_at: Option<i64>,
    pub(crate) hold_until: Option<i64>,
    pub(crate) reason: Option<IdleReason>,
    pub(crate) held: u32,
    pub(crate) urgency: Urgency,
    /// `due_at` as stored: an update that sets the column also updates its index, so it is set only if it changed.
    stored_due_at: Option<i64>,
}

/// Columns of [`Head::at`], for an `agent a` and its `inbox_head h`. Whoever reads them settles the agent before.
pub(crate) const HEAD: &str = "a.id, a.standing, a.inbox_max, a.debounce, h.head_seq, h.waiting, h.due_at, h.hold_until, h.held, a.urgency, \
    h.idle_reason";

impl Head {
    /// What decides whether the inbox takes one more event: standing, events that wait, their maximum.
    pub(crate) fn room(&self) -> (Standing, u32, u32) {
        (self.standing, self.waiting, self.inbox_max)
    }

    pub(crate) fn at(row: &Row<'_>, at: usize) -> Outcome<Self> {
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
            reason: reason_or_none(row, at + 10)?,
            stored_due_at: row.get(at + 6)?,
        })
    }

    /// Reads it for a command that will write it.
    pub(crate) fn read(db: &Connection, session: &Session, agent: i64) -> Outcome<Self> {
        shift::settle(db, session, agent)?;
        let sql = format!("SELECT {HEAD} FROM agent a JOIN inbox_head h ON h.agent = a.id WHERE a.id = ?");
        crate::sqlite::tables::rows::first(db, &sql, [agent], |row| Self::at(row, 0))?
            .ok_or_else(|| damaged(format!("agent {agent} has no inbox")))
    }

    /// Writes the changed counters and `due_at`: once for all events of one release.
    pub(crate) fn write(&mut self, db: &Connection) -> Outcome<()> {
        let Self { agent, head_seq, waiting, held, due_at, .. } = *self;
        if due_at == self.stored_due_at {
            let sql = "UPDATE inbox_head SET head_seq = ?, waiting = ?, held = ? WHERE agent = ?";
            return run(db, sql, params![head_seq, waiting, held, agent]).map(drop);
        }
        let sql = "UPDATE inbox_head SET head_seq = ?, waiting = ?, held = ?, due_at = ? WHERE agent = ?";
        run(db, sql, params![head_seq, waiting, held, due_at, agent])?;
        self.stored_due_at = due_at;
        Ok(())
    }
}

/// Whether the ledger already has the event.
pub(crate) fn known(db: &Connection, agent: i64, id: &EventId) -> Outcome<bool> {
    Ok(db
        .prepare_cached("SELECT 1 FROM event WHERE agent = ? AND id = ?")?
        .exists(params![agent, key(&id.0)])?)
}

/// Writes an event into the ledger and, if it waits, into the inbox. `space` is the row of the space
/// that it refers to, if any. Returns the time at which the agent is due because of it; `None` if it
/// does not wake the agent (held, settled, known, suspended).
pub(crate) fn admit(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    event: &Event,
    space: Option<i64>,
    state: &EventState,
) -> Outcome<Option<i64>> {
    let seq = head.head_seq + 1;
    if !append(db, head.agent, seq, event, space, state)? {
        return Ok(None);
    }
    head.head_seq = seq;
    let mut wake = None;
    match state {
        EventState::Waiting => {
            let row = (seq, event.urgent, &event.envelope.principal);
            wake = put_waiting(db, session, head, row, ms(event.at) + head.debounce)?;
        }
        EventState::Held => head.held += 1,
        _ => {}
    }
    head.write(db)?;
    Ok(wake)
}

/// Puts an event of the ledger, given by its seq, urgency and sender, into the inbox with no attempts. Returns the
/// time at which the agent is due because of it. The caller must write the head afterwards.
pub(crate) fn put_waiting(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    (seq, urgent, sender): (i64, bool, &Principal),
    not_before: i64,
) -> Outcome<Option<i64>> {
    // If the clock was set back after the event was sent, it must not wait longer than one that is sent now.
    let not_before = not_before.min(ms(session.now()) + head.debounce);
    let sql = "INSERT INTO waiting (agent, seq, urgent, speaker, deep, not_before, boot) \
               VALUES (?, ?, ?, ?, ?, ?, ?)";
    let (sender, deep) = (sums::sender_hash(sender), head.waiting >= limits::DEEP_FROM);
    run(db, sql, params![head.agent, seq, urgent, sender, deep, not_before, session.boot])?;
    let hold = waits::delays_events(head.hold_until, head.reason);
    let wake = waits::due(head.standing, Some(not_before), hold);
    head.waiting += 1;
    if head.waiting == limits::URGENT_LOOK_MAX {
        // A released or resent event gets a place before later ones. None of those may drop out of the rows that
        // `urgent` looks at without being found by index.
        let sql = "UPDATE waiting SET deep = 1 WHERE agent = ? AND deep = 0";
        run(db, sql, [head.agent])?;
    }
    head.due_at = [head.due_at, wake].into_iter().flatten().min();
    Ok(wake)
}

/// Inserts the ledger row; `false` if the ledger already has the event.
fn append(
    db: &Connection,
    agent: i64,
    seq: i64,
    event: &Event,
    space: Option<i64>,
    state: &EventState,
) -> Outcome<bool> {
    let envelope = &event.envelope;
    let State { code, cycle, step, reason } = State::of(state);
    let (principal_kind, principal) = principal_columns(&envelope.principal);
    let (from_seq, data) = match &event.data {
        EventData::Message { seq, .. } => (Some(int(*seq)), None),
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
        code_of(&EventKind::ALL, &event.kind),
        event.urgent,
        ms(event.at),
        code,
        cycle,
        step,
        reason,
        principal_kind,
        principal,
        code_of(&Channel::ALL, &envelope.channel),
        code_of(&Trust::ALL, &envelope.trust),
        key(&envelope.root.0),
        envelope.hop,
        space,
        from_seq,
        data,
        event.cites.as_ref().map(|old| key(&old.0)),
    ];
    Ok(run(db, sql, row)? == 1)
}

/// The columns of a state. For a dead event `step` is the number of attempts, which is stored nowhere else once
/// the event waits no more.
pub(crate) struct State {
    pub(crate) code: i64,
    pub(crate) cycle: Option<[u8; 16]>,
    pub(crate) step: Option<u32>,
    pub(crate) reason: Option<String>,
}

impl State {
    pub(crate) fn of(state: &EventState) -> Self {
        let plain = |code| Self { code, cycle: None, step: None, reason: None };
        match state {
            EventState::Waiting => plain(0),
            EventState::Held => plain(1),
            EventState::Processed { cycle, step } => {
                Self { cycle: Some(cycle.0.into_bytes()), step: Some(*step), ..plain(2) }
            }
            EventState::Skipped { reason, cycle } => {
                Self { reason: reason.clone(), cycle: cycle.map(|cycle| cycle.0.into_bytes()), ..plain(3) }
            }
            EventState::Canceled { reason } => Self { reason: reason.clone(), ..plain(4) },
            EventState::Dead { reason } => Self { reason: Some(reason.clone()), ..plain(5) },
            EventState::Dropped => plain(6),
        }
    }
}

/// The code of a state by its name.
pub(crate) fn state_code(name: &str) -> Option<i64> {
    let names = ["waiting", "held", "processed", "skipped", "canceled", "dead", "dropped"];
    names.iter().position(|known| *known == name).map(|at| int(at as u64))
}

/// Reads a state from four columns: state, cycle, step, reason.
pub(crate) fn state_at(row: &Row<'_>, at: usize) -> Outcome<EventState> {
    let reason: Option<String> = row.get(at + 3)?;
    Ok(match row.get::<_, i64>(at)? {
        0 => EventState::Waiting,
        1 => EventState::Held,
        2 => EventState::Processed { cycle: CycleId(uuid_at(row, at + 1)?), step: u32_at(row, at + 2)? },
        3 => EventState::Skipped { reason, cycle: uuid_or_none(row, at + 1)?.map(CycleId) },
        4 => EventState::Canceled { reason },
        5 => EventState::Dead { reason: reason.unwrap_or_default() },
        6 => EventState::Dropped,
        other => return Err(damaged(format!("`{other}` is not a state of an event"))),
    })
}

/// Cancels all waiting and held events of a retired agent, except those that the open cycle has taken. Returns
/// how many were waiting.
pub(crate) fn cancel_all(db: &Connection, agent: i64) -> Outcome<u32> {
    let state = State::of(&retired());
    // Two statements, each using an index: a single one would scan the whole ledger.
    for which in ["state = 1", "seq IN (SELECT seq FROM waiting WHERE agent = ?3 AND taken = 0)"] {
        let sql = format!(
            "UPDATE event SET state = ?1, reason = ?2, release_at = NULL WHERE agent = ?3 AND {which}"
        );
        run(db, &sql, params![state.code, state.reason, agent])?;
    }
    let gone = run(db, "DELETE FROM waiting WHERE agent = ? AND taken = 0", [agent])?;
    let gone = u32::try_from(gone).unwrap_or(u32::MAX);
    let sql = "UPDATE inbox_head SET waiting = waiting - ?, held = 0 WHERE agent = ?";
    run(db, sql, params![gone, agent])?;
    Ok(gone)
}

pub(crate) fn set_state(db: &Connection, agent: i64, seq: i64, state: &EventState) -> Outcome<()> {
    let state = State::of(state);
    let sql = "UPDATE event SET state = ?, cycle = ?, step = ?, reason = ?, release_at = NULL WHERE agent = ? AND seq = ?";
    run(db, sql, params![state.code, state.cycle, state.step, state.reason, agent, seq]).map(drop)
}
