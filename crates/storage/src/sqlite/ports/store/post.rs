//! Posts a message: writes it, its position in the space, and the events that it causes, in one transaction.
//! `agent::delivery` decides who gets which event. Messages of people come through `accept`, those of agents
//! through `commit`.

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

use crate::sqlite::engine::fault::{Fault, Outcome, unless_quarantined};
use crate::sqlite::tables::agents::QUARANTINED;
use crate::sqlite::tables::events::{HEAD, Head, admit};
use crate::sqlite::tables::held;
use crate::sqlite::tables::messages::{MESSAGE, SpaceHead, message_at, write};
use crate::sqlite::tables::outgoing;
use crate::sqlite::tables::rows::{
    all, bytes, entity_row, first, from_json, key, kind_at, time, u32_at, uuid_at, wake_on_at,
};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::shift;

/// The result of posting a message.
pub(super) enum Posted {
    /// The message was written; these events must still be delivered.
    New(Message, Vec<CausedEvent>),
    /// The message was posted before.
    Duplicate(Message),
}

/// An event that a message causes.
pub(super) struct CausedEvent {
    delivery: Delivery,
    /// Whether a person or an agent sent the message.
    by: EntityKind,
    space: i64,
    head: Head,
    /// Whether the receiving agent is quarantined or retired.
    quarantined: bool,
}

struct SpaceMember {
    facts: MemberFacts,
    row: i64,
    head: Option<Head>,
    quarantined: bool,
}

/// Posts `message` in its space, or returns why that is not allowed (then nothing was written).
pub(super) fn post_message(
    db: &Connection,
    session: &Session,
    space: Option<&mut SpaceHead>,
    message: &NewMessage,
) -> Outcome<Posted> {
    let Some(space) = space else {
        return Err(Denial::NotFound { what: "space", name: message.space.to_string() }.into());
    };
    let mut members_found = space_members(db, session, space.id)?;
    let sender = members_found.iter().find(|member| member.facts.entity == message.sender);
    let Some(sender) = sender.filter(|_| !space.closed) else {
        let known = entity_row(db, message.sender.0)?.is_some();
        return duplicate_or(db, message, denied(message, known, space.closed));
    };
    let (row, by, handle) = (sender.row, sender.facts.kind, sender.facts.name.clone());
    let members: Vec<MemberFacts> = members_found.iter().map(|member| member.facts.clone()).collect();
    let named = mentions(&message.text, &message.mentions, &members);
    let Some(stored) = write(db, message, MessageKind::Text, space, row, named)? else {
        return duplicate_or(db, message, Denial::MessageIdTaken);
    };
    outgoing::message(db, (space.id, row), &stored, &handle, by)?;
    let named = &stored.mentions;
    let counted = counts(message, named, &members, space.wake_on);
    let count = if counted { count_towards_root(db, message)? } else { 0 };
    let mut caused = Vec::new();
    for delivery in deliver(message, stored.seq, named, &members, space.wake_on, count) {
        let member = members_found.iter_mut().find(|member| member.facts.entity == delivery.agent.entity());
        let Some((head, quarantined)) = member.and_then(|of| Some((of.head.take()?, of.quarantined))) else {
            continue;
        };
        caused.push(CausedEvent { delivery, by, space: space.id, head, quarantined });
    }
    Ok(Posted::New(stored, caused))
}

/// Delivers the events of all messages of a command, agent by agent, to each in the order of the messages. All spaces
/// are written by now, and inboxes are written in the order of their agents' ids.
pub(super) fn deliver_events(
    db: &Connection,
    session: &Session,
    mut events: Vec<CausedEvent>,
) -> Outcome<Vec<Wakeup>> {
    events.sort_by_key(|event| event.head.agent);
    let (mut wake, mut room) = (Vec::new(), limits::RELEASE_MAX);
    let mut last: Option<Head> = None;
    for CausedEvent { delivery, by, space, head, quarantined } in events {
        let mut head = last.take().filter(|last| last.agent == head.agent).unwrap_or(head);
        let at = delivery.event.at;
        // Nothing is released to a quarantined or retired agent: it does not read events, and a fault midway would
        // lose some of them.
        let released = match releases(by, head.held) && !quarantined {
            true => held::release(db, session, &mut head, space, at, &mut room).map(drop),
            false => Ok(()),
        };
        let due = released.and_then(|()| write_event(db, session, &mut head, &delivery, space));
        if let Some(at) = unless_quarantined(delivery.agent, quarantined, due)?.flatten() {
            wake.push(Wakeup { agent: delivery.agent, at: time(at)?, urgent: delivery.event.urgent });
        }
        last = Some(head);
    }
    Ok(wake)
}

fn space_members(db: &Connection, session: &Session, space: i64) -> Outcome<Vec<SpaceMember>> {
    shift::settle_members(db, session, space)?;
    let sql = format!(
        "SELECT e.id, e.uuid, e.kind, e.name, coalesce({QUARANTINED}, 1), a.wake_on, a.hop_limit, l.requesters, {HEAD} \
         FROM member m JOIN entity e ON e.id = m.entity LEFT JOIN agent a ON a.id = e.id \
         LEFT JOIN inbox_head h ON h.agent = a.id LEFT JOIN life l ON l.agent = a.id WHERE m.space = ? ORDER BY m.entity"
    );
    all(db, &sql, [space], |row| {
        let (entity, kind, quarantined) = (EntityId(uuid_at(row, 1)?), kind_at(row, 2)?, row.get(4)?);
        let (head, agent) = match kind {
            EntityKind::Agent => unless_quarantined(entity.agent(), quarantined, agent_at(row))?.unzip(),
            EntityKind::Human => (None, None),
        };
        let facts = MemberFacts { entity, kind, name: row.get(3)?, agent };
        Ok(SpaceMember { facts, row: row.get(0)?, head, quarantined })
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

/// A message that was posted before is a duplicate, whatever has changed since. Otherwise returns the denial.
fn duplicate_or(db: &Connection, message: &NewMessage, denial: Denial) -> Outcome<Posted> {
    let sql = format!("{MESSAGE} WHERE m.uuid = ?");
    let Some(old) = first(db, &sql, [bytes(message.id.0)], message_at)? else {
        return Err(Fault::Denied(denial));
    };
    let mut mentioned = Vec::with_capacity(old.mentions.len());
    for entity in &old.mentions {
        mentioned.extend(first(
            db,
            "SELECT kind, name FROM entity WHERE uuid = ?",
            [bytes(entity.0)],
            |row| Ok(MemberFacts { entity: *entity, kind: kind_at(row, 0)?, name: row.get(1)?, agent: None }),
        )?);
    }
    match repeats(message, &old, &mentioned) {
        true => Ok(Posted::Duplicate(old)),
        false => Err(Fault::Denied(Denial::MessageIdTaken)),
    }
}

/// Counts the message towards its root; returns the new count of agents' messages.
fn count_towards_root(db: &Connection, message: &NewMessage) -> Outcome<u32> {
    let sql = "INSERT INTO root (id, agent_messages) VALUES (?, 1) \
               ON CONFLICT (id) DO UPDATE SET agent_messages = agent_messages + 1 RETURNING agent_messages";
    let count = first(db, sql, [key(&message.root.0)], |row| u32_at(row, 0))?;
    Ok(count.unwrap_or(u32::MAX))
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
    use agent::port::{InboxFilter, NewAgent, NewSpace, PageRequest, Reader, Registry};
    use jiff::Timestamp;
    use runtime::clock::SystemClock;
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::engine::mutex::lock;
    use crate::sqlite::ports::{Mode, Sqlite};
    use crate::sqlite::tables::messages::space_head;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    #[tokio::test]
    async fn a_command_that_posts_several_messages_writes_spaces_first_then_inboxes_by_id() {
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
        let Mode::Inline { db, .. } = &store.inner.mode else { panic!("a store in memory is inline") };
        let note = move |_, _: &str, table: &str, row| notes.lock().unwrap().push((table.to_owned(), row));
        lock(db).as_mut().unwrap().update_hook(Some(note)).unwrap();
        let woken = store.write(move |db, session| {
            let mut events = Vec::new();
            for (n, space) in [(20, 11), (21, 10)] {
                let (message, space) = (MessageId(id(n)), SpaceId(id(space)));
                let message = NewMessage::of_person(message, space, EntityId(id(1)), "hi", at);
                let Posted::New(_, caused) =
                    post_message(db, session, space_head(db, space)?.as_mut(), &message)?
                else {
                    panic!("it is new")
                };
                events.extend(caused);
            }
            deliver_events(db, session, events)
        });
        assert_eq!(woken.await.unwrap().len(), 4);
        let mut written = written.lock().unwrap().clone();
        written.retain(|(table, _)| table == "space" || table == "inbox_head");
        written.dedup();
        let written: Vec<(&str, i64)> = written.iter().map(|(table, row)| (table.as_str(), *row)).collect();
        let (heads, spaces) = ([2, 3, 4].map(|row| ("inbox_head", row)), [2, 1].map(|row| ("space", row)));
        assert_eq!(written, [&spaces[..], &heads].concat());
        let page = PageRequest { cursor: None, limit: 10 };
        let received = store.inbox(AgentId(id(4)), InboxFilter::default(), page).await.unwrap().items;
        let received = received.into_iter().rev().map(|row| match row.event.data {
            EventData::Message { message, .. } => message.0,
            other => panic!("{other:?}"),
        });
        assert!(
            received.eq([id(20), id(21)]),
            "each agent gets the messages in the order in which they were posted"
        );
    }
}
