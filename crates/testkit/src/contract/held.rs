//! What the bound on agents' messages keeps back, and what lets it go.

use agent::event::{EventKind, Principal, Trust};
use agent::id::{EventId, RootId};
use agent::life::{Requester, Standing};
use agent::limits::{HELD_MS, RELEASE_MAX, URGENT_LOOK_MAX};
use agent::port::{Accepted, SentAgain, Wakeup};
use agent::space::NewMessage;

use super::Backend;
use super::world::{World, at, everything, saying, space, world};

impl World {
    /// What Bob says as the nth message of one chain.
    fn nth(&self, n: u32) -> NewMessage {
        let mut message = saying(self.bob.entity(), self.team, &format!("reply {n}"));
        (message.root, message.hop, message.trust) = (RootId("one root".into()), n, Trust::Agent);
        message
    }

    /// Bob goes on up to the nth message; the ids of those after the eighth, which are held.
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

    /// How many events wait for Ada and how many are held.
    async fn counts(&self) -> (u32, u32) {
        let card = self.b.reader.agent(self.ada).await.unwrap().unwrap();
        (card.waiting, card.held)
    }
}

fn after_the_wait() -> i64 {
    10 + HELD_MS.cast_signed()
}

/// A chain of reports to people holds back nothing that is said to another agent afterwards.
pub async fn what_no_other_agent_hears_does_not_count_towards_the_bound(b: Backend) {
    let w = world(b).await;
    let desk = space(&w.b, "desk", &[w.husam, w.bob.entity()]).await;
    for n in 1..=20 {
        w.accept(NewMessage { space: desk, ..w.nth(n) }).await;
    }
    let first = w.chain(8).await;
    assert_eq!((first, w.counts().await), (vec![], (8, 0)));
    w.accept(w.nth(9)).await;
    assert_eq!(w.counts().await, (8, 1), "the ninth that Ada was to hear");
}

/// Each as itself, in the order in which it was said, before the word that let it go.
pub async fn a_persons_word_lets_go_what_was_held_there_in_its_order(b: Backend) {
    let w = world(b).await;
    let mut held = w.chain(10).await;
    w.accept(saying(w.ada.entity(), w.team, "her own words")).await;
    let mut last = w.nth(11);
    last.text = "@ada, and you?".into();
    held.push(last.id.to_string());
    w.accept(last).await;
    assert_eq!(w.counts().await, (8, 3));
    w.say(w.family, "elsewhere").await;
    assert_eq!(w.counts().await, (9, 3), "a word in another space lets nothing go here");
    w.say(w.team, "and I?").await;
    assert_eq!(w.counts().await, (13, 0));
    let waiting = w.wake(w.ada).await.waiting;
    let said: Vec<&str> = waiting[8..].iter().map(agent::event::Waiting::words).collect();
    assert_eq!(said, ["reply 9", "reply 10", "@ada, and you?", "elsewhere", "and I?"]);
    let released = &waiting[10];
    let envelope = &released.event.envelope;
    assert_eq!((&envelope.root, envelope.hop), (&RootId("one root".into()), 11));
    assert_eq!((released.event.kind, released.attempts, released.seq), (EventKind::Mention, 0, 11));
    assert_eq!(w.b.reader.inbox(w.ada, Some("held".into()), everything()).await.unwrap().items, []);
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    for id in &held {
        assert_eq!(w.state(w.ada, id).await, "processed");
    }
}

/// Ten minutes after the first of them, found by index; nothing is due before.
pub async fn time_lets_go_what_was_held_and_wakes_whom_it_was_held_from(b: Backend) {
    let w = world(b).await;
    let held = w.chain(10).await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let closing = living.closing();
    living.done(&w, closing).await;
    assert_eq!(w.due(after_the_wait()).await, []);
    assert_eq!(w.b.store.next_due(at(1_000)).await.unwrap(), Some(at(after_the_wait())));
    assert_eq!(w.b.store.fire_due(at(after_the_wait() - 1), 10).await.unwrap(), []);
    let woken = w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap();
    assert_eq!(woken, [Wakeup { agent: w.ada, at: at(after_the_wait()), urgent: false }]);
    assert_eq!((w.counts().await, w.due(after_the_wait()).await), ((2, 0), vec![w.ada]));
    assert_eq!(w.state(w.ada, &held[0]).await, "waiting");
    assert_eq!(w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap(), []);
}

/// Else two agents would go on for ever, a little slower. A person's word still lets them go.
pub async fn time_alone_lets_go_only_so_much_of_one_root(b: Backend) {
    let w = world(b).await;
    w.chain(16).await;
    w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap();
    assert_eq!(w.counts().await, (16, 0));
    let mut late = w.nth(17);
    late.at = at(after_the_wait());
    let id = late.id.to_string();
    assert!(matches!(w.accept(late).await, Accepted::Fresh { wake, .. } if wake.is_empty()));
    assert_eq!(w.b.store.fire_due(at(10 * after_the_wait()), 10).await.unwrap(), []);
    assert_eq!((w.state(w.ada, &id).await, w.counts().await), ("held", (16, 1)));
    w.say(w.team, "go on").await;
    assert_eq!((w.state(w.ada, &id).await, w.counts().await), ("waiting", (18, 0)));
}

/// However much is let go ahead of a word that had come before it was let go.
pub async fn what_is_let_go_before_a_persons_words_hides_none_of_them(b: Backend) {
    let w = world(b).await;
    w.chain(8 + URGENT_LOOK_MAX + 10).await;
    w.say(w.family, "deploy").await;
    let mut living = w.open(w.ada).await;
    let mut decision = living.decision();
    let requester = Requester { principal: Principal::Entity(w.husam), space: Some(w.team) };
    decision.open.as_mut().unwrap().requesters = vec![requester];
    living.done(&w, decision).await;
    w.say(w.team, "first").await;
    let mut now = 50;
    while w.counts().await.1 > 0 {
        now += 1;
        w.b.store.fire_due(at(now), RELEASE_MAX).await.unwrap();
    }
    w.say(w.team, "stop!").await;
    let urgent = w.news(living.lease).await.urgent;
    assert_eq!(urgent.iter().map(agent::event::Waiting::words).collect::<Vec<_>>(), ["first", "stop!"]);
}

/// One command lets go only so many; the sweep that comes next goes on, and nothing is left behind.
pub async fn a_long_release_goes_on_with_the_next_sweep(b: Backend) {
    let w = world(b).await;
    let elsewhere = space(&w.b, "elsewhere", &[w.ada.entity(), w.bob.entity()]).await;
    let there = NewMessage { space: elsewhere, ..w.nth(1) };
    let (more, all) = (RELEASE_MAX / 2, 8 + 2 * RELEASE_MAX + RELEASE_MAX / 2);
    w.chain(all).await;
    w.accept(there).await;
    assert_eq!(w.counts().await, (8, all - 8 + 1));
    let mut word = saying(w.husam, w.team, "and I?");
    word.at = at(50);
    w.accept(word).await;
    assert_eq!(w.counts().await, (9 + RELEASE_MAX, RELEASE_MAX + more + 1));
    let mut left = RELEASE_MAX + more;
    let mut now = 50;
    while left > 0 {
        let next = w.b.store.next_due(at(now)).await.unwrap().unwrap();
        assert_eq!(next, at(now + 1), "at once");
        now += 1;
        let woken = w.b.store.fire_due(next, 2 * RELEASE_MAX).await.unwrap();
        assert!(!woken.is_empty() && woken.iter().all(|waken| waken.agent == w.ada), "{woken:?}");
        left -= left.min(RELEASE_MAX);
        assert_eq!(w.counts().await.1, left + 1, "so many at a time, and none of another space");
    }
    let waiting = w.b.reader.inbox(w.ada, Some("waiting".into()), everything()).await.unwrap().items;
    assert_eq!(waiting.len(), all as usize + 1);
    assert_eq!((w.counts().await, w.b.store.fire_due(at(60), 10).await.unwrap()), ((all + 1, 1), vec![]));
}

/// It could not read them, and whatever is broken of it must not leave half of them nowhere.
pub async fn nothing_is_let_go_to_an_agent_that_is_set_apart(b: Backend) {
    let w = world(b).await;
    w.chain(11).await;
    w.b.store.quarantine(w.ada, "torn".into()).await.unwrap();
    w.say(w.team, "and I?").await;
    assert_eq!(
        (w.counts().await, w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap()),
        ((9, 3), vec![])
    );
    w.b.registry.set_standing(w.ada, Standing::Active, at(50)).await.unwrap();
    w.say(w.team, "and now?").await;
    assert_eq!(w.counts().await, (13, 0));
}

/// Operators have a word there too.
pub async fn a_held_event_is_taken_back_or_let_go_by_hand(b: Backend) {
    let w = world(b).await;
    let held = w.chain(11).await;
    w.b.registry.cancel_event(w.ada, EventId(held[0].clone())).await.unwrap();
    assert_eq!((w.state(w.ada, &held[0]).await, w.counts().await), ("canceled", (8, 2)));
    let unused = EventId("unused".into());
    let sent = w.b.registry.send_again(w.ada, EventId(held[2].clone()), unused, None, at(500)).await.unwrap();
    assert_eq!(sent, SentAgain::Waits(Some(Wakeup { agent: w.ada, at: at(500), urgent: false })));
    assert_eq!((w.state(w.ada, &held[1]).await, w.counts().await), ("waiting", (10, 0)));
    assert_eq!(w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap(), []);
    assert_eq!(w.state(w.ada, &held[0]).await, "canceled");
}
