//! Accepts a message with the events that it causes, or a single event. The client's key, the message's id and
//! the ledger make this idempotent.

use agent::changes::Notifications;
use agent::delivery::{Offered, is_urgent, offered, space_of};
use agent::event::{Event, EventState};
use agent::id::{AgentId, EventId, MessageId, hashed_uuid};
use agent::port::{Accept, Accepted, Denial, KnownRequest, RequestKey, Wakeup};
use rusqlite::Connection;
use uuid::Uuid;

use crate::sqlite::engine::fault::{Outcome, name_agent};
use crate::sqlite::ports::approvals;
use crate::sqlite::ports::store::post::{Posted, deliver_events, post_message};
use crate::sqlite::tables::events::{Head, admit, known};
use crate::sqlite::tables::messages::{message_by, space_head};
use crate::sqlite::tables::requests;
use crate::sqlite::tables::rows::{agent_row, space_row, time};
use crate::sqlite::tables::session::Session;

/// Accepts a message or event, at most once per key and id.
pub(super) fn accept(
    db: &Connection,
    session: &Session,
    what: &Accept,
    request: Option<&RequestKey>,
) -> Outcome<Accepted> {
    match request.map(|key| requests::known(db, key)).transpose()? {
        Some(KnownRequest::Conflict) => return Ok(Accepted::Conflict),
        Some(KnownRequest::Repeated(subject)) if !subject.is_nil() => {
            return Ok(Accepted::Duplicate { message: message_by(db, MessageId(subject))? });
        }
        None | Some(KnownRequest::New | KnownRequest::Repeated(_) | KnownRequest::Answered(_)) => {}
    }
    let accepted = match what {
        Accept::Message(message) => {
            match post_message(db, session, space_head(db, message.space)?.as_mut(), message)? {
                Posted::New(message, events) => {
                    let wake = deliver_events(db, session, events)?;
                    let answered = approvals::spoken(db, session, &message)?;
                    Accepted::Fresh { message: Some(message), wake, answered }
                }
                Posted::Duplicate(message) => Accepted::Duplicate { message: Some(message) },
            }
        }
        Accept::Event(agent, event) => one(db, session, *agent, event).map_err(name_agent(*agent))?,
    };
    if let Some(key) = request {
        let message = match &accepted {
            Accepted::Fresh { message, .. } | Accepted::Duplicate { message } => message.as_ref(),
            _ => None,
        };
        let subject = match (message, what) {
            (Some(message), _) => message.id.0,
            (None, Accept::Message(message)) => message.id.0,
            (None, Accept::Event(_, event)) => event_subject(&event.id),
        };
        requests::note(db, key, subject)?;
    }
    failpoint::hit!("accept.before_commit");
    Ok(accepted)
}

/// What is noted of a request that became this event.
pub(in crate::sqlite::ports) fn event_subject(event: &EventId) -> Uuid {
    hashed_uuid(&["event", &event.0])
}

/// Accepts one event for one agent.
pub(in crate::sqlite::ports) fn one(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    event: &Event,
) -> Outcome<Accepted> {
    let Some(row) = agent_row(db, agent.0)? else {
        return Err(Denial::NotFound { what: "agent", name: agent.to_string() }.into());
    };
    let event_space = space_of(event);
    let space = event_space.map(|space| space_row(db, space)).transpose()?.flatten();
    let missing = event_space.filter(|_| space.is_none());
    let mut head = Head::read(db, session, row)?;
    match offered(agent, event, known(db, row, &event.id)?, missing, head.room()) {
        Offered::Duplicate => return Ok(Accepted::Duplicate { message: None }),
        Offered::Denied(denial) => return Err(denial.into()),
        Offered::Accepted => {}
    }
    let urgent = is_urgent(event, &head.urgency);
    let event = Event { urgent, ..event.clone() };
    let wake = match admit(db, session, &mut head, &event, space, &EventState::Waiting)? {
        Some(at) => vec![Wakeup { agent, at: time(at)?, urgent }],
        None => Vec::new(),
    };
    Ok(Accepted::Fresh { message: None, wake, answered: Notifications::default() })
}
