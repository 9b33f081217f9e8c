//! What accepting promises.

use agent::changes::CommitKind;
use agent::config::{AgentConfig, WakeOn};
use agent::event::{EventData, EventKind, EventState, Trust};
use agent::id::{CredentialId, EntityId, EventId, RootId, SpaceId};
use agent::port::{Accept, Accepted, Denial, RequestKey, SpaceChange, Wakeup};
use futures_util::future::join_all;
use serde_json::json;

use super::Backend;
use super::world::{at, everything, fresh, saying, service, world, world_with};

/// The message stands in its space, each other agent member has one event, the sender none.
pub async fn a_message_and_the_events_it_causes_are_accepted_together(b: Backend) {
    let w = world(b).await;
    let Accepted::Fresh { message: Some(message), wake } = w.say(w.team, "hello").await else {
        panic!("wanted a fresh message")
    };
    assert_eq!((message.seq, message.text.as_str()), (1, "hello"));
    let mut woken: Vec<_> = wake.iter().map(|waken| waken.agent).collect();
    woken.sort();
    assert_eq!(woken, [w.ada, w.bob]);
    let read = w.b.reader.messages(w.team, None, None, 10).await.unwrap();
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
    assert_eq!(w.b.reader.messages_since_rev(w.team, message.rev - 1, 10).await.unwrap().len(), 1);
}

/// Nothing is written, and the denial says why.
pub async fn a_message_of_a_stranger_or_in_a_closed_or_unknown_space_is_denied(b: Backend) {
    let w = world(b).await;
    let outsider = w.accept(saying(w.bob.entity(), w.family, "psst")).await;
    assert_eq!(outsider, Accepted::Denied(Denial::NotMember { entity: w.bob.entity(), space: w.family }));
    let nobody = EntityId(fresh());
    let unknown = w.accept(saying(nobody, w.family, "psst")).await;
    assert_eq!(unknown, Accepted::Denied(Denial::NotFound { what: "entity", name: nobody.to_string() }));
    let nowhere = SpaceId(fresh());
    let lost = w.accept(saying(w.husam, nowhere, "psst")).await;
    assert_eq!(lost, Accepted::Denied(Denial::NotFound { what: "space", name: nowhere.to_string() }));
    w.b.registry.close_space(w.family).await.unwrap();
    assert_eq!(w.say(w.family, "late").await, Accepted::Denied(Denial::SpaceClosed(w.family)));
    assert_eq!(w.b.reader.messages(w.family, None, None, 10).await.unwrap(), []);
    assert_eq!(w.due(10_000).await, []);
}

/// Four of them are duplicates that wake nobody, also after it was processed.
pub async fn an_id_sent_five_times_is_one_message_and_one_event(b: Backend) {
    let w = world(b).await;
    let message = saying(w.husam, w.family, "once");
    assert!(matches!(w.accept(message.clone()).await, Accepted::Fresh { .. }));
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let closing = living.closing();
    living.done(&w, closing).await;
    for _ in 0..4 {
        let again = w.accept(message.clone()).await;
        assert!(matches!(again, Accepted::Duplicate { message: Some(old) } if old.id == message.id));
    }
    // Whatever happened to its place meanwhile.
    w.b.registry.close_space(w.family).await.unwrap();
    assert!(matches!(w.accept(message.clone()).await, Accepted::Duplicate { .. }));
    assert_eq!(w.wake(w.ada).await.waiting, []);
    assert_eq!(w.state(w.ada, &message.id.to_string()).await, "processed");
    assert_eq!(w.b.reader.messages(w.family, None, None, 10).await.unwrap().len(), 1);
}

/// Same id, other words.
pub async fn a_message_id_of_another_message_is_denied(b: Backend) {
    let w = world(b).await;
    let message = saying(w.husam, w.family, "mine");
    w.accept(message.clone()).await;
    let mut other = message.clone();
    other.text = "other words".into();
    assert_eq!(w.accept(other).await, Accepted::Denied(Denial::MessageIdTaken));
    let elsewhere = agent::space::NewMessage { space: w.team, ..message };
    assert_eq!(w.accept(elsewhere).await, Accepted::Denied(Denial::MessageIdTaken));
}

/// The original comes back for the same body, whatever id the repeat has.
pub async fn a_request_key_answers_the_same_body_and_refuses_another(b: Backend) {
    let w = world(b).await;
    let key = |body: &str| {
        let (credential, key) = (CredentialId(uuid::Uuid::from_u128(9)), "k-1".to_owned());
        Some(RequestKey { credential, key, body_hash: body.into() })
    };
    let first = Accept::Message(saying(w.husam, w.family, "once"));
    let Accepted::Fresh { message, .. } = w.b.store.accept(first, key("a")).await.unwrap() else {
        panic!("wanted a fresh message")
    };
    let again = Accept::Message(saying(w.husam, w.family, "once"));
    assert_eq!(w.b.store.accept(again, key("a")).await.unwrap(), Accepted::Duplicate { message });
    let other = Accept::Message(saying(w.husam, w.family, "twice"));
    assert_eq!(w.b.store.accept(other, key("b")).await.unwrap(), Accepted::Conflict);
    assert_eq!(w.b.reader.messages(w.family, None, None, 10).await.unwrap().len(), 1);
    // A denied request leaves its key free.
    let denied = Accept::Message(saying(w.bob.entity(), w.family, "no"));
    let other_key = key("c").map(|key| RequestKey { key: "k-2".into(), ..key });
    assert!(matches!(w.b.store.accept(denied, other_key.clone()).await.unwrap(), Accepted::Denied(_)));
    let allowed = Accept::Message(saying(w.husam, w.family, "yes"));
    assert!(matches!(w.b.store.accept(allowed, other_key).await.unwrap(), Accepted::Fresh { .. }));
}

/// An event's id is unique per agent for ever; its data comes back as it was sent.
pub async fn an_event_is_known_for_ever_and_wakes_once(b: Backend) {
    let w = world(b).await;
    let event = service("api:key:1");
    let fresh = w.event(w.ada, event.clone()).await;
    assert_eq!(
        fresh,
        Accepted::Fresh { message: None, wake: vec![Wakeup { agent: w.ada, at: at(10), urgent: false }] }
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

/// By `@handle` or by the client's list; the message tells whom it names.
pub async fn a_mention_replaces_the_plain_event_of_whom_it_names(b: Backend) {
    let w = world(b).await;
    let Accepted::Fresh { message: Some(message), .. } = w.say(w.team, "@Bob, look").await else {
        panic!("wanted a fresh message")
    };
    assert_eq!(message.mentions, [w.bob.entity()]);
    assert_eq!(w.wake(w.bob).await.waiting[0].event.kind, EventKind::Mention);
    assert_eq!(w.wake(w.ada).await.waiting[0].event.kind, EventKind::SpaceMessage);
    let read = w.b.reader.message(message.id).await.unwrap().unwrap();
    assert_eq!(read.mentions, [w.bob.entity()]);
}

/// Held ones keep their ledger row and wake nobody.
pub async fn the_ninth_agent_message_of_a_root_is_held_and_a_persons_never(b: Backend) {
    let w = world(b).await;
    let from_bob = |n: u32| {
        let mut message = saying(w.bob.entity(), w.team, &format!("reply {n}"));
        (message.root, message.hop, message.trust) = (RootId("one root".into()), n, Trust::Agent);
        message
    };
    for n in 1..=8 {
        let Accepted::Fresh { wake, .. } = w.accept(from_bob(n)).await else { panic!("wanted it accepted") };
        assert_eq!(wake.len(), 1, "the one agent member that did not speak");
    }
    let ninth = from_bob(9);
    let Accepted::Fresh { wake, message } = w.accept(ninth.clone()).await else {
        panic!("wanted it accepted")
    };
    assert_eq!((wake.len(), message.unwrap().seq), (0, 9));
    assert_eq!(w.state(w.ada, &ninth.id.to_string()).await, "held");
    assert_eq!(w.wake(w.ada).await.waiting.len(), 8);
    let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
    assert_eq!((card.waiting, card.held), (8, 1));
    let held = w.b.reader.inbox(w.ada, Some("held".into()), everything()).await.unwrap();
    assert_eq!(held.items.len(), 1);
    let mut human = saying(w.husam, w.team, "and me?");
    human.root = RootId("one root".into());
    assert!(matches!(w.accept(human).await, Accepted::Fresh { wake, .. } if wake.len() == 2));
    let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
    assert_eq!((card.waiting, card.held), (10, 0), "the person's word lets the ninth go");
}

/// What does not wake is settled with its reason, and stays to be read in the space.
pub async fn a_space_is_quiet_for_agents_that_are_not_named_by_its_rule(b: Backend) {
    let w = world(b).await;
    let quiet = SpaceChange { wake_on: Some(WakeOn::Mention), ..SpaceChange::default() };
    w.b.registry.amend_space(w.team, quiet).await.unwrap();
    let from_bob = |text: &str| {
        let mut message = saying(w.bob.entity(), w.team, text);
        message.trust = Trust::Agent;
        message
    };
    let plain = from_bob("the build is green");
    assert!(matches!(w.accept(plain.clone()).await, Accepted::Fresh { wake, .. } if wake.is_empty()));
    let reason = Some("wake_on: mention, by the space".to_owned());
    let row = w.b.reader.event(w.ada, EventId(plain.id.to_string())).await.unwrap().unwrap();
    assert_eq!(row.state, EventState::Skipped { reason });
    assert_eq!(w.due(1_000_000).await, []);
    let named = from_bob("@ada, look");
    assert!(matches!(w.accept(named).await, Accepted::Fresh { wake, .. } if wake.len() == 1));
    assert!(matches!(w.say(w.team, "and I?").await, Accepted::Fresh { wake, .. } if wake.len() == 2));
    let waiting = w.wake(w.ada).await.waiting;
    let said: Vec<&str> = waiting.iter().map(|waiting| waiting.words()).collect();
    assert_eq!(said, ["@ada, look", "and I?"]);
    let read = w.b.lookup.messages(w.ada, w.team, None, 10).await.unwrap();
    assert!(format!("{read:?}").contains("the build is green"), "{read:?}");
    // They are heard again from the moment on in which the rule goes.
    let loud = SpaceChange { wake_on: Some(WakeOn::All), ..SpaceChange::default() };
    w.b.registry.amend_space(w.team, loud).await.unwrap();
    assert!(matches!(w.accept(from_bob("red again")).await, Accepted::Fresh { wake, .. } if wake.len() == 1));
}

/// Nothing that a person said is dropped, and each word waits as an event of its own.
pub async fn a_full_inbox_refuses_services_and_takes_all_that_is_said(b: Backend) {
    let config = AgentConfig::from_json(&json!({"limits": {"inbox_max": 10}})).unwrap();
    let w = world_with(b, config).await;
    let (mut ids, mut expected) = (Vec::new(), Vec::new());
    for n in 0..14 {
        let message = saying(w.husam, w.family, &format!("word {n}"));
        ids.push(message.id.to_string());
        expected.push(message.text.clone());
        assert!(matches!(w.accept(message).await, Accepted::Fresh { wake, .. } if wake.len() == 1));
    }
    assert_eq!(w.event(w.ada, service("one too many")).await, Accepted::Denied(Denial::InboxFull(w.ada)));
    let waiting = w.wake(w.ada).await.waiting;
    let said: Vec<_> = waiting.iter().map(|waiting| waiting.words().to_owned()).collect();
    assert_eq!(said, expected, "everything said is there, in order");
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    for id in &ids {
        assert_eq!(w.state(w.ada, id).await, "processed");
    }
    assert_eq!(w.b.reader.agent(w.ada).await.unwrap().unwrap().waiting, 0);
}

/// The first event waits for more, and what came meanwhile is processed with it.
pub async fn a_debounce_delays_the_waking_and_takes_along_what_came_meanwhile(b: Backend) {
    let config = AgentConfig { debounce: 500, ..AgentConfig::default() };
    let w = world_with(b, config).await;
    let Accepted::Fresh { wake, .. } = w.say(w.family, "first").await else { panic!("wanted it accepted") };
    assert_eq!(wake, [Wakeup { agent: w.ada, at: at(510), urgent: false }]);
    let mut second = saying(w.husam, w.family, "second");
    second.at = at(400);
    w.accept(second).await;
    assert_eq!(w.due(509).await, []);
    assert_eq!(w.b.store.next_due(at(20)).await.unwrap(), Some(at(510)));
    assert_eq!(w.b.store.wake(w.ada, at(509), None).await.unwrap().unwrap().waiting, []);
    assert_eq!(w.due(510).await, [w.ada]);
    assert_eq!(w.b.store.wake(w.ada, at(510), None).await.unwrap().unwrap().waiting.len(), 2);
}

/// Sixty-four speakers at once: 1, 2, 3 … each once, in the space and in the inbox.
pub async fn seqs_of_a_space_have_no_gaps_under_concurrency(b: Backend) {
    let w = world(b).await;
    let saying: Vec<_> = (0..64).map(|n| saying(w.husam, w.family, &format!("{n}"))).collect();
    let done = join_all(saying.into_iter().map(|message| w.accept(message))).await;
    let mut seqs: Vec<u64> = done
        .into_iter()
        .map(|accepted| match accepted {
            Accepted::Fresh { message: Some(message), .. } => message.seq,
            other => panic!("wanted a fresh message, got {other:?}"),
        })
        .collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=64).collect::<Vec<_>>());
    let living = w.open(w.ada).await;
    assert_eq!(living.open.taken, (1..=64).collect::<Vec<_>>());
    assert_eq!(living.changes(CommitKind::Decide).expect, 1);
}
