//! Accepting: a message with the events it causes, or one event, made idempotent by the client's
//! key, the message's id and the ledger.

use agent::delivery::{is_urgent, refused_when_full, space_of};
use agent::event::{Event, Fate};
use agent::id::{AgentId, MessageId};
use agent::life::Standing;
use agent::port::{Accept, Accepted, Denial, RequestKey, Waken};
use agent::space::Message;
use rusqlite::{Connection, params};

use crate::sqlite::Session;
use crate::sqlite::engine::fault::{Outcome, of};
use crate::sqlite::ports::store::say::{Spoken, say};
use crate::sqlite::tables::events::{Head, admit, known};
use crate::sqlite::tables::rows::{
    MESSAGE, agent_row, bytes, first, message_at, run, space_row, time, uuid_or_none,
};

/// Accepts, once per key, id and body.
pub(in crate::sqlite) fn accept(
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
        Accept::Say(message) => match say(db, session, message)? {
            Spoken::New(message, wake) => Accepted::Fresh { message: Some(message), wake },
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

/// The answer that this key got before.
pub(in crate::sqlite) fn answered(db: &Connection, key: &RequestKey) -> Outcome<Option<Accepted>> {
    let sql = "SELECT body_hash, message FROM request WHERE credential = ? AND key = ?";
    let kept = first(db, sql, params![bytes(key.credential.0), key.key], |row| {
        Ok((row.get::<_, String>(0)?, uuid_or_none(row, 1)?))
    })?;
    let Some((body_hash, message)) = kept else { return Ok(None) };
    if body_hash != key.body_hash {
        return Ok(Some(Accepted::Conflict));
    }
    let message = message.map(|id| message_by(db, MessageId(id))).transpose()?.flatten();
    Ok(Some(Accepted::Duplicate { message }))
}

/// A message by its id.
pub(in crate::sqlite) fn message_by(db: &Connection, id: MessageId) -> Outcome<Option<Message>> {
    first(db, &format!("{MESSAGE} WHERE m.uuid = ?"), [bytes(id.0)], message_at)
}

/// Notes that this key was answered.
pub(in crate::sqlite) fn remember(
    db: &Connection,
    key: &RequestKey,
    message: Option<&Message>,
) -> Outcome<()> {
    let sql = "INSERT INTO request (credential, key, body_hash, message) VALUES (?, ?, ?, ?)";
    let message = message.map(|message| bytes(message.id.0));
    run(db, sql, params![bytes(key.credential.0), key.key, key.body_hash, message]).map(drop)
}

fn one(db: &Connection, session: &Session, agent: AgentId, event: &Event) -> Outcome<Accepted> {
    let Some(row) = agent_row(db, agent.0)? else {
        return Err(Denial::NotFound { what: "agent", name: agent.to_string() }.into());
    };
    // A repeat is a duplicate whatever has changed since.
    if known(db, row, &event.id)? {
        return Ok(Accepted::Duplicate { message: None });
    }
    let space = match space_of(event) {
        None => None,
        Some(space) => {
            let denial = || Denial::NotFound { what: "space", name: space.to_string() };
            Some(space_row(db, space)?.ok_or_else(denial)?)
        }
    };
    let mut head = Head::read(db, row)?;
    if head.standing == Standing::Retired {
        return Err(Denial::Retired(agent).into());
    }
    if head.waiting >= head.inbox_max && refused_when_full(event) {
        return Err(Denial::InboxFull(agent).into());
    }
    let urgent = is_urgent(event, &head.urgency);
    let event = Event { urgent, ..event.clone() };
    let wake = match admit(db, session, &mut head, &event, space, &Fate::Waiting)? {
        Some(at) => vec![Waken { agent, at: time(at)?, urgent }],
        None => Vec::new(),
    };
    Ok(Accepted::Fresh { message: None, wake })
}
