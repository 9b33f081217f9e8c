//! Delivery rules: which events a message causes, which of them are urgent, and which are held. Pure functions that
//! the store calls inside the transaction that accepts the message.
//!
//! This module must not know how members or counts are stored.

use crate::config::{Urgency, WakeOn};
use crate::entity::EntityKind;
use crate::event::{Channel, Envelope, Event, EventData, EventKind, EventState, Principal};
use crate::id::{AgentId, EntityId, EventId, SpaceId};
use crate::life::{Requester, Standing};
use crate::limits;
use crate::port::Denial;
use crate::space::{Message, NewMessage};
use jiff::Timestamp;

/// What the rules need to know about one member of the space.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberFacts {
    /// Who.
    pub entity: EntityId,
    /// Human or agent.
    pub kind: EntityKind,
    /// Handle.
    pub name: String,
    /// Agents only.
    pub agent: Option<AgentFacts>,
}

/// What the rules need to know about one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFacts {
    /// Whether it may run.
    pub standing: Standing,
    /// Which agents' messages wake it.
    pub wake_on: WakeOn,
    /// Agent-to-agent messages per root before they are held.
    pub hop_limit: u32,
    /// The requesters of its open cycle.
    pub requesters: Vec<Requester>,
    /// Its config's rules for what is urgent.
    pub urgency: Urgency,
}

/// One event for one agent, and the state in which it enters the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The receiving agent.
    pub agent: AgentId,
    /// The event.
    pub event: Event,
    /// [`EventState::Waiting`], [`EventState::Held`], or [`EventState::Skipped`] if `wake_on` excludes the message.
    pub state: EventState,
    /// When a held event is released automatically; `None` if only a person's message releases it.
    pub release_at: Option<Timestamp>,
}

/// Members mentioned in `text` as `@handle` (any case, at a word boundary, not in code) and those in `named`, which
/// the client mentioned, each once, in the order of `members`.
pub fn mentions(text: &str, named: &[EntityId], members: &[MemberFacts]) -> Vec<EntityId> {
    let handles = handles_in(text);
    members
        .iter()
        .filter(|member| named.contains(&member.entity) || handles.contains(&member.name))
        .map(|member| member.entity)
        .take(limits::MENTIONS_MAX)
        .collect()
}

/// Lower-case handles that follow an `@` in prose.
fn handles_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.split('\n') {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced {
            handles_in_line(line, &mut found);
        }
    }
    found
}

fn handles_in_line(line: &str, found: &mut Vec<String>) {
    // Text between a pair of backticks is code; an unpaired backtick is an ordinary character.
    let ticks = line.matches('`').count() / 2 * 2;
    for (index, piece) in line.splitn(ticks + 1, '`').enumerate() {
        if index % 2 == 1 {
            continue;
        }
        for (at, _) in piece.match_indices('@') {
            let before = piece[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.') {
                continue;
            }
            let handle: String = piece[at + 1..].chars().take_while(|c| is_handle_char(*c)).collect();
            // "@ops-" at the end of a clause still mentions `ops`.
            let handle = handle.to_lowercase();
            if !handle.is_empty() {
                found.push(handle.trim_end_matches('-').to_owned());
                found.push(handle);
            }
        }
    }
}

fn is_handle_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// The events that `message` (at `seq` of its space) causes: one for every other agent member that is not retired.
/// `agent_messages` is the number of agent messages of its root that count ([`counts`]), this one included. `wake_on`
/// is the rule of the space: it can only make an agent wake less often than its own config says.
pub fn deliver(
    message: &NewMessage,
    seq: u64,
    mentioned: &[EntityId],
    members: &[MemberFacts],
    wake_on: WakeOn,
    agent_messages: u32,
) -> Vec<Delivery> {
    let sender = members.iter().find(|member| member.entity == message.sender);
    let by_agent = sender.is_some_and(|member| member.kind == EntityKind::Agent);
    let handle = sender.map_or("", |member| member.name.as_str());
    members
        .iter()
        .filter(|member| member.entity != message.sender)
        .filter_map(|member| Some((member, member.agent.as_ref()?)))
        .filter(|(_, agent)| agent.standing != Standing::Retired)
        .map(|(member, agent)| {
            let named = mentioned.contains(&member.entity);
            let state =
                if by_agent { state(agent, wake_on, named, agent_messages) } else { EventState::Waiting };
            let by_sender = !by_agent && (message.urgent || is_from_requester(agent, message));
            let urgent =
                by_sender || by_config(&agent.urgency, message, handle, named && !by_agent, by_agent);
            Delivery {
                agent: member.entity.agent(),
                event: event_of(message, seq, named, urgent),
                release_at: release_at(agent, &state, agent_messages, message.at),
                state,
            }
        })
        .collect()
}

/// Whether the message comes from a requester of the agent's open cycle, in the same space. A person's message is
/// then urgent by default.
fn is_from_requester(agent: &AgentFacts, message: &NewMessage) -> bool {
    agent
        .requesters
        .iter()
        .any(|requester| requester.principal == message.principal && requester.space == Some(message.space))
}

/// Whether the config makes the message urgent. An agent's message is urgent only if `urgent` lists that agent, or
/// is `all`.
fn by_config(urgency: &Urgency, message: &NewMessage, handle: &str, named: bool, by_agent: bool) -> bool {
    urgency.all
        || urgency.names(handle)
        || (urgency.mentions && named)
        || (!by_agent && urgency.matches(&message.text))
}

/// Whether an event that is not a message in a space is urgent: its sender marked it, or the config says so.
pub fn is_urgent(event: &Event, urgency: &Urgency) -> bool {
    let by_service = match &event.data {
        EventData::Service { name, payload } => {
            urgency.names(name) || (!urgency.patterns.is_empty() && urgency.matches(&payload.to_string()))
        }
        _ => false,
    };
    event.urgent || urgency.all || by_service
}

/// Whether a message counts towards the limit on agent-to-agent messages per root: an agent sent it, and it wakes
/// another agent. Messages that only people receive never count.
pub fn counts(
    message: &NewMessage,
    mentioned: &[EntityId],
    members: &[MemberFacts],
    wake_on: WakeOn,
) -> bool {
    let by_agent = |member: &MemberFacts| member.entity == message.sender && member.kind == EntityKind::Agent;
    let is_woken = |member: &MemberFacts| {
        let agent = member.agent.as_ref().filter(|agent| agent.standing != Standing::Retired);
        let named = mentioned.contains(&member.entity);
        member.entity != message.sender
            && agent.is_some_and(|agent| not_woken(agent, wake_on, named).is_none())
    };
    members.iter().any(by_agent) && members.iter().any(is_woken)
}

/// Why an agent's message does not wake another agent; `None` if it does. The stricter of the two rules applies.
fn not_woken(agent: &AgentFacts, space: WakeOn, named: bool) -> Option<&'static str> {
    match (agent.wake_on, space) {
        _ if named => None,
        (WakeOn::Mention, _) => Some("wake_on: mention"),
        (WakeOn::All, WakeOn::Mention) => Some("wake_on: mention, by the space"),
        (WakeOn::All, WakeOn::All) => None,
    }
}

/// The state in which an agent's message enters another agent's inbox.
fn state(agent: &AgentFacts, space: WakeOn, named: bool, agent_messages: u32) -> EventState {
    match not_woken(agent, space, named) {
        Some(reason) => EventState::Skipped { reason: Some(reason.into()), cycle: None },
        None if agent_messages > agent.hop_limit => EventState::Held,
        None => EventState::Waiting,
    }
}

/// When a held event is released automatically. This happens only a limited number of times per root, and each reply
/// to a released event counts towards the same root, so that a root ends even if no person intervenes.
fn release_at(
    agent: &AgentFacts,
    state: &EventState,
    agent_messages: u32,
    at: Timestamp,
) -> Option<Timestamp> {
    let bound = agent.hop_limit.saturating_mul(limits::HELD_RELEASES);
    let wait = jiff::SignedDuration::from_millis(limits::HELD_MS.cast_signed());
    (*state == EventState::Held && agent_messages <= bound).then(|| at.checked_add(wait).unwrap_or(at))
}

fn event_of(message: &NewMessage, seq: u64, named: bool, urgent: bool) -> Event {
    Event {
        id: EventId(message.id.to_string()),
        kind: if named { EventKind::Mention } else { EventKind::SpaceMessage },
        urgent,
        at: message.at,
        envelope: Envelope {
            principal: message.principal.clone(),
            channel: Channel::Space,
            trust: message.trust,
            root: message.root.clone(),
            hop: message.hop,
        },
        data: EventData::Message { space: message.space, seq, message: message.id },
        cites: None,
    }
}

/// The outcome of offering an event to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is accepted: it is written and waits.
    Accepted,
    /// The ledger already has an event with this id; nothing else is checked.
    Duplicate,
    /// It is refused.
    Denied(Denial),
}

/// Decides whether an event is accepted. `known`: the ledger already has it. `missing`: its space, if that does not
/// exist. `head`: the agent's standing, the number of its waiting events, and the maximum of that.
pub fn offered(
    agent: AgentId,
    event: &Event,
    known: bool,
    missing: Option<SpaceId>,
    head: (Standing, u32, u32),
) -> Offered {
    match (known, missing) {
        (true, _) => Offered::Duplicate,
        (false, Some(space)) => Offered::Denied(Denial::NotFound { what: "space", name: space.to_string() }),
        (false, None) => room_for(agent, head, event).map_or_else(Offered::Denied, |()| Offered::Accepted),
    }
}

/// Whether an agent accepts one more event, given its standing, the number of its waiting events, and `inbox_max`.
/// If `inbox_max` is reached, only events of services are refused: messages are always accepted, so that nothing
/// that a person wrote is lost.
pub fn room_for(
    agent: AgentId,
    (standing, waiting, inbox_max): (Standing, u32, u32),
    event: &Event,
) -> Result<(), Denial> {
    if standing == Standing::Retired {
        return Err(Denial::Retired(agent));
    }
    if waiting >= inbox_max && matches!(event.data, EventData::Service { .. }) {
        return Err(Denial::InboxFull(agent));
    }
    Ok(())
}

/// Why a message is refused if its space is closed or its sender is not a member. That the sender is not `known` at
/// all is reported first.
pub fn denied(message: &NewMessage, known: bool, closed: bool) -> Denial {
    match (known, closed) {
        (false, _) => Denial::NotFound { what: "entity", name: message.sender.to_string() },
        (true, true) => Denial::SpaceClosed(message.space),
        (true, false) => Denial::NotMember { entity: message.sender, space: message.space },
    }
}

/// Whether the stored message with the same id is this one: then it is a duplicate, and nothing else is checked.
/// `mentioned` are the entities that the stored message mentions; they may have left the space since.
pub fn repeats(message: &NewMessage, old: &Message, mentioned: &[MemberFacts]) -> bool {
    // Stored data was written and read again, which can change the last digit of a number.
    let stored = |data: &serde_json::Value| serde_json::from_str(&data.to_string()).unwrap_or_default();
    let data: Option<serde_json::Value> = message.data.as_ref().map(stored);
    let same_mentions = message.mentions.iter().all(|entity| old.mentions.contains(entity))
        && mentions(&message.text, &message.mentions, mentioned).len() == old.mentions.len();
    (old.space, old.sender, &old.text) == (message.space, message.sender, &message.text)
        && (old.urgent, &old.data) == (message.urgent, &data)
        && same_mentions
}

/// Whether a message releases the held events of its space: only a person's message does.
pub fn releases(sender: EntityKind, held: u32) -> bool {
    sender == EntityKind::Human && held > 0
}

/// The space of an event, if it has one.
pub fn space_of(event: &Event) -> Option<SpaceId> {
    match event.data {
        EventData::Message { space, .. } => Some(space),
        _ => None,
    }
}

/// The requester behind this event: who, and in which space.
pub fn requester(event: &Event) -> Requester {
    Requester { principal: event.envelope.principal.clone(), space: space_of(event) }
}

/// The agent that sent a space event, if an agent did.
pub fn sender_agent(event: &Event) -> Option<AgentId> {
    match event.envelope.principal {
        Principal::Entity(entity) if event.envelope.is_by_agent() => Some(entity.agent()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::id::MessageId;
    use uuid::Uuid;

    fn id(n: u128) -> EntityId {
        EntityId(Uuid::from_u128(n))
    }

    fn member(n: u128, name: &str, agent: bool) -> MemberFacts {
        MemberFacts {
            entity: id(n),
            kind: if agent { EntityKind::Agent } else { EntityKind::Human },
            name: name.into(),
            agent: agent.then(|| AgentFacts {
                standing: Standing::Active,
                wake_on: WakeOn::All,
                hop_limit: 8,
                requesters: Vec::new(),
                urgency: Urgency::default(),
            }),
        }
    }

    fn message(sender: u128, text: &str) -> NewMessage {
        let (id_of_message, space) = (MessageId(Uuid::from_u128(99)), SpaceId(Uuid::from_u128(50)));
        NewMessage::of_person(id_of_message, space, id(sender), text, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_mention_is_a_handle_at_a_word_boundary_outside_code() {
        let members = [member(1, "ops", true), member(2, "front-end", true), member(3, "husam", false)];
        let check = |text: &str, expected: &[u128]| {
            let expected: Vec<_> = expected.iter().map(|n| id(*n)).collect();
            assert_eq!(mentions(text, &[], &members), expected, "{text}");
        };
        check("hey @OPS, look", &[1]);
        check("@front-end: and @husam.", &[2, 3]);
        check("mail ops@ops.example", &[]);
        check("the `@ops` decorator", &[]);
        check("```\n@ops\n```\n@husam", &[3]);
        check("an unpaired ` then @ops", &[1]);
        check("@opsy", &[]);
        assert_eq!(mentions("nobody", &[id(2)], &members), vec![id(2)]);
    }

    #[test]
    fn every_other_agent_gets_one_event_and_the_sender_gets_none() {
        let members = [member(1, "a", true), member(2, "b", true), member(3, "h", false)];
        let deliveries = deliver(&message(1, "x"), 7, &[id(2)], &members, WakeOn::All, 1);
        assert_eq!(deliveries.len(), 1);
        assert_eq!(deliveries[0].event.kind, EventKind::Mention);
        assert_eq!(deliver(&message(3, "x"), 7, &[], &members, WakeOn::All, 0).len(), 2);
    }

    #[test]
    fn an_agent_is_woken_by_agents_that_do_not_mention_it_only_if_space_and_config_allow_it() {
        let check = |own, space, sender, named: &[EntityId], skipped: Option<&str>| {
            let mut members = [member(1, "a", true), member(2, "b", true), member(3, "h", false)];
            if let Some(agent) = &mut members[1].agent {
                agent.wake_on = own;
            }
            let deliveries = deliver(&message(sender, "x"), 7, named, &members, space, 1);
            let state = &deliveries.iter().find(|delivery| delivery.agent.entity() == id(2)).unwrap().state;
            let expected = match skipped {
                Some(reason) => EventState::Skipped { reason: Some(reason.into()), cycle: None },
                None => EventState::Waiting,
            };
            assert_eq!(*state, expected, "own {own:?}, space {space:?}, sender {sender}, named {named:?}");
        };
        check(WakeOn::All, WakeOn::All, 1, &[], None);
        check(WakeOn::Mention, WakeOn::All, 1, &[], Some("wake_on: mention"));
        check(WakeOn::All, WakeOn::Mention, 1, &[], Some("wake_on: mention, by the space"));
        check(WakeOn::Mention, WakeOn::Mention, 1, &[], Some("wake_on: mention"));
        for (own, space) in [(WakeOn::Mention, WakeOn::All), (WakeOn::All, WakeOn::Mention)] {
            check(own, space, 1, &[id(2)], None);
            check(own, space, 3, &[], None);
        }
    }

    #[test]
    fn agent_messages_above_the_hop_limit_are_held_and_messages_of_people_never() {
        let members = [member(1, "a", true), member(2, "b", true), member(3, "h", false)];
        assert_eq!(deliver(&message(1, "x"), 7, &[], &members, WakeOn::All, 8)[0].state, EventState::Waiting);
        assert_eq!(deliver(&message(1, "x"), 7, &[], &members, WakeOn::All, 9)[0].state, EventState::Held);
        let released = |count| deliver(&message(1, "x"), 7, &[], &members, WakeOn::All, count)[0].release_at;
        let after = Timestamp::from_millisecond(limits::HELD_MS.cast_signed()).ok();
        assert_eq!([released(8), released(9), released(16), released(17)], [None, after, after, None]);
        assert_eq!(
            deliver(&message(3, "x"), 7, &[], &members, WakeOn::All, 900)[0].state,
            EventState::Waiting
        );
    }

    #[test]
    fn only_agent_messages_that_wake_another_agent_count_towards_the_limit() {
        let (a, h) = (member(1, "a", true), member(3, "h", false));
        let (b, mut quiet, mut retired) = (member(2, "b", true), member(4, "q", true), member(5, "r", true));
        quiet.agent.as_mut().unwrap().wake_on = WakeOn::Mention;
        retired.agent.as_mut().unwrap().standing = Standing::Retired;
        let all = |others: &[&MemberFacts]| -> Vec<MemberFacts> {
            [&a].into_iter().chain(others.iter().copied()).cloned().collect()
        };
        for (members, sender, named, space, counted) in [
            (all(&[&h]), 1, vec![], WakeOn::All, false),
            (all(&[&h, &b]), 1, vec![], WakeOn::All, true),
            (all(&[&h, &b]), 3, vec![], WakeOn::All, false),
            (all(&[&h, &b]), 1, vec![], WakeOn::Mention, false),
            (all(&[&h, &b]), 1, vec![id(2)], WakeOn::Mention, true),
            (all(&[&h, &quiet]), 1, vec![], WakeOn::All, false),
            (all(&[&h, &quiet]), 1, vec![id(4)], WakeOn::All, true),
            (all(&[&h, &retired]), 1, vec![id(5)], WakeOn::All, false),
        ] {
            let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            assert_eq!(
                counts(&message(sender, "x"), &named, &members, space),
                counted,
                "{sender} to {names:?}, naming {named:?}, {space:?}"
            );
        }
    }

    #[test]
    fn a_message_of_the_requester_is_urgent_only_in_the_space_of_the_request() {
        let mut agent = member(2, "b", true);
        let requester =
            Requester { principal: Principal::Entity(id(3)), space: Some(SpaceId(Uuid::from_u128(50))) };
        agent.agent.as_mut().unwrap().requesters = vec![requester];
        let members = [agent, member(3, "h", false), member(4, "g", false)];
        assert!(deliver(&message(3, "stop"), 1, &[], &members, WakeOn::All, 0)[0].event.urgent);
        assert!(!deliver(&message(4, "stop"), 1, &[], &members, WakeOn::All, 0)[0].event.urgent);
    }

    #[test]
    fn urgency_rules_of_the_config_are_applied() {
        let urgent = |urgency: Urgency, sender: u128, text: &str, named: &[EntityId]| {
            let mut agent = member(2, "b", true);
            agent.agent.as_mut().unwrap().urgency = urgency;
            let members = [agent, member(3, "boss", false), member(4, "other", true)];
            deliver(&message(sender, text), 1, named, &members, WakeOn::All, 0)
                .iter()
                .find(|delivery| delivery.agent == id(2).agent())
                .unwrap()
                .event
                .urgent
        };
        let mentions = || Urgency { mentions: true, ..Urgency::default() };
        assert!(urgent(mentions(), 3, "x", &[id(2)]) && !urgent(mentions(), 3, "x", &[]));
        assert!(!urgent(mentions(), 4, "x", &[id(2)]), "a mention by an agent does not interrupt");
        let senders = || Urgency { senders: vec!["@Boss".into(), "other".into()], ..Urgency::default() };
        assert!(urgent(senders(), 3, "x", &[]) && urgent(senders(), 4, "x", &[]));
        let patterns = || Urgency { patterns: vec!["prod*down".into()], ..Urgency::default() };
        assert!(urgent(patterns(), 3, "PROD is down", &[]) && !urgent(patterns(), 4, "prod is down", &[]));
        assert!(urgent(Urgency { all: true, ..Urgency::default() }, 4, "x", &[]));
    }

    #[test]
    fn a_duplicate_event_is_reported_as_one_even_if_it_would_now_be_refused() {
        use Standing::{Active, Retired, Suspended};
        let ada = id(1).agent();
        let data = |service| match service {
            true => EventData::Service { name: "bell".into(), payload: serde_json::Value::Null },
            false => EventData::Heartbeat,
        };
        let bell = Event::of_service(
            EventId("e1".into()),
            "key",
            "bell",
            serde_json::Value::Null,
            Timestamp::UNIX_EPOCH,
        );
        let (space, no_space) =
            (SpaceId(Uuid::nil()), Denial::NotFound { what: "space", name: Uuid::nil().to_string() });
        let (retired, no_room) = (Denial::Retired(ada), Denial::InboxFull(ada));
        for (service, known, missing, standing, waiting, expected) in [
            (true, true, true, Retired, 10, Offered::Duplicate),
            (true, false, true, Retired, 10, Offered::Denied(no_space)),
            (true, false, false, Retired, 10, Offered::Denied(retired)),
            (true, false, false, Suspended, 10, Offered::Denied(no_room)),
            (false, false, false, Active, 10, Offered::Accepted),
            (true, false, false, Active, 9, Offered::Accepted),
        ] {
            let event = Event { data: data(service), ..bell.clone() };
            let missing = missing.then_some(space);
            assert_eq!(offered(ada, &event, known, missing, (standing, waiting, 10)), expected);
        }
    }

    #[test]
    fn an_unknown_sender_is_reported_before_a_closed_space_and_only_people_release_held_events() {
        let message = message(1, "hi");
        for (known, closed, expected) in [
            (false, true, Denial::NotFound { what: "entity", name: id(1).to_string() }),
            (true, true, Denial::SpaceClosed(message.space)),
            (true, false, Denial::NotMember { entity: id(1), space: message.space }),
        ] {
            assert_eq!(denied(&message, known, closed), expected);
        }
        for (kind, held, expected) in
            [(EntityKind::Human, 2, true), (EntityKind::Human, 0, false), (EntityKind::Agent, 2, false)]
        {
            assert_eq!(releases(kind, held), expected);
        }
    }
}
