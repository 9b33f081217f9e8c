//! What operators do with single events of a ledger: cancel waiting ones, resend dead or processed ones, drop dead
//! ones. Every event keeps its row, in exactly one state.

use agent::event::{Event, EventState};
use agent::id::{AgentId, CycleId, EventId};
use agent::limits;
use agent::port::{Denial, KnownRequest, RequestKey, SentAgain, Wakeup};
use agent::registry::{self, Resend};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::ports::store::accept::event_subject;
use crate::sqlite::tables::agents::known_agent;
use crate::sqlite::tables::events::{Head, admit, known, put_waiting, set_state, state_at};
use crate::sqlite::tables::held;
use crate::sqlite::tables::inbox::ledger;
use crate::sqlite::tables::requests;
use crate::sqlite::tables::rows::{first, key, ms, run, time, uuid_or_none};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::waits::due_at;

/// An event of the ledger, with what its state depends on.
struct FoundEvent {
    seq: i64,
    state: EventState,
    space: Option<i64>,
    taken: bool,
    open: Option<CycleId>,
}

fn find(db: &Connection, agent: i64, event: &EventId) -> Outcome<FoundEvent> {
    let sql = "SELECT e.seq, e.state, e.cycle, e.step, e.reason, e.space, coalesce(w.taken, 0), l.open_cycle FROM event e \
               JOIN life l ON l.agent = e.agent LEFT JOIN waiting w ON w.agent = e.agent AND w.seq = e.seq \
               WHERE e.agent = ? AND e.id = ?";
    let found = first(db, sql, params![agent, key(&event.0)], |row| {
        Ok(FoundEvent {
            seq: row.get(0)?,
            state: state_at(row, 1)?,
            space: row.get(5)?,
            taken: row.get(6)?,
            open: uuid_or_none(row, 7)?.map(CycleId),
        })
    })?;
    Ok(found.ok_or_else(|| Denial::NotFound { what: "event", name: event.to_string() })?)
}

/// Cancels a waiting or held event.
pub(super) fn cancel(db: &Connection, session: &Session, agent: AgentId, event: &EventId) -> Outcome<()> {
    let row = known_agent(db, agent)?;
    let found = find(db, row, event)?;
    let no_cycle = || damaged(format!("event `{event}` is taken, but no cycle is open"));
    let taken_by = if found.taken { Some(found.open.ok_or_else(no_cycle)?) } else { None };
    registry::cancel_event(event, &found.state, taken_by)?;
    set_state(db, row, found.seq, &EventState::Canceled { reason: None })?;
    if run(db, "DELETE FROM waiting WHERE agent = ? AND seq = ?", params![row, found.seq])? == 0 {
        return held::forget(db, row);
    }
    let mut head = Head::read(db, session, row)?;
    head.waiting = head.waiting.saturating_sub(1);
    // An agent with an open cycle is due anyway.
    if found.open.is_none() {
        let hold = head.hold_until.map(time).transpose()?;
        head.due_at = due_at(db, session.boot, row, head.standing, hold, session.clock.now())?.map(ms);
    }
    head.write(db)
}

/// Drops a dead event.
pub(super) fn drop_event(db: &Connection, agent: AgentId, event: &EventId) -> Outcome<()> {
    let row = known_agent(db, agent)?;
    let found = find(db, row, event)?;
    registry::drop_event(event, &found.state)?;
    set_state(db, row, found.seq, &EventState::Dropped)
}

/// Sends an event again, at most once per key.
pub(super) fn send_again(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    event: &EventId,
    fresh: EventId,
    request: Option<&RequestKey>,
    at: Timestamp,
) -> Outcome<SentAgain> {
    let row = known_agent(db, agent)?;
    match request.map(|request| requests::known(db, request)).transpose()? {
        Some(KnownRequest::Conflict) => return Ok(SentAgain::Conflict),
        Some(KnownRequest::Repeated(subject)) if !subject.is_nil() => {
            let sent_anew = known(db, row, &fresh)?;
            return Ok(SentAgain::Repeated(if sent_anew { fresh } else { event.clone() }));
        }
        None | Some(KnownRequest::New | KnownRequest::Repeated(_) | KnownRequest::Answered(_)) => {}
    }
    let found = find(db, row, event)?;
    let mut head = Head::read(db, session, row)?;
    let old = read(db, row, event)?;
    let how = registry::send_again(agent, head.room(), &old, &found.state)?;
    let wakeup = |at: Option<i64>| -> Outcome<Option<Wakeup>> {
        at.map(|at| Ok(Wakeup { agent, at: time(at)?, urgent: false })).transpose()
    };
    let sent = match how {
        Resend::Revive => {
            // The old reason is kept: it shows that the event was not processed in its original order.
            let sql = "UPDATE event SET state = 0, step = NULL WHERE agent = ? AND seq = ?";
            run(db, sql, params![row, found.seq])?;
            let again = (found.seq, old.urgent, &old.envelope.principal);
            let wake = put_waiting(db, session, &mut head, again, ms(at))?;
            head.write(db)?;
            SentAgain::Waits(wakeup(wake)?)
        }
        Resend::Release => {
            let space =
                found.space.ok_or_else(|| damaged(format!("event `{event}` is held, but has no space")))?;
            let mut room = limits::RELEASE_MAX;
            SentAgain::Waits(wakeup(held::release(db, session, &mut head, space, at, &mut room)?)?)
        }
        Resend::NewEvent => {
            let new = Event { id: fresh.clone(), at, cites: Some(event.clone()), ..old };
            let wake = admit(db, session, &mut head, &new, found.space, &EventState::Waiting)?;
            SentAgain::AsNew(fresh, wakeup(wake)?)
        }
    };
    if let Some(request) = request {
        requests::note(db, request, event_subject(event))?;
    }
    Ok(sent)
}

fn read(db: &Connection, agent: i64, event: &EventId) -> Outcome<Event> {
    let found = ledger(db, agent, "e.id = ?3", &[key(&event.0)], (1, usize::MAX))?.0.pop();
    Ok(found.ok_or_else(|| damaged(format!("event `{event}` is missing")))?.event)
}
