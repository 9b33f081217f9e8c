//! Promises about events that the limit on agents' messages holds, and about their release.

use agent::event::{EventKind, Principal, Trust};
use agent::id::{EventId, RootId};
use agent::life::{Requester, Standing};
use agent::limits::{HELD_MS, RELEASE_MAX, URGENT_LOOK_MAX};
use agent::port::{Accepted, InboxFilter, SentAgain, Wakeup};
use agent::space::NewMessage;

use super::Backend;
use super::world::{World, at, everything, message_from, space, world};

impl World {
    /// The nth message of Bob in one chain.
    fn nth(&self, n: u32) -> NewMessage {
        let mut message = message_from(self.bob.entity(), self.team, &format!("reply {n}"));
        (message.root, message.hop, message.trust) = (RootId("one root".into()), n, Trust::Agent);
        message
    }

    /// Posts `to` messages of Bob. Returns the ids of those after the eighth, which are held.
    async fn chain(&self, to: u32) -> Vec<String> {
        let mut held = Vec::new();
        for n in 1..=to {
            let message = self.nth(n);
            if n > 8 {
                held.push(message.id.to_string());
            }
            self.accept(message).await;
        }
        held
    }

    /// The numbers of Ada's waiting and held events.
    async fn counts(&self) -> (u32, u32) {
        let card = self.b.reader.agent(self.ada).await.unwrap().unwrap();
        (card.waiting, card.held)
    }
}

fn after_the_wait() -> i64 {
    10 + HELD_MS.cast_signed()
}

/// A chain of messages to people does not hold later messages to another agent.
pub async fn messages_that_reach_no_other_agent_do_not_count_towards_the_limit(b: Backend) {
    let w = world(b).await;
    let desk = space(&w.b, "desk", &[w.husam, w.bob.entity()]).await;
    for n in 1..=20 {
        w.accept(NewMessage { space: desk, ..w.nth(n) }).await;
    }
    let first = w.chain(8).await;
    assert_eq!((first, w.counts().await), (vec![], (8, 0)));
    w.accept(w.nth(9)).await;
    assert_eq!(w.counts().await, (8, 1), "the ninth message for Ada");
}

/// Each held event is released unchanged, in its order, before the message that released it.
pub async fn a_persons_message_releases_the_held_events_of_its_space_in_order(b: Backend) {
    let w = world(b).await;
    let mut held = w.chain(10).await;
    w.accept(message_from(w.ada.entity(), w.team, "her own words")).await;
    let mut last = w.nth(11);
    last.text = "@ada, and you?".into();
    held.push(last.id.to_string());
    w.accept(last).await;
    assert_eq!(w.counts().await, (8, 3));
    w.post(w.family, "elsewhere").await;
    assert_eq!(w.counts().await, (9, 3), "a message in another space releases nothing here");
    w.post(w.team, "and I?").await;
    assert_eq!(w.counts().await, (13, 0));
    let waiting = w.wake(w.ada).await.waiting;
    let said: Vec<&str> = waiting[8..].iter().map(agent::event::Waiting::text).collect();
    assert_eq!(said, ["reply 9", "reply 10", "@ada, and you?", "elsewhere", "and I?"]);
    let released = &waiting[10];
    let envelope = &released.event.envelope;
    assert_eq!((&envelope.root, envelope.hop), (&RootId("one root".into()), 11));
    assert_eq!((released.event.kind, released.attempts, released.seq), (EventKind::Mention, 0, 11));
    assert_eq!(w.b.reader.inbox(w.ada, InboxFilter::in_state("held"), everything()).await.unwrap().items, []);
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    for id in &held {
        assert_eq!(w.state(w.ada, id).await, "processed");
    }
}

/// Ten minutes after the first held event. Nothing is due before.
pub async fn time_releases_held_events_and_wakes_their_agent(b: Backend) {
    let w = world(b).await;
    let held = w.chain(10).await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    assert_eq!(w.due(after_the_wait()).await, []);
    assert_eq!(w.b.store.next_due(at(1_000)).await.unwrap().first(), Some(at(after_the_wait())));
    assert_eq!(w.b.store.fire_due(at(after_the_wait() - 1), 10).await.unwrap().wake, []);
    let woken = w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap().wake;
    assert_eq!(woken, [Wakeup { agent: w.ada, at: at(after_the_wait()), urgent: false }]);
    assert_eq!((w.counts().await, w.due(after_the_wait()).await), ((2, 0), vec![w.ada]));
    assert_eq!(w.state(w.ada, &held[0]).await, "waiting");
    assert_eq!(w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap().wake, []);
}

/// Otherwise two agents would continue forever, only slower. A message of a person still releases the rest.
pub async fn time_alone_releases_a_limited_number_of_events_per_root(b: Backend) {
    let w = world(b).await;
    w.chain(16).await;
    w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap();
    assert_eq!(w.counts().await, (16, 0));
    let mut late = w.nth(17);
    late.at = at(after_the_wait());
    let id = late.id.to_string();
    assert!(matches!(w.accept(late).await, Accepted::Fresh { wake, .. } if wake.is_empty()));
    assert_eq!(w.b.store.fire_due(at(10 * after_the_wait()), 10).await.unwrap().wake, []);
    assert_eq!((w.state(w.ada, &id).await, w.counts().await), ("held", (16, 1)));
    w.post(w.team, "go on").await;
    assert_eq!((w.state(w.ada, &id).await, w.counts().await), ("waiting", (18, 0)));
}

/// Even if many events are released ahead of messages that had arrived before the release.
pub async fn released_events_do_not_hide_urgent_messages_of_a_person(b: Backend) {
    let w = world(b).await;
    w.chain(8 + URGENT_LOOK_MAX + 10).await;
    w.post(w.family, "deploy").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    let requester = Requester { principal: Principal::Entity(w.husam), space: Some(w.team) };
    decision.open.as_mut().unwrap().requesters = vec![requester];
    driver.commit(&w, decision).await;
    w.post(w.team, "first").await;
    let mut now = 50;
    while w.counts().await.1 > 0 {
        now += 1;
        w.b.store.fire_due(at(now), RELEASE_MAX).await.unwrap();
    }
    w.post(w.team, "stop!").await;
    let urgent = w.news(driver.lease).await.urgent;
    assert_eq!(urgent.iter().map(agent::event::Waiting::text).collect::<Vec<_>>(), ["first", "stop!"]);
}

/// One command releases a limited number of events. The next sweep continues until none is left.
pub async fn a_long_release_continues_with_the_next_sweep(b: Backend) {
    let w = world(b).await;
    let elsewhere = space(&w.b, "elsewhere", &[w.ada.entity(), w.bob.entity()]).await;
    let there = NewMessage { space: elsewhere, ..w.nth(1) };
    let (more, all) = (RELEASE_MAX / 2, 8 + 2 * RELEASE_MAX + RELEASE_MAX / 2);
    w.chain(all).await;
    w.accept(there).await;
    assert_eq!(w.counts().await, (8, all - 8 + 1));
    let mut word = message_from(w.husam, w.team, "and I?");
    word.at = at(50);
    w.accept(word).await;
    assert_eq!(w.counts().await, (9 + RELEASE_MAX, RELEASE_MAX + more + 1));
    let mut left = RELEASE_MAX + more;
    let mut now = 50;
    while left > 0 {
        let next = w.b.store.next_due(at(now)).await.unwrap().first().unwrap();
        assert_eq!(next, at(now + 1), "at once");
        now += 1;
        let woken = w.b.store.fire_due(next, 2 * RELEASE_MAX).await.unwrap().wake;
        assert!(!woken.is_empty() && woken.iter().all(|wakeup| wakeup.agent == w.ada), "{woken:?}");
        left -= left.min(RELEASE_MAX);
        assert_eq!(w.counts().await.1, left + 1, "at most the limit at a time, and none of another space");
    }
    let waiting =
        w.b.reader.inbox(w.ada, InboxFilter::in_state("waiting"), everything()).await.unwrap().items;
    assert_eq!(waiting.len(), all as usize + 1);
    assert_eq!(
        (w.counts().await, w.b.store.fire_due(at(60), 10).await.unwrap().wake),
        ((all + 1, 1), vec![])
    );
}

/// It cannot read them, and damage of its rows must not interrupt a release half-way.
pub async fn nothing_is_released_to_a_quarantined_agent(b: Backend) {
    let w = world(b).await;
    w.chain(11).await;
    w.b.store.quarantine(w.ada, "torn".into()).await.unwrap();
    w.post(w.team, "and I?").await;
    assert_eq!(
        (w.counts().await, w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap().wake),
        ((9, 3), vec![])
    );
    w.b.registry.set_standing(w.ada, Standing::Active, at(50)).await.unwrap();
    w.post(w.team, "and now?").await;
    assert_eq!(w.counts().await, (13, 0));
}

/// By canceling the event or by sending it again.
pub async fn an_operator_cancels_or_releases_a_held_event(b: Backend) {
    let w = world(b).await;
    let held = w.chain(11).await;
    w.b.registry.cancel_event(w.ada, EventId(held[0].clone())).await.unwrap();
    assert_eq!((w.state(w.ada, &held[0]).await, w.counts().await), ("canceled", (8, 2)));
    let unused = EventId("unused".into());
    let sent = w.b.registry.send_again(w.ada, EventId(held[2].clone()), unused, None, at(500)).await.unwrap();
    assert_eq!(sent, SentAgain::Waits(Some(Wakeup { agent: w.ada, at: at(500), urgent: false })));
    assert_eq!((w.state(w.ada, &held[1]).await, w.counts().await), ("waiting", (10, 0)));
    assert_eq!(w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap().wake, []);
    assert_eq!(w.state(w.ada, &held[0]).await, "canceled");
}
