//! Promises about accepting messages and events.

use agent::changes::{CommitKind, Notifications};
use agent::config::{AgentConfig, WakeOn};
use agent::event::{EventData, EventKind, EventState, Trust};
use agent::id::{EntityId, EventId, RootId, SpaceId};
use agent::port::{Accept, Accepted, Denial, InboxFilter, MessageFilter, RequestKey, SpaceChange, Wakeup};
use agent::space::NewMessage;
use futures_util::future::join_all;
use serde_json::json;

use super::Backend;
use super::world::{at, everything, fresh, message_from, service, world, world_with};

/// The message is in its space. Every other agent member gets one event, the sender none.
pub async fn a_message_and_the_events_it_causes_are_accepted_together(b: Backend) {
    let w = world(b).await;
    let Accepted::Fresh { message: Some(message), wake, .. } = w.post(w.team, "hello").await else {
        panic!("wanted a fresh message")
    };
    assert_eq!((message.seq, message.text.as_str()), (1, "hello"));
    let mut woken: Vec<_> = wake.iter().map(|wakeup| wakeup.agent).collect();
    woken.sort();
    assert_eq!(woken, [w.ada, w.bob]);
    let read = w.b.reader.messages(w.team, MessageFilter::default(), 10).await.unwrap().items;
    assert_eq!(read, std::slice::from_ref(&message));
    assert_eq!(w.b.reader.message(message.id).await.unwrap(), Some(message.clone()));
    for agent in [w.ada, w.bob] {
        let waiting = w.wake(agent).await.waiting;
        assert_eq!(waiting.len(), 1);
        let said = waiting[0].message.as_ref().unwrap();
        assert_eq!((said.sender_name.as_str(), said.text.as_str()), ("Husam", "hello"));
        let data = EventData::Message { space: w.team, seq: 1, message: message.id };
        assert_eq!(waiting[0].event.data, data);
    }
    let space = w.b.reader.space("TEAM".into()).await.unwrap().unwrap();
    assert_eq!((space.head_seq, space.rev), (1, message.rev));
    assert_eq!(
        w.b.reader.messages_since_rev(w.team, message.rev - 1, 10, usize::MAX).await.unwrap().items.len(),
        1
    );
}

/// Nothing is written, and the denial says why.
pub async fn a_message_of_a_non_member_or_in_a_closed_or_unknown_space_is_denied(b: Backend) {
    let w = world(b).await;
    let outsider = w.accept(message_from(w.bob.entity(), w.family, "psst")).await;
    assert_eq!(outsider, Accepted::Denied(Denial::NotMember { entity: w.bob.entity(), space: w.family }));
    let nobody = EntityId(fresh());
    let unknown = w.accept(message_from(nobody, w.family, "psst")).await;
    assert_eq!(unknown, Accepted::Denied(Denial::NotFound { what: "entity", name: nobody.to_string() }));
    let nowhere = SpaceId(fresh());
    let lost = w.accept(message_from(w.husam, nowhere, "psst")).await;
    assert_eq!(lost, Accepted::Denied(Denial::NotFound { what: "space", name: nowhere.to_string() }));
    w.b.registry.set_space_closed(w.family, true).await.unwrap();
    assert_eq!(w.post(w.family, "late").await, Accepted::Denied(Denial::SpaceClosed(w.family)));
    assert_eq!(w.b.reader.messages(w.family, MessageFilter::default(), 10).await.unwrap().items, []);
    assert_eq!(w.due(10_000).await, []);
}

/// The repeats are duplicates that wake nobody, even after the message was processed.
pub async fn an_id_sent_five_times_is_one_message_and_one_event(b: Backend) {
    let w = world(b).await;
    let message = message_from(w.husam, w.family, "once");
    assert!(matches!(w.accept(message.clone()).await, Accepted::Fresh { .. }));
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    for _ in 0..4 {
        let again = w.accept(message.clone()).await;
        assert!(matches!(again, Accepted::Duplicate { message: Some(old) } if old.id == message.id));
    }
    // Even if its space was closed meanwhile.
    w.b.registry.set_space_closed(w.family, true).await.unwrap();
    assert!(matches!(w.accept(message.clone()).await, Accepted::Duplicate { .. }));
    assert_eq!(w.wake(w.ada).await.waiting, []);
    assert_eq!(w.state(w.ada, &message.id.to_string()).await, "processed");
    assert_eq!(w.b.reader.messages(w.family, MessageFilter::default(), 10).await.unwrap().items.len(), 1);
}

/// Another text, space, urgency or data, or other mentions under the same id. A repeat that mentions a former member is
/// still a repeat.
pub async fn a_message_id_that_is_taken_is_denied(b: Backend) {
    let w = world(b).await;
    let message = message_from(w.husam, w.family, "mine");
    w.accept(message.clone()).await;
    let mut other = message.clone();
    other.text = "other words".into();
    assert_eq!(w.accept(other).await, Accepted::Denied(Denial::MessageIdTaken));
    let elsewhere = NewMessage { space: w.team, ..message };
    assert_eq!(w.accept(elsewhere).await, Accepted::Denied(Denial::MessageIdTaken));

    let bob = w.bob.entity();
    let data = Some(json!({"rate": 0.1, "big": 12345.678901234567}));
    let message = message_from(w.husam, w.team, "look, @ada");
    let message = NewMessage { mentions: vec![bob], data, ..message };
    assert!(matches!(w.accept(message.clone()).await, Accepted::Fresh { .. }));
    let changed = [
        NewMessage { urgent: true, ..message.clone() },
        NewMessage { data: None, ..message.clone() },
        NewMessage { data: Some(json!({"rate": 0.2})), ..message.clone() },
        NewMessage { mentions: Vec::new(), ..message.clone() },
        NewMessage { mentions: vec![bob, w.husam], ..message.clone() },
    ];
    for changed in changed {
        assert_eq!(w.accept(changed).await, Accepted::Denied(Denial::MessageIdTaken));
    }
    w.b.registry.remove_member(w.team, bob).await.unwrap();
    assert!(matches!(w.accept(message).await, Accepted::Duplicate { message: Some(_) }));
}

/// The same body gets the original message back, even if the repeat has another id.
pub async fn a_request_key_repeats_its_answer_and_refuses_another_body(b: Backend) {
    let w = world(b).await;
    let key = |body: &str| {
        Some(RequestKey { principal: "admin".into(), key: "k-1".into(), body_hash: body.into(), at: at(0) })
    };
    let first = Accept::Message(message_from(w.husam, w.family, "once"));
    let Accepted::Fresh { message, .. } = w.b.store.accept(first, key("a")).await.unwrap() else {
        panic!("wanted a fresh message")
    };
    let again = Accept::Message(message_from(w.husam, w.family, "once"));
    assert_eq!(w.b.store.accept(again, key("a")).await.unwrap(), Accepted::Duplicate { message });
    let other = Accept::Message(message_from(w.husam, w.family, "twice"));
    assert_eq!(w.b.store.accept(other, key("b")).await.unwrap(), Accepted::Conflict);
    assert_eq!(w.b.reader.messages(w.family, MessageFilter::default(), 10).await.unwrap().items.len(), 1);
    // The keys of another principal are its own.
    let another = key("b").map(|key| RequestKey { principal: "husam".into(), ..key });
    let third = Accept::Message(message_from(w.husam, w.family, "thrice"));
    assert!(matches!(w.b.store.accept(third, another).await.unwrap(), Accepted::Fresh { .. }));
    // A denied request leaves its key free.
    let denied = Accept::Message(message_from(w.bob.entity(), w.family, "no"));
    let other_key = key("c").map(|key| RequestKey { key: "k-2".into(), ..key });
    assert!(matches!(w.b.store.accept(denied, other_key.clone()).await.unwrap(), Accepted::Denied(_)));
    let allowed = Accept::Message(message_from(w.husam, w.family, "yes"));
    assert!(matches!(w.b.store.accept(allowed, other_key).await.unwrap(), Accepted::Fresh { .. }));
}

/// The id of an event is unique per agent forever. The data is returned as it was sent.
pub async fn an_event_id_is_recognized_forever_and_wakes_once(b: Backend) {
    let w = world(b).await;
    let event = service("api:key:1");
    let fresh = w.event(w.ada, event.clone()).await;
    assert_eq!(
        fresh,
        Accepted::Fresh {
            message: None,
            wake: vec![Wakeup { agent: w.ada, at: at(10), urgent: false }],
            answered: Notifications::default()
        }
    );
    assert_eq!(w.event(w.ada, event.clone()).await, Accepted::Duplicate { message: None });
    assert!(matches!(w.event(w.bob, event.clone()).await, Accepted::Fresh { .. }));
    let waiting = w.wake(w.ada).await.waiting;
    assert_eq!((waiting.len(), waiting[0].attempts), (1, 0));
    assert_eq!(waiting[0].event, event);
    let row = w.b.reader.event(w.ada, event.id.clone()).await.unwrap().unwrap();
    assert_eq!((row.event, row.state), (event, EventState::Waiting));
    let nobody = agent::id::AgentId(super::world::fresh());
    let denied = w.event(nobody, service("api:key:2")).await;
    assert_eq!(denied, Accepted::Denied(Denial::NotFound { what: "agent", name: nobody.to_string() }));
}

/// The message lists the mentioned entities.
pub async fn a_mention_replaces_the_plain_event_of_the_mentioned_agent(b: Backend) {
    let w = world(b).await;
    let Accepted::Fresh { message: Some(message), .. } = w.post(w.team, "@Bob, look").await else {
        panic!("wanted a fresh message")
    };
    assert_eq!(message.mentions, [w.bob.entity()]);
    assert_eq!(w.wake(w.bob).await.waiting[0].event.kind, EventKind::Mention);
    assert_eq!(w.wake(w.ada).await.waiting[0].event.kind, EventKind::SpaceMessage);
    let read = w.b.reader.message(message.id).await.unwrap().unwrap();
    assert_eq!(read.mentions, [w.bob.entity()]);
}

/// Held events keep their ledger row and wake nobody.
pub async fn the_ninth_agent_message_of_a_root_is_held_but_a_persons_never(b: Backend) {
    let w = world(b).await;
    let from_bob = |n: u32| {
        let mut message = message_from(w.bob.entity(), w.team, &format!("reply {n}"));
        (message.root, message.hop, message.trust) = (RootId("one root".into()), n, Trust::Agent);
        message
    };
    for n in 1..=8 {
        let Accepted::Fresh { wake, .. } = w.accept(from_bob(n)).await else { panic!("wanted it accepted") };
        assert_eq!(wake.len(), 1, "the other agent member");
    }
    let ninth = from_bob(9);
    let Accepted::Fresh { wake, message, .. } = w.accept(ninth.clone()).await else {
        panic!("wanted it accepted")
    };
    assert_eq!((wake.len(), message.unwrap().seq), (0, 9));
    assert_eq!(w.state(w.ada, &ninth.id.to_string()).await, "held");
    assert_eq!(w.wake(w.ada).await.waiting.len(), 8);
    let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
    assert_eq!((card.waiting, card.held), (8, 1));
    let held = w.b.reader.inbox(w.ada, InboxFilter::in_state("held"), everything()).await.unwrap();
    assert_eq!(held.items.len(), 1);
    let mut human = message_from(w.husam, w.team, "and me?");
    human.root = RootId("one root".into());
    assert!(matches!(w.accept(human).await, Accepted::Fresh { wake, .. } if wake.len() == 2));
    let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
    assert_eq!((card.waiting, card.held), (10, 0), "the person's message releases the ninth");
}

/// A message that does not wake an agent is skipped with its reason and stays readable in the space.
pub async fn a_space_that_wakes_on_mentions_skips_plain_agent_messages(b: Backend) {
    let w = world(b).await;
    let quiet = SpaceChange { wake_on: Some(WakeOn::Mention), ..SpaceChange::default() };
    w.b.registry.amend_space(w.team, quiet).await.unwrap();
    let from_bob = |text: &str| {
        let mut message = message_from(w.bob.entity(), w.team, text);
        message.trust = Trust::Agent;
        message
    };
    let plain = from_bob("the build is green");
    assert!(matches!(w.accept(plain.clone()).await, Accepted::Fresh { wake, .. } if wake.is_empty()));
    let reason = Some("wake_on: mention, by the space".to_owned());
    let row = w.b.reader.event(w.ada, EventId(plain.id.to_string())).await.unwrap().unwrap();
    assert_eq!(row.state, EventState::Skipped { reason, cycle: None });
    assert_eq!(w.due(1_000_000).await, []);
    let named = from_bob("@ada, look");
    assert!(matches!(w.accept(named).await, Accepted::Fresh { wake, .. } if wake.len() == 1));
    assert!(matches!(w.post(w.team, "and I?").await, Accepted::Fresh { wake, .. } if wake.len() == 2));
    let waiting = w.wake(w.ada).await.waiting;
    let said: Vec<&str> = waiting.iter().map(|waiting| waiting.text()).collect();
    assert_eq!(said, ["@ada, look", "and I?"]);
    let read = w.b.lookup.messages(w.ada, w.team, None, 10).await.unwrap();
    assert!(format!("{read:?}").contains("the build is green"), "{read:?}");
    // After the rule is removed, new messages wake again.
    let loud = SpaceChange { wake_on: Some(WakeOn::All), ..SpaceChange::default() };
    w.b.registry.amend_space(w.team, loud).await.unwrap();
    assert!(matches!(w.accept(from_bob("red again")).await, Accepted::Fresh { wake, .. } if wake.len() == 1));
}

/// No message of a person is dropped, and each one waits as a separate event.
pub async fn a_full_inbox_refuses_service_events_and_accepts_all_messages(b: Backend) {
    let config = AgentConfig::from_json(&json!({"limits": {"inbox_max": 10}})).unwrap();
    let w = world_with(b, config).await;
    let (mut ids, mut expected) = (Vec::new(), Vec::new());
    for n in 0..14 {
        let message = message_from(w.husam, w.family, &format!("word {n}"));
        ids.push(message.id.to_string());
        expected.push(message.text.clone());
        assert!(matches!(w.accept(message).await, Accepted::Fresh { wake, .. } if wake.len() == 1));
    }
    assert_eq!(w.event(w.ada, service("one too many")).await, Accepted::Denied(Denial::InboxFull(w.ada)));
    let waiting = w.wake(w.ada).await.waiting;
    let said: Vec<_> = waiting.iter().map(|waiting| waiting.text().to_owned()).collect();
    assert_eq!(said, expected, "all messages are there, in order");
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    for id in &ids {
        assert_eq!(w.state(w.ada, id).await, "processed");
    }
    assert_eq!(w.b.reader.agent(w.ada).await.unwrap().unwrap().waiting, 0);
}

/// The first event waits for more, and events that arrive meanwhile are processed with it.
pub async fn a_debounce_delays_the_activation_and_includes_later_events(b: Backend) {
    let config = AgentConfig { debounce: 500, ..AgentConfig::default() };
    let w = world_with(b, config).await;
    let Accepted::Fresh { wake, .. } = w.post(w.family, "first").await else { panic!("wanted it accepted") };
    assert_eq!(wake, [Wakeup { agent: w.ada, at: at(510), urgent: false }]);
    let mut second = message_from(w.husam, w.family, "second");
    second.at = at(400);
    w.accept(second).await;
    assert_eq!(w.due(509).await, []);
    assert_eq!(w.b.store.next_due(at(20)).await.unwrap().first(), Some(at(510)));
    assert_eq!(w.b.store.wake(w.ada, at(509), None).await.unwrap().unwrap().waiting, []);
    assert_eq!(w.due(510).await, [w.ada]);
    assert_eq!(w.b.store.wake(w.ada, at(510), None).await.unwrap().unwrap().waiting.len(), 2);
}

/// Sixty-four messages at once get the numbers 1, 2, 3 … once each, in the space and in the inbox.
pub async fn seqs_of_a_space_have_no_gaps_under_concurrency(b: Backend) {
    let w = world(b).await;
    let messages: Vec<_> = (0..64).map(|n| message_from(w.husam, w.family, &format!("{n}"))).collect();
    let done = join_all(messages.into_iter().map(|message| w.accept(message))).await;
    let mut seqs: Vec<u64> = done
        .into_iter()
        .map(|accepted| match accepted {
            Accepted::Fresh { message: Some(message), .. } => message.seq,
            other => panic!("wanted a fresh message, got {other:?}"),
        })
        .collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=64).collect::<Vec<_>>());
    let driver = w.open(w.ada).await;
    assert_eq!(driver.open.taken, (1..=64).collect::<Vec<_>>());
    assert_eq!(driver.changes(CommitKind::Decide).expect, 1);
}
