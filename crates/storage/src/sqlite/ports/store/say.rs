//! Saying something: the message, its place in the space, and the events that it causes, as one.
//! Who gets what is decided by `agent::delivery`; here it is only written down. People's messages
//! come by `accept`, agents' own by `commit`.

use agent::delivery::{
    AgentFacts, Delivery, MemberFacts, counts, deliver, denied, mentions, releases, repeats,
};
use agent::entity::EntityKind;
use agent::event::Fate;
use agent::id::EntityId;
use agent::limits;
use agent::port::{Denial, Waken};
use agent::space::{Message, MessageKind, NewMessage};
use rusqlite::{Connection, Row};

use crate::sqlite::engine::fault::{Fault, Outcome, part};
use crate::sqlite::tables::agents::APART;
use crate::sqlite::tables::events::{HEAD, Head, admit};
use crate::sqlite::tables::held;
use crate::sqlite::tables::messages::{MESSAGE, message_at, place, stored, write};
use crate::sqlite::tables::rows::{
    all, bytes, entity_row, first, from_json, key, kind_at, time, u32_at, uuid_at, wake_on_at,
};
use crate::sqlite::tables::session::Session;

/// What came of saying it.
pub(crate) enum Spoken {
    /// It stands in its space now.
    New(Message, Vec<Waken>),
    /// It stood there before.
    Before(Message),
}

struct Listener {
    facts: MemberFacts,
    row: i64,
    head: Option<Head>,
    /// Whether it is set apart, or over.
    apart: bool,
}

/// Says `message`, or tells why not (then nothing was written).
pub(crate) fn say(db: &Connection, session: &Session, message: &NewMessage) -> Outcome<Spoken> {
    let Some(place) = place(db, message)? else {
        return Err(Denial::NotFound { what: "space", name: message.space.to_string() }.into());
    };
    let mut listeners = listeners(db, place.id)?;
    let sender = listeners.iter().find(|listener| listener.facts.entity == message.sender);
    let Some(sender) = sender.filter(|_| !place.closed) else {
        let known = entity_row(db, message.sender.0)?.is_some();
        return before_or(db, message, denied(message, known, place.closed));
    };
    let (row, kind) = (sender.row, sender.facts.kind);
    let members: Vec<MemberFacts> = listeners.iter().map(|listener| listener.facts.clone()).collect();
    let named = mentions(&message.text, &message.mentions, &members);
    let (seq, rev) = (place.head_seq + 1, place.rev + 1);
    if !write(db, message, MessageKind::Text, &place, row, &named)? {
        return before_or(db, message, Denial::MessageIdTaken);
    }
    let counted = counts(message, &named, &members, place.wake_on);
    let spoken = if counted { count(db, message)? } else { 0 };
    let (mut wake, mut room) = (Vec::new(), limits::RELEASE_MAX);
    for delivery in deliver(message, seq, &named, &members, place.wake_on, spoken) {
        let listener = listeners.iter_mut().find(|listener| listener.facts.entity == delivery.agent.entity());
        let Some(Listener { head: Some(head), apart, .. }) = listener else { continue };
        let released = match releases(kind, head.held) {
            true => held::release(db, session, head, place.id, message.at, &mut room).map(drop),
            false => Ok(()),
        };
        let due = released.and_then(|()| hand_over(db, session, head, &delivery, place.id));
        if let Some(at) = part(delivery.agent, *apart, due)?.flatten() {
            wake.push(Waken { agent: delivery.agent, at: time(at)?, urgent: delivery.event.urgent });
        }
    }
    Ok(Spoken::New(stored(message, MessageKind::Text, seq, rev, named), wake))
}

fn listeners(db: &Connection, space: i64) -> Outcome<Vec<Listener>> {
    let sql = format!(
        "SELECT e.id, e.uuid, e.kind, e.name, coalesce({APART}, 1), a.wake_on, a.hop_limit, l.requesters, {HEAD} \
         FROM member m JOIN entity e ON e.id = m.entity LEFT JOIN agent a ON a.id = e.id \
         LEFT JOIN inbox_head h ON h.agent = a.id LEFT JOIN life l ON l.agent = a.id WHERE m.space = ?"
    );
    all(db, &sql, [space], |row| {
        let (entity, kind, apart) = (EntityId(uuid_at(row, 1)?), kind_at(row, 2)?, row.get(4)?);
        let (head, agent) = match kind {
            EntityKind::Agent => part(entity.agent(), apart, agent_at(row))?.unzip(),
            EntityKind::Human => (None, None),
        };
        let facts = MemberFacts { entity, kind, name: row.get(3)?, agent };
        Ok(Listener { facts, row: row.get(0)?, head, apart })
    })
}

fn agent_at(row: &Row<'_>) -> Outcome<(Head, AgentFacts)> {
    let head = Head::at(row, 8)?;
    let requesters: Option<String> = row.get(7)?;
    let requesters = requesters.map(|text| from_json(&text, "requesters")).transpose()?;
    let facts = AgentFacts {
        standing: head.standing,
        wake_on: wake_on_at(row, 5)?,
        hop_limit: u32_at(row, 6)?,
        requesters: requesters.unwrap_or_default(),
        urgency: head.urgency.clone(),
    };
    Ok((head, facts))
}

/// A message that stood there before is a duplicate whatever has changed since.
fn before_or(db: &Connection, message: &NewMessage, denial: Denial) -> Outcome<Spoken> {
    let sql = format!("{MESSAGE} WHERE m.uuid = ?");
    match first(db, &sql, [bytes(message.id.0)], message_at)? {
        Some(old) if repeats(message, &old) => Ok(Spoken::Before(old)),
        Some(_) => Err(Fault::Denied(Denial::MessageIdTaken)),
        None => Err(Fault::Denied(denial)),
    }
}

/// Agent messages of the root that count, this one included.
fn count(db: &Connection, message: &NewMessage) -> Outcome<u32> {
    let sql = "INSERT INTO root (id, agent_messages) VALUES (?, 1) \
               ON CONFLICT (id) DO UPDATE SET agent_messages = agent_messages + 1 RETURNING agent_messages";
    let spoken = first(db, sql, [key(&message.root.0)], |row| u32_at(row, 0))?;
    Ok(spoken.unwrap_or(u32::MAX))
}

fn hand_over(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    delivery: &Delivery,
    space: i64,
) -> Outcome<Option<i64>> {
    let before = head.head_seq;
    let due = admit(db, session, head, &delivery.event, Some(space), &delivery.fate)?;
    if delivery.fate == Fate::Held && head.head_seq > before {
        held::keep(db, head, delivery.release_at)?;
    }
    Ok(due)
}
