//! Accepting: a message with the events it causes, or one event, made idempotent by the client's
//! key, the message's id and the ledger.

use agent::delivery::{Offered, is_urgent, offered, space_of};
use agent::event::{Event, EventState};
use agent::id::AgentId;
use agent::port::{Accept, Accepted, Denial, RequestKey, Wakeup};
use rusqlite::Connection;

use crate::sqlite::engine::fault::{Outcome, of};
use crate::sqlite::ports::store::say::{Spoken, hand_over, say};
use crate::sqlite::tables::events::{Head, admit, known};
use crate::sqlite::tables::messages::place;
use crate::sqlite::tables::requests::{answered, remember};
use crate::sqlite::tables::rows::{agent_row, space_row, time};
use crate::sqlite::tables::session::Session;

/// Accepts, once per key, id and body.
pub(super) fn accept(
    db: &Connection,
    session: &Session,
    what: &Accept,
    request: Option<&RequestKey>,
) -> Outcome<Accepted> {
    if let Some(key) = request
        && let Some(answer) = answered(db, key)?
    {
        return Ok(answer);
    }
    let accepted = match what {
        Accept::Message(message) => match say(db, place(db, message.space)?.as_mut(), message)? {
            Spoken::New(message, events) => {
                Accepted::Fresh { message: Some(message), wake: hand_over(db, session, events)? }
            }
            Spoken::Before(message) => Accepted::Duplicate { message: Some(message) },
        },
        Accept::Event(agent, event) => one(db, session, *agent, event).map_err(of(*agent))?,
    };
    if let Some(key) = request {
        let message = match &accepted {
            Accepted::Fresh { message, .. } | Accepted::Duplicate { message } => message.as_ref(),
            _ => None,
        };
        remember(db, key, message)?;
    }
    failpoint::hit!("accept.before_commit");
    Ok(accepted)
}

fn one(db: &Connection, session: &Session, agent: AgentId, event: &Event) -> Outcome<Accepted> {
    let Some(row) = agent_row(db, agent.0)? else {
        return Err(Denial::NotFound { what: "agent", name: agent.to_string() }.into());
    };
    let said_in = space_of(event);
    let space = said_in.map(|space| space_row(db, space)).transpose()?.flatten();
    let missing = said_in.filter(|_| space.is_none());
    let mut head = Head::read(db, row)?;
    match offered(agent, event, known(db, row, &event.id)?, missing, head.room()) {
        Offered::Duplicate => return Ok(Accepted::Duplicate { message: None }),
        Offered::Denied(denial) => return Err(denial.into()),
        Offered::Fresh => {}
    }
    let urgent = is_urgent(event, &head.urgency);
    let event = Event { urgent, ..event.clone() };
    let wake = match admit(db, session, &mut head, &event, space, &EventState::Waiting)? {
        Some(at) => vec![Wakeup { agent, at: time(at)?, urgent }],
        None => Vec::new(),
    };
    Ok(Accepted::Fresh { message: None, wake })
}
