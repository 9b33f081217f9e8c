//! Saying something: the message, its place in the space, and the events that it causes, as one.
//! Who gets what is decided by `agent::delivery`; here it is only written down. People's messages
//! come by `accept`, agents' own by `commit`.

use agent::delivery::{
    AgentFacts, Delivery, MemberFacts, counts, deliver, denied, mentions, releases, repeats,
};
use agent::entity::EntityKind;
use agent::event::EventState;
use agent::id::EntityId;
use agent::limits;
use agent::port::{Denial, Wakeup};
use agent::space::{Message, MessageKind, NewMessage};
use agent::waits;
use rusqlite::{Connection, Row};

use crate::sqlite::engine::fault::{Fault, Outcome, part};
use crate::sqlite::tables::agents::APART;
use crate::sqlite::tables::events::{HEAD, Head, admit};
use crate::sqlite::tables::held;
use crate::sqlite::tables::messages::{MESSAGE, MessagePosition, message_at, write};
use crate::sqlite::tables::rows::{
    all, bytes, entity_row, first, from_json, key, kind_at, time, u32_at, uuid_at, wake_on_at,
};
use crate::sqlite::tables::session::Session;

/// What came of saying it.
pub(super) enum Spoken {
    /// It stands in its space now, and these are still to be handed over.
    New(Message, Vec<HandOver>),
    /// It stood there before.
    Before(Message),
}

/// An event that a message causes.
pub(super) struct HandOver {
    delivery: Delivery,
    /// Whose message it is, in which space.
    by: EntityKind,
    space: i64,
    head: Head,
    /// Whether its agent is quarantined, or over.
    apart: bool,
}

struct Listener {
    facts: MemberFacts,
    row: i64,
    head: Option<Head>,
    apart: bool,
}

/// Says `message` in its space, where that is there, or tells why not (then nothing was written).
pub(super) fn say(
    db: &Connection,
    place: Option<&mut MessagePosition>,
    message: &NewMessage,
) -> Outcome<Spoken> {
    let Some(place) = place else {
        return Err(Denial::NotFound { what: "space", name: message.space.to_string() }.into());
    };
    let mut listeners = listeners(db, place.id)?;
    let sender = listeners.iter().find(|listener| listener.facts.entity == message.sender);
    let Some(sender) = sender.filter(|_| !place.closed) else {
        let known = entity_row(db, message.sender.0)?.is_some();
        return before_or(db, message, denied(message, known, place.closed));
    };
    let (row, by) = (sender.row, sender.facts.kind);
    let members: Vec<MemberFacts> = listeners.iter().map(|listener| listener.facts.clone()).collect();
    let named = mentions(&message.text, &message.mentions, &members);
    let Some(stored) = write(db, message, MessageKind::Text, place, row, named)? else {
        return before_or(db, message, Denial::MessageIdTaken);
    };
    let named = &stored.mentions;
    let counted = counts(message, named, &members, place.wake_on);
    let spoken = if counted { count(db, message)? } else { 0 };
    let mut hand_over = Vec::new();
    for delivery in deliver(message, stored.seq, named, &members, place.wake_on, spoken) {
        let listener = listeners.iter_mut().find(|listener| listener.facts.entity == delivery.agent.entity());
        let Some((head, apart)) = listener.and_then(|of| Some((of.head.take()?, of.apart))) else { continue };
        hand_over.push(HandOver { delivery, by, space: place.id, head, apart });
    }
    Ok(Spoken::New(stored, hand_over))
}

/// ToolContext over what all the messages of a command cause, agent by agent, to each in the order in which it was said:
/// by now every space is written, and the heads of inboxes are taken by id.
pub(super) fn hand_over(
    db: &Connection,
    session: &Session,
    mut events: Vec<HandOver>,
) -> Outcome<Vec<Wakeup>> {
    events.sort_by_key(|event| event.head.agent);
    let (mut wake, mut room) = (Vec::new(), limits::RELEASE_MAX);
    let mut last: Option<Head> = None;
    for HandOver { delivery, by, space, head, apart } in events {
        let mut head = last.take().filter(|last| last.agent == head.agent).unwrap_or(head);
        let at = delivery.event.at;
        // An agent that is apart cannot read what is let go, and a fault on the way would leave half of it nowhere.
        let released = match releases(by, head.held) && !apart {
            true => held::release(db, session, &mut head, space, at, &mut room).map(drop),
            false => Ok(()),
        };
        let due = released.and_then(|()| write_event(db, session, &mut head, &delivery, space));
        if let Some(at) = part(delivery.agent, apart, due)?.flatten() {
            wake.push(Wakeup { agent: delivery.agent, at: time(at)?, urgent: delivery.event.urgent });
        }
        last = Some(head);
    }
    Ok(wake)
}

fn listeners(db: &Connection, space: i64) -> Outcome<Vec<Listener>> {
    let sql = format!(
        "SELECT e.id, e.uuid, e.kind, e.name, coalesce({APART}, 1), a.wake_on, a.hop_limit, l.requesters, {HEAD} \
         FROM member m JOIN entity e ON e.id = m.entity LEFT JOIN agent a ON a.id = e.id \
         LEFT JOIN inbox_head h ON h.agent = a.id LEFT JOIN life l ON l.agent = a.id WHERE m.space = ? ORDER BY m.entity"
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

fn write_event(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    delivery: &Delivery,
    space: i64,
) -> Outcome<Option<i64>> {
    let before = head.head_seq;
    let due = admit(db, session, head, &delivery.event, Some(space), &delivery.state)?;
    if delivery.state == EventState::Held && head.head_seq > before {
        let (at, now) = (delivery.event.at, session.now());
        held::keep(db, head, delivery.release_at.map(|until| waits::rebased(until, at, now)))?;
    }
    Ok(due)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use agent::config::AgentConfig;
    use agent::event::EventData;
    use agent::id::{AgentId, MessageId, SpaceId};
    use agent::port::{NewAgent, NewSpace, PageRequest, Reader, Registry};
    use jiff::Timestamp;
    use runtime::clock::SystemClock;
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::engine::mutex::lock;
    use crate::sqlite::ports::{Mode, Sqlite};
    use crate::sqlite::tables::messages::place;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    #[tokio::test]
    async fn a_command_that_says_several_things_writes_the_spaces_then_the_inboxes_by_id() {
        let store = Sqlite::in_memory(Arc::new(SystemClock::new())).unwrap();
        let at = Timestamp::UNIX_EPOCH;
        for n in 1..=4 {
            let new = NewAgent::new(AgentId(id(n)), format!("agent-{n}"), AgentConfig::default(), at);
            store.create_agent(new).await.unwrap();
        }
        for (n, members) in [(10, [1, 4, 2]), (11, [1, 3, 4])] {
            let members = members.map(|member| EntityId(id(member))).to_vec();
            let new = NewSpace::new(SpaceId(id(n)), format!("space-{n}"), members, at);
            store.open_space(new).await.unwrap();
        }
        let written = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&written);
        let Mode::Inline(db) = &store.inner.mode else { panic!("a store in memory is inline") };
        let note = move |_, _: &str, table: &str, row| notes.lock().unwrap().push((table.to_owned(), row));
        lock(db).as_mut().unwrap().update_hook(Some(note)).unwrap();
        let said = store.write(move |db, session| {
            let mut events = Vec::new();
            for (n, space) in [(20, 11), (21, 10)] {
                let (message, space) = (MessageId(id(n)), SpaceId(id(space)));
                let message = NewMessage::of_person(message, space, EntityId(id(1)), "hi", at);
                let Spoken::New(_, caused) = say(db, place(db, space)?.as_mut(), &message)? else {
                    panic!("it is new")
                };
                events.extend(caused);
            }
            hand_over(db, session, events)
        });
        assert_eq!(said.await.unwrap().len(), 4);
        let mut written = written.lock().unwrap().clone();
        written.retain(|(table, _)| table == "space" || table == "inbox_head");
        written.dedup();
        let written: Vec<(&str, i64)> = written.iter().map(|(table, row)| (table.as_str(), *row)).collect();
        let (heads, spaces) = ([2, 3, 4].map(|row| ("inbox_head", row)), [2, 1].map(|row| ("space", row)));
        assert_eq!(written, [&spaces[..], &heads].concat());
        let page = PageRequest { cursor: None, limit: 10 };
        let heard = store.inbox(AgentId(id(4)), None, page).await.unwrap().items;
        let heard = heard.into_iter().rev().map(|row| match row.event.data {
            EventData::Message { message, .. } => message.0,
            other => panic!("{other:?}"),
        });
        assert!(heard.eq([id(20), id(21)]), "each hears it in the order in which it was said");
    }
}
