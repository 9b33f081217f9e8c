//! Saying something: the message, its place in the space, and the events that it causes, as one.
//! Who gets what is decided by `agent::delivery`; here it is only written down. People's messages
//! come by `accept`, agents' own by `commit`.

use agent::config::WakeOn;
use agent::delivery::{AgentFacts, Delivery, MemberFacts, deliver, mentions};
use agent::entity::EntityKind;
use agent::event::{Envelope, EventData, EventKind, Fate, Trust};
use agent::id::{EntityId, RootId};
use agent::port::{Denial, Waken};
use agent::space::{Message, MessageKind, NewMessage};
use rusqlite::{Connection, Row, params};

use super::Session;
use super::apart::{APART, part};
use super::events::{HEAD, Head, admit};
use super::fault::{Fault, Outcome};
use super::held;
use super::rows::{
    MESSAGE, TRUSTS, all, bytes, channel_at, entity_row, first, from_json, int, key, key_at, kind_at,
    message_at, ms, packed, place_of, principal_at, principal_columns, run, time, to_json, trust_at, u32_at,
    u64_at, uuid_at, wake_on_at,
};
use super::sums::Words;

/// What came of saying it.
pub(super) enum Spoken {
    /// It stands in its space now.
    New(Message, Vec<Waken>),
    /// It stood there before.
    Before(Message),
}

/// The row of a space.
pub(super) struct Place {
    pub(super) id: i64,
    pub(super) head_seq: u64,
    pub(super) rev: u64,
    pub(super) closed: bool,
    wake_on: WakeOn,
}

struct Listener {
    facts: MemberFacts,
    row: i64,
    head: Option<Head>,
    /// Whether it is set apart, or over.
    apart: bool,
}

/// Says `message`, or tells why not (then nothing was written).
pub(super) fn say(db: &Connection, session: &Session, message: &NewMessage) -> Outcome<Spoken> {
    let Some(place) = place(db, message)? else {
        return Err(Denial::NotFound { what: "space", name: message.space.to_string() }.into());
    };
    let mut listeners = listeners(db, place.id)?;
    let sender = listeners.iter().find(|listener| listener.facts.entity == message.sender);
    let Some(sender) = sender.filter(|_| !place.closed) else {
        return before_or(db, message, denial(db, message, &place)?);
    };
    let (row, kind) = (sender.row, sender.facts.kind);
    let members: Vec<MemberFacts> = listeners.iter().map(|listener| listener.facts.clone()).collect();
    let named = mentions(&message.text, &message.mentions, &members);
    let (seq, rev) = (place.head_seq + 1, place.rev + 1);
    if !write(db, message, MessageKind::Text, &place, row, &named)? {
        return before_or(db, message, Denial::MessageIdTaken);
    }
    let spoken = if kind == EntityKind::Agent { count(db, message)? } else { 0 };
    let mut wake = Vec::new();
    for delivery in deliver(message, seq, &named, &members, place.wake_on, spoken) {
        let listener = listeners.iter_mut().find(|listener| listener.facts.entity == delivery.agent.entity());
        let Some(Listener { head: Some(head), apart, .. }) = listener else { continue };
        // A person's word lets go what agents said there before it.
        let released = match kind != EntityKind::Agent && head.held > 0 {
            true => held::release(db, session, head, place.id, message.at).map(drop),
            false => Ok(()),
        };
        let due = released.and_then(|()| hand_over(db, session, head, &delivery, place.id, seq));
        if let Some(at) = part(delivery.agent, *apart, due)?.flatten() {
            wake.push(Waken { agent: delivery.agent, at: time(at)?, urgent: delivery.event.urgent });
        }
    }
    Ok(Spoken::New(stored(message, MessageKind::Text, seq, rev, named), wake))
}

/// The space of a message.
pub(super) fn place(db: &Connection, message: &NewMessage) -> Outcome<Option<Place>> {
    let sql = "SELECT id, head_seq, rev, closed, wake_on FROM space WHERE uuid = ?";
    first(db, sql, [bytes(message.space.0)], |row| {
        Ok(Place {
            id: row.get(0)?,
            head_seq: u64_at(row, 1)?,
            rev: u64_at(row, 2)?,
            closed: row.get(3)?,
            wake_on: wake_on_at(row, 4)?,
        })
    })
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
        waiting: head.waiting,
        inbox_max: head.inbox_max,
        requesters: requesters.unwrap_or_default(),
        urgency: head.urgency.clone(),
    };
    Ok((head, facts))
}

/// Why a closed space or a stranger's message is not taken.
fn denial(db: &Connection, message: &NewMessage, place: &Place) -> Outcome<Denial> {
    if entity_row(db, message.sender.0)?.is_none() {
        return Ok(Denial::NotFound { what: "entity", name: message.sender.to_string() });
    }
    Ok(if place.closed {
        Denial::SpaceClosed(message.space)
    } else {
        Denial::NotMember { entity: message.sender, space: message.space }
    })
}

/// A message that stood there before is a duplicate whatever has changed since.
fn before_or(db: &Connection, message: &NewMessage, denial: Denial) -> Outcome<Spoken> {
    let sql = format!("{MESSAGE} WHERE m.uuid = ?");
    match first(db, &sql, [bytes(message.id.0)], message_at)? {
        Some(old) if (old.space, old.sender, &old.text) == (message.space, message.sender, &message.text) => {
            Ok(Spoken::Before(old))
        }
        Some(_) => Err(Fault::Denied(Denial::MessageIdTaken)),
        None => Err(Fault::Denied(denial)),
    }
}

/// Writes the row of a message; whether it is new.
pub(super) fn write(
    db: &Connection,
    message: &NewMessage,
    kind: MessageKind,
    place: &Place,
    sender: i64,
    named: &[EntityId],
) -> Outcome<bool> {
    let (seq, rev) = (int(place.head_seq) + 1, int(place.rev) + 1);
    let (principal_kind, principal) = principal_columns(&message.principal);
    let data = message.data.as_ref().map(to_json).transpose()?;
    let (tool, mentions) = (i64::from(kind == MessageKind::Tool), packed(named));
    let words = Words {
        id: message.id.0,
        kind: tool,
        at: ms(message.at),
        sender: message.sender.0,
        mentions: mentions.as_deref(),
        text: &message.text,
        data: data.as_deref(),
    };
    let crc = words.sum();
    let sql = "INSERT INTO message (space, seq, uuid, rev, sender, kind, urgent, at, principal_kind, principal, \
               trust, root, hop, cycle, call, mentions, text, data, crc) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uuid) DO NOTHING";
    let rows = run(
        db,
        sql,
        params![
            place.id,
            seq,
            bytes(message.id.0),
            rev,
            sender,
            tool,
            message.urgent,
            ms(message.at),
            principal_kind,
            principal,
            place_of(&TRUSTS, &message.trust),
            key(&message.root.0),
            message.hop,
            message.cycle.map(|cycle| bytes(cycle.0)),
            message.call.as_ref().map(|call| &call.0),
            mentions,
            message.text,
            data,
            crc,
        ],
    )?;
    if rows == 0 {
        return Ok(false);
    }
    let sql = "UPDATE space SET head_seq = ?, rev = ?, active_at = ? WHERE id = ?";
    run(db, sql, params![seq, rev, ms(message.at), place.id])?;
    Ok(true)
}

/// Agent messages of the root, this one included.
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
    seq: u64,
) -> Outcome<Option<i64>> {
    if delivery.collapse && delivery.fate == Fate::Waiting {
        let older = older(db, head.agent, space)?;
        if let Some(older) = older {
            return collapse(db, session, head, delivery, &older, space, seq);
        }
    }
    let before = head.head_seq;
    let due = admit(db, session, head, &delivery.event, Some(space), &delivery.fate)?;
    if delivery.fate == Fate::Held && head.head_seq > before {
        held::keep(db, session, head, delivery.release_at, delivery.event.at)?;
    }
    Ok(due)
}

/// What waits of one space and is not taken by the open cycle.
struct Older {
    /// Of the newest event that is no agent's.
    person: Option<Envelope>,
    from: u64,
    urgent: bool,
    mention: bool,
    not_before: i64,
}

/// The waiting events that a collapse replaces: `agent`, `space`, and those before the new one.
const OLDER: &str = "FROM waiting w JOIN event e ON e.agent = w.agent AND e.seq = w.seq \
    WHERE w.agent = ?1 AND w.taken = 0 AND e.space = ?2 AND w.seq < ?3";

fn older(db: &Connection, agent: i64, space: i64) -> Outcome<Option<Older>> {
    let sql = format!("SELECT min(e.from_seq), max(w.urgent), max(e.kind = 1), min(w.not_before) {OLDER}");
    let found = first(db, &sql, params![agent, space, i64::MAX], |row| {
        let Some(from) = row.get::<_, Option<i64>>(0)? else { return Ok(None) };
        let from = u64::try_from(from).unwrap_or(0);
        let person = None;
        Ok(Some(Older { person, from, urgent: row.get(1)?, mention: row.get(2)?, not_before: row.get(3)? }))
    })?;
    let Some(older) = found.flatten() else { return Ok(None) };
    // What is torn there is told by whoever reads it to live it.
    Ok(Some(Older { person: person(db, agent, space).ok().flatten(), ..older }))
}

/// The envelope of the newest of them that is no agent's.
fn person(db: &Connection, agent: i64, space: i64) -> Outcome<Option<Envelope>> {
    let sql = format!(
        "SELECT e.principal_kind, e.principal, e.channel, e.trust, e.root, e.hop {OLDER} AND e.trust <> ?4 \
         ORDER BY e.seq DESC LIMIT 1"
    );
    let agents = place_of(&TRUSTS, &Trust::Agent);
    first(db, &sql, params![agent, space, i64::MAX, agents], |row| {
        Ok(Envelope {
            principal: principal_at(row, 0)?,
            channel: channel_at(row, 2)?,
            trust: trust_at(row, 3)?,
            root: RootId(key_at(row, 4)?),
            hop: u32_at(row, 5)?,
        })
    })
}

/// The inbox is full: the new event becomes a range over all that waits of its space and itself.
/// Each of the others leaves the inbox but keeps its ledger row, which points to the range and has
/// its state: so every accepted event has one state, and its id stays known. The range has a seq of
/// its own, so that a waking that read the old ones and opens now finds them gone.
fn collapse(
    db: &Connection,
    session: &Session,
    head: &mut Head,
    delivery: &Delivery,
    older: &Older,
    space: i64,
    to: u64,
) -> Outcome<Option<i64>> {
    let mut event = delivery.event.clone();
    let EventData::Said { space: space_id, .. } = event.data else { return Ok(None) };
    // A range with words of people in it is people's: it is never held, and what is done for it is no
    // agent's affair.
    if let (Trust::Agent, Some(person)) = (event.envelope.trust, &older.person) {
        event.envelope = person.clone();
    }
    event.urgent |= older.urgent;
    event.kind = if older.mention { EventKind::Mention } else { event.kind };
    event.data = EventData::SaidRange { space: space_id, from: older.from, to };
    let range = head.head_seq + 1;
    let wake = admit(db, session, head, &event, Some(space), &Fate::Waiting)?;
    if head.head_seq != range {
        return Ok(None);
    }
    let sql = "UPDATE waiting SET not_before = min(not_before, ?) WHERE agent = ? AND seq = ?";
    run(db, sql, params![older.not_before, head.agent, range])?;
    let sql =
        format!("UPDATE event SET range_of = ?3 WHERE agent = ?1 AND range_of IN (SELECT w.seq {OLDER})");
    run(db, &sql, params![head.agent, space, range])?;
    let sql = format!("UPDATE event SET range_of = ?3 WHERE agent = ?1 AND seq IN (SELECT w.seq {OLDER})");
    run(db, &sql, params![head.agent, space, range])?;
    let sql = format!("DELETE FROM waiting WHERE agent = ?1 AND seq IN (SELECT w.seq {OLDER})");
    let gone = run(db, &sql, params![head.agent, space, range])?;
    head.waiting = head.waiting.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX));
    let sql = "UPDATE inbox_head SET waiting = waiting - ? WHERE agent = ?";
    run(db, sql, params![int(gone as u64), head.agent])?;
    Ok(wake)
}

/// The message as it is stored now.
pub(super) fn stored(
    message: &NewMessage,
    kind: MessageKind,
    seq: u64,
    rev: u64,
    mentions: Vec<EntityId>,
) -> Message {
    Message {
        id: message.id,
        space: message.space,
        seq,
        rev,
        sender: message.sender,
        kind,
        text: message.text.clone(),
        mentions,
        urgent: message.urgent,
        at: message.at,
        cycle: message.cycle,
        call: message.call.clone(),
        data: message.data.clone(),
        root: message.root.clone(),
        hop: message.hop,
    }
}
